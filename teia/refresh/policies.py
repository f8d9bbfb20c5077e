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

A live crawl plans one host at a time. `demand` returns the visits that a policy gives a host at each price; from the
sum over hosts follows the part of a common budget that each of them gets (`demand`).

To add one: a class with `name`, `renew_s`, `plan` and `demand`, and a place in POLICIES, or in a package of its own
(docs/extending.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final, Protocol

import numpy as np

from teia.config import extensions
from teia.config.extensions import extension_names, load_extension
from teia.errors import UsageError
from teia.refresh.counts import plan_counts
from teia.refresh.demand import demand_by_count, demand_by_price, demand_by_worth, demand_in_proportion
from teia.refresh.formulas import Objective
from teia.refresh.intensities import capacity, plan_intensities, server_limits
from teia.refresh.merge import Spacing, Timetable, merge
from teia.refresh.model import CLICK_EXPONENT, DAY_S, Floats, Numbers, RefreshWorld
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


class SharingPolicy(Policy, Protocol):
    """A policy that shares a budget between hosts which are planned one at a time."""

    def demand(self, host: RefreshWorld, weight: Floats) -> Floats:
        """Return a host's visits per second at the prices of the grid; `weight` is on one scale for all hosts.

        A policy that ignores politeness may want more than the host allows. It loses these visits.
        """


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

    def demand(self, host: RefreshWorld, weight: Floats) -> Floats:
        most = float(host.caps("floor")[0]) / host.horizon_s
        return np.asarray(np.minimum(demand_by_count(weight, host.rate, host.horizon_s), most), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class MWolf:
    """Wolf's counts and ideal times, which ignore politeness; dispatch delays the visits."""

    name: str = "m-wolf"
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Timetable:
        known = world.with_ages(0.0)
        return merge(known, plan_counts(known, caps="none"), "ideal")

    def demand(self, host: RefreshWorld, weight: Floats) -> Floats:
        return demand_by_count(weight, host.rate, host.horizon_s)


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

    def demand(self, host: RefreshWorld, weight: Floats) -> Floats:
        # Clicks of searchers are weights already; any other weight is an importance.
        valued = weight**CLICK_EXPONENT if self.by_clicks and host.clicks is None else weight
        return _polite(host, demand_by_price(self.objective, valued, host.rate))


@dataclass(frozen=True, slots=True)
class Cho:
    """Cho and Garcia-Molina's optimum (2003), which ignores politeness; on large servers pages wait in the queue."""

    name: str = "cho"
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Intervals:
        best = plan_intensities(world, polite=False)
        return replace(intervals_at(world, best.visits_per_s), price=best.price)

    def demand(self, host: RefreshWorld, weight: Floats) -> Floats:
        return demand_by_price("periodic", weight, host.rate)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Visits of all pages equally often."""

    name: str = "uniform"
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Intervals:
        return intervals_at(world, scale_to_capacity(world, np.ones(len(world))))

    def demand(self, host: RefreshWorld, weight: Floats) -> Floats:  # noqa: ARG002  # all pages are alike
        return demand_in_proportion(float((weight > 0).sum()))


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

    def demand(self, host: RefreshWorld, weight: Floats) -> Floats:
        return demand_in_proportion(float(host.rate[(weight > 0) & np.isfinite(host.rate)].sum()))


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Visits of every server's pages in turn, as fast as politeness allows."""

    name: str = "round-robin"
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Intervals:
        slot = fair_slots(world)
        interval = Segments(world.starts).spread(slot) * np.repeat(world.pages_per_server, world.pages_per_server)
        return Intervals(interval, interval - world.age_s, slot)

    def demand(self, host: RefreshWorld, weight: Floats) -> Floats:  # noqa: ARG002  # servers share, not pages
        return _polite(host, demand_in_proportion(1.0 / float(host.politeness_s[0])))


@dataclass(frozen=True, slots=True)
class RateUpdate:
    """F2's rule: changes seen over days since the last visit, both between 1 and 10, renewed every 24 hours.

    Pages are visited in proportion to it. It uses the observed changes, not the rates, so at first all pages are alike.
    """

    name: str = "rate-update"
    renew_s: float = DAY_S

    def plan(self, world: RefreshWorld) -> Intervals:
        return intervals_at(world, scale_to_capacity(world, _rate_updates(world)))

    def demand(self, host: RefreshWorld, weight: Floats) -> Floats:
        return demand_in_proportion(float(_rate_updates(host)[weight > 0].sum()))


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
        worth = self._worth(world)
        budget = None if world.budget is None else math.ceil(world.budget * length_s / world.horizon_s)
        hour = replace(world.with_ages(0.0), horizon_s=length_s, budget=budget)
        return merge(hour, _most_valued(hour, worth).astype(np.int64), "centred")

    def demand(self, host: RefreshWorld, weight: Floats) -> Floats:
        worth = np.where(weight > 0, self._worth(host), 0.0)
        return _polite(host, demand_by_worth(worth, min(self.renew_s, host.horizon_s)))

    def _worth(self, world: RefreshWorld) -> Floats:
        since_s = world.now_s % self.cycle_s
        visited = world.age_s < since_s
        sampled = self._sample(world)
        waiting = sampled & ~visited
        changed = self._changed(world, sampled & visited, since_s)
        changed[np.unique(world.server[waiting])] = 0.0
        # Samples first (2 is above any share), then the pages of the servers whose samples changed most.
        return np.where(waiting, 2.0, np.where(visited, 0.0, changed[world.server]))

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

    def demand(self, host: RefreshWorld, weight: Floats) -> Floats:
        return _polite(host, demand_by_price("periodic", weight, host.rate))


def _polite(host: RefreshWorld, visits_per_s: Floats) -> Floats:
    """Limit the visits of one host to those that politeness allows."""
    with np.errstate(divide="ignore"):
        most = 1.0 / host.politeness_s[0]
    return np.asarray(np.minimum(visits_per_s, most), dtype=np.float64)


def _rate_updates(world: RefreshWorld) -> Floats:
    """Return F2's rateUpdate of each page."""
    rates: Floats = np.clip(world.changes, 1, 10) / np.clip(world.age_s / DAY_S, 1, 10)
    return rates


POLICIES: Final[dict[str, SharingPolicy]] = {
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


def find_policy(name: str) -> SharingPolicy:
    """Return the policy of this name; for an unknown name, raise UsageError with the nearest known name."""
    if name in POLICIES:
        return POLICIES[name]
    offered: SharingPolicy | None = load_extension(extensions.POLICIES, name)
    if offered is None:
        known = (*POLICIES, *extension_names(extensions.POLICIES))
        near = get_close_matches(name, known, n=1)
        listed = f"did you mean {near[0]}? Available" if near else "available"
        raise UsageError(f"unknown policy {name!r}; {listed}: {', '.join(known)}")
    return offered


def has_timetable(policy: Policy) -> bool:
    """Tell whether a policy's plans are timetables, whose visits are counted."""
    return isinstance(policy, Psp | MWolf | Sampling)
