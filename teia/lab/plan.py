"""Plans for the pages of a file (`teia lab plan`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from teia.clock import Clock
from teia.errors import LabError
from teia.lab.simulate.bounds import non_polite, weak_politeness
from teia.lab.simulate.command import with_budget
from teia.lab.simulate.measures import visited_staleness
from teia.lib.csvtext import CsvWriter
from teia.refresh.dispatch import make_queue
from teia.refresh.merge import Timetable
from teia.refresh.model import DAY_S, Device, Floats, Numbers, RefreshWorld
from teia.refresh.policies import find_policy
from teia.refresh.policy import Plan
from teia.refresh.scenario import BYTES_PER_S, Scenario, read_scenario

RATE_GROUPS = 12
"""Number of groups of pages in a plan's report, from those that change least to those that change most."""


def plan_file(
    scenario_path: Path,
    out: Path,
    policy_name: str,
    *,
    horizon_s: float,
    politeness_s: float,
    budget: int | None,
    clock: Clock,
    bytes_per_s: float = BYTES_PER_S,
    device: Device = "cpu",
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Plan, write page,count,times (one row per page, in the order of the file), and return the expected results.

    Times are seconds from the beginning. A policy without a timetable is carried out as if crawlers were always free.
    If the file has crawlers, the budget is what they can do, unless one is given.
    """
    policy = find_policy(policy_name)
    progress("reading pages")
    scenario = read_scenario(scenario_path)
    world = scenario.world(horizon_s=horizon_s, politeness_s=politeness_s, budget=budget, bytes_per_s=bytes_per_s)
    world = replace(world, device=device)
    if scenario.crawlers:
        world = with_budget(world)
    progress(f"{policy.name}: {len(world):,} pages on {world.servers:,} servers")
    began_s = clock.ticks_s()
    table = execute_plan(policy.plan(world), world)
    planned_s = clock.ticks_s() - began_s
    try:
        _write(out, scenario, world, table)
    except OSError as error:
        raise LabError(f"{out}: cannot be written: {error.strerror}") from error
    progress("bounds")
    counts = np.bincount(table.page, minlength=len(world))
    stale = visited_staleness(world, table.page, table.due_s)
    # NonPolite (P3) is limited by the budget alone; without one nothing bounds it.
    bounds = {"wp": weak_politeness(world)} | ({} if world.budget is None else {"non_polite": non_polite(world)})
    return {
        "policy": policy.name,
        "pages": len(world),
        "servers": world.servers,
        "visits": len(table),
        "visited_pages": int(np.count_nonzero(counts)),
        "bytes": float(counts @ world.size_bytes),
        "budget": world.budget,
        "staleness": float(world.weight @ stale),
        "bounds": bounds,
        "by_rate": _by_rate(world, counts, stale),
        "seconds": {"plan": round(planned_s, 4)},
        "out": str(out),
    }


def execute_plan(plan: Plan, world: RefreshWorld) -> Timetable:
    """Return the timetable if a crawler is always free: no visit is early, and visits are slots apart.

    A `Timetable` is returned unchanged, even where it is not polite. The first visit of a server is half a slot after
    the start, as in evenly spread slots.
    """
    if isinstance(plan, Timetable):
        return plan
    row_of = dict(zip(world.page.tolist(), range(len(world)), strict=True))
    starts, rows, times = [0], [], []
    transfer_s = world.transfer_s
    for server in range(world.servers):
        slot_s = float(plan.slot_s[server])
        if math.isfinite(slot_s) and world.starts[server] < world.starts[server + 1]:
            queue = make_queue(plan, world, server)
            number = 0
            while (at_s := (number + 0.5) * slot_s) < world.horizon_s:
                due = queue.next(at_s)
                if due is None:
                    break
                queue.record_visit(due.page, at_s)
                rows.append(row_of[due.page])
                times.append(at_s)
                # A long transfer takes several slots.
                number += max(1, math.ceil(transfer_s[rows[-1]] / slot_s))
        starts.append(len(rows))
    return Timetable(np.array(starts, dtype=np.int64), np.array(rows, dtype=np.int64), np.array(times))


def _by_rate(world: RefreshWorld, counts: Numbers, stale: Floats) -> list[dict[str, Any]]:
    """Return visits and staleness of pages in groups of nearly equal size, ordered by change rate.

    Rates that are infinite are null.
    """
    order = np.argsort(world.rate, kind="stable")
    groups = [group for group in np.array_split(order, RATE_GROUPS) if len(group)]
    means = [float(world.rate[group].mean()) * DAY_S for group in groups]
    return [
        {
            "rate_per_day": mean if math.isfinite(mean) else None,
            "pages": len(group),
            "visits_per_page": float(counts[group].mean()),
            "staleness": float(stale[group].mean()),
        }
        for group, mean in zip(groups, means, strict=True)
    ]


def _write(out: Path, scenario: Scenario, world: RefreshWorld, table: Timetable) -> None:
    # A stable sort by page keeps each page's visits in the order of the timetable.
    order = np.argsort(table.page, kind="stable")
    # repr keeps every digit, so that a reader of the file gets the same times.
    times = [repr(time).removesuffix(".0") for time in table.due_s[order].tolist()]
    ends = np.cumsum(np.bincount(table.page, minlength=len(world))).tolist()
    begins = [0, *ends[:-1]]
    place = {name: row for row, name in enumerate(scenario.names_of(world))}
    with out.open("w", encoding="utf-8", newline="") as file:
        rows = CsvWriter(file)
        rows.writerow(("page", "count", "times"))
        for name in scenario.pages:
            row = place[name]
            rows.writerow((name, ends[row] - begins[row], ";".join(times[begins[row] : ends[row]])))
