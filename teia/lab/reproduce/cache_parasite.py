"""C7: the cache parasite with a real Squid (CoBWeb's table 3), and its effect on freshness.

Two equally polite crawlers on a fast clock keep a changing lab web fresh. One of them has a Squid beside it, whose
users request pages by a Zipf law. That crawler is notified of every request and takes the page from the cache if its
own copy is older than a day. It requests nothing from the cache that the cache does not have, so the servers receive
the same requests from both crawlers. Freshness is judged by the web's own truth: a copy counts from the moment it was
obtained, and is fresh if the page has not changed since its server gave it to the cache.

Squid uses real seconds, of which the crawl's clock has `FACTOR` each. The rounding of an Age, up to a second, is added
to the age of a copy here, as everywhere. On this clock it costs the parasite an hour of each copy's life.
"""

from __future__ import annotations

import asyncio
import tempfile
import tomllib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from teia.clock import FastClock, WallClock, from_iso
from teia.collections.settings import configure
from teia.config.tree import flatten
from teia.crawler.start import open_crawler
from teia.lab.measure.true_freshness import PageTruth, true_freshness
from teia.lab.reproduce.registry import ExperimentInput, ResultRow, Results, Table, experiment
from teia.lab.server.listen import check_loopback
from teia.lab.server.process import lab_process
from teia.lab.server.requestlog import read_log
from teia.lab.server.squid import OUTGOING, Squid, find_squid, squid_process
from teia.lab.world.spec import WorldSpec
from teia.lab.world.url_kinds import UrlKind
from teia.lab.world.world import World
from teia.signals.announce import counts_in
from teia.store.root import Root, open_root
from teia.views.reports.source import open_source

DAY_S = 86_400.0
# Seconds of the crawl in a real one: twelve days take some four minutes.
FACTOR = 4_000.0
DAYS, QUICK_DAYS = 12.0, 6.0
USERS_FROM_DAY = 4.0
"""Day on which users begin to send requests; by then the collection is complete, as the paper's was."""

HOSTS, PAGES = 8, 320
DELAY_S = 7_200.0
REQUESTS_PER_S, USERS_AT_ONCE = 15.0, 16
ZIPF = 0.8
"""Exponent of the popularity of pages among users of a proxy (Breslau et al., 1999, found 0.64 to 0.83)."""

# Third part of the loopback addresses. Both crawls run at the same time, so each has its own.
FIRST_NET = 180
READ_BYTES = 65_536

SPEC = """
seed = {seed}
hosts = {hosts}
pages = {pages}
time_factor = {factor}
sites = {{ theta = 0.5, nxdomain = 0, unreachable = 0, mirrors = 0, aliases = 0, shared_address = 0 }}
errors = {{ scale = 0 }}
robots = {{ present = 0 }}
urls = {{ sessions = 0 }}
links = {{ orphans = 0.08 }}
text = {{ pdfs = 0 }}
feeds = {{ rss = 0, atom = 0 }}
sitemaps = {{ honest = 0, lying = 0, bare = 0 }}
validators = {{ honest = 1, eager = 0, frozen = 0 }}
changes = {{ slowest = 0.05, fastest = 1.0 }}
"""


@dataclass(frozen=True, slots=True)
class ParasiteSettings:
    """The parameters of one of the two crawls."""

    seed: int
    days: float
    is_parasite: bool


@dataclass(frozen=True, slots=True)
class ParasiteResult:
    """The result of a crawl: freshness, unweighted and weighted by user requests, and the cost to the servers."""

    fresh: float
    fresh_for_users: float
    requests: int
    counts: Mapping[str, int]
    users: int


def _input_lines(run: ExperimentInput) -> Iterator[str]:
    """Yield the pages of the web, their popularity with the users, and their changes during the judged time."""
    yield f"{FACTOR:g} {DELAY_S:g} {REQUESTS_PER_S:g} {USERS_FROM_DAY:g}"
    world = World(WorldSpec.from_values(flatten(tomllib.loads(_spec(run.seed)))), epoch_s=0.0, port=80)
    _, weights = page_popularity(world, run.seed)
    for (url, host, slot), weight in zip(_slots(world), weights.tolist(), strict=True):
        changes = world.changes.events(host.content, slot, QUICK_DAYS if run.quick else DAYS)
        yield f"{url} {weight:.6g} {' '.join(f'{day:.6f}' for day, meaningful in changes if meaningful)}"


