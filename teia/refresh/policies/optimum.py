"""Intensities that are best in the long run, and a queue by due time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from teia.refresh.intensities import Objective, plan_intensities
from teia.refresh.model import RefreshWorld
from teia.refresh.policy import Intervals, intervals_at


@dataclass(frozen=True, slots=True)
class PeriodEdf:
    """The best intensities under politeness; the page due first is next. Over weeks it converges to the optimum.

    `floor_share` of each server's visits is spread evenly over all its pages, so that none is given up.
    """

    name: str = "edf"
    objective: Objective = "periodic"
    floor_share: float = 0.0
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Intervals:
        best = plan_intensities(world, objective=self.objective, floor_share=self.floor_share)
        return replace(intervals_at(world, best.visits_per_s), price=best.price, objective=self.objective)


@dataclass(frozen=True, slots=True)
class Cho:
    """Cho and Garcia-Molina's optimum (2003), which ignores politeness; on large servers pages wait in the queue."""

    name: str = "cho"
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Intervals:
        best = plan_intensities(world, polite=False)
        return replace(intervals_at(world, best.visits_per_s), price=best.price)
