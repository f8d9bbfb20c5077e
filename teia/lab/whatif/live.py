"""Every policy as the live crawler carries it out: each host planned by itself, with the visits it grants.

The crawler keeps its plan for `edf` on disk (host_plan.py) and those for other policies in memory (ordered_plan.py).
Here the plans of all hosts are combined into one plan for the simulator. A server of its world is a `HostPages`. Rates
are the crawler's estimates; the true behaviour of pages does not affect the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from teia.config.sections import RefreshSettings
from teia.crawler.keep_fresh.host_plan import SHORTEST_SLOT_S, host_world, intervals, visit_price
from teia.lab.whatif.past import HostPages, Past
from teia.refresh.intensities import plan_intensities
from teia.refresh.merge import Timetable
from teia.refresh.model import Crawlers, Floats, RefreshWorld
from teia.refresh.policies import find_policy
from teia.refresh.policy import ByValue, Intervals, Plan
from teia.refresh.priors import LONGEST_S
from teia.refresh.segments import Segments

ON_DISK = "edf"
"""Policy that the crawler plans by prices, with a floor and exploration; others are as in `POLICIES`."""


def make_world(past: Past, slot_s: Floats, settings: RefreshSettings, crawlers: Crawlers) -> RefreshWorld:
    """Return all pages as a world for the simulator, with their estimated rates; `slot_s` is per part."""
    parts = past.parts
    return RefreshWorld.build(
        np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
        np.concatenate([part.posterior.mean for part in parts]),
        servers=len(parts),
        horizon_s=settings.horizon_s,
        politeness_s=np.maximum(slot_s, SHORTEST_SLOT_S),
        weight=np.concatenate([part.weight for part in parts]),
        age_s=np.concatenate([np.maximum(past.now_s - part.columns.fresh_s, 0.0) for part in parts]),
        changes=np.concatenate([part.columns.changes for part in parts]),
        crawlers=crawlers,
    )


def part_slots(past: Past, host_slots: Floats) -> Floats:
    """Convert slots of hosts to slots of parts: each part has its share of its host's visits."""
    pages = np.bincount([part.host for part in past.parts], [len(part) for part in past.parts], len(past.hosts))
    return np.array([host_slots[part.host] * pages[part.host] / len(part) for part in past.parts])


def slots_within_budget(world: RefreshWorld, visits_per_day: float, floor: float) -> Floats:
    """Return slots of servers within a budget, distributed as is best in the long run."""
    limit = visits_per_day / 86_400.0
    if float((1.0 / world.politeness_s).sum()) <= limit:
        return world.politeness_s
    best = plan_intensities(world, floor_share=floor, visits_per_s=limit)
    with np.errstate(divide="ignore"):
        wanted = 1.0 / Segments(world.starts).sums(best.visits_per_s)
    # No host is visited faster than its slots allow; one that the optimum leaves out gets the longest slot.
    return np.clip(wanted, world.politeness_s, LONGEST_S)


@dataclass(frozen=True, slots=True, eq=False)
class LivePolicy:
    """A policy for the simulator that plans part by part, as the live crawler does."""

    name: str
    parts: Sequence[HostPages]
    settings: RefreshSettings

    @property
    def renew_s(self) -> float | None:
        return find_policy(self.name).renew_s

    def plan(self, world: RefreshWorld) -> Plan:
        if self.name == ON_DISK:
            return self._by_prices(world)
        plans = [self._plan_part(world, server) for server in range(world.servers)]
        kinds = {type(plan) for plan in plans if plan is not None}
        if Timetable in kinds:
            return _timetable(world, plans)
        slot_s = world.politeness_s  # a host is visited as soon as politeness allows, independently of the plan's slots
        if ByValue in kinds:
            value = next(plan.value for plan in plans if isinstance(plan, ByValue))
            return ByValue(slot_s, value)
        return Intervals(_join_column("interval_s", world, plans), _join_column("due_s", world, plans), slot_s)

    def _by_prices(self, world: RefreshWorld) -> Intervals:
        interval_s = np.full(len(world), np.inf)
        for server, part in enumerate(self.parts):
            price = visit_price(part.columns, part.posterior, float(world.politeness_s[server]), self.settings)
            rows = slice(int(world.starts[server]), int(world.starts[server + 1]))
            prices = [price] * len(part)
            interval_s[rows] = intervals(part.columns, part.posterior, part.prior, prices, self.settings)
        # Due times count from now; they are negative for copies older than their interval.
        return Intervals(interval_s, interval_s - world.age_s, world.politeness_s)

    def _plan_part(self, world: RefreshWorld, server: int) -> Plan | None:
        """Return the plan of one part; None if it has no page with a weight."""
        rows = slice(int(world.starts[server]), int(world.starts[server + 1]))
        weight, slot_s = world.weight[rows], float(world.politeness_s[server])
        if not weight.any():
            return None
        ages_s, horizon_s = world.age_s[rows], self.settings.horizon_s
        alone = host_world(weight, world.rate[rows], slot_s, horizon_s, ages_s, world.changes[rows])
        changed_ago_s = None if world.changed_ago_s is None else world.changed_ago_s[rows]
        # Planned alone, a host may use every visit that its slots grant within the horizon.
        alone = replace(alone, budget=int(horizon_s / slot_s), changed_ago_s=changed_ago_s, now_s=world.now_s)
        if self.settings.weights == "hits":
            alone = replace(alone, clicks=alone.weight)
        return find_policy(self.name).plan(alone)


def _timetable(world: RefreshWorld, plans: Sequence[Plan | None]) -> Timetable:
    starts, pages, times = [0], [], []
    for server, plan in enumerate(plans):
        if isinstance(plan, Timetable):
            pages.append(plan.page + world.starts[server])
            times.append(plan.due_s)
        starts.append(starts[-1] + (len(plan.page) if isinstance(plan, Timetable) else 0))
    return Timetable(np.array(starts, dtype=np.int64), np.concatenate(pages), np.concatenate(times))


def _join_column(name: str, world: RefreshWorld, plans: Sequence[Plan | None]) -> Floats:
    """Join a column of the plans of all parts; infinity where there is no plan."""
    sizes = world.pages_per_server.tolist()
    each = [
        np.full(size, np.inf) if plan is None else getattr(plan, name) for size, plan in zip(sizes, plans, strict=True)
    ]
    return np.concatenate(each)