def _spec(seed: int) -> str:
    return SPEC.format(seed=seed, hosts=HOSTS, pages=PAGES, factor=FACTOR)


@experiment(
    "C7",
    title="The cache parasite",
    paper="CoBWeb (UFMG), section 4, table 3",
    input_lines=_input_lines,
)
def cache_parasite(run: ExperimentInput) -> Results:
    """Reproduce the paper's table 3 with a real Squid, and compare true freshness with and without the parasite."""
    find_squid()
    days = QUICK_DAYS if run.quick else DAYS
    run.progress(f"C7: two crawls of {days:g} days at {FACTOR:g} times real speed, one of them beside a Squid")
    wanted = [ParasiteSettings(run.seed, days, is_parasite) for is_parasite in (True, False)]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        with_parasite, without_parasite = pool.map(run_crawl, wanted)
    yield announcements_table(with_parasite)
    yield gain_table(with_parasite, without_parasite, days)


def announcements_table(result: ParasiteResult) -> Table:
    """Classify announced pages by the result, as the paper counts them."""
    count = defaultdict(int, result.counts)
    performed, new = count["updated"], count["new"]
    # The paper has three classes: what brought no newer copy, for any reason, is discarded.
    discarded = count["discarded"] + count["repeated"] + count["under_way"] + count["no_newer"]
    total = max(1, performed + discarded + new)
    requested = max(1, count["asked"])
    rows = (
        ResultRow(("updates performed", "number"), performed, 7_880),
        ResultRow(("updates performed", "share"), performed / total, 0.89),
        ResultRow(("updates discarded", "number"), discarded, 503),
        ResultRow(("updates discarded", "share"), discarded / total, 0.057),
        ResultRow(("new documents", "number"), new, 487),
        ResultRow(("new documents", "share"), new / total, 0.053),
        ResultRow(("total of requests", "number"), total, 8_870),
        ResultRow(
            ("answered from the cache within 1 s", "share of requests to it"),
            count["served_within_1s"] / requested,
            0.63,
        ),
        ResultRow(("not in the cache any more", "share of requests to it"), count["not_cached"] / requested),
        ResultRow(("user requests", "number"), result.users),
    )
    note = (
        "The paper's collection had never been updated and its requests were mostly for different pages, so few"
        " were discarded. Here users return to the same pages, following a Zipf law, and a renewed page is"
        " discarded for a day; repeated announcements of a queued page count as discarded too. The paper's other"
        " requests were forwarded to the servers; ours end at the cache."
    )
    return Table(
        "table-3", "Requests announced by the proxy (table 3)", ("what", "measure"), rows, note=note, varies=True
    )


def gain_table(with_parasite: ParasiteResult, without_parasite: ParasiteResult, days: float) -> Table:
    """Compare freshness with and without the parasite, with the same requests to servers."""
    rows = (
        ResultRow(("true freshness, all pages weighted equally",), with_parasite.fresh, without_parasite.fresh),
        ResultRow(
            ("true freshness, weighted by user requests",),
            with_parasite.fresh_for_users,
            without_parasite.fresh_for_users,
        ),
        ResultRow(("requests to servers",), with_parasite.requests, without_parasite.requests),
    )
    note = (
        f"{PAGES} URLs on {HOSTS} hosts, each host requested at most once in {DELAY_S / 3600:g} h, policy edf, for "
        f"{days:g} days of the web, measured from day {USERS_FROM_DAY:g} on. Pages without links to them count as"
        " stale until a user requests them."
    )
    return Table("gain", "With and without the parasite", ("measure",), rows, "without", note, varies=True)


# ---- one crawl ------------------------------------------------------------------------------------------------------


