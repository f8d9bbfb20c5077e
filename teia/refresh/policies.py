"""The policies by name (P4, P5, P9).

    Psp, MWolf                counts, then a timetable: PSP as printed and centred, MP2, M-Wolf
    PeriodEdf                 intensities that are best in the long run under politeness: for freshness (edf), for
                              freshness at random times (azar), for a penalty that gives up no page (lambda-crawl),
                              for what searchers click (ebr)
    Cho                       the same for freshness, without politeness
    Uniform, Proportional,    policies that ignore the value of visits; RateUpdate is F2's rule
    RoundRobin, RateUpdate
    Sampling                  a few pages of each server, then the servers where most of them had changed
    MostValuable              no plan: the most valuable page now, by freshness (index), by what users miss
                              (user-centric)

PSP and the policies it is compared with differ in one thing each. PSP spreads the visits of a server evenly in the
order of their ideal times. MP2 leaves each visit at its ideal time. M-Wolf does so too, and computes its counts without
politeness (Wolf and others, 2002). Dispatch is the same for all: the most overdue page that may be visited now, never
early. Sampling is that of Cho and Ntoulas (2002). Embarrassment is a searcher's click on a result that is stale (Wolf
and others, 2002; Pandey and Olston, 2005).

To add one: a class with `name`, `renew_s` and `plan`, and a place in POLICIES.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

import numpy as np

from teia.errors import UsageError
from teia.refresh.counts import plan_counts
from teia.refresh.formulas import Objective
from teia.refresh.intensities import capacity, plan_intensities, server_limits
from teia.refresh.merge import Spacing, Timetable, merge
from teia.refresh.model import DAY_S, Floats, Numbers, RefreshWorld
from teia.refresh.policy import (
    ByValue,
    Intervals,
    Policy,
    Value,
    fair_slots,
    intervals_at,
    scale_to_capacity,
    slots,
)
from teia.refresh.segments import Segments
from teia.refresh.threshold import Flags


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

    `by_clicks` counts a page by its share of searchers' clicks instead of its weight. A page that joins later has the
    median interval there, because its clicks are not known.
    """

    name: str = "edf"
    objective: Objective = "periodic"
    by_clicks: bool = False
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Intervals:
        valued = replace(world, weight=world.click_shares) if self.by_clicks else world
        best = plan_intensities(valued, objective=self.objective)
        price = None if self.by_clicks else best.price
        return replace(intervals_at(world, best.visits_per_s), price=price, objective=self.objective)


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
        return intervals_at(world, scale_to_capacity(world, np.ones(len(world))))


@dataclass(frozen=True, slots=True)
class Proportional:
    """Pages visited in proportion to their change rates; seems natural and is worse than uniform (Cho)."""

    name: str = "proportional"
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Intervals:
        rate = np.where(np.isfinite(world.rate), world.rate, 0.0)
        if not rate.any():
            return Uniform().plan(world)
        return intervals_at(world, scale_to_capacity(world, rate))


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
        return intervals_at(world, scale_to_capacity(world, rate_update))


@dataclass(frozen=True, slots=True)
class Sampling:
    """Cycles of a day: a random sample of each server first, then the servers whose samples had changed most.

    It knows the results of its visits alone, not the rates, and nothing of earlier cycles. A server waits until its
    whole sample was visited, and has no more visits in a cycle if nothing of it had changed. A page is visited at most
    once in a cycle. A plan is for an hour, so that the results of samples are known to the next one.
    """

    name: str = "sampling"
    pages: int = 10
    cycle_s: float = DAY_S
    renew_s: float = DAY_S / 24

    def plan(self, world: RefreshWorld) -> Timetable:
        length_s = min(self.renew_s, world.horizon_s)
        since_s = world.now_s % self.cycle_s
        visited = world.age_s < since_s
        sampled = self._sample(world)
        waiting = sampled & ~visited
        changed = self._changed(world, sampled & visited, since_s)
        changed[np.unique(world.server[waiting])] = 0.0
        # Samples first (2 is above any share), then the pages of the servers whose samples changed most.
        worth = np.where(waiting, 2.0, np.where(visited, 0.0, changed[world.server]))
        budget = None if world.budget is None else math.ceil(world.budget * length_s / world.horizon_s)
        hour = replace(world.with_ages(0.0), horizon_s=length_s, budget=budget)
        return merge(hour, _most_valued(hour, worth).astype(np.int64), "centred")

    def _sample(self, world: RefreshWorld) -> Flags:
        """Return the pages of this cycle's samples: `pages` of each server, at most a quarter of what it allows."""
        chance = np.random.default_rng(int(world.now_s // self.cycle_s))
        # The order of random numbers within each server is a random order of its pages.
        order = np.lexsort((chance.random(len(world)), world.server))
        with np.errstate(divide="ignore"):
            quarter = np.floor(self.cycle_s / 4 / world.politeness_s)
        most = np.maximum(1, np.minimum(self.pages, quarter))
        sampled = np.zeros(len(world), dtype=np.bool_)
        sampled[order[_ranks(world) < most[world.server]]] = True
        return sampled

    @staticmethod
    def _changed(world: RefreshWorld, seen: Flags, since_s: float) -> Floats:
        """Return the share of each server's visited sample in which the visit found a change."""
        if world.changed_ago_s is None:
            return np.zeros(world.servers)
        changed = np.bincount(world.server, seen & (world.changed_ago_s <= since_s), minlength=world.servers)
        share: Floats = changed / np.maximum(np.bincount(world.server, seen, minlength=world.servers), 1)
        return share


def _ranks(world: RefreshWorld) -> Numbers:
    """Return the place of each page among those of its server, from 0 on."""
    return np.arange(len(world)) - world.starts[world.server]


def _most_valued(world: RefreshWorld, worth: Floats) -> Flags:
    """Choose the pages that are worth most, as many as each server and the budget allow; none that is worth nothing."""
    order = np.lexsort((-worth, world.server))
    rows = order[(_ranks(world) < world.caps("ceil")[world.server]) & (worth[order] > 0)]
    chosen = np.zeros(len(world), dtype=np.bool_)
    chosen[rows[np.argsort(-worth[rows], kind="stable")][: world.budget]] = True
    return chosen


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
            return ByValue(fair_slots(world), self.value, world.server_costs)
        return ByValue(slots(world, plan_intensities(world).visits_per_s), self.value, world.server_costs)


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
        PeriodEdf("azar", "poisson"),
        PeriodEdf("lambda-crawl", "harmonic"),
        PeriodEdf("ebr", by_clicks=True),
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
