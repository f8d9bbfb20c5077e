"""Servers that hold the documents, and the dates of these.

These are T8's second table, its 80/8 remark and its figure 4; C5's tables 5 (servers) and 2 (rates by day).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import chain

from teia.frontier.tables.hosts import documents_by_host
from teia.lib.message import Message
from teia.views.reports.source import ANSWERED, Source, share_of

TOP_SHARES = (0.01, 0.02, 0.05, 0.08, 0.10, 0.20, 0.50)
"""Parts of all servers whose documents are counted; 8% is T8's."""

T8_DOCUMENTS = 0.8
BUCKETS = 24
WIDTHS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400, 7 * 86400, 28 * 86400)
"""Widths of time that a person counts in."""


@dataclass(frozen=True, slots=True)
class ServerRow:
    """One of the largest servers."""

    host: str
    documents: int
    share: float


@dataclass(frozen=True, slots=True)
class TopShare:
    """The largest `part` of all servers holds this share of all documents."""

    part: float
    servers: int
    documents: int
    share: float


@dataclass(frozen=True, slots=True)
class Bucket:
    """Documents that came from `start` on, for the report's `bucket_s`."""

    start: str
    documents: int
    wire_bytes: int
    cumulative_share: float


@dataclass(frozen=True, slots=True)
class DayRates:
    """The rates of one day (UTC): `minutes` are those of the day in which a request was sent."""

    day: str
    documents: int
    minutes: int
    documents_per_minute: float


@dataclass(frozen=True, slots=True)
class Servers:
    """Servers by documents. `part_with_80` is the least part of all servers that holds 80% of the documents."""

    servers: int
    documents: int
    documents_per_server: float
    part_with_80: float
    top: tuple[ServerRow, ...]
    concentration: tuple[TopShare, ...]
    bucket_s: int
    over_time: tuple[Bucket, ...]
    by_day: tuple[DayRates, ...]
    notes: tuple[str, ...] = (
        Message(
            "Counted are servers with at least one document. For comparison: Tarântula found"
            " 80% of the documents on 8% of the servers."
        ),
        Message("By day: documents per minute of the day in which the crawler sent a request."),
    )


def servers(source: Source, top: int = 25) -> Servers:
    """Rank servers by the documents held from them, and spread the answers over time."""
    largest: list[tuple[int, str]] = []
    counts: list[int] = []
    for host, number in chain.from_iterable(map(documents_by_host, source.frontiers)):
        counts.append(number)
        heapq.heappush(largest, (number, host))
        if len(largest) > max(1, top):
            heapq.heappop(largest)
    # Largest first, as `part_holding` and `_top_share` expect.
    counts.sort(reverse=True)
    total = sum(counts)
    ranked = sorted(largest, key=lambda each: (-each[0], each[1]))[: top or 0]
    bucket_s, over_time = documents_over_time(source)
    return Servers(
        len(counts),
        total,
        share_of(total, len(counts)),
        part_holding(counts, T8_DOCUMENTS),
        tuple(ServerRow(host, number, share_of(number, total)) for number, host in ranked),
        tuple(_top_share(counts, part) for part in TOP_SHARES) if counts else (),
        bucket_s,
        over_time,
        rates_by_day(source),
    )


def part_holding(counts: list[int], share: float) -> float:
    """Return the least part of all servers, largest first, that holds a share of the documents; 0 if there are none."""
    wanted, held = share * sum(counts), 0
    for number, count in enumerate(counts, 1):
        held += count
        if held >= wanted:
            return number / len(counts)
    return 0.0


def _top_share(counts: list[int], part: float) -> TopShare:
    number = max(1, round(part * len(counts)))
    held = sum(counts[:number])
    return TopShare(part, number, held, share_of(held, sum(counts)))


def documents_over_time(source: Source) -> tuple[int, tuple[Bucket, ...]]:
    """Group the answers into at most about `BUCKETS` buckets of a natural width (hours, days …)."""
    span_sql = "SELECT date_diff('second', min(started), max(started)) FROM fetches"
    span_s = int(source.log.query(span_sql).rows[0][0] or 0)
    # The finest width with at most BUCKETS buckets.
    width_s = next((width for width in WIDTHS_S if span_s / width <= BUCKETS), WIDTHS_S[-1])
    sql = f"""
        SELECT strftime(time_bucket(INTERVAL {width_s} SECOND, started), '%Y-%m-%dT%H:%M:%SZ'), count(*), sum(bytes)
        FROM fetches WHERE {ANSWERED} GROUP BY 1 ORDER BY 1
    """  # noqa: S608  # our own text
    rows = source.log.query(sql).rows
    total = sum(number for _, number, _ in rows)
    buckets, held = [], 0
    for start, number, received in rows:
        held += number
        buckets.append(Bucket(start, int(number), int(received), held / total))
    return width_s, tuple(buckets)


def rates_by_day(source: Source) -> tuple[DayRates, ...]:
    """Return documents a day and a minute (C5's table 2), the first day first."""
    sql = f"""
        SELECT strftime(started, '%Y-%m-%d'), count(*) FILTER (WHERE {ANSWERED}),
               count(DISTINCT time_bucket(INTERVAL 60 SECOND, started))
        FROM fetches GROUP BY 1 ORDER BY 1
    """  # noqa: S608  # our own text
    rows = source.log.query(sql).rows
    return tuple(DayRates(day, int(number), int(minutes), number / minutes) for day, number, minutes in rows)