def run_crawl(settings: ParasiteSettings) -> ParasiteResult:
    """Crawl the web for the given days, with or without a Squid, and judge the copies."""
    number = FIRST_NET + settings.is_parasite
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="teia-parasite-")))
        spec, log, address = folder / "world.toml", folder / "requests.jsonl", f"127.77.{number}.1"
        spec.write_text(_spec(settings.seed), "utf-8")
        flags = ["--spec", str(spec), "--port", "0", "--address", address, "--log", str(log)]
        flags += ["--dns-address", f"127.77.255.{number}:0", "--control-address", f"127.77.254.{number}"]
        # 1. The lab runs in its own process. The same world, made again here, gives the truth about it.
        with lab_process(*flags) as ready:
            world = World(
                WorldSpec.load(spec),
                epoch_s=from_iso(ready["epoch"]),
                port=ready["port"],
                address=check_loopback(address),
            )
            names = {host.name: host.address for host in world.hosts}
            squid = stack.enter_context(squid_process(names)) if settings.is_parasite else None
            # 2. The crawl runs here, on the fast clock.
            clock = FastClock(WallClock(), FACTOR)
            # The wall time at which both clocks agreed; log times are converted to world days from it.
            since_s = WallClock().now_s() - clock.ticks_s() / FACTOR
            root = open_root(folder / "data", create=True)
            urls, weights = page_popularity(world, settings.seed)
            with root.locked():
                users = asyncio.run(_crawl(root, ready, clock, settings, squid, urls, weights))
        # 3. Its captures are judged by the truth.
        visits = read_visits(root, lambda clock_s: world.days(since_s + (clock_s - since_s) / FACTOR))
        # Squid's requests for its users come from OUTGOING; the rest is the crawler's.
        requests = sum(entry.peer != OUTGOING for entry in read_log(log))
        unweighted, weighted = [
            true_freshness(truth(world, visits, settings.days, weight_by_url), USERS_FROM_DAY, settings.days)
            for weight_by_url in (dict.fromkeys(urls, 1.0), dict(zip(urls, weights.tolist(), strict=True)))
        ]
        counts = counts_in(root.collection("main").signals).get("proxy", {})
    return ParasiteResult(unweighted, weighted, requests, counts, users)


def _config(root: Root, ready: dict[str, Any], days: float, squid: Squid | None) -> Any:
    flags = {
        "collection.seeds": ready["seeds"],
        "collection.cells": 1,
        "scope.include": ["suffix:.test"],
        "fetch.dns": ready["dns"],
        "fetch.allow_nets": ["127.77.0.0/16"],
        "courtesy.delay_s": DELAY_S,
        # Times are those of the fast clock: a multiple of FACTOR is as many real seconds.
        "courtesy.retry_wait_s": FACTOR,
        "courtesy.response_factor": 0.0,
        "courtesy.robots_max_age_s": 365 * DAY_S,
        "commit.every_s": 0.05 * FACTOR,
        "index.enabled": False,
        "sites.aliases": False,
        "sites.probe_after_pages": 0,
        "refresh.keep": True,
        "refresh.least_s": DELAY_S,
        "refresh.replan_s": FACTOR,
        "limits.seconds": days * DAY_S,
        "limits.slow_s": 15.0 * FACTOR,
        "limits.parse_cpu_s": 10.0 * FACTOR,
    }
    if squid is not None:
        flags |= {"signals.socket": str(squid.socket), "signals.proxy": f"127.0.0.1:{squid.port}"}
    return configure(root, "main", None, {}, flags).config


async def _crawl(
    root: Root,
    ready: dict[str, Any],
    clock: FastClock,
    settings: ParasiteSettings,
    squid: Squid | None,
    urls: Sequence[str],
    weights: Any,
) -> int:
    """Crawl until the days are over, while users send requests; return the number of their requests."""
    config = _config(root, ready, settings.days, squid)
    async with open_crawler(root, [config], clock, seed=1) as crawler:
        running = asyncio.create_task(crawler.run())
        users = Users(squid.port, urls, weights, settings.seed) if squid is not None else None
        user_task = asyncio.create_task(users.send_requests(clock)) if users is not None else None
        # `limits.seconds` ends the crawl; this is a guard, twice as long and a minute.
        await asyncio.wait([running], timeout=2 * settings.days * DAY_S / FACTOR + 60)
        crawler.stop_now()
        await running
        if user_task is not None:
            user_task.cancel()
            with suppress(asyncio.CancelledError):
                await user_task
    return users.requests if users is not None else 0


