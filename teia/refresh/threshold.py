"""A root finder for thresholds, one per group of pages, at which the group has exactly its allowed number of visits.

Greedy allocation only compares the values of visits. So its result is a threshold: every visit worth at least that much
is made (docs/refresh.md). The visits of a group fall as its threshold rises, roughly as its root. `narrow` closes in on
all groups at once, by false position on logarithms, and never examines a single visit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from teia.refresh.model import Floats

Flags = NDArray[np.bool_]

FARTHEST = 160.0
"""Largest distance of a threshold from its initial value, as a logarithm; visits change by e^80 on the way."""

CLOSED = 1e-13
"""Difference of logarithms below which two thresholds are the same."""

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


def narrow(
    visits: Callable[[Floats, Flags], Floats],
    target: Floats,
    start: Floats,
    is_settled: Callable[[Bracket, int], Flags],
    relevant: Flags,
) -> Bracket:
    """Close in on `target` until `is_settled` accepts every relevant group.

    `visits(log_thresholds, wanted)` returns the visits of each group; it may leave out those that are not wanted.
    """
    search = _Search(target, start)
    wanted = relevant.copy()
    for round_ in range(MAX_ROUNDS):
        search.record_visits(visits(search.at, wanted), wanted)
        wanted &= ~(search.is_closed | (search.is_bracketed & is_settled(search.found, round_)))
        if not wanted.any():
            break
        # Every fourth round bisects, because false position alone can be slow on a curved function.
        search.choose_next(halve=round_ % 4 == 3)
    return search.found


class _Search:
    """State of the search of each group: the two ends, the error of each, and the next threshold to try (`at`)."""

    def __init__(self, target: Floats, start: Floats) -> None:
        self.found = Bracket(np.full_like(start, -np.inf), np.full_like(start, np.inf), target.copy(), target.copy())
        self.at = start.copy()
        self._target = target
        self._floor, self._ceiling = start - FARTHEST, start + FARTHEST
        self._error, self._error_low, self._error_high = (np.zeros_like(start) for _ in range(3))
        self._low_stays, self._high_stays = np.zeros_like(start), np.zeros_like(start)
        self._step = 0.1

    @property
    def is_bracketed(self) -> Flags:
        return np.isfinite(self.found.low) & np.isfinite(self.found.high)

    @property
    def is_closed(self) -> Flags:
        """True for groups whose two ends are equal."""
        low, high = self.found.low, self.found.high
        with np.errstate(invalid="ignore"):
            result: Flags = self.is_bracketed & (high - low <= CLOSED * np.maximum(1.0, np.abs(high)))
        return result

    def record_visits(self, now: Floats, wanted: Flags) -> None:
        """Use the visits at `at` as the new end on their side; at the edge of the search, as both ends."""
        found, at = self.found, self.at
        # 0.5 keeps the logarithm finite where a group has no visits.
        self._error = np.log((now + 0.5) / (self._target + 0.5))
        over, under = wanted & (now >= self._target), wanted & (now < self._target)
        found.low[over], found.many[over], self._error_low[over] = at[over], now[over], self._error[over]
        found.high[under], found.few[under], self._error_high[under] = at[under], now[under], self._error[under]
        too_low, too_high = under & (at <= self._floor), over & (at >= self._ceiling)
        found.low[too_low], found.many[too_low] = at[too_low], now[too_low]
        found.high[too_high], found.few[too_high] = at[too_high], now[too_high]
        # The error of an end that stays for a second time is halved, or it would stay forever (the Illinois rule).
        self._high_stays = np.where(over, self._high_stays + 1, np.where(under, 0, self._high_stays))
        self._low_stays = np.where(under, self._low_stays + 1, np.where(over, 0, self._low_stays))
        self._error_high[over & (self._high_stays > 1)] /= 2
        self._error_low[under & (self._low_stays > 1)] /= 2

    def choose_next(self, *, halve: bool) -> None:
        """Choose the next threshold: the zero of the line between the ends, or their middle.

        A group without two ends searches farther away.
        """
        found = self.found
        with np.errstate(invalid="ignore", divide="ignore"):
            share = self._error_low / (self._error_low - self._error_high)
            inside = found.low + np.clip(0.5 if halve else share, 0.01, 0.99) * (found.high - found.low)
        # Visits fall roughly as the root of the threshold, so an error of e in visits is about 2 e in the threshold.
        farther = self.at + 2 * self._error + np.where(self._error >= 0, self._step, -self._step)
        self.at = np.clip(np.where(self.is_bracketed, inside, farther), self._floor, self._ceiling)
        self._step *= 2
