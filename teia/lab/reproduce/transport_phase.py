"""P5: Wolf's third phase compared with MERGE on small servers.

Planned instants are better while slots are free, even gaps once the server is full.
"""

from __future__ import annotations

import numpy as np

from teia.lab.reproduce.refresh_worlds import run_policy
from teia.lab.reproduce.registry import ExperimentInput, ResultRow, Table
from teia.lab.simulate.bounds import timetable_staleness, weak_politeness
from teia.lab.simulate.transport import transport_visits
from teia.refresh.counts import plan_counts
from teia.refresh.merge import merge
from teia.refresh.model import DAY_S
from teia.refresh.scenario import draw_world

# A slot every five minutes of a day.
PAGES, SLOTS = 60, 288
FILLED = (0.25, 0.5, 0.75, 0.9, 1.0)
WORLDS, QUICK_WORLDS = 20, 4


def transport_phase(run: ExperimentInput) -> Table:
    """Measure the mean staleness of one server with different shares of its slots filled."""
    worlds = QUICK_WORLDS if run.quick else WORLDS
    run.progress(f"P5: Wolf's third phase on {worlds * len(FILLED)} small servers")
    rows: list[ResultRow] = []
    for filled in FILLED:
        found = [_measure_world(run, number, round(filled * SLOTS)) for number in range(worlds)]
        rows += [
            ResultRow((f"{filled:.0%}", name), float(np.mean([each[name] for each in found]))) for name in found[0]
        ]
    note = (
        f"One server with {PAGES} pages and {SLOTS} slots, {worlds} worlds for each row, rates between 0.01 and 1"
        " per six hours; the visits of a plan fill this share of the slots. Wolf's phase assigns each visit to the"
        " slot nearest to its planned time (an assignment of least distance). While there are free slots this is"
        " better than MERGE, which moves visits that were already well placed. Once the server is full, as the"
        " large servers of P6 are, visits of one page are pushed to different sides, and even gaps, which MERGE"
        " preserves, are better than planned times. MP2 waits for its planned times and is then late."
    )
    columns = ("slots filled", "how")
    return Table("transport", "Wolf's third phase and MERGE", columns, tuple(rows), note=note)


def _measure_world(run: ExperimentInput, number: int, visits: int) -> dict[str, float]:
    world = draw_world(
        run.random(10, number),
        pages=PAGES,
        servers=1,
        horizon_s=DAY_S,
        politeness_s=DAY_S / SLOTS,
        rate_unit_s=DAY_S / 4,
        budget=visits,
    )
    counts = plan_counts(world)
    return {
        "WP": weak_politeness(world),
        "Wolf's transport": timetable_staleness(world, transport_visits(world, counts)),
        "MERGE, centred": timetable_staleness(world, merge(world, counts, "centred")),
        "MP2": run_policy(world, "mp2").staleness,
        "EDF": run_policy(world, "edf").staleness,
    }
