"""What a policy is: one small object, used unchanged by the live crawler and by the lab's simulator (P9).

A policy turns a world into a plan, of one of three kinds:

    Timetable   visits in a fixed order with times before which they are not made (`merge`)
    Intervals   how long after each visit a page is due again; the page that is due first is next, early or late
    ByValue     no plan at all: whatever is worth most now is next

Times in a plan count from the moment it is made. `dispatch` turns the plan for one server into a queue that a crawler
asks; the simulator reads the columns themselves. What a policy may know is in the world: weights, rates, ages, and how
many changes were seen. Whether rates are the true ones or estimated is not the policy's affair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from teia.refresh.formulas import marginal
from teia.refresh.intensities import Objective, capacity, intensity_at, server_limits
from teia.refresh.merge import Timetable
from teia.refresh.model import Floats, World
from teia.refresh.segments import Segments

Value = Literal["freshness", "divergence"]


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Every page is due `interval_s` after its last visit; infinity is never. `due_s` is when it is due first.

    The page of a server that is due first is visited next, even before it is due: a slot that is left unused is lost.
    `slot_s` is how far apart a server's visits are, at least P. `price` is what a visit of each server is worth at the
    optimum: a page that came or whose rate changed gets its interval from it (`interval_for`), without a plan for all.
    Where intervals do not come from prices it is None, and such a page gets the usual interval.
    """

    interval_s: Floats
    due_s: Floats
    slot_s: Floats
    price: Floats | None = None
    objective: Objective = "periodic"

    def interval_for(self, server: int, weight: float, rate: float) -> float:
        """The interval of a page that was not there when the plan was made; its `weight` is on the world's scale."""
        if self.price is None:
            known = self.interval_s[np.isfinite(self.interval_s)]
            return float(np.median(known)) if len(known) else float("inf")
        visits = float(intensity_at(self.objective, self.price[server], weight, rate)[0])
        return 1.0 / visits if visits > 0 else float("inf")


@dataclass(frozen=True, slots=True, eq=False)
class ByValue:
    """The page of a server that is worth most now is next, every `slot_s`.

    By `freshness` it is (w/lam) q(lam age): what freshness gains at the margin (Busa-Fekete and others, 2025). At the
    optimum every page is visited when this reaches the same value, so the rule finds the optimum by itself. By
    `divergence` it is w lam age^2 / 2: how much users miss that the copy has lost since (user-centric, Olston).
    """

    slot_s: Floats
    value: Value = "freshness"

    def of(self, weight: Floats, rate: Floats, age_s: Floats) -> Floats:
        """What visiting pages of these ages is worth; 0 where a visit changes nothing."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.value == "freshness":
                worth = weight / rate * marginal(rate * age_s)
            else:
                worth = weight * rate * np.square(age_s) / 2
        return np.where((rate > 0) & np.isfinite(rate), worth, 0.0)


Plan = Timetable | Intervals | ByValue


class Policy(Protocol):
    """A way to keep pages fresh. `renew_s`: after how long its plan is out of date; None if only news make it so."""

    @property
    def name(self) -> str: ...

    @property
    def renew_s(self) -> float | None: ...

    def plan(self, world: World) -> Plan: ...


def slots(world: World, intensity: Floats) -> Floats:
    """How far apart the visits of each server are: as its pages' intensities ask, but never closer than P."""
    total = Segments(world.starts).sums(intensity)
    with np.errstate(divide="ignore"):
        return np.maximum(world.politeness_s, 1.0 / total)


def intervals_at(world: World, intensity: Floats) -> Intervals:
    """A plan in which every page is visited at its intensity, from its age on."""
    with np.errstate(divide="ignore"):
        interval = 1.0 / intensity
    return Intervals(interval, interval - world.age_s, slots(world, intensity))


def fair_slots(world: World) -> Floats:
    """Slots for a policy without intensities: P, and longer for all alike where crawlers cannot do that much."""
    limit = capacity(world)
    limits = np.where(world.pages_per_server > 0, server_limits(world, limit), 0.0)
    stretch = max(1.0, float(limits.sum()) / limit) if limit > 0 else 1.0
    with np.errstate(divide="ignore"):
        return np.maximum(world.politeness_s, stretch / limits)
