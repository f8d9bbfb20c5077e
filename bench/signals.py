"""Sitemaps as signals, in real crawls on a fast clock, judged by the lab's ground truth (docs/signals.md).

    python -m bench.signals [--days 7] [--factor 8000] [--pages 90] [--hosts 6] [--seeds 6,9,10] [--write FILE.md]

Half of the hosts have sitemaps, honest ones or ones that call every page new; the seeds are the first with exactly
three such hosts of six. Each web is kept fresh twice, with `refresh.signals` and without, on the same clock and with
the same delay. So the budget is equal, and reading a sitemap costs a request like any other. Everything is real:
sockets, robots.txt, children, archive, politeness. The lab writes dates on a calendar that is as fast as its pages and
the crawler's clock. bench/keep_fresh.py explains how freshness is judged.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

from bench.keep_fresh import DAY_S, SPEC, crawl, read_visits, settings, truth
from teia.clock import FastClock, WallClock, from_iso
from teia.lab.measure.true_freshness import true_freshness
from teia.lab.server.listen import check_loopback
from teia.lab.server.process import lab_process
from teia.lab.server.requestlog import read_log
from teia.lab.server.witness import early_requests
from teia.lab.world.spec import WorldSpec
from teia.lab.world.world import World
from teia.store.root import open_root
from teia.urls import split

FIRST_NET = 210
"""Labs that run at the same time have addresses of their own, from 127.77.210.1."""

SITEMAPS = "sitemaps = {{ honest = {honest}, lying = {lying}, bare = 0, fast_dates = true }}\n"


@dataclass(frozen=True)
class Way:
    """A web, and whether the crawl uses its sitemaps as signals."""

    sitemaps: str
    seed: int
    signals: bool


@dataclass(frozen=True)
class SignalsResult:
    """Result of one crawl; `with_sitemap` counts hosts."""

    way: Way
    fresh: float
    visits: int
    early: tuple[str, ...]
    with_sitemap: int
    seconds: float


def run_crawl(way: Way, wanted: argparse.Namespace, folder: Path, number: int) -> SignalsResult:
    """Crawl the web one way, and judge it."""
    folder.mkdir(parents=True)
    spec, log = folder / "world.toml", folder / "requests.jsonl"
    shares = {kind: 0.5 if kind == way.sitemaps else 0 for kind in ("honest", "lying")}
    text = SPEC.replace("robots = {{ present = 0 }}\n", "robots = {{ present = 1, crawl_delay = 0, excluded = 0 }}\n")
    spec.write_text((text + SITEMAPS).format(**{**vars(wanted), "seed": way.seed}, **shares), "utf-8")
    address = f"127.77.{number}.1"
    flags = ["--spec", str(spec), "--port", "0", "--address", address, "--log", str(log)]
    began = time.monotonic()
    with lab_process(
        *flags, "--dns-address", f"127.77.255.{number}:0", "--control-address", f"127.77.254.{number}"
    ) as ready:
        epoch_s = from_iso(ready["epoch"])
        clock = FastClock(WallClock(), wanted.factor, epoch_s)
        root = open_root(folder / "data", create=True)
        with root.locked():
            config = settings(root, "edf", wanted, ready)
            courtesy = replace(config.courtesy, robots_max_age_s=DAY_S)
            refresh = replace(config.refresh, signals=way.signals)
            config = replace(config, courtesy=courtesy, refresh=refresh)
            asyncio.run(crawl(root, config, clock, wanted.days * DAY_S))
        time.sleep(0.5)
    world = World(WorldSpec.load(spec), epoch_s=epoch_s, port=ready["port"], address=check_loopback(address))
    visits = {url: [(each - epoch_s) / DAY_S for each in times] for url, times in read_visits(root).items()}
    reached = {split(url).host for url in visits}
    if len(reached) < len(world.hosts):
        few = f"{len(reached)} of {len(world.hosts)} hosts were reached"
        raise RuntimeError(f"{way}: {few}")
    pages = truth(world, visits, wanted.days)
    early = early_requests(read_log(log), wanted.delay_s / wanted.factor, lambda entry: entry.host)
    return SignalsResult(
        way,
        true_freshness(pages, wanted.from_day, wanted.days),
        sum(map(len, visits.values())),
        tuple(f"{each.waited_s:.4f} s before {each.after.host}{each.after.path}" for each in early),
        sum(host.sitemap != "none" for host in world.hosts),
        time.monotonic() - began,
    )


def table(found: Sequence[SignalsResult], wanted: argparse.Namespace) -> str:
    lines = [
        f"{wanted.pages} pages on {wanted.hosts} hosts, one visit in {wanted.delay_s:g} s of the web at most for each;",
        f"rates {wanted.rates} from {wanted.slowest:g} to {wanted.fastest:g} a day; {wanted.days:g} days",
        f"at {wanted.factor:g} times their speed, judged from day {wanted.from_day:g} on.",
        "",
        "| sitemaps | seed | without signals | with signals | gained | visits | early requests |",
        "|---|---|---|---|---|---|---|",
    ]
    gains: defaultdict[str, list[float]] = defaultdict(list)
    for without, result in zip(found[::2], found[1::2], strict=True):
        way, gained = result.way, result.fresh - without.fresh
        gains[way.sitemaps].append(gained)
        visits, early = f"{without.visits:,} / {result.visits:,}", f"{len(without.early)} / {len(result.early)}"
        kind = f"{way.sitemaps}, {result.with_sitemap} of {wanted.hosts} hosts"
        numbers = (f"{without.fresh:.4f}", f"{result.fresh:.4f}", f"{gained:+.4f}", visits, early)
        lines.append(f"| {kind} | {way.seed} | {' | '.join(numbers)} |")
    for kind, each in gains.items():
        error = stdev(each) / sqrt(len(each)) if len(each) > 1 else 0.0
        lines += ["", f"{kind}: {mean(each):+.4f} on average, with a standard error of {error:.4f}."]
    return "\n".join(lines)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--from-day", type=float, default=2.5)
    parser.add_argument("--factor", type=float, default=8_000.0)
    parser.add_argument("--pages", type=int, default=90)
    parser.add_argument("--hosts", type=int, default=6)
    parser.add_argument("--delay-s", type=float, default=4_800.0)
    parser.add_argument("--slowest", type=float, default=0.01)
    parser.add_argument("--fastest", type=float, default=20.0)
    parser.add_argument("--rates", default="zipf:1.5")
    parser.add_argument("--seeds", default="6,9,10")
    parser.add_argument("--kinds", default="honest,lying")
    parser.add_argument("--at-once", type=int, default=2, help="number of crawls at the same time")
    parser.add_argument("--write", type=Path)
    return parser.parse_args(words)


def make_ways(wanted: argparse.Namespace) -> list[Way]:
    seeds, kinds = [int(each) for each in wanted.seeds.split(",")], wanted.kinds.split(",")
    return [Way(kind, seed, signals) for kind in kinds for seed in seeds for signals in (False, True)]


def run(ways: Sequence[Way], wanted: argparse.Namespace, folder: Path) -> list[SignalsResult]:
    with ProcessPoolExecutor(wanted.at_once) as pool:
        folders = [folder / str(number) for number in range(len(ways))]
        numbers = range(FIRST_NET, FIRST_NET + len(ways))
        return list(pool.map(run_crawl, ways, [wanted] * len(ways), folders, numbers))


def main() -> None:
    wanted = arguments()
    with tempfile.TemporaryDirectory() as name:
        found = run(make_ways(wanted), wanted, Path(name))
    print(table(found, wanted))
    for each in found:
        print(*(f"early: {each.way} {what}" for what in each.early), sep="\n", end="")
    if wanted.write is not None:
        wanted.write.write_text(table(found, wanted) + "\n", "utf-8")


if __name__ == "__main__":
    main()
