"""A refresh policy: a page is visited in proportion to the square root of its change rate.

It stands between `uniform`, which visits all pages alike, and `proportional`, which wastes visits on pages that change
all the time.

    teia crawl --keep-fresh --policy square-root --data archive
    teia lab simulate --pages 1000 --servers 10 --policy square-root,uniform,proportional,edf --json
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from teia.refresh.demand import demand_in_proportion
from teia.refresh.model import Floats, RefreshWorld
from teia.refresh.policy import Intervals, intervals_at, scale_to_capacity


def roots(rate: Floats) -> Floats:
    """Return the roots of the rates; a page that always changes counts for nothing, one that never does for little."""
    return np.sqrt(np.where(np.isfinite(rate), rate, 0.0)) + 1e-9


@dataclass(frozen=True)
class SquareRoot:
    """`plan` gives each page an interval; `demand` tells how much of a common budget a host would use."""

    name: str = "square-root"
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Intervals:
        return intervals_at(world, scale_to_capacity(world, roots(world.rate)))

    def demand(self, host: RefreshWorld, weight: Floats) -> Floats:
        return demand_in_proportion(float(roots(host.rate)[weight > 0].sum()))


policy = SquareRoot()
