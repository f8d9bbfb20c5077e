"""Queue preview: the order in which a crawl would fetch the waiting URLs, if nothing new were found (A6, C1).

Hosts run in parallel. Each host gives one URL, waits for its politeness delay, and gives the next; so the k-th URL of a
host is expected k slots after the host is ready. Among ready hosts, the one whose URL has waited longest goes first
(KLWF). Within a host the preview uses the crawler's own order: due retries, then new URLs in the collection's order,
alternating with known pages where pages are kept fresh (crawler/keep_fresh/keep_fresh.py). Where the running crawl has
a budget for all hosts, a slot is as long as the budget makes it, and new URLs have the share that their value gives
them (host_budget.py). The numbers of hosts and of URLs that are read are bounded.

The reason why a URL waits is one word, the same as in `WaitReasons`. If a host has a URL to fetch, one URL is `next`,
or `resting` during the delay, and its others are `behind` it. `retry` failed and `not_due` is known; the times of both
are in the future. `suspect` may be a trap. `parked` belongs to a host that the crawler leaves alone for an unknown
time.

Downloads list every waiting URL. There may be millions of them, and the reader may be slow. So a collection is opened
for some thousand URLs at a time, and nothing is held in between: neither memory nor an old snapshot of the frontier,
which a running crawl would have to keep for the reader. Hosts are sorted by name; within a host retries come first,
then new URLs, then known pages, then suspected traps. A URL that moves meanwhile may appear twice or not at all.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from itertools import islice

from teia.clock import iso_utc
from teia.config.sections import Config, RefreshSettings
from teia.crawler.keep_fresh.keep_fresh import interleave
from teia.crawler.lookup import Lookup
from teia.frontier.cell import revisits
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.cell.schema import LANE_DUE, LANE_LATER, LANE_NEW, LANE_REFRESH
from teia.frontier.cell.take import LaneUrl, read_lane, read_lane_after, read_lane_urls, read_refresh_page
from teia.frontier.queue.order import order_named
from teia.urls import host_of, site_of, slot_of
from teia.views.host_budget import BudgetPaces
from teia.views.hosts import HostLine, HostTable, HostWaitReasons

MAX_HOSTS_SCANNED = 100
MAX_URLS_SCANNED = 2_000
"""Most URLs searched for a text, over all hosts together."""

MIN_PER_HOST = 20

NEVER_S = revisits.LATEST_S / 10
"""A time later than any calendar date."""

FIRST_KNOWN_READ, MAX_KNOWN_READ = 8, 500

SOURCES = {LANE_NEW: "new", LANE_DUE: "retry", LANE_REFRESH: "refresh", LANE_LATER: "suspect"}
FIRST = frozenset({"next", "resting"})
"""Reasons of the first URL of a host, among URLs that wait only for their turn."""


@dataclass(frozen=True, slots=True)
class QueuePreview:
    """A waiting URL: its expected time, its reason, and how many of its host come before it.

    Times are Unix seconds. A parked host has no expected times, nor has a page that no plan revisits.
    """

    expected_s: float | None
    host: str
    url: str
    source: str
    why: str
    ahead: int
    since_s: float
    depth: int
    failures: int


@dataclass(frozen=True, slots=True)
class QueueFilter:
    """Filter on the waiting URLs; an empty field matches all."""

    host: str = ""
    contains: str = ""
    source: str = ""
    depth: int | None = None
    why: str = ""

    @property
    def needs_scan(self) -> bool:
        """True if URLs must be read one by one."""
        return bool(self.contains or self.source or self.depth is not None)

    def wants(self, item: QueuedUrl | LaneUrl) -> bool:
        return (
            self.contains in item.url
            and (not self.source or SOURCES.get(item.lane) == self.source)
            and (self.depth is None or item.depth == self.depth)
        )


def expected_s(lookup: Lookup, table: HostTable, config: Config, now_s: float, url: str) -> float | None:
    """Return the time at which a waiting URL would be fetched; None if it is not among the first of its host."""
    host = host_of(url)
    if host not in table.hosts:
        return None
    # Other URLs of the host may contain this one.
    found = preview_queue(lookup, table, config, now_s, MIN_PER_HOST, QueueFilter(host=host, contains=url))
    return next((each.expected_s for each in found if each.url == url), None)


def preview_queue(
    lookup: Lookup, table: HostTable, config: Config, now_s: float, limit: int, only: QueueFilter
) -> list[QueuePreview]:
    """Return the first URLs that would be fetched, in order, as far as they match the filter."""
    # The table may be older than the cells.
    lines = [line for line in _candidates(table, only, now_s) if line.cell < len(lookup.cells)]
    # With a filter few URLs may match, so the limit of all hosts together is shared out.
    most = max(MIN_PER_HOST, MAX_URLS_SCANNED // max(1, len(lines))) if only.needs_scan else MAX_URLS_SCANNED
    paces = BudgetPaces(lookup, config, now_s)
    with ExitStack() as stack:
        hosts = [
            stack.enter_context(
                closing(_Host(lookup.cells[line.cell], *paces.of_host(line), config, now_s, only, most))
            )
            for line in lines
        ]
        # The number breaks ties: hosts cannot be compared.
        heap = [(*host.priority, number, host) for number, host in enumerate(hosts) if host.priority is not None]
        heapq.heapify(heap)
        found: list[QueuePreview] = []
        while heap and len(found) < limit:
            *_, number, host = heap[0]
            found.append(host.pop())
            if host.priority is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (*host.priority, number, host))
        return found


def time_or_never(unix_s: float | None) -> str | None:
    """Format a time as in all our JSON; None for a time that never comes."""
    return None if unix_s is None or unix_s >= NEVER_S else iso_utc(unix_s)


def _candidates(table: HostTable, only: QueueFilter, now_s: float) -> list[HostLine]:
    """Return the hosts that could have the first URLs: those that are ready first."""
    if only.host:
        line = table.hosts.get(only.host)
        return [line] if line is not None and (not only.why or _may_have(line, only.why, now_s)) else []
    waiting = (line for line in table.hosts.values() if line.waits.any and _may_have(line, only.why, now_s))
    return heapq.nsmallest(MAX_HOSTS_SCANNED, waiting, key=lambda line: (line.ready_at_s or 0.0, line.host))


_REASON_TESTS: dict[str, Callable[[HostLine, float], bool]] = {
    "next": lambda line, now_s: line.waits.ready > 0 and (line.ready_at_s or 0.0) <= now_s,
    "resting": lambda line, now_s: line.waits.ready > 0 and (line.ready_at_s or 0.0) > now_s,
    "behind": lambda line, _: line.waits.ready > 1,
    "retry": lambda line, _: line.waits.retry > 0,  # some may have become due since they were counted, or come later
    "suspect": lambda line, _: line.waits.suspect > 0,
    "not_due": lambda line, _: line.waits.refresh_later > 0,
}


def _may_have(line: HostLine, why: str, now_s: float) -> bool:
    """Tell whether a host may have URLs that wait for this reason; without one, whether any is expected at all."""
    if why == "parked":
        return bool(line.parked)
    return (why == "not_due" or not line.parked) and (not why or _REASON_TESTS[why](line, now_s))


def find_next_key(frontier: FrontierCell, line: HostLine, config: Config, now_s: float) -> int | None:
    """Return the key of the next URL of a host; None if all wait for a time in the future."""
    with closing(_Host(frontier, line, config.refresh, config, now_s, QueueFilter(), MIN_PER_HOST)) as found:
        return next((item.key for *_, item, why in found.scan() if why in FIRST), None)


def wait_reason(item: QueuedUrl | LaneUrl, line: HostLine, now_s: float, *, is_first: bool) -> str:
    """Return the reason why a URL waits; `is_first`: no URL of its host that waits for its turn precedes it."""
    if line.parked and not (item.lane == LANE_REFRESH and item.since_s > now_s):
        return "parked"
    if item.lane == LANE_LATER:
        return "suspect"
    if item.lane != LANE_NEW and item.since_s > now_s:
        return "retry" if item.lane == LANE_DUE else "not_due"
    if not is_first:
        return "behind"
    return "resting" if (line.ready_at_s or 0.0) > now_s else "next"


class _Host:
    """Iterator over one host's URLs; `priority` is (expected, waiting since) of the next, None if there is none.

    It must be closed: it reads the cell, and as long as it does SQLite's log of the cell grows.
    """

    def __init__(
        self,
        frontier: FrontierCell,
        line: HostLine,
        settings: RefreshSettings,
        config: Config,
        now_s: float,
        only: QueueFilter,
        most: int,
    ) -> None:
        self._most = most
        self._frontier, self._line, self._settings, self._only = frontier, line, settings, only
        self._by_arrival = order_named(config.collection.order).by_arrival
        self._row_key = (slot_of(site_of(line.host)), line.host_id)
        self._now_s, self._begins_s = now_s, max(now_s, line.ready_at_s or 0.0)
        self._wanted = self._matching()
        self._next = next(self._wanted, None)

    @property
    def priority(self) -> tuple[float, float] | None:
        return (self._next[1], self._next[2].since_s) if self._next is not None else None

    def close(self) -> None:
        # Its frame refers to this object: without this both would wait for a search for garbage.
        self._wanted.close()

    def pop(self) -> QueuePreview:
        assert self._next is not None
        ahead, at_s, item, why = self._next
        self._next = next(self._wanted, None)
        expected_s = None if self._line.parked or at_s >= NEVER_S else at_s
        source = SOURCES.get(item.lane, "new")
        state = (item.since_s, item.depth, item.failures)
        return QueuePreview(expected_s, self._line.host, item.url, source, why, ahead, *state)

    def _matching(self) -> Generator[tuple[int, float, QueuedUrl, str]]:
        for each in self.scan():
            if self._only.wants(each[2]) and self._only.why in ("", each[3]):
                yield each
            if self._only.why in FIRST and each[3] in FIRST:
                return  # of each host there is one

    def scan(self) -> Iterator[tuple[int, float, QueuedUrl, str]]:
        """Yield each URL with its position, its time and its reason, up to the limit."""
        has_first = False
        for ahead, item, at_s in islice(self._by_reason(), self._most):
            why = wait_reason(item, self._line, self._now_s, is_first=not has_first)
            has_first = has_first or why in FIRST
            yield ahead, at_s, item, why

    def _by_reason(self) -> Iterator[tuple[int, QueuedUrl, float]]:
        """Yield all URLs in their order; with a filter on a reason whose URLs lie together on disk, only those."""
        if self._only.why not in ("retry", "not_due", "suspect"):
            for ahead, (item, at_s) in enumerate(self._slots()):
                yield ahead, item, at_s
            return
        waits, slot_s = self._line.waits, self._line.slot_s
        free_s = self._begins_s
        for number, (item, ready_s) in enumerate(self._urls_of_reason(waits.ready * slot_s)):
            free_s = max(free_s + (slot_s if number else 0.0), ready_s)
            # Ready URLs that go before it: as many as fit into the time until then.
            before = int((free_s - self._begins_s) / slot_s) if slot_s else waits.queued
            yield number + min(waits.ready, before), item, free_s

    def _urls_of_reason(self, ready_total_s: float) -> Iterator[tuple[QueuedUrl, float]]:
        """Yield the URLs of one reason, each with its earliest time; all ready URLs take `ready_total_s` in total."""
        if self._only.why == "suspect":
            for item in self._lane(LANE_LATER):
                yield item, self._begins_s + ready_total_s
        elif self._only.why == "retry":
            # Behind the greatest key of this millisecond: only later retries follow.
            after = (int(self._now_s * 1000), 1 << 62)
            for item in read_lane_after(self._frontier, self._line.host, (*self._row_key, LANE_DUE), after, self._most):
                yield item, item.since_s
        else:
            for page in self._known(int(self._now_s * 1000)):
                yield page[0], self._ready_s(page, has_new=bool(self._line.waits.new)) + ready_total_s

    def _slots(self) -> Iterator[tuple[QueuedUrl, float]]:
        """Yield one URL a slot with its time, in the order of refills; where none is ready the host waits."""
        waits = self._line.waits
        new = self._lane(LANE_NEW) if waits.new else iter(())
        retries = self._lane(LANE_DUE) if waits.retry else iter(())
        has_known = self._settings.keep and (waits.refresh_due or waits.refresh_later)
        known = self._known() if has_known else iter(())
        url, again, page = next(new, None), next(retries, None), next(known, None)
        at_s, number = self._begins_s, self._line.requests
        while url is not None or again is not None or page is not None:
            is_due = again is not None and again.since_s <= at_s
            # Orders by arrival let a retry wait behind older URLs.
            if again is not None and url is not None and self._by_arrival:
                is_due = is_due and again.since_s <= url.since_s
            found = again if is_due else url
            # A known page goes early only if nothing else could go now.
            first = [page[0]] if page is not None and self._ready_s(page, has_new=found is not None) <= at_s else []
            chosen = interleave([found] if found is not None else [], first, 1, self._settings.share, number)
            # Nothing is ready: the host waits for the first URL that will be.
            if not chosen:
                times = [again.since_s] if again is not None else []
                at_s = min([*times, *([self._ready_s(page, has_new=False)] if page is not None else [])])
                continue
            yield chosen[0], at_s
            at_s, number = at_s + self._line.slot_s, number + 1
            if page is not None and chosen[0] is page[0]:
                page = next(known, None)
            elif is_due:
                again = next(retries, None)
            else:
                url = next(new, None)
        # Suspects go only when nothing else is left.
        for suspect in self._lane(LANE_LATER) if waits.suspect else ():
            yield suspect, at_s
            at_s += self._line.slot_s

    def _ready_s(self, page: tuple[QueuedUrl, revisits.NextPage], *, has_new: bool) -> float:
        """Return the earliest visit time of a known page: early if nothing new waits or a budget paces the host.

        It is never before `least_s`.
        """
        is_early = not has_new or self._line.paced_s > 0
        return max(0.0 if is_early else page[1].due_s, page[1].requested_s + self._settings.least_s)

    def _lane(self, lane: int) -> Iterator[QueuedUrl]:
        return read_lane(self._frontier, self._line.host, (*self._row_key, lane), 1 << 62, self._most, ())

    def _known(self, after_ms: int = -1) -> Iterator[tuple[QueuedUrl, revisits.NextPage]]:
        seen: set[int] = set()
        # Most callers take few: a short read first, a long one only if they go on.
        for limit in (FIRST_KNOWN_READ, MAX_KNOWN_READ):
            for each in revisits.next_pages(self._frontier, *self._row_key, limit, seen, after_ms):
                seen.add(each.key)
                item = read_refresh_page(self._frontier, self._line.host, *self._row_key, each.key)
                if item is not None:
                    yield item, each


# ---- every waiting URL -----------------------------------------------------------------------------------------------


AT_ONCE = 2_000
_FIRST = (-(1 << 63), -(1 << 63))

Open = Callable[[], AbstractContextManager[Lookup]]
WeighKeys = Callable[[Sequence[tuple[int, int]]], Sequence[float | None]]
"""From (key, links to it) of URLs to their weights; None where they are not known."""


@dataclass(frozen=True, slots=True)
class WaitingUrl:
    """A waiting URL. `since` is the time it was found, or the earliest time of its next fetch; null for never."""

    url: str
    host: str
    why: str
    source: str
    since: str | None
    depth: int
    failures: int
    in_links: int
    weight: float | None


def waiting_urls(
    open_lookup: Open, table: HostTable, config: Config, only: QueueFilter, now_s: float, weigh: WeighKeys
) -> Iterator[list[WaitingUrl]]:
    """Yield all waiting URLs that match, some thousand at a time."""
    lines = [table.hosts[only.host]] if only.host in table.hosts else [] if only.host else _sorted_lines(table)
    for line in lines:
        yield from _host_urls(open_lookup, line, config, only, now_s, weigh)


def _sorted_lines(table: HostTable) -> list[HostLine]:
    return sorted((line for line in table.hosts.values() if line.waits.any), key=lambda line: line.host)


def _host_urls(
    open_lookup: Open, line: HostLine, config: Config, only: QueueFilter, now_s: float, weigh: WeighKeys
) -> Iterator[list[WaitingUrl]]:
    with open_lookup() as lookup:
        if line.cell >= len(lookup.cells):  # cells were joined since the hosts were counted
            return
        # Found once: of all lanes one URL is next.
        first = find_next_key(lookup.cells[line.cell], line, config, now_s)
    row_key = (slot_of(site_of(line.host)), line.host_id)
    for lane in _lanes(line.waits):
        after: tuple[int, int] | None = _FIRST
        while after is not None:
            with open_lookup() as lookup:
                if line.cell >= len(lookup.cells):  # or since the last of them were read
                    return
                items = read_lane_urls(lookup.cells[line.cell], line.host, (*row_key, lane), after, AT_ONCE)
            # A full portion: there may be more behind its last URL.
            after = (items[-1].rank, items[-1].key) if len(items) == AT_ONCE else None
            whys = [wait_reason(item, line, now_s, is_first=item.key == first) for item in items]
            found = zip(items, whys, strict=True)
            matching = [(item, why) for item, why in found if only.wants(item) and only.why in ("", why)]
            weights = weigh([(item.key, item.in_links) for item, _ in matching])
            yield [_waiting(line.host, *each, weight) for each, weight in zip(matching, weights, strict=True)]


def _lanes(waits: HostWaitReasons) -> list[int]:
    known = waits.refresh_due + waits.refresh_later
    numbers = ((LANE_DUE, waits.retry), (LANE_NEW, waits.new), (LANE_REFRESH, known), (LANE_LATER, waits.suspect))
    return [lane for lane, number in numbers if number]


def _waiting(host: str, item: LaneUrl, why: str, weight: float | None) -> WaitingUrl:
    source, since = SOURCES.get(item.lane, "new"), time_or_never(item.since_s)
    return WaitingUrl(item.url, host, why, source, since, item.depth, item.failures, item.in_links, weight)
