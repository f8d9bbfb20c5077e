"""Refresh policies in real crawls on a fast clock, judged by the lab's ground truth (P9).

    python -m bench.keep_fresh [--days 12] [--factor 4000] [--pages 320] [--hosts 8] [--write FILE.md]

For each policy a lab serves the same web, whose pages change `factor` times as fast as they would, and the crawler uses
an equally fast clock (teia.clock.FastClock). It discovers the web, learns the change rates from its own visits and
keeps its pages fresh, for so many days of the web. Everything else is as in any crawl: sockets, children, archive,
politeness, whose delay is in seconds of the web. Then each page's visits are compared with its true changes: a capture
is fresh from a visit until the next meaningful change. The result is the mean over all pages and the days after
`--from-day`; `late` is the mean over the second half of these. `early` counts requests that came before the delay was
over, by the lab's own log. A day takes 86,400 / factor seconds for each policy.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teia.clock import FastClock, WallClock, from_iso
from teia.collections.settings import configure
from teia.config.sections import Config, LimitSettings
from teia.crawler.start import open_crawler
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import url_from
from teia.lab.measure.true_freshness import PageTruth, true_freshness
from teia.lab.server.listen import check_loopback
from teia.lab.server.process import lab_process
from teia.lab.server.requestlog import read_log
from teia.lab.server.witness import early_requests
from teia.lab.world.spec import WorldSpec
from teia.lab.world.url_kinds import UrlKind
from teia.lab.world.world import World
from teia.store.root import Root, open_root

DAY_S = 86_400.0
POLICIES = ("edf", "round-robin", "proportional", "rate-update", "index", "psp")
COMMIT_S = 0.05
LIMITS = LimitSettings()
"""Limits for a silent server and for parsing a page.

The crawler counts both on its fast clock. A transfer that it gives up ends sooner for it than for the lab, so the next
request would look early.
"""

FIRST_NET = 150
"""Labs that run at the same time have addresses of their own, from 127.77.150.1."""

SPEC = """
seed = {seed}
hosts = {hosts}
pages = {pages}
time_factor = {factor}
sites = {{ theta = 0.5, nxdomain = 0, unreachable = 0, mirrors = 0, aliases = 0, shared_address = 0 }}
errors = {{ scale = 0 }}
robots = {{ present = 0 }}
urls = {{ sessions = 0 }}
links = {{ orphans = 0 }}
text = {{ pdfs = 0 }}
feeds = {{ rss = 0, atom = 0 }}
validators = {{ eager = 0, frozen = 0 }}
changes = {{ slowest = {slowest}, fastest = {fastest}, rates = "{rates}" }}
"""


@dataclass(frozen=True)
class KeepFreshResult:
    """Result of one policy."""

    policy: str
    fresh: float
    late: float
    visits: int
    early: int
    seconds: float


def run_crawl(policy: str, wanted: argparse.Namespace, folder: Path, number: int) -> KeepFreshResult:
    """Crawl the web under one policy, and judge it."""
    folder.mkdir()
    spec, log = folder / "world.toml", folder / "requests.jsonl"
    spec.write_text(SPEC.format(**vars(wanted)), "utf-8")
    address = f"127.77.{number}.1"
    flags = ["--spec", str(spec), "--port", "0", "--address", address, "--log", str(log)]
    began = time.monotonic()
    with lab_process(
        *flags, "--dns-address", f"127.77.255.{number}:0", "--control-address", f"127.77.254.{number}"
    ) as ready:
        clock = FastClock(WallClock(), wanted.factor)
        since_s = WallClock().now_s() - clock.ticks_s() / wanted.factor
        root = open_root(folder / "data", create=True)
        with root.locked():
            asyncio.run(crawl(root, settings(root, policy, wanted, ready), clock, wanted.days * DAY_S))
        time.sleep(0.5)
    world = World(
        WorldSpec.load(spec), epoch_s=from_iso(ready["epoch"]), port=ready["port"], address=check_loopback(address)
    )

    def days(clock_s: float) -> float:
        return world.days(since_s + (clock_s - since_s) / wanted.factor)

    visits = {url: [days(each) for each in times] for url, times in read_visits(root).items()}
    pages = truth(world, visits, wanted.days)
    middle = (wanted.from_day + wanted.days) / 2
    entries = read_log(log)
    early = early_requests(entries, wanted.delay_s / wanted.factor, lambda entry: entry.host)
    return KeepFreshResult(
        policy,
        true_freshness(pages, wanted.from_day, wanted.days),
        true_freshness(pages, middle, wanted.days),
        sum(map(len, visits.values())),
        len(early),
        time.monotonic() - began,
    )


def settings(root: Root, policy: str, wanted: argparse.Namespace, ready: dict[str, Any]) -> Config:
    factor = wanted.factor
    flags = {
        "collection.seeds": ready["seeds"],
        "collection.cells": 1,
        "scope.include": ["suffix:.test"],
        "fetch.dns": ready["dns"],
        "fetch.allow_nets": ["127.77.0.0/16"],
        "courtesy.delay_s": wanted.delay_s,
        "courtesy.retry_wait_s": factor,
        "courtesy.response_factor": 0.0,
        "courtesy.robots_max_age_s": 365 * DAY_S,
        "commit.every_s": COMMIT_S * factor,
        "index.enabled": False,
        "sites.aliases": False,
        "sites.probe_after_pages": 0,
        "refresh.keep": True,
        "refresh.policy": policy,
        "refresh.least_s": 2 * wanted.delay_s,
        "refresh.replan_s": factor,
        "limits.seconds": wanted.days * DAY_S,
        "limits.slow_s": LIMITS.slow_s * factor,
        "limits.parse_cpu_s": LIMITS.parse_cpu_s * factor,
    }
    return configure(root, "main", None, {}, flags).config


async def crawl(root: Root, config: Config, clock: FastClock, seconds: float) -> None:
    """Run the crawler until the days are over by its clock."""
    async with open_crawler(root, [config], clock, seed=1) as crawler:
        running = asyncio.create_task(crawler.run())
        await asyncio.wait([running], timeout=2 * seconds / clock.factor + 60)
        crawler.stop_now()
        await running


def read_visits(root: Root) -> dict[str, list[float]]:
    """Return the times at which each page was visited and answered, by the crawl's own clock."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    for folder in root.collection("main").cells():
        cell = FrontierCell(folder.frontier, read_only=True)
        sql = """
            SELECT h.name, u.tail, v.time_s FROM visits AS v JOIN urls AS u USING (slot, host_id, key)
            JOIN hosts AS h ON h.host_id = u.host_id WHERE v.outcome IN ('200', '304') ORDER BY v.time_s
        """
        for host, tail, time_s in cell.db.execute(sql):
            times[url_from(host, tail)].append(time_s)
        cell.close()
    return times


