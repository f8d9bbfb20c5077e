"""Find thresholds, one for each group of pages, at which the visits of the group are as many as it may have.

Greedy allocation only ever compares what visits are worth. So its result is a threshold: whatever is worth at least so
much is visited (docs/refresh.md). The visits of a group fall as its threshold rises, roughly as its root; `narrow`
closes in on all groups at once, by false position on logarithms, and never looks at a single visit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from teia.refresh.model import Floats

Flags = NDArray[np.bool_]

FARTHEST = 160.0
"""How far from where it starts a threshold is looked for, as a logarithm; visits change by e^80 on the way."""

CLOSED = 1e-13
"""Thresholds whose logarithms are closer than this are the same."""

MOST_ROUNDS = 200


@dataclass(slots=True)
class Bracket:
    """Two thresholds (as logarithms) for each group: at `low` it has at least what it may have, at `high` at most that.

    Groups that never have enough, however low the threshold, end with `low` where the search gave up; those that always
    have too much, with `high` there.
    """

    low: Floats
    high: Floats
    many: Floats
    few: Floats


def narrow(
    visits: Callable[[Floats, Flags], Floats],
    target: Floats,
    start: Floats,
    settled: Callable[[Bracket, int], Flags],
    relevant: Flags,
) -> Bracket:
    """Close in on `target` until `settled` says of every relevant group, in each round, that it is close enough.

    `visits(log_thresholds, wanted)` gives the visits of each group; it may leave out those that are not wanted.
    """
    search = _Search(target, start)
    wanted = relevant.copy()
    for round_ in range(MOST_ROUNDS):
        search.see(visits(search.at, wanted), wanted)
        wanted &= ~(search.closed | (search.bracketed & settled(search.found, round_)))
        if not wanted.any():
            break
        search.go_on(halve=round_ % 4 == 3)
    return search.found


class _Search:
    """Where each group's search is: the two ends, how far off each is, and where to look next (`at`)."""

    def __init__(self, target: Floats, start: Floats) -> None:
        self.found = Bracket(np.full_like(start, -np.inf), np.full_like(start, np.inf), target.copy(), target.copy())
        self.at = start.copy()
        self._target = target
        self._floor, self._ceiling = start - FARTHEST, start + FARTHEST
        self._error, self._error_low, self._error_high = (np.zeros_like(start) for _ in range(3))
        self._low_stays, self._high_stays = np.zeros_like(start), np.zeros_like(start)
        self._step = 0.1

    @property
    def bracketed(self) -> Flags:
        return np.isfinite(self.found.low) & np.isfinite(self.found.high)

    @property
    def closed(self) -> Flags:
        """Groups whose two ends are one."""
        low, high = self.found.low, self.found.high
        with np.errstate(invalid="ignore"):
            result: Flags = self.bracketed & (high - low <= CLOSED * np.maximum(1.0, np.abs(high)))
        return result

    def see(self, now: Floats, wanted: Flags) -> None:
        """Take what was seen at `at` as the new end on its side; at the edge of the search, as both."""
        found, at = self.found, self.at
        self._error = np.log((now + 0.5) / (self._target + 0.5))
        over, under = wanted & (now >= self._target), wanted & (now < self._target)
        found.low[over], found.many[over], self._error_low[over] = at[over], now[over], self._error[over]
        found.high[under], found.few[under], self._error_high[under] = at[under], now[under], self._error[under]
        too_low, too_high = under & (at <= self._floor), over & (at >= self._ceiling)
        found.low[too_low], found.many[too_low] = at[too_low], now[too_low]
        found.high[too_high], found.few[too_high] = at[too_high], now[too_high]
        # An end that stays for a second time counts half, or it would stay for ever (the Illinois rule).
        self._high_stays = np.where(over, self._high_stays + 1, np.where(under, 0, self._high_stays))
        self._low_stays = np.where(under, self._low_stays + 1, np.where(over, 0, self._low_stays))
        self._error_high[over & (self._high_stays > 1)] /= 2
        self._error_low[under & (self._low_stays > 1)] /= 2

    def go_on(self, *, halve: bool) -> None:
        """Look next where the line between the ends is 0, or now and then in the middle; without two ends, farther."""
        found = self.found
        with np.errstate(invalid="ignore", divide="ignore"):
            share = self._error_low / (self._error_low - self._error_high)
            inside = found.low + np.clip(0.5 if halve else share, 0.01, 0.99) * (found.high - found.low)
        farther = self.at + 2 * self._error + np.where(self._error >= 0, self._step, -self._step)
        self.at = np.clip(np.where(self.bracketed, inside, farther), self._floor, self._ceiling)
        self._step *= 2
