"""Measures of a running simulation: exact expectations over the visits that were made, and lateness.

Nothing here is random. A page changes as a Poisson process, so the probability that its copy is fresh depends only on
the time since its last visit, also where a policy learnt from the results of visits.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from teia.lab.simulate.timeline import Visits
from teia.refresh.formulas import SERIES_BELOW, blocks, stale_time
from teia.refresh.model import Floats, Numbers, RefreshWorld, Rows

# From a millisecond to 10^9 s. Cell 0 is for less than that, the last cell for more.
FINEST_S, CELLS_PER_DECADE, DECADES = 1e-3, 1000, 12


@dataclass(slots=True)
class Lateness:
    """A histogram of lateness with cells of a quarter of a percent, so that a quantile needs no memory per visit."""

    counts: Numbers = field(default_factory=lambda: np.zeros(CELLS_PER_DECADE * DECADES + 2, dtype=np.int64))

    def add(self, late_s: Floats) -> None:
        for part in blocks(len(late_s)):
            # The maximum keeps log10 finite for visits that are on time; they end up in cell 0.
            cell = np.log10(np.maximum(late_s[part], FINEST_S / 10) / FINEST_S) * CELLS_PER_DECADE
            cell = np.clip(np.floor(cell) + 1, 0, len(self.counts) - 1).astype(np.int64)
            self.counts += np.bincount(cell, minlength=len(self.counts))

    def quantile_s(self, share: float) -> float:
        """Return the lateness that this share of the visits did not exceed; 0 for less than a millisecond."""
        total = int(self.counts.sum())
        if total == 0:
            return 0.0
        cell = int(np.searchsorted(np.cumsum(self.counts), share * total))
        return FINEST_S * 10.0 ** (cell / CELLS_PER_DECADE) if cell else 0.0


class Window:
    """Weighted expected staleness and age from `begin_s` on, and embarrassment: staleness weighted by clicks.

    A visit ends a gap, and at the end all copies have an unfinished gap. The cost of each gap since `begin_s` is added
    as it ends. So nothing is sorted, and the work is linear in visits and pages.
    """

    def __init__(self, world: RefreshWorld, begin_s: float) -> None:
        self._world, self.begin_s = world, begin_s
        self._clicks = world.click_shares
        self._stale = self._aged = self._embarrassing = 0.0

    def add(self, visits: Visits) -> None:
        for part in blocks(len(visits.page)):
            self._add(visits.page[part], visits.before_s[part], visits.time_s[part])

    def close(self, fresh_s: Floats, end_s: float) -> tuple[float, float, float]:
        """Return mean staleness, age and embarrassment; `fresh_s` is when copies were fresh at the window's end."""
        for part in blocks(len(self._world)):
            self._add(part, fresh_s[part], np.full(1, end_s))
        length_s = end_s - self.begin_s
        return self._stale / length_s, self._aged / length_s, self._embarrassing / length_s

    def _add(self, page: Rows | slice, fresh_s: Floats, until_s: Floats) -> None:
        """Add the weighted seconds for which copies are stale, by weight and by clicks, and the integral of ages."""
        rate, weight = self._world.rate[page], self._world.weight[page]
        # A gap that began before the window counts from `begin_s` on, with the age that the copy has there.
        from_s = np.maximum(fresh_s, self.begin_s)
        age_s, gap_s = from_s - fresh_s, until_s - from_s
        stale_s, aged_s2 = gap_costs(rate, age_s, gap_s)
        self._stale += float((weight * stale_s).sum())
        self._aged += float((weight * aged_s2).sum())
        self._embarrassing += float((self._clicks[page] * stale_s).sum())


