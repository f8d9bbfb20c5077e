"""What is measured while a simulation runs: exact expectations over the visits that were made, and lateness.

Nothing here is drawn. A page changes as a Poisson process, so the chance that its copy is fresh depends on nothing but
the time since its last visit: also where a policy learnt from what visits saw.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from teia.lab.simulate.timeline import Visits
from teia.refresh.formulas import visited_age_s, visited_staleness
from teia.refresh.model import Floats, Numbers, World

FINEST_S, CELLS_PER_DECADE, DECADES = 1e-3, 1000, 12


@dataclass(slots=True)
class Lateness:
    """How late visits were, counted in cells of a quarter of a percent: a quantile needs no memory for each visit."""

    counts: Numbers = field(default_factory=lambda: np.zeros(CELLS_PER_DECADE * DECADES + 2, dtype=np.int64))

    def add(self, late_s: Floats) -> None:
        cell = np.log10(np.maximum(late_s, FINEST_S / 10) / FINEST_S) * CELLS_PER_DECADE
        cell = np.clip(np.floor(cell) + 1, 0, len(self.counts) - 1).astype(np.int64)
        self.counts += np.bincount(cell, minlength=len(self.counts))

    def quantile_s(self, share: float) -> float:
        """So late, or less, was this share of the visits; 0 for less than a millisecond."""
        total = int(self.counts.sum())
        if total == 0:
            return 0.0
        cell = int(np.searchsorted(np.cumsum(self.counts), share * total))
        return FINEST_S * 10.0 ** (cell / CELLS_PER_DECADE) if cell else 0.0


def staleness_between(
    world: World, fresh_s: Floats, visits: Visits, begin_s: float, end_s: float
) -> tuple[float, float]:
    """Weighted expected staleness and mean age between two instants; `fresh_s` is when copies were fresh before."""
    piece = replace(world, age_s=begin_s - fresh_s, horizon_s=end_s - begin_s)
    order = np.argsort(visits.page, kind="stable")  # once; both below sort again, which costs little then
    page, times_s = visits.page[order], visits.time_s[order] - begin_s
    stale = visited_staleness(piece, page, times_s)
    age_s = visited_age_s(piece, page, times_s)
    return _mean(world, stale), _mean(world, age_s)


def expected_freshness(world: World, fresh_s: Floats, now_s: float) -> float:
    """The expected weight of all copies that are fresh at an instant."""
    with np.errstate(invalid="ignore", over="ignore"):
        fresh = np.where(world.rate == 0, 1.0, np.exp(-world.rate * np.maximum(now_s - fresh_s, 0.0)))
    return _mean(world, np.where(np.isinf(world.rate), 0.0, fresh))


def _mean(world: World, values: Floats) -> float:
    """Weighted; not by `@`, whose threads wait for each other where cores are busy, a hundred times a second here."""
    return float((world.weight * values).sum())
