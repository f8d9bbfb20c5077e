"""The estimate of freshness compared with the truth: twelve webs of the lab, at crawl ages of 1, 3 and 10 days.

    python -m bench.calibration [--seed 1] [--pages 480] [--hosts 24] [--visits 2.5] [--worlds 0,5,11] [--at-once 2]
                                [--results FILE.json] [--write FILE.md]

The webs differ in the process of changes (Poisson, Wolf's mix), in their speed, in the validators of their servers
(honest, or 30% that answer 304 to everything), and in sitemaps (none, or honest and lying ones). 30% of the changes are
cosmetic. Each is crawled from nothing and kept fresh, with `--visits` visits of a page a day. Each has a seed of its
own, so that its pages change at other times than those of the others. Frontier, commit, plans and reports are the real
ones; the web is in memory and the clock is turned by hand, so a seed gives the same numbers on any machine. `estimate`
and `error` are those of `teia report freshness`, `true` is the share of captures that equal their pages at that
instant.

Finished webs are kept in `--results`, and the same command continues.

A second table compares a web in which a tenth of the servers answer 304 to everything with one in which none does, with
the same number of requests: the true freshness from the third day on.

The command ends with 1 if one of these fails: the truth is inside the interval at 90% of the points, the mean error is
at most 2 points, that of no web is above 5, and the lying tenth costs at most 5% of the freshness.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from teia.lab.measure.live_freshness import measure_freshness
from teia.store.root import open_root
from teia.views.reports.freshness import freshness
from teia.views.reports.source import open_source
from tests.crawler.fresh_crawls import DAY_S, FreshWeb, fresh_web, quiet_world

AGES = (1.0, 3.0, 10.0)
"""Days of the web since the crawl began."""

MEASURED = ("age", "true", "estimate", "error")
FROM_DAY = 3.0
INSIDE, MEAN_ERROR, WORST_ERROR, HONEST_SHARE = 0.9, 0.02, 0.05, 0.95

PROCESSES = {"Poisson": {"changes__pareto": 0.0, "changes__regular": 0.0}, "Wolf's mix": {}}
VALIDATORS = {
    "honest": {"validators__honest": 0.8},
    "lying": {"validators__honest": 0.5, "validators__frozen": 0.3},
}
SPEEDS = {
    "fast": {"changes__slowest": 0.05, "changes__fastest": 6.0},
    "slow": {"changes__slowest": 0.01, "changes__fastest": 0.5},
}
SITEMAPS = {
    "none": {"sitemaps__honest": 0.0, "sitemaps__lying": 0.0, "sitemaps__bare": 0.0},
    "sitemaps": {"sitemaps__honest": 0.5, "sitemaps__lying": 0.1, "sitemaps__bare": 0.1},
}


@dataclass(frozen=True, slots=True)
class CalibrationCase:
    """One web: the process of its changes, its validators, its speed, and its sitemaps."""

    process: str
    validators: str
    speed: str
    sitemaps: str = "none"

    @property
    def name(self) -> str:
        words = [self.process, self.validators, self.speed, *(["sitemaps"] if self.sitemaps != "none" else [])]
        return ", ".join(words)

    @property
    def values(self) -> dict[str, Any]:
        parts = (PROCESSES[self.process], VALIDATORS[self.validators], SPEEDS[self.speed], SITEMAPS[self.sitemaps])
        return {key: value for part in parts for key, value in part.items()}


CASES = [
    *(
        CalibrationCase(process, validators, speed)
        for process in PROCESSES
        for validators in VALIDATORS
        for speed in SPEEDS
    ),
    CalibrationCase("Poisson", "honest", "fast", "sitemaps"),
    CalibrationCase("Poisson", "lying", "slow", "sitemaps"),
    CalibrationCase("Wolf's mix", "honest", "slow", "sitemaps"),
    CalibrationCase("Wolf's mix", "lying", "fast", "sitemaps"),
]


@dataclass(frozen=True, slots=True)
class WebSize:
    """Size of a web, and the number of visits of a page a day."""

    pages: int = 480
    hosts: int = 24
    visits: float = 2.5
    seed: int = 1

    @property
    def slot_s(self) -> float:
        """Time between two requests to a host."""
        return DAY_S * self.hosts / (self.pages * self.visits)


@dataclass(frozen=True, slots=True)
class CalibrationPoint:
    """The estimate and the truth at one age of a crawl."""

    case: CalibrationCase
    age: float
    true: float
    estimate: float
    error: float

    @property
    def difference(self) -> float:
        return self.estimate - self.true

    @property
    def is_inside(self) -> bool:
        return abs(self.difference) <= self.error


def run_case(case: CalibrationCase, size: WebSize, ages: Sequence[float] = AGES) -> list[CalibrationPoint]:
    """Crawl a web, and compare the estimate with the truth at each age."""
    with tempfile.TemporaryDirectory() as name:
        world = quiet_world(
            pages=size.pages,
            hosts=size.hosts,
            seed=size.seed,
            sites__theta=0.3,
            sitemaps__fast_dates=True,
            **case.values,
        )
        with fresh_web(world, Path(name), courtesy__delay_s=size.slot_s) as web:
            web.announce_sitemaps()
            return [_point(case, web, age, size.slot_s) for age in ages]


def _point(case: CalibrationCase, web: FreshWeb, age: float, slot_s: float) -> CalibrationPoint:
    web.run(age - web.world.days(web.clock.at_s), slot_s)
    root = open_root(web.data)
    with open_source(root, "main") as source:
        found = freshness(source, clock=web.clock)
    true = measure_freshness(web.world, root, "main", web.clock.at_s)
    if true is None or found.fresh is None or found.error is None:
        raise RuntimeError(f"{case.name}: there is no page after {age:g} days")
    return CalibrationPoint(case, age, true, found.fresh, found.error)


def run_cases(
    pool: Executor, cases: Sequence[CalibrationCase], sizes: Sequence[WebSize], results: Path | None = None
) -> list[CalibrationPoint]:
    """Run the cases that are not in the file of results yet, and add them to it one by one."""
    done: dict[str, list[dict[str, float]]] = {}
    if results is not None and results.exists():
        done = json.loads(results.read_text("utf-8"))
    keys = [f"{case.name} {astuple(size)}" for case, size in zip(cases, sizes, strict=True)]
    left = [number for number, key in enumerate(keys) if key not in done]
    found = pool.map(run_case, [cases[number] for number in left], [sizes[number] for number in left])
    for number, points in zip(left, found, strict=True):
        done[keys[number]] = [{name: getattr(point, name) for name in MEASURED} for point in points]
        if results is not None:
            results.write_text(json.dumps(done), "utf-8")
    return [CalibrationPoint(case, **point) for case, key in zip(cases, keys, strict=True) for point in done[key]]


def run_lying(frozen: float, size: WebSize, days: float = AGES[-1]) -> float:
    """Return the true freshness of a web in which a share of the servers answers 304 to everything."""
    values = CalibrationCase("Poisson", "honest", "fast").values | {
        "validators__honest": 1.0 - frozen,
        "validators__frozen": frozen,
    }
    world = quiet_world(pages=size.pages, hosts=size.hosts, seed=size.seed, sites__theta=0.3, **values)
    with tempfile.TemporaryDirectory() as name, fresh_web(world, Path(name), courtesy__delay_s=size.slot_s) as web:
        web.run(days, size.slot_s)
        return web.copied_freshness(min(FROM_DAY, days / 2))


@dataclass(frozen=True, slots=True)
class CalibrationSummary:
    """All points together; `kept` is the freshness of a web with lying servers as a share of that of an honest one."""

    points: int
    inside: float
    mean_error: float
    bias: float
    worst: str
    worst_error: float
    kept: float

    @property
    def is_reached(self) -> bool:
        is_calibrated = self.inside >= INSIDE and self.mean_error <= MEAN_ERROR and self.worst_error <= WORST_ERROR
        return is_calibrated and self.kept >= HONEST_SHARE


def summarize(points: Sequence[CalibrationPoint], kept: float = 1.0) -> CalibrationSummary:
    errors = {
        case.name: mean(abs(point.difference) for point in points if point.case == case)
        for case in dict.fromkeys(point.case for point in points)
    }
    worst = max(errors, key=errors.__getitem__)
    return CalibrationSummary(
        points=len(points),
        inside=mean(point.is_inside for point in points),
        mean_error=mean(abs(point.difference) for point in points),
        bias=mean(point.difference for point in points),
        worst=worst,
        worst_error=errors[worst],
        kept=kept,
    )


def table(points: Sequence[CalibrationPoint], size: WebSize, lying: Sequence[float]) -> str:
    lines = [
        f"{size.pages} pages on {size.hosts} hosts, {size.visits:g} visits of a page a day, seed {size.seed}; percent.",
        "",
        "| web | days | true | estimate | error of 95% | difference | inside |",
        "|---|---|---|---|---|---|---|",
    ]
    for point in points:
        numbers = (f"{100 * each:.1f}" for each in (point.true, point.estimate, point.error))
        inside = "yes" if point.is_inside else "no"
        cells = (point.case.name, f"{point.age:g}", *numbers, f"{100 * point.difference:+.1f}", inside)
        lines.append(f"| {' | '.join(cells)} |")
    found = summarize(points, lying[1] / lying[0])
    worst = f"{100 * found.worst_error:.1f} points ({found.worst})"
    lines += [
        "",
        f"The truth is inside the interval at {found.inside:.0%} of {found.points} points. The mean error is"
        f" {100 * found.mean_error:.1f} points, the mean difference {100 * found.bias:+.1f}; the worst web: {worst}.",
        "",
        f"True freshness if no server lies: {lying[0]:.1%}; if a tenth answers 304 to everything: {lying[1]:.1%},"
        f" which is {found.kept:.1%} of it.",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind in (("pages", int), ("hosts", int), ("visits", float), ("seed", int)):
        parser.add_argument(f"--{name}", type=kind, default=getattr(WebSize(), name))
    parser.add_argument("--worlds", default=",".join(map(str, range(len(CASES)))), help="numbers of the webs")
    parser.add_argument("--at-once", type=int, default=2, help="number of crawls at the same time")
    parser.add_argument("--results", type=Path, help="file of finished webs, from which the command continues")
    parser.add_argument("--write", type=Path)
    wanted = parser.parse_args()
    size = WebSize(wanted.pages, wanted.hosts, wanted.visits, wanted.seed)
    cases = [CASES[int(number)] for number in wanted.worlds.split(",")]
    # A seed of its own for each web, or all would have the same pages with the same luck.
    sizes = [replace(size, seed=100 * size.seed + CASES.index(case)) for case in cases]
    with ProcessPoolExecutor(wanted.at_once) as pool:
        points = run_cases(pool, cases, sizes, wanted.results)
        shares = list(pool.map(partial(run_lying, size=size), (0.0, 0.1)))
    text = table(points, size, shares)
    print(text)
    if wanted.write is not None:
        wanted.write.write_text(text + "\n", "utf-8")
    sys.exit(0 if summarize(points, shares[1] / shares[0]).is_reached else 1)


if __name__ == "__main__":
    main()
