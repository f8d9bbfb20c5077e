"""Lower bounds on staleness: the least that any policy can reach (P3), and the optimum of a crawl without end.

All are bounds for adaptive policies too. While rates are known and no server reports changes, the result of a visit
does not change the best next action. The first two are over the world's horizon, from the ages of its copies.

    weak_politeness   WP: no more visits to a server than fit, each page at its own ideal times. Not tight: it forgets
                      that two pages of a server cannot be visited at the same time
    non_polite        the budget is the only limit
    steady_optimum    the best in the long run; the limit of a policy's freshness, not a bound for one day
    timetable_staleness  InfCrawlers: no bound but the result of a timetable if every visit is on time
    compute_bounds    all of them beside simulated policies, over the whole time that was simulated

For small worlds `slotprice` has a bound that is nearly tight. In all bounds but the steady optimum transfers take no
time, so they are bounds where pages have sizes too, and less tight there.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from teia.lab.simulate.measures import Window, last_fresh_before, visited_staleness
from teia.lab.simulate.slotprice import MAX_SLOTS, slot_price
from teia.lab.simulate.timeline import Visits
from teia.refresh.counts import plan_counts
from teia.refresh.formulas import even_staleness, steady_staleness
from teia.refresh.intensities import plan_intensities
from teia.refresh.merge import Timetable
from teia.refresh.model import CapRule, RefreshWorld
from teia.refresh.policies import POLICIES

SLOT_PRICE_WORK = 2e8
"""Largest product of pages and squared slots for which the slot-price bound takes only seconds."""


def weak_politeness(world: RefreshWorld, caps: CapRule = "ceil") -> float:
    """Return WP, a lower bound on staleness.

    `caps="floor"` gives WP as printed in the paper. That is not a bound where T/P is not a whole number, because one
    more visit may fit.
    """
    world = replace(world, size_bytes=np.zeros(len(world)))
    free = world.politeness_s == 0 if caps != "none" else np.ones(world.servers, dtype=np.bool_)
    if world.budget is not None or not free.any():
        return float(world.weight @ even_staleness(world, plan_counts(world, caps=caps)))
    # Servers without a politeness interval can be visited without limit. Their pages are always fresh, except those
    # that always change.
    unlimited = np.repeat(free, world.pages_per_server)
    hopeless = float(world.weight[unlimited & np.isinf(world.rate)].sum())
    rest = replace(
        world,
        weight=np.where(unlimited, 0.0, world.weight),
        # Any interval > 0 will do: the pages of these servers have no weight left.
        politeness_s=np.where(free, world.horizon_s, world.politeness_s),
    )
    return hopeless + float(rest.weight @ even_staleness(rest, plan_counts(rest, caps="ceil")))


def non_polite(world: RefreshWorld) -> float:
    """Return NonPolite: the least staleness under the budget alone, ignoring politeness."""
    return weak_politeness(world, caps="none")


def steady_optimum(world: RefreshWorld) -> float:
    """Return the long-run staleness of the best intensities under politeness."""
    return float(world.weight @ steady_staleness(world.rate, plan_intensities(world).visits_per_s))


def timetable_staleness(world: RefreshWorld, timetable: Timetable) -> float:
    """Return the expected staleness if every visit is made when it is due: InfCrawlers for PSP's timetable."""
    return float(world.weight @ visited_staleness(world, timetable.page, timetable.due_s))


def compute_bounds(world: RefreshWorld, length_s: float) -> dict[str, float]:
    """Return WP, InfCrawlers, NonPolite; the steady optimum; and the slot-price bound where it takes only seconds.

    All are of staleness over `length_s`, from the ages that copies have at the beginning. The exception is the steady
    optimum, the long-run result of the best policy. With no budget but the capacity of the crawlers, these are bounds
    for any policy. InfCrawlers is not a bound, but the result of PSP if every visit were on time.
    """
    whole = with_length(world, length_s)
    bounds = {
        "wp": weak_politeness(whole),
        "inf_crawlers": inf_crawlers(world, length_s),
        "non_polite": non_polite(whole),
        "steady": steady_optimum(world),
    }
    if _is_small(whole):
        bounds["slot_price"] = slot_price(whole)
    return bounds


def with_length(world: RefreshWorld, length_s: float) -> RefreshWorld:
    """Return the same world with one horizon as long as a simulation, and the budget of all its horizons together."""
    if length_s == world.horizon_s:
        return world
    # A horizon counts whole once it has started, because `run.py` allows its budget at the beginning.
    budget = None if world.budget is None else math.ceil(world.budget * math.ceil(length_s / world.horizon_s))
    return replace(world, horizon_s=length_s, budget=budget)


def inf_crawlers(world: RefreshWorld, length_s: float) -> float:
    """Return the staleness if PSP's visits are all made when they are due, one horizon after the other."""
    table = POLICIES["psp"].plan(world)
    assert isinstance(table, Timetable)
    order = np.argsort(table.due_s, kind="stable")
    page, due_s = table.page[order], table.due_s[order]
    fresh_s, stale_s, begin_s = -world.age_s, 0.0, 0.0
    while begin_s < length_s:
        end_s = min(begin_s + world.horizon_s, length_s)
        # The last horizon may be cut off: visits due after the end are not made.
        made = int(np.searchsorted(due_s, end_s - begin_s))
        times_s = begin_s + due_s[:made]
        visits = Visits(page[:made], times_s, np.zeros(0), last_fresh_before(page[:made], times_s, fresh_s))
        fresh_s[page[:made]] = times_s
        window = Window(world, begin_s)
        window.add(visits)
        stale_s += window.close(fresh_s, end_s)[0] * (end_s - begin_s)
        begin_s = end_s
    return stale_s / length_s


def _is_small(world: RefreshWorld) -> bool:
    # With P = 0 a server has slots without number, which this bound cannot price.
    if not world.politeness_s.all():
        return False
    slots = np.ceil(world.horizon_s / world.politeness_s)
    work = float((world.pages_per_server * slots * slots).sum())
    return bool(slots.max() <= MAX_SLOTS and work <= SLOT_PRICE_WORK)
