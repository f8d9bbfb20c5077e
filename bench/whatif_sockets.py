"""What-if predictions compared with real crawls on a fast clock, by the lab's ground truth.

    python -m bench.whatif_sockets [--webs skewed,uniform,mix] [--days 13] [--from-day 5] [--factor 4000] [--at-once 2]
                                   [--write FILE.md]

Three webs that differ in everything: distribution of rates, change process, number of hosts, visits per page. Each is
crawled three times from nothing, as in bench.keep_fresh: as it is, with another delay, and with another policy. The
first collection alone predicts the other two; the other two crawls show what really happens. `true` is the mean over
all pages and the days after `--from-day`: a capture is fresh from a visit until the page's next meaningful change. By
then a web must have been discovered: a page that was not visited yet is not fresh. `unread` are answers whose parsing
was cut off: such pages count as broken and are not visited again, which no prediction knows. A crawl takes days x
86,400 / factor seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.keep_fresh import DAY_S, crawl, read_visits, settings, truth
from teia.clock import FastClock, VirtualClock, WallClock, from_iso
from teia.lab.measure.true_freshness import true_freshness
from teia.lab.server.listen import check_loopback
from teia.lab.server.process import lab_process
from teia.lab.server.requestlog import read_log
from teia.lab.server.witness import early_requests
from teia.lab.whatif.answer import Side, WhatIfRequest, what_if
from teia.lab.world.spec import WorldSpec
from teia.lab.world.world import World
from teia.store.root import Root, open_root
from teia.views.reports.source import open_source, snapshot

FIRST_NET = 170
"""Labs that run at the same time have addresses of their own, from 127.77.170.1."""

IN_STEP = 0.75
"""Share of the visits allowed by its delay that a crawl must make to have kept up with its clock."""

SPEC = """
seed = {seed}
hosts = {hosts}
pages = {pages}
time_factor = {factor}
sites = {{ theta = {theta}, nxdomain = 0, unreachable = 0, mirrors = 0, aliases = 0, shared_address = 0 }}
errors = {{ scale = 0 }}
robots = {{ present = 0 }}
urls = {{ sessions = 0 }}
links = {{ orphans = 0 }}
text = {{ pdfs = 0 }}
feeds = {{ rss = 0, atom = 0 }}
validators = {{ eager = 0, frozen = 0 }}
changes = {{ {changes} }}
"""
POISSON = "poisson = 1.0, pareto = 0.0, regular = 0.0"


@dataclass(frozen=True)
class Case:
    """One web and the three ways in which it is crawled: as it is, with another delay, with another policy."""

    hosts: int
    pages: int
    theta: float
    changes: str
    seed: int
    delay_s: float
    other_delay_s: float
    other_policy: str
    policy: str = "edf"
    about: str = ""

    @property
    def ways(self) -> list[tuple[str, float, str]]:
        return [
            ("as it is", self.delay_s, self.policy),
            (f"delay {self.other_delay_s:g} s", self.other_delay_s, self.policy),
            (f"policy {self.other_policy}", self.delay_s, self.other_policy),
        ]


CASES = {
    "skewed": Case(
        4, 240, 0.0, f'{POISSON}, rates = "zipf:1.5", slowest = 0.01, fastest = 100.0', 3, 1350.0, 2700.0,
        "round-robin", about="few large hosts, few pages that change often, Poisson",
    ),
    "uniform": Case(
        32, 320, 0.2, f'{POISSON}, rates = "uniform", slowest = 0.01, fastest = 3.0', 5, 7200.0, 3600.0, "index",
        about="many small hosts, rates spread evenly, Poisson",
    ),
    "mix": Case(
        8, 320, 0.2, 'rates = "zipf:1.0", slowest = 0.05, fastest = 20.0', 9, 2700.0, 1350.0, "round-robin",
        about="Wolf's mix: 60% Poisson, 30% Pareto, 10% regular",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class CrawlResult:
    """Result of one crawl: the truth, and the predictions of the first of a web (label, side of the answer)."""

    web: str
    way: str
    true: float
    visits_per_day: float
    early: int
    unread: int
    predicted: tuple[tuple[str, Side], ...] = ()
    tested: str = ""

    def kept_pace(self, case: Case, delay_s: float) -> bool:
        """Tell whether the crawl kept up with its clock: most slots of its hosts were used, and every answer was
        parsed.

        This says nothing of freshness. What-if assumes a crawler that is late by as much as the log shows. A crawl that
        gets less processor time now than then has other delays than those in its settings.
        """
        return self.visits_per_day >= IN_STEP * case.hosts * DAY_S / delay_s and not self.unread


def run_crawl(
    web: str, case: Case, way: tuple[str, float, str], wanted: argparse.Namespace, folder: Path, number: int
) -> CrawlResult:
    """Crawl a web one way, and judge it; the collection crawled as it is predicts the other two."""
    label, delay_s, policy = way
    folder.mkdir()
    spec, log, address = folder / "world.toml", folder / "requests.jsonl", f"127.77.{number}.1"
    spec.write_text(SPEC.format(**vars(case), factor=wanted.factor), "utf-8")
    address_flags = ("--address", address, "--dns-address", f"127.77.255.{number}:0")
    flags = ("--spec", str(spec), "--port", "0", "--log", str(log), "--control-address", f"127.77.254.{number}")
    options = argparse.Namespace(**{**vars(wanted), "delay_s": delay_s})
    with lab_process(*flags, *address_flags) as ready:
        clock = FastClock(WallClock(), wanted.factor)
        since_s = WallClock().now_s() - clock.ticks_s() / wanted.factor
        root = open_root(folder / "data", create=True)
        with root.locked():
            asyncio.run(crawl(root, settings(root, policy, options, ready), clock, wanted.days * DAY_S))
        ended_s = clock.now_s()
        time.sleep(0.5)
    world = World(
        WorldSpec.load(spec), epoch_s=from_iso(ready["epoch"]), port=ready["port"], address=check_loopback(address)
    )

    def days(clock_s: float) -> float:
        return world.days(since_s + (clock_s - since_s) / wanted.factor)

    visits = {url: [days(each) for each in times] for url, times in read_visits(root).items()}
    later = sum(1 for times in visits.values() for each in times if each >= wanted.from_day)
    early = early_requests(read_log(log), delay_s / wanted.factor, lambda entry: entry.host)
    found: dict[str, Any] = {"predicted": (), "tested": ""}
    if label == "as it is":
        found = predict(folder / "data", case, wanted, ended_s)
    return CrawlResult(
        web,
        label,
        true_freshness(truth(world, visits, wanted.days), wanted.from_day, wanted.days),
        later / (wanted.days - wanted.from_day),
        len(early),
        count_unread(root),
        **found,
    )


def count_unread(root: Root) -> int:
    """Return the number of answers that could not be parsed."""
    with snapshot(root, "main") as cells:
        sql = "SELECT count(*) FROM visits WHERE outcome = 'parse_failed'"
        return sum(int(count) for cell in cells for (count,) in cell.frontier.rows(sql))


def predict(data: Path, case: Case, wanted: argparse.Namespace, now_s: float) -> dict[str, Any]:
    """Return a collection's predictions for itself, and for the other two ways."""
    days, sides, tested = wanted.days - wanted.from_day, [], ""
    with open_source(open_root(data), "main") as source:
        for label, delay_s, policy in case.ways:
            request = WhatIfRequest(delay_s=delay_s, policy=policy, days=days)
            answer = what_if(source, request, VirtualClock(now_s))
            assert answer.what_if is not None
            sides.append((label, answer.what_if))
            tested = f"{answer.tested.changed:,} of {answer.tested.visits:,} later visits found a change,"
            tested += f" {answer.tested.expected:,.0f} were expected; {answer.prior_share:.0%} prior"
    return {"predicted": tuple(sides), "tested": tested}


