"""The proxy collector (C7): announced pages are taken from the cache that announced them, if it holds them.

A cached page costs its server nothing, so the collector neither waits for a politeness delay nor starts one. Everything
else is as with a page that was fetched: scope, robots.txt (fetched from the server, with its delay, where it is not
known), budgets, the parse child, the archive, the commit. The capture is dated back by the answer's Age, to the time
when the server sent it; its fetch ends when the crawler received it. An answer that is no newer than the stored
capture, or that is no document, is ignored.

`Cache-Control: only-if-cached` keeps the cache from requesting the page from its server. A page that the cache does not
have (504) is skipped, or visited by the crawler like any page, as `signals.not_cached` says. A proxy may ignore that
directive. So an answer must show that it comes from a cache, by `Age` or Squid's `X-Cache`. Until one did, the
collector requests one page at a time; after one did not, it stops requesting for a while. Each cache counts by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from mimetypes import guess_type
from pathlib import Path

from teia.clock import Clock, FastClock
from teia.crawler.loop import Crawler
from teia.crawler.robots import RobotsDecision
from teia.crawler.running_collection import Crawl, CrawlState
from teia.crawler.signals_in.announcements import CacheArrival, CacheRequest
from teia.crawler.visit import ActiveVisit
from teia.errors import ConfigError, TeiaError
from teia.fetch.destination import read_caches
from teia.fetch.fetcher import Fetcher, FetchRequest
from teia.frontier.queue.schedule import HostQueue, HostSchedule
from teia.frontier.traps.url_shapes import trap_of
from teia.records import Fetched, Outcome
from teia.signals.announce import AnnouncementSocket, Datagram, PathTaken
from teia.urls import canonicalize, split

logger = logging.getLogger(__name__)

TICK_S = 0.05
AT_ONCE = 8
MAX_AGE_S = 10 * 365 * 86_400.0

WAITING_FOR_ROBOTS = 256
ROBOTS_TICKS = 1_200
"""Ticks that a page waits for its server's robots.txt (a minute) before it is skipped."""

PROXY_PAUSE_TICKS = 100
"""Ticks without requests after the cache could not be reached."""

MISTRUST_TICKS = 12_000
"""Ticks without requests after the proxy requested a page from its server for the crawler: ten minutes."""

ECHO_S, MAX_ECHOES = 1.0, 1_000
"""Echo window: the first announcement so soon after a page's request to the cache is caused by that request."""

USABLE = frozenset({200, 203, 301, 302, 303, 304, 307, 308})
SERVER_STATUSES = USABLE | {204, 206, 300, 404, 410}
"""Statuses that come from the page's server; other answers may be the proxy's own."""

