"""Measures of a running simulation: exact expectations over the visits that were made, and lateness.

Nothing here is random. A page changes as a Poisson process, so the probability that its copy is fresh depends only on
the time since its last visit, also where a policy learnt from the results of visits.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from teia.lab.simulate.timeline import Visits
from teia.refresh.formulas import blocks, gap_costs
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
    """Weighted expected staleness and age from `begin_s` on.

    A visit ends a gap, and at the end all copies have an unfinished gap. The cost of each gap since `begin_s` is added
    as it ends. So nothing is sorted, and the work is linear in visits and pages.
    """

    def __init__(self, world: RefreshWorld, begin_s: float) -> None:
        self._world, self.begin_s = world, begin_s
        self._stale = self._aged = 0.0

    def add(self, visits: Visits) -> None:
        for part in blocks(len(visits.page)):
            self._add(visits.page[part], visits.before_s[part], visits.time_s[part])

    def close(self, fresh_s: Floats, end_s: float) -> tuple[float, float]:
        """Return mean staleness and mean age over the window; `fresh_s` is when copies were fresh at its end."""
        for part in blocks(len(self._world)):
            self._add(part, fresh_s[part], np.full(1, end_s))
        length_s = end_s - self.begin_s
        return self._stale / length_s, self._aged / length_s

    def _add(self, page: Rows | slice, fresh_s: Floats, until_s: Floats) -> None:
        """Add the weighted seconds for which copies are stale, and the integral of their ages."""
        rate, weight = self._world.rate[page], self._world.weight[page]
        # A gap that began before the window counts from `begin_s` on, with the age that the copy has there.
        from_s = np.maximum(fresh_s, self.begin_s)
        age_s, gap_s = from_s - fresh_s, until_s - from_s
        stale_s, aged_s2 = gap_costs(rate, age_s, gap_s)
        self._stale += float((weight * stale_s).sum())
        self._aged += float((weight * aged_s2).sum())


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
