"""URLs found against URLs fetched, over the time of the crawl (F: 1,812,143 links found, 936,956 fetched)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from teia.clock import iso_utc
from teia.crawler.fetch_rows import IMPORTED_RUN
from teia.frontier.tables.counts import found_between, urls_by_time_found
from teia.lib.message import Message
from teia.store.fetchlog import OF_PAGES
from teia.views.reports.servers import BUCKETS, WIDTHS_S
from teia.views.reports.source import Source, share_of

FIRST_REQUESTS = f"""
    SELECT min(started) AS started FROM fetches
    WHERE coalesce(run, 0) <> {IMPORTED_RUN} AND {OF_PAGES} GROUP BY url
"""  # noqa: S608  # our own text
"""Query for the time of the first request of each URL; imported requests are not ours."""


@dataclass(frozen=True, slots=True)
class GrowthRow:
    """URLs that were found, and that were fetched for the first time, from `start` on; then all until its end."""

    start: str
    found: int
    fetched: int
    found_in_all: int
    fetched_in_all: int
    share: float


@dataclass(frozen=True, slots=True)
class Growth:
    """URLs found and URLs fetched, in rows of `bucket_s`; `share` is the fetched part of those found."""

    found: int
    fetched: int
    share: float
    bucket_s: int
    over_time: tuple[GrowthRow, ...]
    notes: tuple[str, ...] = (
        Message(
            "Found: canonical URLs in scope, each once. Fetched: those of them with at least one request, whatever came"
            " of it. A gap that grows means that the crawler finds URLs faster than courtesy lets it fetch them."
        ),
    )


def growth(source: Source, top: int = 25) -> Growth:  # noqa: ARG001  # the rows are times, not the largest of many
    """Count URLs by the time at which they were found and first fetched, in buckets of a natural width."""
    spans = [span for span in map(found_between, source.frontiers) if span is not None]
    sql = f"SELECT epoch(min(started)), epoch(max(started)) FROM ({FIRST_REQUESTS})"  # noqa: S608  # our own text
    first_s, last_s = source.log.query(sql).rows[0]
    spans += [(first_s, last_s)] if first_s is not None else []
    if not spans:
        return Growth(0, 0, 0.0, WIDTHS_S[0], ())
    began_s, ended_s = min(first for first, _ in spans), max(last for _, last in spans)
    width_s = next((width for width in WIDTHS_S if (ended_s - began_s) / width <= BUCKETS), WIDTHS_S[-1])
    found = source.count(lambda cell: urls_by_time_found(cell, width_s))
    rows = _rows(found, _fetched(source, width_s), width_s)
    fetched = rows[-1].fetched_in_all
    return Growth(found.total(), fetched, share_of(fetched, found.total()), width_s, rows)


def _fetched(source: Source, width_s: int) -> Counter[int]:
    """Count the URLs by the bucket of their first request."""
    bucket = f"CAST(floor(epoch(started) / {width_s}) AS BIGINT)"
    sql = f"SELECT {bucket}, count(*) FROM ({FIRST_REQUESTS}) GROUP BY 1"  # noqa: S608  # our own text
    return Counter(dict(source.log.query(sql).rows))


def _rows(found: Counter[int], fetched: Counter[int], width_s: int) -> tuple[GrowthRow, ...]:
    rows, found_in_all, fetched_in_all = [], 0, 0
    # Buckets in which nothing was found or fetched have no row: a crawl may have paused for months.
    for bucket in sorted({*found, *fetched}):
        found_in_all += found[bucket]
        fetched_in_all += fetched[bucket]
        share = share_of(fetched_in_all, found_in_all)
        totals = (found_in_all, fetched_in_all, share)
        rows.append(GrowthRow(iso_utc(bucket * width_s), found[bucket], fetched[bucket], *totals))
    return tuple(rows)
