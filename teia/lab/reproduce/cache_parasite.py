"""C7: the cache parasite with a real Squid (CoBWeb's table 3), and its effect on freshness.

Two equally polite crawlers on a fast clock keep a changing lab web fresh. One of them has a Squid beside it, whose
users request pages by a Zipf law. That crawler is notified of every request and takes the page from the cache if its
own copy is older than a day. It requests nothing from the cache that the cache does not have, so the servers receive
the same requests from both crawlers. Freshness is judged by the web's own truth: a copy counts from the moment it was
obtained, and is fresh if the page has not changed since its server gave it to the cache.

A third crawl has the paper's conditions: a collection that was crawled once and never updated, requests that are
mostly for different pages, and misses that are served through. Its users are behind two caches that cooperate: each
asks a common parent before the server. A page that the cache does not have any more is visited by the crawler itself,
with the delay of its server (`signals.not_cached = "visit"`).

Squid uses real seconds, of which the crawl's clock has `factor` each. The rounding of an Age, up to a second, is added
to the age of a copy here, as everywhere. On the clock of a full run it costs the parasite an hour of each copy's life.
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


@dataclass(frozen=True, slots=True)
class ParasiteScale:
    """The size of the experiment. `factor` is the number of the crawl's seconds in a real one.

    Users begin to send requests when the collection is complete, as the paper's was; `paper_` are the times under the
    paper's conditions. `at_once` crawls run at the same time.
    """

    factor: float
    pages: int
    days: float
    users_from_day: float
    paper_days: float
    paper_users_from_day: float
    at_once: int


FULL = ParasiteScale(4_000.0, 320, 12.0, 4.0, 4.0, 2.0, at_once=2)
"""Twelve days in some four minutes."""

QUICK = ParasiteScale(16_000.0, 104, 3.5, 1.5, 3.5, 1.75, at_once=3)
"""Some twenty seconds. An Age is rounded to four hours of this clock: much of what the cache has comes too late."""

HOSTS = 8
DELAY_S = 7_200.0
REQUESTS_PER_S, USERS_AT_ONCE = 15.0, 16
PAPER_DELAY_S = 600.0
PAPER_REPEATED = 0.06
"""Share of requests for a page that was requested before. The paper's trace had some: 5.7% of its updates were
discarded."""

ZIPF = 0.8
"""Exponent of the popularity of pages among users of a proxy (Breslau et al., 1999, found 0.64 to 0.83)."""

CACHES = ("first", "second")
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
robots = {{ present = {sitemaps}, excluded = 0, crawl_delay = 0 }}
urls = {{ sessions = 0 }}
links = {{ orphans = 0.055 }}
text = {{ pdfs = 0 }}
feeds = {{ rss = 0, atom = 0 }}
sitemaps = {{ honest = {sitemaps}, lying = 0, bare = 0 }}
validators = {{ honest = 1, eager = 0, frozen = 0 }}
changes = {{ slowest = 0.05, fastest = 1.0 }}
"""


@dataclass(frozen=True, slots=True)
class ParasiteSettings:
    """The parameters of one of the crawls."""

    seed: int
    scale: ParasiteScale
    is_parasite: bool
    is_as_in_paper: bool = False

    @property
    def days(self) -> float:
        return self.scale.paper_days if self.is_as_in_paper else self.scale.days

    @property
    def users_from_day(self) -> float:
        return self.scale.paper_users_from_day if self.is_as_in_paper else self.scale.users_from_day


@dataclass(frozen=True, slots=True)
class ParasiteResult:
    """The result of a crawl: freshness, unweighted and weighted by user requests, and the cost to the servers.

    `requests` are the crawler's. `served_through` and `new_served_through` are announced pages, known and new, that the
    cache did not have any more and that the crawler then fetched; `from_caches` are requests of caches to servers.
    """

    fresh: float
    fresh_for_users: float
    requests: int
    counts: Mapping[str, int]
    users: int
    served_through: int = 0
    new_served_through: int = 0
    from_caches: int = 0


def _input_lines(run: ExperimentInput) -> Iterator[str]:
    """Yield the pages of the web, their popularity with the users, and their changes during the judged time."""
    scale = QUICK if run.quick else FULL
    yield f"{scale.factor:g} {DELAY_S:g} {REQUESTS_PER_S:g} {scale.users_from_day:g}"
    spec = _spec(ParasiteSettings(run.seed, scale, is_parasite=True))
    world = World(WorldSpec.from_values(flatten(tomllib.loads(spec))), epoch_s=0.0, port=80)
    _, weights = page_popularity(world, run.seed)
    for (url, host, slot), weight in zip(_slots(world), weights.tolist(), strict=True):
        changes = world.changes.events(host.content, slot, scale.days)
        yield f"{url} {weight:.6g} {' '.join(f'{day:.6f}' for day, meaningful in changes if meaningful)}"


