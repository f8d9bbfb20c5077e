"""The best that anyone could do: staleness below which no policy comes (P3), and the optimum of a crawl without end.

All are bounds for adaptive policies too: while rates are known and nobody tells of changes, what a visit reveals does
not change what is best to do next. The first two are over the world's horizon, from the ages of its copies.

    weak_politeness   WP: no more visits to a server than fit, each page at its own ideal times. Not tight: it forgets
                      that two pages of a server cannot be visited at the same time
    non_polite        the budget is the only limit
    steady_optimum    the best in the long run; what a policy's freshness goes to, not a bound for one day
    carried_out       InfCrawlers: no bound but what a timetable gives if everything happens on time

For small worlds `slotprice` has a bound that is nearly tight.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from teia.refresh.counts import plan_counts
from teia.refresh.formulas import even_staleness, steady_staleness, visited_staleness
from teia.refresh.intensities import plan_intensities
from teia.refresh.merge import Timetable
from teia.refresh.model import CapRule, World


def weak_politeness(world: World, caps: CapRule = "ceil") -> float:
    """Return WP, a lower bound on staleness.

    With `caps="floor"` it is as printed, and then no bound where T/P is no whole number: one visit more may fit.
    """
    free = world.politeness_s == 0 if caps != "none" else np.ones(world.servers, dtype=np.bool_)
    if world.budget is not None or not free.any():
        return float(world.weight @ even_staleness(world, plan_counts(world, caps=caps)))
    # Visits without end: these pages are always fresh, but for those that always change.
    unlimited = np.repeat(free, world.pages_per_server)
    hopeless = float(world.weight[unlimited & np.isinf(world.rate)].sum())
    rest = replace(
        world,
        weight=np.where(unlimited, 0.0, world.weight),
        politeness_s=np.where(free, world.horizon_s, world.politeness_s),
    )
    return hopeless + float(rest.weight @ even_staleness(rest, plan_counts(rest, caps="ceil")))


def non_polite(world: World) -> float:
    """Return NonPolite: the least staleness with the budget alone, whatever it does to servers."""
    return weak_politeness(world, caps="none")


def steady_optimum(world: World) -> float:
    """Return the staleness of the best intensities under politeness, for ever."""
    return float(world.weight @ steady_staleness(world.rate, plan_intensities(world).visits_per_s))


def carried_out(world: World, timetable: Timetable) -> float:
    """Return the expected staleness if every visit is made when it is due: InfCrawlers for PSP's timetable."""
    return float(world.weight @ visited_staleness(world, timetable.page, timetable.due_s))
