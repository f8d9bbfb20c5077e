"""The interface of a policy: one small object, used unchanged by the live crawler and by the lab's simulator (P9).

A policy turns a world into a plan of one of three kinds:

    Timetable   visits in a fixed order with times before which they are not made (`merge`)
    Intervals   the time after each visit at which a page is due again; the page due first is next, early or late
    ByValue     no plan at all: the most valuable page now is next

Times in a plan count from the moment it is made. `dispatch` turns the plan for one server into a queue for the crawler;
the simulator reads the columns themselves. The world holds everything a policy may know: weights, rates, ages, and the
number of changes seen. A policy does not know if the rates are true or estimated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from teia.refresh.formulas import Objective, marginal
from teia.refresh.intensities import capacity, intensity_at, server_limits
from teia.refresh.merge import Timetable
from teia.refresh.model import Floats, RefreshWorld
from teia.refresh.segments import Segments

Value = Literal["freshness", "divergence"]


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """A plan in which every page is due `interval_s` after its last visit; infinity is never.

    `due_s` is the first due time of each page.

    The page of a server that is due first is visited next, even before it is due: an unused slot is lost. `slot_s` is
    the time between a server's visits, at least P. `price` is the value of a visit of each server at the optimum. A new
    page, or one whose rate changed, gets its interval from it (`interval_for`), without a new plan for all. Where
    intervals do not come from prices it is None, and such a page gets the median interval.
    """

    interval_s: Floats
    due_s: Floats
    slot_s: Floats
    price: Floats | None = None
    objective: Objective = "periodic"

    def interval_for(self, server: int, weight: float, rate: float) -> float:
        """Return the interval of a page that is not in the plan; its `weight` is on the world's scale."""
        if self.price is None:
            # Infinite intervals are pages that the plan never visits; they would distort the median.
            known = self.interval_s[np.isfinite(self.interval_s)]
            return float(np.median(known)) if len(known) else float("inf")
        visits = float(intensity_at(self.objective, self.price[server], weight, rate)[0])
        return 1.0 / visits if visits > 0 else float("inf")


@dataclass(frozen=True, slots=True, eq=False)
class ByValue:
    """A rule without a plan: the most valuable page of a server now is next, every `slot_s`.

    By `freshness` the value is (w/lam) q(lam age): the marginal gain of freshness (Busa-Fekete and others, 2025). At
    the optimum every page is visited when this reaches the same value, so the rule finds the optimum by itself. By
    `divergence` it is w lam age^2 / 2: the divergence of the copy that users have met since (user-centric, Olston).
    Where visits of large pages cost more (`cost`), the value is that for one of the server's visits.
    """

    slot_s: Floats
    value: Value = "freshness"
    cost: Floats | None = None

    def visit_values(self, weight: Floats, rate: Floats, age_s: Floats) -> Floats:
        """Return the value of visiting pages of these ages; 0 where a visit changes nothing."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.value == "freshness":
                worth = weight / rate * marginal(rate * age_s)
            else:
                worth = weight * rate * np.square(age_s) / 2
        return np.where((rate > 0) & np.isfinite(rate), worth, 0.0)


Plan = Timetable | Intervals | ByValue


class Policy(Protocol):
    """A way to keep pages fresh. `renew_s` is the lifetime of its plan; None if only new information outdates it."""

    @property
    def name(self) -> str: ...

    @property
    def renew_s(self) -> float | None: ...

    def plan(self, world: RefreshWorld) -> Plan: ...


def slots(world: RefreshWorld, intensity: Floats) -> Floats:
    """Return the time between visits of each server: as its pages' intensities require, but never less than P.

    A visit that costs more than one takes as many slots.
    """
    costs = world.server_costs
    total = Segments(world.starts).sums(intensity if costs is None else intensity * costs)
    with np.errstate(divide="ignore"):
        return np.maximum(world.politeness_s, 1.0 / total)


def scale_to_capacity(world: RefreshWorld, visits: Floats) -> Floats:
    """Scale intensities to the visits that the crawlers can make, counted by their costs."""
    limit = capacity(world)
    costs = world.crawler_costs(limit)
    scaled: Floats = visits * (limit / float((visits if costs is None else visits * costs).sum()))
    return scaled


def intervals_at(world: RefreshWorld, intensity: Floats) -> Intervals:
    """Return a plan in which every page is visited at its intensity, starting from its age."""
    with np.errstate(divide="ignore"):
        interval = 1.0 / intensity
    return Intervals(interval, interval - world.age_s, slots(world, intensity))


def fair_slots(world: RefreshWorld) -> Floats:
    """Return slots for a policy without intensities: P, stretched for all alike where crawlers cannot do that much."""
    limit = capacity(world)
    limits = np.where(world.pages_per_server > 0, server_limits(world, limit), 0.0)
    stretch = max(1.0, float(limits.sum()) / limit) if limit > 0 else 1.0
    with np.errstate(divide="ignore"):
        return np.maximum(world.politeness_s, stretch / limits)
