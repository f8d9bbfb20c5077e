"""Lower bounds on staleness: the least that any policy can reach (P3), and the optimum of a crawl without end.

All are bounds for adaptive policies too. While rates are known and no server reports changes, the result of a visit
does not change the best next action. The first two are over the world's horizon, from the ages of its copies.

    weak_politeness   WP: no more visits to a server than fit, each page at its own ideal times. Not tight: it forgets
                      that two pages of a server cannot be visited at the same time
    non_polite        the budget is the only limit
    steady_optimum    the best in the long run; the limit of a policy's freshness, not a bound for one day
    timetable_staleness  InfCrawlers: no bound but the result of a timetable if every visit is on time

For small worlds `slotprice` has a bound that is nearly tight.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from teia.refresh.counts import plan_counts
from teia.refresh.formulas import even_staleness, steady_staleness, visited_staleness
from teia.refresh.intensities import plan_intensities
from teia.refresh.merge import Timetable
from teia.refresh.model import CapRule, RefreshWorld


def weak_politeness(world: RefreshWorld, caps: CapRule = "ceil") -> float:
    """Return WP, a lower bound on staleness.

    `caps="floor"` gives WP as printed in the paper. That is not a bound where T/P is not a whole number, because one
    more visit may fit.
    """
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
