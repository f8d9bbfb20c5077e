"""Cost of a simulated day (P2): worlds of P6's kind, K crawlers, and its growth with the visits.

    python -m bench.simulate [--pages 100000,1000000] [--policies psp,edf,index] [--rounds 3] [--theta 1] [--unit hour]
                             [--seed 1] [--write FILE.json]

A world has one server for 500 pages, and ten crawlers make 8.64 visits a page and day, P = 15 s: a million pages are
the paper's own case. Each size and policy runs in a process of its own, so its peak of memory is its own. `simulate_s`
is the timeline and the exact staleness of its visits, without the plan (`plan_s`), in processor time, which on a shared
machine excludes the work of others; `wall_s` is all of it in wall time. The best of all rounds counts, on one core.
Rows that are not `compiled` are the timeline in Python, on a small world.
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
from typing import Any

import numpy as np

from teia.clock import WallClock

UNIT_S = {"day": 86_400.0, "hour": 3600.0}
PAGES_PER_SERVER = 500
VISITS_PER_PAGE = 8.64
CRAWLERS = 10
DAY_S = 86_400.0
DEFAULT_PAGES = (100_000, 1_000_000)
DEFAULT_POLICIES = ("psp", "edf", "index")
PLAIN_PAGES = 20_000


class ProcessorClock(WallClock):
    """A clock that counts the processor time of this process."""

    def ticks_s(self) -> float:
        return time.process_time()


def measure_one(
    pages: int, policy: str, rounds: int, theta: float, unit: str, seed: int, plain: bool
) -> dict[str, Any]:
    from teia.lab.simulate.compiled import make_timeline
    from teia.lab.simulate.run import SimulationSettings, simulate
    from teia.lab.simulate.timeline import PlainTimeline
    from teia.refresh.model import Crawlers
    from teia.refresh.policies import find_policy
    from teia.refresh.scenario import draw_world

    world = draw_world(
        np.random.default_rng(seed),
        pages=pages,
        servers=max(1, pages // PAGES_PER_SERVER),
        theta=theta,
        rate_unit_s=UNIT_S[unit],
        horizon_s=DAY_S,
        politeness_s=15.0,
        budget=int(VISITS_PER_PAGE * pages),
        crawlers=Crawlers(CRAWLERS, VISITS_PER_PAGE * pages / DAY_S / CRAWLERS),
    )
    spent = []
    for _ in range(rounds):
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        outcome = simulate(
            world,
            find_policy(policy),
            SimulationSettings(DAY_S),
            ProcessorClock(),
            timeline=PlainTimeline if plain else make_timeline,
        )
        cpu_s, wall_s = time.process_time() - began_cpu_s, time.perf_counter() - began_s
        spent.append((outcome.simulate_s, outcome.plan_s, cpu_s, wall_s))
    simulate_s, plan_s, cpu_s, wall_s = (min(each) for each in zip(*spent, strict=True))
    return {
        "n": pages,
        "servers": world.servers,
        "policy": policy,
        "compiled": not plain,
        "visits": outcome.visits,
        "simulate_s": round(simulate_s, 3),
        "plan_s": round(plan_s, 3),
        "cpu_s": round(cpu_s, 3),
        "wall_s": round(wall_s, 3),
        "us_a_visit": round(1e6 * simulate_s / max(1, outcome.visits), 3),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "staleness": round(outcome.staleness, 5),
        "late_p99_s": round(outcome.lateness.quantile_s(0.99), 2),
    }


def measure(
    sizes: list[int],
    policies: list[str],
    *,
    rounds: int,
    theta: float,
    unit: str,
    seed: int,
    progress: Callable[[str], object],
) -> dict[str, Any]:
    runs = [(pages, policy, False) for pages in sizes for policy in policies]
    runs += [(min(PLAIN_PAGES, *sizes), policy, True) for policy in policies]
    rows = []
    for pages, policy, plain in runs:
        progress(f"{policy}: {pages:,} pages{', in Python' if plain else ''}")
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            arguments = (pages, policy, 1 if plain else rounds, theta, unit, seed, plain)
            rows.append(pool.apply(measure_one, arguments))
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
    parser.add_argument("--policies", default=",".join(DEFAULT_POLICIES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--theta", type=float, default=1.0)
    parser.add_argument("--unit", choices=sorted(UNIT_S), default="hour")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, default=None, help="write the result to a file")
    options = parser.parse_args()
    result = measure(
        [int(each) for each in options.pages.split(",")],
        options.policies.split(","),
        rounds=options.rounds,
        theta=options.theta,
        unit=options.unit,
        seed=options.seed,
        progress=print,
    )
    text = json.dumps(result, indent=1)
    print(text)
    if options.write is not None:
        options.write.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