def _spec(settings: ParasiteSettings) -> str:
    # Hosts whose robots.txt names a sitemap have pages without links. That crawl does not read robots.txt, so it learns
    # of these pages from users alone.
    scale, sitemaps = settings.scale, int(settings.is_as_in_paper)
    return SPEC.format(seed=settings.seed, hosts=HOSTS, pages=scale.pages, factor=scale.factor, sitemaps=sitemaps)


@experiment(
    "C7",
    title="The cache parasite",
    paper="CoBWeb (UFMG), section 4, table 3",
    input_lines=_input_lines,
)
def cache_parasite(run: ExperimentInput) -> Results:
    """Reproduce the paper's table 3 with a real Squid, and compare true freshness with and without the parasite."""
    find_squid()
    scale = QUICK if run.quick else FULL
    run.progress(
        f"C7: two crawls of {scale.days:g} days at {scale.factor:g} times real speed, one of them beside a Squid, and"
        " one under the paper's conditions, beside cooperating caches"
    )
    wanted = [
        ParasiteSettings(run.seed, scale, is_parasite=True),
        ParasiteSettings(run.seed, scale, is_parasite=False),
        ParasiteSettings(run.seed, scale, is_parasite=True, is_as_in_paper=True),
    ]
    with ProcessPoolExecutor(scale.at_once, get_context("spawn")) as pool:
        with_parasite, without_parasite, as_in_paper = pool.map(run_crawl, wanted)
    yield paper_table(as_in_paper, scale)
    yield announcements_table(with_parasite)
    yield gain_table(with_parasite, without_parasite, scale)


def paper_table(result: ParasiteResult, scale: ParasiteScale) -> Table:
    """Return table 3 under the paper's conditions: what was served through counts as an update."""
    count = defaultdict(int, result.counts)
    performed, new = count["updated"] + result.served_through, count["new"] + result.new_served_through
    discarded = count["discarded"] + count["repeated"] + count["under_way"] + count["no_newer"]
    rows = [*_class_rows(performed, discarded, new)]
    rows += [
        ResultRow(("served through", "number"), result.served_through + result.new_served_through),
        ResultRow(("user requests", "number"), result.users),
        ResultRow(("requests that caches sent to servers", "number"), result.from_caches),
    ]
    note = (
        f"{scale.pages} URLs on {HOSTS} hosts were crawled once. From day {scale.paper_users_from_day:g} on users"
        f" request every page once, in random order, and {PAPER_REPEATED:.0%} of them again; pages without links to"
        " them were unknown. URLs with a query"
        " are not announced. The paper had the requests of real users for 8,870 pages. Served through: the cache had"
        " lost the page or does not keep it, and the crawler fetched it from its server. The users are behind two"
        " caches that share a parent."
    )
    title = "Requests announced by the proxies, under the paper's conditions (table 3)"
    return Table("table-3-conditions", title, ("what", "measure"), tuple(rows), note=note, varies=True)


def _class_rows(performed: int, discarded: int, new: int) -> Iterator[ResultRow]:
    """Yield the paper's three classes, and their sum."""
    total = max(1, performed + discarded + new)
    for name, ours, number, share in (
        ("updates performed", performed, 7_880, 0.89),
        ("updates discarded", discarded, 503, 0.057),
        ("new documents", new, 487, 0.053),
    ):
        yield ResultRow((name, "number"), ours, number)
        yield ResultRow((name, "share"), ours / total, share)
    yield ResultRow(("total of requests", "number"), total, 8_870)


def announcements_table(result: ParasiteResult) -> Table:
    """Classify announced pages by the result, as the paper counts them."""
    count = defaultdict(int, result.counts)
    performed, new = count["updated"], count["new"]
    # The paper has three classes: what brought no newer copy, for any reason, is discarded.
    discarded = count["discarded"] + count["repeated"] + count["under_way"] + count["no_newer"]
    requested = max(1, count["asked"])
    rows = (
        *_class_rows(performed, discarded, new),
        ResultRow(
            ("answered from the cache within 1 s", "share of requests to it"),
            count["served_within_1s"] / requested,
            0.63,
        ),
        ResultRow(("not in the cache any more", "share of requests to it"), count["not_cached"] / requested),
        ResultRow(("user requests", "number"), result.users),
    )
    note = (
        "Under our conditions: users return to the same pages, following a Zipf law, and a renewed page is discarded"
        " for a day; repeated announcements of a queued page count as discarded too. Requests that the cache cannot"
        " answer end there. The table before this one has the paper's conditions."
    )
    return Table(
        "table-3", "Requests announced by the proxy (table 3)", ("what", "measure"), rows, note=note, varies=True
    )


