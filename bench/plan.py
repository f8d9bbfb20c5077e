"""Cost of a plan (P8): counts, MERGE and intensities for worlds of P6's kind, and its growth with the pages.

    python -m bench.plan [--pages 100000,1000000] [--rounds 5] [--theta 1] [--unit hour] [--seed 1] [--write FILE.json]

A world has one server for 500 pages, a budget of 8.64 visits a page and day, P = 15 s, T = 24 h: a million pages are
the paper's own case. Each size runs in a process of its own, so its peak of memory is its own. Everything runs on one
core. Seconds are the best of all rounds: `s` is wall time, which on a shared machine includes the work of others,
`cpu_s` processor time. `mb` is the peak above the memory of the process after it made the world.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

Result = TypeVar("Result")
UNIT_S = {"day": 86_400.0, "hour": 3600.0}
PAGES_PER_SERVER = 500
VISITS_PER_PAGE = 8.64
DEFAULT_PAGES = (100_000, 1_000_000)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def best_of(rounds: int, name: str, work: Callable[[], Result]) -> tuple[dict[str, float], Result]:
    wall, cpu = [], []
    for _ in range(rounds):
        began, began_cpu = time.perf_counter(), time.process_time()
        result = work()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - began_cpu)
    return {f"{name}_s": round(min(wall), 3), f"{name}_cpu_s": round(min(cpu), 3)}, result


def measure_one(pages: int, rounds: int, theta: float, unit: str, seed: int) -> dict[str, Any]:
    from teia.lab.simulate.bounds import timetable_staleness, weak_politeness
    from teia.refresh.counts import plan_counts
    from teia.refresh.intensities import plan_intensities
    from teia.refresh.merge import merge
    from teia.refresh.scenario import draw_world

    world = draw_world(
        np.random.default_rng(seed),
        pages=pages,
        servers=max(1, pages // PAGES_PER_SERVER),
        theta=theta,
        rate_unit_s=UNIT_S[unit],
        horizon_s=86_400.0,
        politeness_s=15.0,
        budget=int(VISITS_PER_PAGE * pages),
    )
    before_mb = peak_mb()
    spent, counts = best_of(rounds, "counts", lambda: plan_counts(world))
    merged, table = best_of(rounds, "merge", lambda: merge(world, counts))
    rated, _ = best_of(rounds, "rates", lambda: plan_intensities(world))
    spent |= merged | rated
    planned_mb = peak_mb()
    return {
        "n": pages,
        "servers": world.servers,
        "visits": len(table),
        **spent,
        "cpu_us_a_page": round(sum(spent[f"{name}_cpu_s"] for name in ("counts", "merge", "rates")) / pages * 1e6, 3),
        "peak_rss_mb": round(planned_mb),
        "mb": round(planned_mb - before_mb),
        "wp": round(weak_politeness(world), 5),
        "inf_crawlers": round(timetable_staleness(world, table), 5),
    }


def measure(
    sizes: list[int], *, rounds: int, theta: float, unit: str, seed: int, progress: Callable[[str], object]
) -> dict[str, Any]:
    rows = []
    for pages in sizes:
        progress(f"{pages:,} pages, {rounds} rounds")
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            rows.append(pool.apply(measure_one, (pages, rounds, theta, unit, seed)))
    return {
        "rows": rows,
        "theta": theta,
        "rate_unit": unit,
        "rounds": rounds,
        "load_average": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", default=",".join(map(str, DEFAULT_PAGES)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--theta", type=float, default=1.0)
    parser.add_argument("--unit", choices=sorted(UNIT_S), default="hour")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, default=None, help="write the result to a file")
    options = parser.parse_args()
    sizes = [int(each) for each in options.pages.split(",")]
    result = measure(
        sizes, rounds=options.rounds, theta=options.theta, unit=options.unit, seed=options.seed, progress=print
    )
    text = json.dumps(result, indent=1)
    print(text)
    if options.write is not None:
        options.write.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
