"""What comes next: the order in which a crawl would take the URLs that wait, if nothing new were found (A6, C1).

Hosts go side by side. Each gives one URL, rests, gives the next; so the k-th URL of a host is expected k slots after
the host is ready. Of hosts that are ready, the one whose URL has waited longest goes first (KLWF). Within a host it is
the crawler's own order: retries that are due, then new URLs by the collection's order, with known pages in turns where
pages are kept fresh (refreshing.py). What is looked at is bounded: so many hosts, so many URLs.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from teia.config import Config
from teia.crawl.hosttable import HostLine, HostTable
from teia.crawl.lookup import Lookup
from teia.crawl.refreshing import in_turns
from teia.frontier import revisits
from teia.frontier.cell import FrontierCell
from teia.frontier.schedule import Queued
from teia.frontier.schema import LANE_DUE, LANE_LATER, LANE_NEW, LANE_REFRESH
from teia.frontier.taking import of_lane, of_page
from teia.urls import site_of, slot_of

HOSTS_LOOKED_AT = 100
MATCHED_AMONG = 3_000
"""URLs that are looked through for a text, of all hosts that are looked at together."""

OF_EACH_AT_LEAST = 20

KNOWN_AT_FIRST, KNOWN_LOOKED_AT = 8, 500

SOURCES = {LANE_NEW: "new", LANE_DUE: "retry", LANE_REFRESH: "refresh", LANE_LATER: "suspect"}


@dataclass(frozen=True, slots=True)
class Coming:
    """A URL that waits: when it is expected, and how many of its host come before it. Times are Unix seconds."""

    expected_s: float
    host: str
    url: str
    source: str
    ahead: int
    since_s: float
    depth: int
    failures: int


@dataclass(frozen=True, slots=True)
class Filter:
    """Which of the URLs are wanted; empty is all."""

    host: str = ""
    contains: str = ""
    source: str = ""
    depth: int | None = None

    @property
    def is_picky(self) -> bool:
        """Whether URLs have to be looked at one by one."""
        return bool(self.contains or self.source or self.depth is not None)

    def wants(self, item: Queued) -> bool:
        return (
            self.contains in item.url
            and (not self.source or SOURCES.get(item.lane) == self.source)
            and (self.depth is None or item.depth == self.depth)
        )


def coming(lookup: Lookup, table: HostTable, config: Config, now_s: float, limit: int, only: Filter) -> list[Coming]:
    """The first URLs that would be taken, in order, as far as they are wanted."""
    lines = [line for line in _candidates(table, only) if line.cell < len(lookup.cells)]
    most = max(OF_EACH_AT_LEAST, MATCHED_AMONG // max(1, len(lines))) if only.is_picky else MATCHED_AMONG
    hosts = [_Host(lookup.cells[line.cell], line, config, now_s, only, most) for line in lines]
    heap = [(*host.turn, number, host) for number, host in enumerate(hosts) if host.turn is not None]
    heapq.heapify(heap)
    found: list[Coming] = []
    while heap and len(found) < limit:
        *_, number, host = heap[0]
        found.append(host.take())
        if host.turn is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (*host.turn, number, host))
    return found


def _candidates(table: HostTable, only: Filter) -> list[HostLine]:
    """The hosts that could have the first URLs: those that are ready first."""
    if only.host:
        line = table.hosts.get(only.host)
        return [line] if line is not None else []
    waiting = (line for line in table.hosts.values() if not line.parked and line.waits.any)
    return heapq.nsmallest(HOSTS_LOOKED_AT, waiting, key=lambda line: (line.ready_at_s or 0.0, line.host))


class _Host:
    """One host's URLs one after the other; `turn` is (expected, waiting since) of the next, None if there is none."""

    def __init__(
        self, frontier: FrontierCell, line: HostLine, config: Config, now_s: float, only: Filter, most: int
    ) -> None:
        self._most = most
        self._db, self._line, self._settings, self._only = frontier.db, line, config.refresh, only
        self._place = (slot_of(site_of(line.host)), line.host_id)
        self._begins_s = max(now_s, line.ready_at_s or 0.0)
        self._wanted = self._in_time()
        self._next = next(self._wanted, None)

    @property
    def turn(self) -> tuple[float, float] | None:
        return (self._next[1], self._next[2].since_s) if self._next is not None else None

    def take(self) -> Coming:
        assert self._next is not None
        ahead, expected_s, item = self._next
        self._next = next(self._wanted, None)
        source = SOURCES.get(item.lane, "new")
        return Coming(expected_s, self._line.host, item.url, source, ahead, item.since_s, item.depth, item.failures)

    def _in_time(self) -> Iterator[tuple[int, float, Queued]]:
        for ahead, (item, at_s) in enumerate(islice(self._slots(), self._most)):
            if self._only.wants(item):
                yield ahead, at_s, item

    def _slots(self) -> Iterator[tuple[Queued, float]]:
        """One URL a slot, as refills would read them, each with when it goes; where none is ready the host waits."""
        waits = self._line.waits
        new = self._lane(LANE_NEW) if waits.new else iter(())
        retries = self._lane(LANE_DUE) if waits.retry else iter(())
        has_known = self._settings.keep and (waits.refresh_due or waits.refresh_later)
        known = self._known() if has_known else iter(())
        url, again, page = next(new, None), next(retries, None), next(known, None)
        at_s, number = self._begins_s, self._line.requests
        while url is not None or again is not None or page is not None:
            is_due = again is not None and again.since_s <= at_s
            found = again if is_due else url
            first = [page[0]] if page is not None and self._ready_s(page, has_new=found is not None) <= at_s else []
            chosen = in_turns([found] if found is not None else [], first, 1, self._settings.share, number)
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
        for suspect in self._lane(LANE_LATER) if waits.suspect else ():
            yield suspect, at_s
            at_s += self._line.slot_s

    def _ready_s(self, page: tuple[Queued, revisits.Next], *, has_new: bool) -> float:
        """When a known page may go: early only where there is nothing new, and never sooner than `least_s`."""
        return max(page[1].due_s if has_new else 0.0, page[1].asked_s + self._settings.least_s)

    def _lane(self, lane: int) -> Iterator[Queued]:
        return of_lane(self._db, self._line.host, (*self._place, lane), 1 << 62, self._most, ())

    def _known(self) -> Iterator[tuple[Queued, revisits.Next]]:
        seen: set[int] = set()
        for some in (KNOWN_AT_FIRST, KNOWN_LOOKED_AT):
            for each in revisits.next_known(self._db, *self._place, some, seen):
                seen.add(each.key)
                item = of_page(self._db, self._line.host, *self._place, each.key)
                if item is not None:
                    yield item, each