def gap_costs(lam: Floats, age_s: Floats, gap_s: Floats) -> tuple[Floats, Floats]:
    """Return the expected seconds of staleness, and the integral of the expected age, of copies over a time `gap_s`.

    `age_s` is the age of each copy at its beginning. Age is the time since a stale copy became stale, and 0 for a fresh
    one (Cho).
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        u, faded = lam * gap_s, np.exp(-lam * age_s)
        stale = np.where(lam == 0, 0.0, gap_s * (1 - faded) + faded * stale_time(u) / lam)
        aged = np.where(lam == 0, 0.0, _aged(lam * (age_s + gap_s), lam) - _aged(lam * age_s, lam))
    always = np.isinf(lam)
    if always.any():
        stale, aged = np.where(always, gap_s, stale), np.where(always, gap_s * (age_s + gap_s / 2), aged)
    return stale, aged


def _aged(u: Floats, lam: Floats) -> Floats:
    """Return the integral of the expected age over one gap: (u^2/2 - u + 1 - e^-u) / lam^2, u = lam * gap."""
    v = np.minimum(u, SERIES_BELOW)
    series = v * v * v * (1 / 6 - v * (1 / 24 - v * (1 / 120 - v * (1 / 720 - v / 5040))))
    with np.errstate(divide="ignore", invalid="ignore"):
        area: Floats = np.where(u < SERIES_BELOW, series, u * u / 2 - stale_time(u)) / (lam * lam)
    return area


def visited_staleness(world: RefreshWorld, page: Rows, time_s: Floats) -> Floats:
    """Return the exact expected staleness of each page over the horizon, for ANY visits.

    `page` are places in the world's columns. Visits may come in any order. Passing visits outside the horizon is a
    caller's error; visits at its end gain nothing.
    """
    gaps = _Gaps.between_visits(world, page, time_s)
    lam = world.rate
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        later = np.bincount(gaps.page, stale_time(lam[gaps.page] * gaps.length), minlength=len(world))
        first = lam * gaps.first
        faded = np.exp(-lam * world.age_s)
        stale = later + first * (1 - faded) + faded * stale_time(first)
        result = stale / (lam * world.horizon_s)
    return np.where(lam == 0, 0.0, np.where(np.isinf(lam), 1.0, result))


class _Gaps:
    """The time between visits, page by page: `first` up to the first visit of each page, `length` after each visit."""

    def __init__(self, page: Rows, length: Floats, first: Floats) -> None:
        self.page, self.length, self.first = page, length, first

    @classmethod
    def between_visits(cls, world: RefreshWorld, page: Rows, time_s: Floats) -> _Gaps:
        # In a timetable the visits of a page are in order of time, and a stable sort keeps it: lexsort is rare.
        order = np.argsort(page, kind="stable")
        page, time_s = page[order], time_s[order]
        same = page[1:] == page[:-1]
        if (time_s[1:][same] < time_s[:-1][same]).any():
            order = np.lexsort((time_s, page))
            page, time_s = page[order], time_s[order]
        until = np.full(len(page), world.horizon_s)
        until[:-1][same] = time_s[1:][same]
        first = np.full(len(world), world.horizon_s)
        opens = np.append(True, ~same)[: len(page)]
        first[page[opens]] = time_s[opens]
        return cls(page, until - time_s, first)


def last_fresh_before(page: Rows, time_s: Floats, fresh_s: Floats) -> Floats:
    """Return the last time each visit's copy had been fresh, for visits in order; `fresh_s` is before all of them."""
    order = np.argsort(page, kind="stable")
    sorted_page = page[order]
    before_s = fresh_s[sorted_page]
    same = sorted_page[1:] == sorted_page[:-1]
    # For a page visited more than once, the previous visit is the last time its copy was fresh.
    before_s[1:][same] = time_s[order][:-1][same]
    result = np.empty_like(before_s)
    result[order] = before_s
    return result


def expected_freshness(world: RefreshWorld, fresh_s: Floats, now_s: float) -> float:
    """Return the expected weight of all copies that are fresh at an instant."""
    with np.errstate(invalid="ignore", over="ignore"):
        fresh = np.where(world.rate == 0, 1.0, np.exp(-world.rate * np.maximum(now_s - fresh_s, 0.0)))
    return _mean(world, np.where(np.isinf(world.rate), 0.0, fresh))


def _mean(world: RefreshWorld, values: Floats) -> float:
    """Return the weighted mean; not by `@`, whose threads wait for each other on busy cores, at every call."""
    return float((world.weight * values).sum())
