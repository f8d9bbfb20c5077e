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
from itertools import chain, islice

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

HOSTS_LOOKED_AT = 300
MATCHED_AMONG = 20_000
"""URLs of one host that are looked through for a text."""

KNOWN_LOOKED_AT = 500

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

    def wants(self, item: Queued) -> bool:
        return (
            self.contains in item.url
            and (not self.source or SOURCES.get(item.lane) == self.source)
            and (self.depth is None or item.depth == self.depth)
        )


def coming(lookup: Lookup, table: HostTable, config: Config, now_s: float, limit: int, only: Filter) -> list[Coming]:
    """The first URLs that would be taken, in order, as far as they are wanted."""
    hosts = [
        _Host(lookup.cells[line.cell], line, config, now_s, only)
        for line in _candidates(table, only)
        if line.cell < len(lookup.cells)
    ]
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
    waiting = (line for line in table.hosts.values() if not line.parked and (line.waiting or line.waits.refresh_due))
    return heapq.nsmallest(HOSTS_LOOKED_AT, waiting, key=lambda line: (line.ready_at_s or 0.0, line.host))


class _Host:
    """One host's URLs one after the other; `turn` is (expected, waiting since) of the next, None if there is none."""

    def __init__(self, frontier: FrontierCell, line: HostLine, config: Config, now_s: float, only: Filter) -> None:
        self._db, self._line, self._settings = frontier.db, line, config.refresh
        self._now_s, self._only = now_s, only
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
        for ahead, (item, ready_s) in enumerate(islice(chain(self._in_turns(), self._later()), MATCHED_AMONG)):
            if self._only.wants(item):
                yield ahead, max(self._begins_s + ahead * self._line.slot_s, ready_s), item

    def _in_turns(self) -> Iterator[tuple[Queued, float]]:
        """URLs as refills would read them, each with when it may go at the earliest."""
        unread = chain(self._lane(LANE_DUE, int(self._now_s * 1000)), self._lane(LANE_NEW, 1 << 62))
        new, number = next(unread, None), self._line.requests
        known = self._known(has_new=new is not None) if self._settings.keep else iter(())
        page = next(known, None)
        while new is not None or page is not None:
            first = [page[0]] if page is not None else []
            (item,) = in_turns([new] if new is not None else [], first, 1, self._settings.share, number)
            number += 1
            if page is not None and item is page[0]:
                yield page
                page = next(known, None)
            else:
                yield item, 0.0
                new = next(unread, None)

    def _lane(self, lane: int, before: int) -> Iterator[Queued]:
        return of_lane(self._db, self._line.host, (*self._place, lane), before, MATCHED_AMONG, ())

    def _known(self, *, has_new: bool) -> Iterator[tuple[Queued, float]]:
        for each in revisits.next_known(self._db, *self._place, KNOWN_LOOKED_AT, ()):
            item = of_page(self._db, self._line.host, *self._place, each.key)
            if item is not None:
                yield item, max(each.due_s if has_new else 0.0, each.asked_s + self._settings.least_s)

    def _later(self) -> Iterator[tuple[Queued, float]]:
        """Retries that are not due yet, and what may be a trap: after everything else."""
        for item in self._lane(LANE_DUE, 1 << 62):
            if item.since_s > self._now_s:
                yield item, item.since_s
        for item in self._lane(LANE_LATER, 1 << 62):
            yield item, 0.0
