"""What-if predictions compared with what then happens: freshness, requests a day, and the end of a crawl.

    python -m bench.whatif [--webs skewed,uniform,mix] [--days 8] [--seed 1] [--results FILE.json] [--write FILE.md]

Three webs that differ in everything: distribution of rates, change process, number of hosts, visits per page. Each is
crawled from nothing for `--days`. Then its collection predicts the freshness and the requests a day with another delay
and with another policy, and a copy of it really continues with each: the truth is the mean over all pages and the next
`--days` after the change has settled, by the lab's changes. A second crawl, when half of its pages were visited,
predicts when all URLs that wait would be visited once with the other delay, and continues so too. Each prediction has
an interval that should hold the truth in 90 of 100 cases.

Frontier, commit, plans and predictions are the real ones; the web is in memory and the clock is turned by hand, so a
seed gives the same numbers on any machine. `bench.whatif_sockets` does the same over sockets on a fast clock. Finished
webs are kept in `--results`, and the same command continues.

The command ends with 1 if a prediction is more than 5% from the truth.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from teia.lab.whatif.answer import Side, WhatIf, WhatIfRequest, what_if
from teia.lab.whatif.judging import MeanEstimate
from teia.lab.world.world import World
from teia.store.root import open_root
from teia.transfer.read_all import known_urls
from teia.views.reports.source import open_source
from tests.crawler.fresh_crawls import DAY_S, EPOCH_S, ManualClock, fresh_web, quiet_world

WITHIN = 0.05
NO_ROBOTS = 1e8
"""Age of robots.txt up to which it is not read again: the webs here have none."""

POISSON = {"changes__poisson": 1.0, "changes__pareto": 0.0, "changes__regular": 0.0}


@dataclass(frozen=True)
class WhatIfCase:
    """One web, the delay with which it is crawled, and the other settings that are predicted."""

    name: str
    about: str
    world: dict[str, Any]
    delay_s: float
    other_delay_s: float
    other_policy: str

    def make_world(self, seed: int) -> World:
        return quiet_world(**self.world, seed=seed)

    @property
    def changed(self) -> list[tuple[str, dict[str, Any]]]:
        return [
            (f"delay {self.other_delay_s:g} s", {"delay_s": self.other_delay_s}),
            (f"policy {self.other_policy}", {"policy": self.other_policy}),
        ]


CASES = {
    case.name: case
    for case in (
        WhatIfCase(
            "skewed",
            "few large hosts, few pages that change often, Poisson",
            {"pages": 240, "hosts": 4, "sites__theta": 0.0, "changes__rates": "zipf:1.5", "changes__fastest": 100.0}
            | POISSON,
            1_350.0,
            2_700.0,
            "round-robin",
        ),
        WhatIfCase(
            "uniform",
            "many small hosts, rates spread evenly, Poisson",
            {"pages": 320, "hosts": 32, "sites__theta": 0.2, "changes__fastest": 3.0} | POISSON,
            7_200.0,
            3_600.0,
            "index",
        ),
        WhatIfCase(
            "mix",
            "Wolf's mix: 60% Poisson, 30% Pareto, 10% regular",
            {"pages": 320, "hosts": 8, "sites__theta": 0.2, "changes__rates": "zipf:1.0"}
            | {"changes__slowest": 0.05, "changes__fastest": 20.0},
            2_700.0,
            1_350.0,
            "round-robin",
        ),
    )
}


@dataclass(frozen=True)
class WhatIfPoint:
    """One prediction and the truth; `figure` is freshness, requests a day, or the days until a crawl ends."""

    web: str
    way: str
    figure: str
    predicted: float
    low: float
    high: float
    true: float

    @property
    def error(self) -> float:
        return self.predicted / self.true - 1.0

    @property
    def is_inside(self) -> bool:
        return self.low <= self.true <= self.high


def run_case(case: WhatIfCase, folder: Path, days: float, seed: int) -> list[WhatIfPoint]:
    """Crawl a web as it is for some days, predict other settings, and continue with each of them."""
    world, points, as_is = case.make_world(seed), [], folder / "as-it-is"
    with _kept(world, as_is, case.delay_s) as web:
        web.run(days, case.delay_s)
        taken, now_s = list(web.taken), web.clock.at_s
    for number, (way, values) in enumerate(case.changed):
        copy = folder / str(number)
        shutil.copytree(as_is, copy)
        answer, side = predict(copy / "data", now_s, days, **values)
        from_day = days + answer.settling_days
        with _kept(world, copy, side.terms.delay_s, now_s, side.terms.policy) as web:
            web.taken = list(taken)
            web.run(answer.settling_days + days, side.terms.delay_s)
            requests = sum(1 for time_s, _ in web.taken if time_s > EPOCH_S + from_day * DAY_S) / days
            points += [
                _point(case, way, "fresh", side.fresh, web.freshness(from_day)),
                _point(case, way, "requests a day", side.requests, requests),
            ]
    return [*points, finish_of(case, world, folder / "half")]


def finish_of(case: WhatIfCase, world: World, folder: Path) -> WhatIfPoint:
    """Crawl half of a web, predict when the URLs that wait are visited with another delay, and continue so."""
    pages = sum(host.size for host in world.hosts)
    with _kept(world, folder, case.delay_s) as web:
        while len(web.visits()) < pages / 2:
            web.run(case.delay_s / DAY_S, case.delay_s)
        now_s, known = web.clock.at_s, set(web.visits())
    waiting = {each["url"] for each in known_urls(open_root(folder / "data"), "main") if each["state"] == "queued"}
    _, side = predict(folder / "data", now_s, 7.0, delay_s=case.other_delay_s)
    assert side.finish_s is not None
    with _kept(world, folder, case.other_delay_s, now_s) as web:
        while waiting - known:
            web.run(case.other_delay_s / DAY_S, case.other_delay_s)
            known |= {url for time_s, url in web.taken if time_s >= web.clock.at_s}
        in_days = MeanEstimate(*(each / DAY_S for each in (side.finish_s.mean, side.finish_s.low, side.finish_s.high)))
        way = f"delay {case.other_delay_s:g} s"
        return _point(case, way, "days to the end", in_days, (web.clock.at_s - now_s) / DAY_S)


def _kept(world: World, folder: Path, delay_s: float, now_s: float = EPOCH_S, policy: str = "edf") -> Any:
    flags = {"courtesy__delay_s": delay_s, "courtesy__robots_max_age_s": NO_ROBOTS, "refresh__policy": policy}
    return fresh_web(world, folder, now_s, **flags)


def predict(data: Path, now_s: float, days: float, **values: Any) -> tuple[WhatIf, Side]:
    """Return what a collection would be like with other settings."""
    with open_source(open_root(data), "main") as source:
        answer = what_if(source, WhatIfRequest(days=days, **values), ManualClock(now_s))
    assert answer.what_if is not None
    return answer, answer.what_if


def _point(case: WhatIfCase, way: str, figure: str, found: MeanEstimate, true: float) -> WhatIfPoint:
    return WhatIfPoint(case.name, way, figure, found.mean, found.low, found.high, true)


def table(points: Sequence[WhatIfPoint], days: float, seed: int) -> str:
    lines = [
        f"{days:g} days before and after the change, seed {seed}. The error is relative to the truth.",
        "",
        "| web | change | figure | predicted | 90% interval | true | error | inside |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for point in points:
        digits = 1 if point.true > 10 else 4 if point.figure == "fresh" else 2
        numbers = [f"{each:,.{digits}f}" for each in (point.predicted, point.low, point.high, point.true)]
        cells = (point.web, point.way, point.figure, numbers[0], f"{numbers[1]} to {numbers[2]}", numbers[3])
        lines.append(f"| {' | '.join(cells)} | {point.error:+.1%} | {'yes' if point.is_inside else 'no'} |")
    inside = mean(point.is_inside for point in points)
    worst = max(points, key=lambda point: abs(point.error))
    lines += [
        "",
        f"The largest error is {worst.error:+.1%} ({worst.web}, {worst.way}, {worst.figure}); {inside:.0%} of"
        f" {len(points)} intervals hold the truth.",
        "",
        *(f"- {case.name}: {case.about}; as it is: a delay of {case.delay_s:g} s, edf" for case in CASES.values()),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--webs", default=",".join(CASES))
    parser.add_argument("--days", type=float, default=8.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, help="file of finished webs, from which the command continues")
    parser.add_argument("--write", type=Path)
    wanted = parser.parse_args()
    size = (wanted.days, wanted.seed)
    is_begun = wanted.results is not None and wanted.results.exists()
    done: dict[str, list[dict[str, Any]]] = json.loads(wanted.results.read_text("utf-8")) if is_begun else {}
    points: list[WhatIfPoint] = []
    for web in wanted.webs.split(","):
        key = f"{web} {size}"
        if key not in done:
            with tempfile.TemporaryDirectory() as name:
                seed = 100 * wanted.seed + list(CASES).index(web)
                found = run_case(CASES[web], Path(name), wanted.days, seed)
                done[key] = [asdict(point) for point in found]
            if wanted.results is not None:
                wanted.results.write_text(json.dumps(done), "utf-8")
        points += [WhatIfPoint(**each) for each in done[key]]
    text = table(points, *size)
    print(text)
    if wanted.write is not None:
        wanted.write.write_text(text + "\n", "utf-8")
    sys.exit(0 if all(abs(point.error) <= WITHIN for point in points) else 1)


if __name__ == "__main__":
    main()