def gain_table(with_parasite: ParasiteResult, without_parasite: ParasiteResult, scale: ParasiteScale) -> Table:
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
        f"{scale.pages} URLs on {HOSTS} hosts, each host requested at most once in {DELAY_S / 3600:g} h, policy edf,"
        f" for {scale.days:g} days of the web at {scale.factor:g} times real speed, measured from day"
        f" {scale.users_from_day:g} on. Pages without links to them count as stale until a user requests them."
    )
    return Table("gain", "With and without the parasite", ("measure",), rows, "without", note, varies=True)


# ---- one crawl ------------------------------------------------------------------------------------------------------


def run_crawl(settings: ParasiteSettings) -> ParasiteResult:
    """Crawl the web for the given days, with or without a Squid, and judge the copies."""
    number, factor = FIRST_NET + settings.is_parasite + settings.is_as_in_paper, settings.scale.factor
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="teia-parasite-")))
        spec, log, address = folder / "world.toml", folder / "requests.jsonl", f"127.77.{number}.1"
        spec.write_text(_spec(settings), "utf-8")
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
            caches = _start_caches(stack, names, settings)
            # 2. The crawl runs here, on the fast clock.
            clock = FastClock(WallClock(), factor)
            # The wall time at which both clocks agreed; log times are converted to world days from it.
            since_s = WallClock().now_s() - clock.ticks_s() / factor
            root = open_root(folder / "data", create=True)
            urls, weights = page_popularity(world, settings.seed)
            # The paper's users also requested pages that its collection did not have.
            unlinked = [url for url, _, _ in _slots(world, UrlKind.ORPHAN)] if settings.is_as_in_paper else []
            users = Users([squid.port for squid in caches], [*urls, *unlinked], weights, settings)
            with root.locked():
                asyncio.run(_crawl(root, ready, clock, settings, caches, users))
        # 3. Its captures are judged by the truth.
        visits = read_visits(root, lambda clock_s: world.days(since_s + (clock_s - since_s) / factor))
        # Squid's requests for its users come from OUTGOING; the rest is the crawler's.
        peers = [entry.peer for entry in read_log(log)]
        from_caches = peers.count(OUTGOING)
        unweighted, weighted = [
            true_freshness(truth(world, visits, settings.days, weight_by_url), settings.users_from_day, settings.days)
            for weight_by_url in (dict.fromkeys(urls, 1.0), dict(zip(urls, weights.tolist(), strict=True)))
        ]
        counts = counts_in(root.collection("main").signals).get("proxy", {})
        users_from_s = since_s + settings.users_from_day * DAY_S
        through = _served_through(root, users_from_s) if settings.is_as_in_paper else (0, 0)
    requests = len(peers) - from_caches
    return ParasiteResult(unweighted, weighted, requests, counts, users.requests, *through, from_caches)


def _start_caches(stack: ExitStack, names: Mapping[str, str], settings: ParasiteSettings) -> list[Squid]:
    """Start the caches of the users: none, one, or two that ask a common parent before a server."""
    if not settings.is_parasite:
        return []
    if not settings.is_as_in_paper:
        return [stack.enter_context(squid_process(names))]
    # Only caches with users announce: the parent would announce the same requests again.
    parent = stack.enter_context(squid_process(names, way=None, extra=_UNIQUE.format(name="parent")))
    child = f"cache_peer 127.0.0.1 parent {parent.port} 0 no-query default\nnever_direct allow all\n{_UNIQUE}"
    first = stack.enter_context(squid_process(names, extra=child.format(name=CACHES[0]), name=CACHES[0]))
    second = squid_process(names, extra=child.format(name=CACHES[1]), name=CACHES[1], socket=first.socket)
    return [first, stack.enter_context(second)]


_UNIQUE = "unique_hostname {name}.squid.test\n"
"""Line that keeps Squids that ask each other apart; with one name they would report a forwarding loop."""


def _served_through(root: Root, from_s: float) -> tuple[int, int]:
    """Count the pages that the crawler itself fetched after `from_s`: known ones again, and new ones.

    The collection was complete by then and nothing was due again, so announcements were the reason.
    """
    sql = f"""
        SELECT count(*) FILTER (WHERE visit > 1), count(*) FILTER (WHERE visit = 1) FROM fetches
        WHERE kind = 'page' AND outcome IN ('200', '304') AND epoch(started) >= {from_s}
    """  # noqa: S608  # a number
    with open_source(root, "main") as source:
        again, new = source.log.query(sql).rows[0]
    return int(again), int(new)


