"""Plans for the pages of a file (`teia lab plan`)."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from teia.clock import Clock
from teia.errors import LabError
from teia.refresh.bound import carried_out, non_polite, weak_politeness
from teia.refresh.dispatch import carry_out
from teia.refresh.merge import Timetable
from teia.refresh.model import World
from teia.refresh.policies import policy_named
from teia.refresh.scenario import Scenario, read_scenario


def plan_file(
    scenario_path: Path,
    out: Path,
    policy_name: str,
    *,
    horizon_s: float,
    politeness_s: float,
    budget: int | None,
    clock: Clock,
) -> dict[str, Any]:
    """Plan, write page,count,times (one row for each page, in the order of the file), and tell what to expect.

    Times are seconds from the beginning. A policy without a timetable is carried out as if crawlers were always free.
    """
    policy = policy_named(policy_name)
    scenario = read_scenario(scenario_path)
    world = scenario.world(horizon_s=horizon_s, politeness_s=politeness_s, budget=budget)
    began_s = clock.ticks_s()
    table = carry_out(policy.plan(world), world)
    planned_s = clock.ticks_s() - began_s
    try:
        _write(out, scenario, world, table)
    except OSError as error:
        raise LabError(f"{out}: cannot be written: {error.strerror}") from error
    counts = np.bincount(table.page, minlength=len(world))
    bounds = {"wp": weak_politeness(world)} | ({} if budget is None else {"non_polite": non_polite(world)})
    return {
        "policy": policy.name,
        "pages": len(world),
        "servers": world.servers,
        "visits": len(table),
        "visited_pages": int(np.count_nonzero(counts)),
        "staleness": carried_out(world, table),
        "bounds": bounds,
        "seconds": {"plan": round(planned_s, 4)},
        "out": str(out),
    }


def _write(out: Path, scenario: Scenario, world: World, table: Timetable) -> None:
    order = np.argsort(table.page, kind="stable")
    times = [repr(time).removesuffix(".0") for time in table.due_s[order].tolist()]
    ends = np.cumsum(np.bincount(table.page, minlength=len(world))).tolist()
    begins = [0, *ends[:-1]]
    place = {name: row for row, name in enumerate(scenario.names_of(world))}
    with out.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("page", "count", "times"))
        for name in scenario.pages:
            row = place[name]
            rows.writerow((name, ends[row] - begins[row], ";".join(times[begins[row] : ends[row]])))