def table(found: Sequence[CrawlResult], wanted: argparse.Namespace) -> str:
    lines = [
        f"{wanted.days:g} days at {wanted.factor:g} times their speed, judged from day {wanted.from_day:g} on. The",
        "error is that of the prediction, relative to the truth. Predictions use the first crawl of each web alone.",
        "",
        "| web | way | predicted | 90% interval | bound | true | error | visits/day: plan, made | early | unread |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    by_way = {(one.web, one.way): one for one in found}
    for web in dict.fromkeys(one.web for one in found):
        for way, side in by_way[web, "as it is"].predicted:
            real, fresh = by_way[web, way], side.fresh
            cells = (
                f"{fresh.mean:.4f}",
                f"{fresh.low:.4f} to {fresh.high:.4f}",
                f"{side.bound:.4f}",
                f"{real.true:.4f}",
            )
            error = f"{fresh.mean / real.true - 1:+.1%}"
            counts = f"{side.visits_per_day:,.0f}, {real.visits_per_day:,.0f}"
            lines.append(f"| {web} | {way} | {' | '.join(cells)} | {error} | {counts} | {real.early} | {real.unread} |")
    lines.append("")
    for web in dict.fromkeys(one.web for one in found):
        case = CASES[web]
        lines.append(
            f"- {web}: {case.pages} URLs on {case.hosts} hosts, {case.about}; as it is: {case.policy},"
            f" a delay of {case.delay_s:g} s; {by_way[web, 'as it is'].tested}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--webs", default=",".join(CASES))
    parser.add_argument("--days", type=float, default=13.0)
    parser.add_argument("--from-day", type=float, default=5.0)
    parser.add_argument("--factor", type=float, default=4_000.0)
    parser.add_argument("--at-once", type=int, default=2, help="number of crawls at the same time")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--keep", type=Path, help="leave the collections in this folder, which must not exist")
    wanted = parser.parse_args()
    runs = [(web, way) for web in wanted.webs.split(",") for way in CASES[web].ways]
    with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor(wanted.at_once) as pool:
        folder = Path(name) if wanted.keep is None else wanted.keep
        folder.mkdir(exist_ok=wanted.keep is None)
        jobs = [
            pool.submit(run_crawl, web, CASES[web], way, wanted, folder / f"{number}-{web}", FIRST_NET + number)
            for number, (web, way) in enumerate(runs)
        ]
        found = [job.result() for job in jobs]
    print(table(found, wanted))
    if wanted.write is not None:
        wanted.write.write_text(table(found, wanted) + "\n", "utf-8")


if __name__ == "__main__":
    main()
