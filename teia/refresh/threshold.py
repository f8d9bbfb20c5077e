"""A root finder for thresholds, one per group of pages, at which the group has exactly its allowed number of visits.

Greedy allocation only compares the values of visits. So its result is a threshold: every visit worth at least that much
is made (docs/refresh.md). The visits of a group fall as its threshold rises, roughly as its root. `narrow` closes in on
all groups at once, by false position on logarithms, and never examines a single visit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from teia.refresh.model import Floats

Flags = NDArray[np.bool_]

FARTHEST = 160.0
"""Largest distance of a threshold from its initial value, as a logarithm; visits change by e^80 on the way."""

CLOSED = 1e-13
"""Difference of logarithms below which two thresholds are the same."""

PRECISION = 1e-9
"""Relative difference of the visits at two ends at which rates are solved, except where they jump between the ends."""

MAX_ROUNDS = 200


@dataclass(slots=True)
class Bracket:
    """Two thresholds per group, as logarithms: at `low` it has at least its target, at `high` at most.

    For a group that never reaches its target, `low` ends at the limit of the search; for one that always exceeds it,
    `high` does.
    """

    low: Floats
    high: Floats
    many: Floats
    few: Floats

    def ends(self, xp: Any = np) -> tuple[Floats, Floats]:
        """Return both thresholds; where one was not found, the other."""
        low, high = xp.isfinite(self.low), xp.isfinite(self.high)
        return xp.where(low, self.low, self.high), xp.where(high, self.high, self.low)

    def ends_at(self, target: float, xp: Any = np) -> tuple[Floats, Floats]:
        """Return both thresholds, or twice the one between them at which a smooth group reaches its target.

        Where visits are a smooth function of the threshold, the line between two ends so near each other leaves an
        error of the square of their distance.
        """
        low, high = self.ends(xp)
        with np.errstate(invalid="ignore"):  # of groups that were not searched
            middle = high + self.share_at(target, xp) * (low - high)
        smooth = self.many - self.few <= PRECISION * target
        return xp.where(smooth, middle, low), xp.where(smooth, middle, high)

    def share_at(self, target: float, xp: Any = np) -> Floats:
        """Return the share of the way from the high threshold to the low one at which the target is reached.

        Where the two thresholds are the same except for rounding, the visits at them differ only if all of them are
        worth the same. Then any share of the way is equally good.
        """
        between = xp.clip(self.many - self.few, min=0.0)
        share: Floats = xp.where(
            between > 0, xp.clip((target - self.few) / xp.where(between > 0, between, 1.0), 0.0, 1.0), 0.0
        )
        return share


def is_solved(state: Bracket, round_: int) -> Flags:  # noqa: ARG001  # the precision is the same in every round
    """Tell which groups of rates, whose targets are 1, are solved."""
    solved: Flags = state.many - state.few <= PRECISION
    return solved


def narrow(
    visits: Callable[[Floats, Flags], Floats],
    target: Floats,
    start: Floats,
    is_settled: Callable[[Bracket, int], Flags],
    relevant: Flags,
    xp: Any = np,
) -> Bracket:
    """Close in on `target` until `is_settled` accepts every relevant group.

    `visits(log_thresholds, wanted)` returns the visits of each group; it may leave out those that are not wanted. All
    arrays are of the library `xp`.
    """
    search = _Search(target, start, xp)
    wanted = relevant
    for round_ in range(MAX_ROUNDS):
        search.record_visits(visits(search.at, wanted), wanted)
        wanted = wanted & ~(search.is_closed | (search.is_bracketed & is_settled(search.found, round_)))
        if not wanted.any():
            break
        # Every fourth round bisects, because false position alone can be slow on a curved function.
        search.choose_next(halve=round_ % 4 == 3)
    return search.found


class _Search:
    """State of the search of each group: the two ends, the error of each, and the next threshold to try (`at`)."""

    def __init__(self, target: Floats, start: Floats, xp: Any) -> None:
        self._xp = xp
        self.found = Bracket(xp.full_like(start, -math.inf), xp.full_like(start, math.inf), target, target)
        self.at = start
        self._target = target
        self._floor, self._ceiling = start - FARTHEST, start + FARTHEST
        self._error = self._error_low = self._error_high = xp.zeros_like(start)
        self._low_stays = self._high_stays = xp.zeros_like(start)
        self._step = 0.1

    @property
    def is_bracketed(self) -> Flags:
        result: Flags = self._xp.isfinite(self.found.low) & self._xp.isfinite(self.found.high)
        return result

    @property
    def is_closed(self) -> Flags:
        """True for groups whose two ends are equal."""
        low, high = self.found.low, self.found.high
        with np.errstate(invalid="ignore"):
            result: Flags = self.is_bracketed & (high - low <= CLOSED * self._xp.clip(self._xp.abs(high), min=1.0))
        return result

    def record_visits(self, now: Floats, wanted: Flags) -> None:
        """Use the visits at `at` as the new end on their side; at the edge of the search, as both ends."""
        found, at, where = self.found, self.at, self._xp.where
        # 0.5 keeps the logarithm finite where a group has no visits.
        self._error = self._xp.log((now + 0.5) / (self._target + 0.5))
        over, under = wanted & (now >= self._target), wanted & (now < self._target)
        low, high = over | under & (at <= self._floor), under | over & (at >= self._ceiling)
        found.low, found.many = where(low, at, found.low), where(low, now, found.many)
        found.high, found.few = where(high, at, found.high), where(high, now, found.few)
        # The error of an end that stays for a second time is halved, or it would stay forever (the Illinois rule).
        self._high_stays = where(over, self._high_stays + 1, where(under, 0.0, self._high_stays))
        self._low_stays = where(under, self._low_stays + 1, where(over, 0.0, self._low_stays))
        halved_low = where(under & (self._low_stays > 1), self._error_low / 2, self._error_low)
        halved_high = where(over & (self._high_stays > 1), self._error_high / 2, self._error_high)
        self._error_low = where(over, self._error, halved_low)
        self._error_high = where(under, self._error, halved_high)

    def choose_next(self, *, halve: bool) -> None:
        """Choose the next threshold: the zero of the line between the ends, or their middle.

        A group without two ends searches farther away.
        """
        found, xp = self.found, self._xp
        with np.errstate(invalid="ignore", divide="ignore"):
            share = 0.5 if halve else xp.clip(self._error_low / (self._error_low - self._error_high), 0.01, 0.99)
            inside = found.low + share * (found.high - found.low)
        # Visits fall roughly as the root of the threshold, so an error of e in visits is about 2 e in the threshold.
        farther = self.at + 2 * self._error
        farther = xp.where(self._error >= 0, farther + self._step, farther - self._step)
        self.at = xp.clip(xp.where(self.is_bracketed, inside, farther), self._floor, self._ceiling)
        self._step *= 2
