"""F2: a periodic crawler beside an incremental one (its figure 2, after Cho), freshness over time.

The paper's figure is a sketch without numbers. A periodic crawler works for a while, then pauses until the next period,
and its store becomes stale meanwhile. An incremental one works all the time and keeps a level. Here both make as many
visits. The periodic crawler of the paper makes a new store every time, so its users see the old one until the new one
is complete: `shadow_freshness`. The incremental ones differ in the pages they visit: all alike, by F2's rateUpdate, or
by the best intensities in the long run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from teia.clock import WallClock
from teia.lab.reproduce.registry import ExperimentInput, Figure, PlotLine, ResultRow, Results, Table, experiment
from teia.lab.simulate.run import PolicyResult, SimulationSettings, simulate
from teia.refresh.merge import Timetable, merge
from teia.refresh.model import DAY_S, RefreshWorld
from teia.refresh.policies import find_policy
from teia.refresh.policy import Policy
from teia.refresh.scenario import draw_world

PAGES, QUICK_PAGES, PAGES_PER_SERVER = 20_000, 2_000, 250
POLITENESS_S = 60.0
CYCLE_DAYS, WORK_DAYS, CYCLES = 10, 1, 8
SAMPLE_INTERVAL_S = DAY_S / 4


@dataclass(frozen=True, slots=True)
class Periodic:
    """Policy that visits every page once in each horizon, all in the first `share` of it."""

    share: float
    name: str = "periodic"
    renew_s: None = None

    def plan(self, world: RefreshWorld) -> Timetable:
        table = merge(world.with_ages(0.0), np.ones(len(world), dtype=np.int64), "centred")
        # Compressed, a server's visits stay more than P apart: 250 of them in a day, with P = 60 s.
        return replace(table, due_s=table.due_s * self.share)


@experiment(
    "F2",
    title="Periodic against incremental crawling",
    paper="the distributed incremental crawler and search system (FURB), section 2.1.2.2, figure 2, after Cho (2000)",
)
def periodic(run: ExperimentInput) -> Results:
    """Compare the freshness over time of one periodic and three incremental crawlers with equally many visits."""
    pages = QUICK_PAGES if run.quick else PAGES
    world = draw_world(
        run.random(2),
        pages=pages,
        servers=pages // PAGES_PER_SERVER,
        theta=0.0,
        horizon_s=CYCLE_DAYS * DAY_S,
        politeness_s=POLITENESS_S,
        rate_unit_s=DAY_S,
        budget=pages,
    )
    once = Periodic(WORK_DAYS / CYCLE_DAYS)
    policies: dict[str, Policy] = {
        "periodic": once,
        "incremental, equal visits": find_policy("uniform"),
        "incremental, rateUpdate": find_policy("rate-update"),
        "incremental, EDF": find_policy("edf"),
    }
    lines: dict[str, list[tuple[float, float]]] = {}
    for name, policy in policies.items():
        run.progress(f"F2: {name}, {CYCLE_DAYS * CYCLES} days of {pages:,} pages")
        lines[name] = _freshness_line(simulate(world, policy, _settings(run.seed), WallClock()))
    lines["periodic, shadowed"] = shadow_freshness(world, once, [time_s for time_s, _ in lines["periodic"]])
    yield Figure(
        "freshness",
        "Freshness over time (figure 2)",
        "day",
        "freshness",
        tuple(PlotLine(name, [t / DAY_S for t, _ in line], [y for _, y in line]) for name, line in lines.items()),
    )
    yield levels_table(lines, pages)


def _settings(seed: int) -> SimulationSettings:
    return SimulationSettings(CYCLE_DAYS * CYCLES * DAY_S, seed=seed, sample_interval_s=SAMPLE_INTERVAL_S)


def _freshness_line(outcome: PolicyResult) -> list[tuple[float, float]]:
    return [(sample.time_s, sample.expected) for sample in outcome.samples]


def shadow_freshness(world: RefreshWorld, policy: Periodic, times_s: list[float]) -> list[tuple[float, float]]:
    """Return the freshness that users see if a new store replaces the old one only when it is complete."""
    table = policy.plan(world)
    visited_s = np.empty(len(world))
    visited_s[table.page] = table.due_s
    whole_s = float(visited_s.max())
    line = []
    for time_s in times_s:
        # The latest complete store; before the first one users see the initial store, which was fresh at 0.
        cycle = int((time_s - whole_s) // world.horizon_s)
        age_s = time_s - (cycle * world.horizon_s + visited_s) if cycle >= 0 else np.full(len(world), time_s)
        line.append((time_s, float(world.weight @ np.exp(-world.rate * age_s))))
    return line


def levels_table(lines: dict[str, list[tuple[float, float]]], pages: int) -> Table:
    """Return mean, minimum and maximum of each line, over the second half."""
    rows = []
    for name, line in lines.items():
        later = [freshness for time_s, freshness in line if time_s > CYCLE_DAYS * CYCLES * DAY_S / 2]
        rows += [
            ResultRow((name, "mean"), float(np.mean(later))),
            ResultRow((name, "least"), min(later)),
            ResultRow((name, "most"), max(later)),
        ]
    note = (
        f"{pages:,} pages, {PAGES_PER_SERVER} on a server, P = {POLITENESS_S:g} s, rates of 0.01 to 1 per day. All"
        f" crawlers make one visit per page in {CYCLE_DAYS} days, the periodic crawler all of them within "
        f"{WORK_DAYS}. The same number of visits at the same distance gives the same mean, whether at once or"
        " spread, as Cho found too: spreading evens out the level. Showing the new store only when it is complete"
        " costs additional freshness. Selecting the pages to visit gains more (EDF), or loses: F2's rateUpdate"
        " divides by the days since the last visit, so recently visited pages are visited again soon, and the"
        " others wait up to ten times as long."
    )
    return Table("levels", "Freshness over the second half", ("crawler", "measure"), tuple(rows), note=note)
