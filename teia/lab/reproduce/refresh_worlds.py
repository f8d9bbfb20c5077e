"""Worlds of P6 and the results of each policy in them; shared by the experiments on revisits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from teia.clock import WallClock
from teia.lab.simulate.bounds import inf_crawlers, non_polite, weak_politeness
from teia.lab.simulate.run import PolicyResult, SimulationSettings, simulate
from teia.refresh.model import DAY_S, Crawlers, RefreshWorld
from teia.refresh.policies import find_policy
from teia.refresh.scenario import draw_world

Unit = Literal["hour", "day"]

UNIT_S: Final[dict[Unit, float]] = {"hour": 3600.0, "day": DAY_S}
UNITS: Final[tuple[Unit, ...]] = ("hour", "day")
POLITENESS_S = 15.0
CRAWLERS = 10
VISITS_PER_PAGE = 8.64
"""Visits per page and day of ten crawlers at 10 pages a second over a million pages."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a world; crawler speeds scale with the pages, so that crawlers are as busy as in the paper."""

    pages: int
    servers: int

    @property
    def budget(self) -> int:
        return int(VISITS_PER_PAGE * self.pages)

    @property
    def crawlers(self) -> Crawlers:
        # The speed at which the crawlers make exactly R visits a day.
        return Crawlers(CRAWLERS, self.budget / DAY_S / CRAWLERS)

    def __str__(self) -> str:
        return f"{self.pages:,} pages on {self.servers:,} servers"


# Section 4 of P's paper; QUICK has as many pages per server.
PAPERS = Size(1_000_000, 2_000)
QUICK = Size(3_000, 6)


def draw_paper_world(
    rng: np.random.Generator, size: Size, unit: Unit, theta: float, rates: str = "uniform", weights: str = "uniform"
) -> RefreshWorld:
    """Draw a world of the paper: T = 24 h, P = 15 s, rates between 0.01 and 1 per unit."""
    return draw_world(
        rng,
        pages=size.pages,
        servers=size.servers,
        theta=theta,
        rates=rates,
        weights=weights,
        rate_unit_s=UNIT_S[unit],
        horizon_s=DAY_S,
        politeness_s=POLITENESS_S,
        budget=size.budget,
        crawlers=size.crawlers,
    )


def run_policy(world: RefreshWorld, policy: str, days: float = 1.0) -> PolicyResult:
    return simulate(world, find_policy(policy), SimulationSettings(days * DAY_S), WallClock())


NAMES: Final = {"psp": "PSP", "mp2": "MP2", "m-wolf": "M-Wolf", "edf": "EDF", "index": "index"}


def one_day(world: RefreshWorld, policies: Sequence[str]) -> dict[str, float]:
    """Return staleness over one day: the paper's three theoretical measures, then the policies by their `NAMES`."""
    found = {
        "NonPolite": non_polite(world),
        "WP": weak_politeness(world),
        "InfCrawlers": inf_crawlers(world, world.horizon_s),
    }
    return found | {NAMES[each]: run_policy(world, each).staleness for each in policies}
