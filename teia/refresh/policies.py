"""The policies by name (P4, P5, P9).

    Psp, MWolf                counts, then a timetable: PSP as printed and centred, MP2, M-Wolf
    PeriodEdf, Cho            intensities that are best in the long run: with politeness (edf), without it (cho)
    Uniform, Proportional,    policies that ignore the value of visits; RateUpdate is F2's rule
    RoundRobin, RateUpdate
    Sampling                  a few pages of each server, then the servers where most of them had changed
    MostValuable              no plan: the most valuable page now, by freshness (index), by what users miss
                              (user-centric)

PSP and the policies it is compared with differ in one thing each. PSP spreads the visits of a server evenly in the
order of their ideal times. MP2 leaves each visit at its ideal time. M-Wolf does so too, and computes its counts without
politeness (Wolf and others, 2002). Dispatch is the same for all: the most overdue page that may be visited now, never
early. Sampling is that of Cho and Ntoulas (2002).

To add one: a class with `name`, `renew_s` and `plan`, and a place in POLICIES.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

import numpy as np

from teia.errors import UsageError
from teia.refresh.counts import plan_counts
from teia.refresh.intensities import Objective, capacity, plan_intensities, server_limits
from teia.refresh.merge import Spacing, Timetable, merge
from teia.refresh.model import DAY_S, Floats, Numbers, RefreshWorld
from teia.refresh.policy import ByValue, Intervals, Policy, Value, fair_slots, intervals_at, slots
from teia.refresh.segments import Segments


@dataclass(frozen=True, slots=True)
class Psp:
    """Counts under politeness, and times by `spacing`.

    The plan is for one horizon and is made anew for the next. As printed, every horizon begins as if all copies were
    fresh, so the same pages are left out every time. `from_ages` begins with the actual ages of the copies.
    """

    name: str
    spacing: Spacing
    from_ages: bool = False
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Timetable:
        known = world if self.from_ages else world.with_ages(0.0)
        return merge(known, plan_counts(known), self.spacing)


@dataclass(frozen=True, slots=True)
class MWolf:
    """Wolf's counts and ideal times, which ignore politeness; dispatch delays the visits."""

    name: str = "m-wolf"
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Timetable:
        known = world.with_ages(0.0)
        return merge(known, plan_counts(known, caps="none"), "ideal")


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


@dataclass(frozen=True, slots=True)
class Uniform:
    """Visits of all pages equally often."""

    name: str = "uniform"
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Intervals:
        return intervals_at(world, np.full(len(world), capacity(world) / len(world)))


@dataclass(frozen=True, slots=True)
class Proportional:
    """Pages visited in proportion to their change rates; seems natural and is worse than uniform (Cho)."""

    name: str = "proportional"
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Intervals:
        rate = np.where(np.isfinite(world.rate), world.rate, 0.0)
        total = float(rate.sum())
        if total == 0:
            return Uniform().plan(world)
        return intervals_at(world, capacity(world) * rate / total)


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Visits of every server's pages in turn, as fast as politeness allows."""

    name: str = "round-robin"
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Intervals:
        slot = fair_slots(world)
        interval = Segments(world.starts).spread(slot) * np.repeat(world.pages_per_server, world.pages_per_server)
        return Intervals(interval, interval - world.age_s, slot)


@dataclass(frozen=True, slots=True)
class RateUpdate:
    """F2's rule: changes seen over days since the last visit, both between 1 and 10, renewed every 24 hours.

    Pages are visited in proportion to it. It uses the observed changes, not the rates, so at first all pages are alike.
    """

    name: str = "rate-update"
    renew_s: float = DAY_S

    def plan(self, world: RefreshWorld) -> Intervals:
        rate_update = np.clip(world.changes, 1, 10) / np.clip(world.age_s / DAY_S, 1, 10)
        return intervals_at(world, capacity(world) * rate_update / rate_update.sum())


@dataclass(frozen=True, slots=True)
class Sampling:
    """Cycles of one horizon: a sample of each server, then all pages of the servers whose samples changed most.

    The result of a sample of `pages` is its expected value, from the rates of the sampled pages alone. Nothing is
    remembered from one cycle to the next. Samples are pages at even distances in the order of ids.
    """

    name: str = "sampling"
    pages: int = 10
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Timetable:
        known = world.with_ages(0.0)
        sampled = self._sample(world)
        counts = sampled.copy()
        room = world.caps()
        each = np.bincount(world.server, sampled, minlength=world.servers).astype(np.int64)
        # 1. The samples are paid for first. 2. Servers take the rest of the budget, most changed samples first.
        left = max(0, (len(world) if world.budget is None else world.budget) - int(each.sum()))
        changed = self._changed(world, sampled)
        for server in np.argsort(-changed, kind="stable").tolist():
            rows = slice(int(world.starts[server]), int(world.starts[server + 1]))
            first = np.argsort(-sampled[rows], kind="stable")  # the sample is visited in any case
            visits_here = min(int(room[server]), rows.stop - rows.start, int(each[server]) + left)
            counts[rows] = 0
            counts[rows.start + first[:visits_here]] = 1
            left -= max(0, visits_here - int(each[server]))
        return merge(known, counts, "centred")

    def _sample(self, world: RefreshWorld) -> Numbers:
        sampled = np.zeros(len(world), dtype=np.int64)
        each = np.minimum(self.pages, world.pages_per_server)
        server = np.repeat(np.arange(world.servers), each)
        number = np.arange(len(server)) - np.repeat(np.cumsum(each) - each, each)
        sampled[world.starts[server] + number * world.pages_per_server[server] // each[server]] = 1
        return sampled

    def _changed(self, world: RefreshWorld, sampled: Numbers) -> Floats:
        """Return the share of each server's sample that has changed since it was fresh, half of the cycle from now."""
        share = -np.expm1(-world.rate * (world.age_s + world.horizon_s / 2)) * sampled
        total = np.bincount(world.server, share, minlength=world.servers)
        seen: Floats = total / np.maximum(np.bincount(world.server, sampled, minlength=world.servers), 1)
        return seen


@dataclass(frozen=True, slots=True)
class MostValuable:
    """The most valuable page of a server at every slot.

    A plan is only needed to split a budget between servers, and only where they could take more visits than it has.
    """

    name: str
    value: Value
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> ByValue:
        limit = capacity(world)
        limits = server_limits(world, limit)
        if float(limits[world.pages_per_server > 0].sum()) <= limit:
            return ByValue(fair_slots(world), self.value)
        return ByValue(slots(world, plan_intensities(world).visits_per_s), self.value)


POLICIES: Final[dict[str, Policy]] = {
    policy.name: policy
    for policy in (
        Psp("psp", "printed"),
        Psp("psp-centred", "centred"),
        Psp("psp-aged", "centred", from_ages=True),
        Psp("mp2", "ideal"),
        MWolf(),
        Uniform(),
        Proportional(),
        Cho(),
        PeriodEdf(),
        MostValuable("index", "freshness"),
        RateUpdate(),
        RoundRobin(),
        Sampling(),
        MostValuable("user-centric", "divergence"),
    )
}


def find_policy(name: str) -> Policy:
    """Return the policy of this name; for an unknown name, raise UsageError with the nearest known name."""
    if name not in POLICIES:
        near = get_close_matches(name, POLICIES, n=1)
        listed = f"did you mean {near[0]}? Available" if near else "available"
        raise UsageError(f"unknown policy {name!r}; {listed}: {', '.join(POLICIES)}")
    return POLICIES[name]