def truth(world: World, visits: dict[str, list[float]], days: float) -> list[PageTruth]:
    """Return every page of the world, with times in days of the world."""
    pages = []
    for host in world.hosts:
        space = world.spaces[host.index]
        for slot in (each for each in range(host.size) if space.kind(each) is UrlKind.PAGE):
            url = (world.roots[host.name] + space.path(slot)).decode()
            changes = [day for day, meaningful in world.changes.events(host.content, slot, days) if meaningful]
            pages.append(PageTruth(changes, visits.get(url, [])))
    return pages


def table(found: Sequence[KeepFreshResult], wanted: argparse.Namespace) -> str:
    lines = [
        f"{wanted.pages} pages on {wanted.hosts} hosts, one visit in {wanted.delay_s:g} s of the web at most for each;",
        f"rates {wanted.rates} from {wanted.slowest:g} to {wanted.fastest:g} a day, Wolf's mix; {wanted.days:g} days",
        f"at {wanted.factor:g} times their speed, judged from day {wanted.from_day:g} on; seed {wanted.seed}.",
        "",
        "| policy | true freshness | second half | visits | early requests | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for result in found:
        numbers = (
            f"{result.fresh:.4f}",
            f"{result.late:.4f}",
            f"{result.visits:,}",
            str(result.early),
            f"{result.seconds:.0f}",
        )
        lines.append(f"| {result.policy} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--days", type=float, default=12.0)
    parser.add_argument("--from-day", type=float, default=3.0)
    parser.add_argument("--factor", type=float, default=4_000.0)
    parser.add_argument("--pages", type=int, default=320)
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--delay-s", type=float, default=1_350.0)
    parser.add_argument("--slowest", type=float, default=0.01)
    parser.add_argument("--fastest", type=float, default=100.0)
    parser.add_argument("--rates", default="zipf:1.5")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--at-once", type=int, default=2, help="number of crawls at the same time")
    parser.add_argument("--write", type=Path)
    wanted = parser.parse_args()
    policies = wanted.policies.split(",")
    with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor(wanted.at_once) as pool:
        folders = [Path(name) / policy for policy in policies]
        numbers = range(FIRST_NET, FIRST_NET + len(policies))
        found = list(pool.map(run_crawl, policies, [wanted] * len(policies), folders, numbers))
    print(table(found, wanted))
    if wanted.write is not None:
        wanted.write.write_text(table(found, wanted) + "\n", "utf-8")


if __name__ == "__main__":
    main()
