"""The bounds beside simulated policies (P3), over the whole time that was simulated."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from teia.lab.simulate.measures import Window, last_fresh_before
from teia.lab.simulate.timeline import Visits
from teia.refresh.bound import non_polite, steady_optimum, weak_politeness
from teia.refresh.merge import Timetable
from teia.refresh.model import RefreshWorld
from teia.refresh.policies import POLICIES
from teia.refresh.slotprice import MAX_SLOTS, slot_price

SLOT_PRICE_WORK = 2e8
"""Largest product of pages and squared slots for which the slot-price bound takes only seconds."""


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
