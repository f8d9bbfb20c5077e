"""Every waiting URL, one after the other, with its reason: for downloads.

There may be millions of them, and the reader may be slow. So a collection is opened for some thousand URLs at a time,
and nothing is held in between: neither memory nor an old snapshot of the frontier, which a running crawl would have to
keep for the reader. Hosts are sorted by name; within a host retries come first, then new URLs, then known pages, then
suspected traps. A URL that moves meanwhile may appear twice or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from teia.config.sections import Config
from teia.crawler.lookup import Lookup
from teia.frontier.cell.schema import LANE_DUE, LANE_LATER, LANE_NEW, LANE_REFRESH
from teia.frontier.cell.take import InLane, all_of_lane
from teia.urls import site_of, slot_of
from teia.views.hosts import HostLine, HostTable, Waits
from teia.views.queue import SOURCES, Filter, first_key, time_or_never, why_of

AT_ONCE = 2_000
_FIRST = (-(1 << 63), -(1 << 63))

Open = Callable[[], AbstractContextManager[Lookup]]
WeighKeys = Callable[[Sequence[tuple[int, int]]], Sequence[float | None]]
"""From (key, links to it) of URLs to their weights; None where they are not known."""


@dataclass(frozen=True, slots=True)
class Waiting:
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
    opened: Open, table: HostTable, config: Config, only: Filter, now_s: float, weigh: WeighKeys
) -> Iterator[list[Waiting]]:
    """Yield all waiting URLs that match, some thousand at a time."""
    lines = [table.hosts[only.host]] if only.host in table.hosts else [] if only.host else _by_name(table)
    for line in lines:
        yield from _of_host(opened, line, config, only, now_s, weigh)


def _by_name(table: HostTable) -> list[HostLine]:
    return sorted((line for line in table.hosts.values() if line.waits.any), key=lambda line: line.host)


def _of_host(
    opened: Open, line: HostLine, config: Config, only: Filter, now_s: float, weigh: WeighKeys
) -> Iterator[list[Waiting]]:
    with opened() as lookup:
        if line.cell >= len(lookup.cells):  # cells were joined since the hosts were counted
            return
        first = first_key(lookup.cells[line.cell], line, config, now_s)
    place = (slot_of(site_of(line.host)), line.host_id)
    for lane in _lanes(line.waits):
        after: tuple[int, int] | None = _FIRST
        while after is not None:
            with opened() as lookup:
                if line.cell >= len(lookup.cells):  # or since the last of them were read
                    return
                items = all_of_lane(lookup.cells[line.cell].db, line.host, (*place, lane), after, AT_ONCE)
            after = (items[-1].rank, items[-1].key) if len(items) == AT_ONCE else None
            whys = [why_of(item, line, now_s, is_first=item.key == first) for item in items]
            found = zip(items, whys, strict=True)
            kept = [(item, why) for item, why in found if only.wants(item) and only.why in ("", why)]
            weights = weigh([(item.key, item.in_links) for item, _ in kept])
            yield [_waiting(line.host, *each, weight) for each, weight in zip(kept, weights, strict=True)]


def _lanes(waits: Waits) -> list[int]:
    known = waits.refresh_due + waits.refresh_later
    numbers = ((LANE_DUE, waits.retry), (LANE_NEW, waits.new), (LANE_REFRESH, known), (LANE_LATER, waits.suspect))
    return [lane for lane, number in numbers if number]


def _waiting(host: str, item: InLane, why: str, weight: float | None) -> Waiting:
    source, since = SOURCES.get(item.lane, "new"), time_or_never(item.since_s)
    return Waiting(item.url, host, why, source, since, item.depth, item.failures, item.in_links, weight)