class Users:
    """Users of the proxy, who request pages by popularity, independently of the crawler."""

    def __init__(self, port: int, urls: Sequence[str], weights: Any, seed: int) -> None:
        self._port, self._urls = port, urls
        self._shares = weights / weights.sum()
        self._draw = np.random.default_rng((seed, 77))
        self.requests = 0

    async def send_requests(self, clock: FastClock) -> None:
        """Send requests at a constant mean rate until cancelled."""
        await clock.sleep(USERS_FROM_DAY * DAY_S)
        semaphore, loop = asyncio.Semaphore(USERS_AT_ONCE), asyncio.get_running_loop()
        next_at, cumulative = loop.time(), np.cumsum(self._shares)
        async with asyncio.TaskGroup() as group:
            while True:
                # Arrivals are a Poisson process. A slow answer delays no later request, as long as there is room.
                next_at += float(self._draw.exponential(1.0 / REQUESTS_PER_S))
                await asyncio.sleep(max(0.0, next_at - loop.time()))
                await semaphore.acquire()
                # The sum of the shares may be a little less than 1 by rounding; `min` keeps the index in range.
                url = self._urls[min(len(self._urls) - 1, int(np.searchsorted(cumulative, self._draw.random())))]
                group.create_task(self._request(url)).add_done_callback(lambda _: semaphore.release())

    async def _request(self, url: str) -> None:
        host = url.split("/", 3)[2]
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                head = f"GET {url} HTTP/1.1\r\nHost: {host}\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
                writer.write(head.encode())
                while await reader.read(READ_BYTES):
                    pass
                self.requests += 1
            finally:
                writer.close()


# ---- truth ----------------------------------------------------------------------------------------------------------


def page_popularity(world: World, seed: int) -> tuple[list[str], Any]:
    """Return every page of the world and its popularity, by a Zipf law in random order."""
    urls = [url for url, _, _ in _slots(world)]
    ranks = np.random.default_rng((seed, 78)).permutation(len(urls)) + 1
    return urls, ranks**-ZIPF


def _slots(world: World) -> list[tuple[str, Any, int]]:
    return [
        ((world.roots[host.name] + space.path(slot)).decode(), host, slot)
        for host in world.hosts
        for space in (world.spaces[host.index],)
        for slot in range(host.size)
        if space.kind(slot) is UrlKind.PAGE
    ]


def read_visits(root: Root, days: Any) -> dict[str, list[tuple[float, float]]]:
    """Return the visits of each page: when its server sent the content and when we obtained it, in world days."""
    sql = """
        SELECT url, epoch(started), epoch(ended), kind FROM fetches
        WHERE kind IN ('page', 'cached') AND outcome IN ('200', '304')
    """
    visits: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    with open_source(root, "main") as source:
        for url, sent_s, received_s, _ in source.log.query(sql, 10_000_000).rows:
            visits[url].append((days(sent_s), days(received_s)))
    return visits


def truth(
    world: World, visits: Mapping[str, Sequence[tuple[float, float]]], days: float, weight_by_url: Mapping[str, float]
) -> list[PageTruth]:
    """Return every page with its changes and the visits that brought content that was still current."""
    pages = []
    for url, host, slot in _slots(world):
        changes = [day for day, meaningful in world.changes.events(host.content, slot, days) if meaningful]
        pages.append(PageTruth(changes, current_visits(changes, visits.get(url, ())), weight_by_url[url]))
    return pages


def current_visits(changes: Sequence[float], visits: Sequence[tuple[float, float]]) -> list[float]:
    """Return the times at which we obtained current copies. An outdated copy does not make the store fresher."""
    return sorted(
        received for sent, received in visits if bisect_right(changes, sent) == bisect_right(changes, received)
    )