NOT_CACHED = 504
_AGE = re.compile(rb"^age:[ \t]*([0-9]{1,10})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_CACHE = re.compile(rb"^x-cache:[ \t]*(hit|miss)\b", re.IGNORECASE | re.MULTILINE)
_NO_DOCUMENTS = ("image/", "font/", "video/", "audio/", "text/css", "text/javascript", "application/javascript")


def age_s(head: bytes) -> float:
    """Return the maximum age of a cached answer, by its Age in whole seconds; 1 s without an Age."""
    match = _AGE.search(head)
    return 1.0 + (min(float(match[1]), MAX_AGE_S) if match else 0.0)


def is_from_cache(head: bytes) -> bool:
    """Tell whether an answer came from the cache alone; the last X-Cache is that of the requested proxy."""
    statuses = _CACHE.findall(head)
    return statuses[-1].lower() == b"hit" if statuses else _AGE.search(head) is not None


@dataclass(slots=True)
class CacheProxy:
    """One of the operator's caches, as the collector uses it."""

    address: str
    port: int
    under_way: int = 0
    pause_ticks: int = 0
    max_in_flight: int = 1
    has_warned: bool = False

    @property
    def has_room(self) -> bool:
        return not self.pause_ticks and self.under_way < self.max_in_flight


class ProxyCollector:
    """One collection's announcements, from datagram to commit; lives on the loop."""

    def __init__(
        self,
        crawler: Crawler,
        crawl: Crawl,
        fetcher: Fetcher,
        schedule: HostSchedule,
        clock: Clock,
    ) -> None:
        self._crawler, self._crawl, self._fetcher = crawler, crawl, fetcher
        self._schedule, self._clock = schedule, clock
        assert crawl.committer.announced is not None, "a collection with a socket takes announcements"
        self._announced = crawl.committer.announced
        signals = crawl.config.signals
        self._caches = {name: CacheProxy(*at) for name, at in read_caches(signals.proxy, signals.caches).items()}
        self._second_s = clock.factor if isinstance(clock, FastClock) else 1.0  # the cache uses real seconds
        self._waiting: dict[CacheRequest, tuple[int, HostQueue]] = {}
        self._requested: OrderedDict[str, float] = OrderedDict()

    # -- announcements in ----------------------------------------------------------------------------------

    def receive(self, datagram: Datagram) -> None:
        """Process a datagram: add the helper's counts, keep the URLs that are in scope."""
        for what, number in datagram.counts.items():
            self._announced.count(what, number)
        if datagram.cache and datagram.cache not in self._caches:
            self._announced.count("unknown_cache", len(datagram.urls))
        elif self._crawl.state.is_active:
            room = self._announced.room
            urls = [url for url in map(self._in_scope, datagram.urls[:room]) if url is not None]
            self._announced.receive(urls, datagram.cache)
            self._announced.count("dropped", len(datagram.urls[room:]))

    def _in_scope(self, text: str) -> str | None:
        """Return the canonical URL of an announced page in scope; count others by the reason why they are not."""
        config = self._crawl.config
        url = canonicalize(text, config.scope.url_rules)
        if url is None:
            self._announced.count("malformed")
        # Credentials or a query may identify a person.
        elif "@" in text.partition("//")[2].partition("/")[0] or ("?" in url and not config.signals.queries):
            self._announced.count("private")
        elif self._is_echo(url):
            self._announced.count("echoes")
        elif (guess_type(split(url).path)[0] or "").startswith(_NO_DOCUMENTS):
            self._announced.count("no_document")
        elif not self._crawl.is_in_scope(url) or trap_of(url, config.limits):
            self._announced.count("out_of_scope")
        else:
            return url
        return None

    def _is_echo(self, url: str) -> bool:
        """Tell whether the crawler's own request caused an announcement: helpers report it unless Squid filters it."""
        return self._clock.ticks_s() - self._requested.pop(url, -inf) < ECHO_S * self._second_s

    # -- requests to the cache -----------------------------------------------------------------------------

    def tick(self) -> None:
        """Request wanted pages from their caches, a limited number at a time."""
        for each in self._caches.values():
            each.pause_ticks = max(0, each.pause_ticks - 1)
        while self._announced.absorbed:
            self._submit(self._announced.absorbed.popleft())
        while self._announced.refused:
            self._drop(self._announced.refused.popleft(), "refused")
        if self._crawl.state is not CrawlState.RUNNING:
            return
        # A copy, because `_consider` changes the dictionary.
        for wanted, (ticks, _) in list(self._waiting.items()):
            cache = self._cache_of(wanted)
            if cache is None or cache.has_room:
                self._consider(wanted, ticks + 1)
        # Each once: those whose cache has no room go behind the others, in their order.
        for _ in range(len(self._announced.wanted)):
            if len(self._waiting) >= WAITING_FOR_ROBOTS:
                break
            wanted = self._announced.wanted.popleft()
            cache = self._cache_of(wanted)
            if cache is None or cache.has_room:
                self._consider(wanted, 0)
            elif cache.pause_ticks and len(self._caches) > 1:  # else pages of the other caches would wait behind it
                self._announced.count("unreachable")
            else:
                self._announced.wanted.append(wanted)

    def _cache_of(self, wanted: CacheRequest) -> CacheProxy | None:
        """Return the cache that announced a page; that of `signals.proxy` if it is not known any more."""
        return self._caches.get(wanted.cache) or self._caches.get("")

    def _consider(self, wanted: CacheRequest, ticks: int) -> None:
        """Request a page from the cache, unless that is not allowed, or not yet."""
        waited = self._waiting.pop(wanted, None)
        if waited is not None:
            waited[1].users -= 1
        item, refresh = wanted.item, self._crawl.committer.refresh
        if not wanted.is_known and refresh is not None and refresh.is_full:
            self._announced.count("refused")
            return
        queue = self._crawl.host_queue(wanted.host, wanted.host_id, self._schedule)
        if item.key in queue.loaded:
            self._announced.count("under_way")
        elif not self._crawl.may_start(queue, item) or self._crawl.refusal(queue, item) is not None or queue.parked:
            self._announced.count("refused")
        else:
            decision = self._check_robots(wanted, queue)
            if decision is RobotsDecision.GO:
                self._request(wanted, queue)
            elif decision is RobotsDecision.LATER and ticks < ROBOTS_TICKS:
                # The host stays in memory until then, and with it the rules that are read from disk.
                queue.users += 1
                self._waiting[wanted] = (ticks, queue)
            else:
                self._announced.count("refused")

    def _check_robots(self, wanted: CacheRequest, queue: HostQueue) -> RobotsDecision:
        """Check robots.txt for the page; if it is not known, fetch it from the server, as for any page."""
        if not self._crawl.config.courtesy.robots:
            return RobotsDecision.GO
        parts = split(wanted.item.url)
        origin = f"{parts.scheme}://{parts.authority}"
        robots = self._crawl.robots
        known = robots.rules_of(origin, self._clock.now_s())
        if known is not None:
            allows = not known.rules.unreachable and known.rules.allows(wanted.item.url)
            return RobotsDecision.GO if allows else RobotsDecision.SETTLED
        if not queue.knows_robots and queue.host_id:
            self._refill(queue)  # an earlier run may have stored it
        elif origin not in robots.awaited:
            robots.awaited.add(origin)
            self._crawl.queue_prerequisite(robots.prerequisite(origin, wanted.item.since_s), self._schedule)
        return RobotsDecision.LATER

    def _refill(self, queue: HostQueue) -> None:
        queue.exhausted = False
        self._crawl.refill_if_low(queue)

    def _request(self, wanted: CacheRequest, queue: HostQueue) -> None:
        item, cache = wanted.item, self._cache_of(wanted)
        if cache is None:
            self._announced.count("by_ourselves")
            self._announced.visits.append(item.url)
            return
        visit = ActiveVisit(queue, item, cache.address, self._clock.ticks_s(), from_cache=True)
        request = FetchRequest(
            item.url,
            cache.address,
            cache.port,
            item.etag or None,
            item.last_modified or None,
            self._crawl.config.limits.body_bytes,
            cache_only=True,
            guard=self._crawl.destinations.guard,
        )
        # Loaded: the crawl itself does not fetch the page meanwhile.
        queue.loaded.add(item.key)
        self._requested[item.url] = self._clock.ticks_s()
        if len(self._requested) > MAX_ECHOES:
            self._requested.popitem(last=False)
        self._crawl.note_start(visit)
        cache.under_way += 1
        self._announced.count("asked")
        self._fetcher.start(request, partial(self._handle_answer, wanted, visit, cache))

    # -- answers of the cache ------------------------------------------------------------------------------

    def _handle_answer(self, wanted: CacheRequest, visit: ActiveVisit, cache: CacheProxy, fetched: Fetched) -> None:
        cache.under_way -= 1
        if not fetched.status:
            is_over = fetched.outcome == Outcome.SYSTEM
            cache.pause_ticks = PROXY_PAUSE_TICKS
            self._drop(visit, "given_up" if is_over else "unreachable")
            return
        if fetched.status == NOT_CACHED:
            self._drop(visit, "not_cached")
            if self._crawl.config.signals.not_cached == "visit":
                self._announced.visits.append(visit.item.url)
            return
        if fetched.status in SERVER_STATUSES and not is_from_cache(fetched.head):
            self._mistrust(visit, cache)
            return
        if fetched.status not in USABLE or fetched.truncated:
            self._drop(visit, "unusable")
            return
        cache.max_in_flight = AT_ONCE
        self._count_served(fetched)
        before_s = age_s(fetched.head) * self._second_s
        dated = replace(fetched, started_s=fetched.started_s - before_s)
        if dated.started_s <= wanted.captured_s:
            self._drop(visit, "no_newer")
        elif wanted.is_known:
            self._crawler.accept_answer(self._crawl, visit, dated)
        else:
            # An unknown page becomes known in the commit thread before it goes on.
            self._announced.arrivals.append(CacheArrival(visit, dated))

    def _mistrust(self, visit: ActiveVisit, cache: CacheProxy) -> None:
        """Stop requesting for a while: the proxy contacted a server for the crawler within its politeness delay."""
        cache.max_in_flight, cache.pause_ticks = 1, MISTRUST_TICKS
        self._drop(visit, "not_from_cache")
        if not cache.has_warned:
            cache.has_warned = True
            at = f"{cache.address} port {cache.port}"
            logger.warning("signals.proxy: %s ignores only-if-cached; it is tested again every ten minutes", at)

    def _count_served(self, fetched: Fetched) -> None:
        """Count pages that the cache served, and those served within a second, which is the paper's measure."""
        self._announced.count("served")
        if (fetched.ended_s - fetched.started_s) / self._second_s < 1.0:
            self._announced.count("served_within_1s")

    def _submit(self, arrival: CacheArrival) -> None:
        """Continue with a page that the frontier knows by now."""
        self._crawler.accept_answer(self._crawl, arrival.visit, arrival.fetched)

    def _drop(self, visit: ActiveVisit, why: str) -> None:
        """Leave a page unchanged, and release it for the next visit."""
        self._announced.count(why)
        self._crawl.forget(visit)
        visit.queue.loaded.discard(visit.item.key)
        self._refill(visit.queue)


# ---- together with a crawler ----------------------------------------------------------------------------------------


@asynccontextmanager
async def run_collectors(
    crawler: Crawler,
    fetcher: Fetcher,
    schedule: HostSchedule,
    clock: Clock,
    park: Callable[[str, TeiaError], None] | None = None,
) -> AsyncIterator[None]:
    """Listen for announcements while the block runs, for every collection that wants them.

    With `park`, a collection whose socket cannot be made is reported to it and ends; the others continue.
    """
    wanting = [crawl for crawl in crawler.crawls if crawl.config.signals.socket]
    collectors = [ProxyCollector(crawler, crawl, fetcher, schedule, clock) for crawl in wanting]
    by_path: dict[str, list[ProxyCollector]] = {}
    for crawl, collector in zip(wanting, collectors, strict=True):
        by_path.setdefault(crawl.config.signals.socket, []).append(collector)
    with contextlib.ExitStack() as stack:
        loop = asyncio.get_running_loop()
        for path, listeners in by_path.items():
            try:
                socket = AnnouncementSocket(Path(path))
            except ConfigError as error:
                if isinstance(error, PathTaken) and all(crawl.ownership.gets_forwarded_signals for crawl in wanting):
                    logger.warning("%s; signals received by other nodes are still forwarded to this one", error)
                    continue
                if park is None:
                    raise
                for crawl in wanting:
                    if crawl.config.signals.socket == path:
                        crawl.fail(error)
                        park(crawl.name, error)
                continue
            stack.callback(socket.close)
            loop.add_reader(socket.fileno(), _receive, socket, listeners)
            stack.callback(loop.remove_reader, socket.fileno())
        task = loop.create_task(_run_ticks(collectors)) if collectors else None
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


def _receive(socket: AnnouncementSocket, collectors: Sequence[ProxyCollector]) -> None:
    for datagram in socket.receive():
        for collector in collectors:
            collector.receive(datagram)


async def _run_ticks(collectors: Sequence[ProxyCollector]) -> None:
    while True:
        for collector in collectors:
            collector.tick()
        await asyncio.sleep(TICK_S)