def _config(root: Root, ready: dict[str, Any], settings: ParasiteSettings, caches: Sequence[Squid]) -> Any:
    delay_s, factor = PAPER_DELAY_S if settings.is_as_in_paper else DELAY_S, settings.scale.factor
    flags = {
        "collection.seeds": ready["seeds"],
        "collection.cells": 1,
        "scope.include": ["suffix:.test"],
        "fetch.dns": ready["dns"],
        "fetch.allow_nets": ["127.77.0.0/16"],
        "courtesy.delay_s": delay_s,
        # Times are those of the fast clock: a multiple of the factor is as many real seconds.
        "courtesy.retry_wait_s": factor,
        "courtesy.response_factor": 0.0,
        "courtesy.robots_max_age_s": 365 * DAY_S,
        "commit.every_s": 0.05 * factor,
        "index.enabled": False,
        "sites.aliases": False,
        "sites.probe_after_pages": 0,
        "refresh.keep": True,
        # A collection that was never updated: nothing is due again.
        "refresh.least_s": 365 * DAY_S if settings.is_as_in_paper else DELAY_S,
        "refresh.replan_s": factor,
        "limits.seconds": settings.days * DAY_S,
        "limits.slow_s": 15.0 * factor,
        "limits.parse_cpu_s": 10.0 * factor,
    }
    if caches:
        flags |= {"signals.socket": str(caches[0].socket), "signals.proxy": f"127.0.0.1:{caches[0].port}"}
    if settings.is_as_in_paper:
        named = [f"{name}=127.0.0.1:{squid.port}" for name, squid in zip(CACHES, caches, strict=True)]
        # A real second, in which the cache stores the page.
        flags |= {"signals.caches": named, "signals.not_cached": "visit", "signals.delay_s": factor}
        flags["courtesy.robots"] = False  # the servers are ours; see `_spec`
    return configure(root, "main", None, {}, flags).config


async def _crawl(
    root: Root,
    ready: dict[str, Any],
    clock: FastClock,
    settings: ParasiteSettings,
    caches: Sequence[Squid],
    users: Users,
) -> None:
    """Crawl until the days are over, while users send requests."""
    config = _config(root, ready, settings, caches)
    async with open_crawler(root, [config], clock, seed=1) as crawler:
        running = asyncio.create_task(crawler.run())
        user_task = asyncio.create_task(users.send_requests(clock)) if caches else None
        # `limits.seconds` ends the crawl; this is a guard, twice as long and a minute.
        await asyncio.wait([running], timeout=2 * settings.days * DAY_S / settings.scale.factor + 60)
        crawler.stop_now()
        await running
        if user_task is not None:
            user_task.cancel()
            with suppress(asyncio.CancelledError):
                await user_task


class Users:
    """Users of the proxies, who request pages independently of the crawler: by popularity, or as in the paper."""

    def __init__(self, ports: Sequence[int], urls: Sequence[str], weights: Any, settings: ParasiteSettings) -> None:
        self._ports, self._urls = ports, urls
        self._shares = weights / weights.sum()
        self._draw = np.random.default_rng((settings.seed, 77))
        self._settings = settings
        self.requests = 0

    def pages(self) -> Iterator[str]:
        """Yield the pages that are requested, one after the other."""
        if self._settings.is_as_in_paper:
            order = self._draw.permutation(len(self._urls))
            # A page that is requested again is one of the last fifty.
            for number, page in enumerate(order):
                yield self._urls[page]
                if self._draw.random() < PAPER_REPEATED / (1 - PAPER_REPEATED):
                    yield self._urls[order[self._draw.integers(max(0, number - 50), number + 1)]]
            return
        cumulative = np.cumsum(self._shares)
        while True:
            # The sum of the shares may be a little less than 1 by rounding; `min` keeps the index in range.
            yield self._urls[min(len(self._urls) - 1, int(np.searchsorted(cumulative, self._draw.random())))]

    async def send_requests(self, clock: FastClock) -> None:
        """Send requests at a constant mean rate until cancelled."""
        await clock.sleep(self._settings.users_from_day * DAY_S)
        semaphore, loop = asyncio.Semaphore(USERS_AT_ONCE), asyncio.get_running_loop()
        next_at = loop.time()
        async with asyncio.TaskGroup() as group:
            for number, url in enumerate(self.pages()):
                # Arrivals are a Poisson process. A slow answer delays no later request, as long as there is room.
                next_at += float(self._draw.exponential(1.0 / REQUESTS_PER_S))
                await asyncio.sleep(max(0.0, next_at - loop.time()))
                await semaphore.acquire()
                port = self._ports[number % len(self._ports)]
                group.create_task(self._request(url, port)).add_done_callback(lambda _: semaphore.release())

    async def _request(self, url: str, port: int) -> None:
        host = url.split("/", 3)[2]
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
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


def _slots(world: World, kind: UrlKind = UrlKind.PAGE) -> list[tuple[str, Any, int]]:
    return [
        ((world.roots[host.name] + space.path(slot)).decode(), host, slot)
        for host in world.hosts
        for space in (world.spaces[host.index],)
        for slot in range(host.size)
        if space.kind(slot) is kind
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
