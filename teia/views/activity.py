"""Requests of a collection over time: their answers by class, and the bytes that came, for charts with a time range."""

from __future__ import annotations

from dataclasses import dataclass

from teia.clock import iso_utc
from teia.store.fetchlog import OF_PAGES
from teia.views.reports.servers import WIDTHS_S
from teia.views.reports.source import Source

BINS = 60
"""Most columns of a chart."""

CLASSES = ("ok", "redirect", "client", "server", "none")


@dataclass(frozen=True, slots=True)
class ActivityBin:
    """Requests from `start` on, by the class of their answer; `none` have no HTTP answer."""

    start: str
    ok: int
    redirect: int
    client: int
    server: int
    none: int
    bytes: int
    archive_bytes: int


@dataclass(frozen=True, slots=True)
class Activity:
    """Requests within a time range (`span`, Unix seconds), in bins of `step_s`; bins without requests are left out."""

    span: tuple[float, float]
    step_s: float
    requests: int
    bytes: int
    archive_bytes: int
    archive_bytes_before: int
    bins: tuple[ActivityBin, ...]


def activity(source: Source, since_s: float | None, now_s: float) -> Activity:
    """Count the requests since a time; since the first one if it is None."""
    began_s = since_s if since_s is not None else _first_s(source, now_s)
    step_s = next((width for width in WIDTHS_S if (now_s - began_s) / width <= BINS), WIDTHS_S[-1])
    start = f"CAST(floor(epoch(started) / {step_s}) AS BIGINT)"
    # A 304 says that the page is as it was: the visit was good. The archive has robots.txt files too.
    sql = f"""SELECT {start},
        count(*) FILTER ({OF_PAGES} AND (status BETWEEN 200 AND 299 OR status = 304)),
        count(*) FILTER ({OF_PAGES} AND status BETWEEN 300 AND 399 AND status <> 304),
        count(*) FILTER ({OF_PAGES} AND status BETWEEN 400 AND 499), count(*) FILTER ({OF_PAGES} AND status >= 500),
        count(*) FILTER ({OF_PAGES} AND (status IS NULL OR status < 200)),
        coalesce(sum(bytes), 0), coalesce(sum(warc_length), 0)
        FROM fetches WHERE epoch(started) >= {began_s!r} GROUP BY 1 ORDER BY 1"""  # noqa: S608  # our own numbers
    bins = [ActivityBin(iso_utc(row[0] * step_s), *map(int, row[1:])) for row in source.log.query(sql).rows]
    before = f"SELECT coalesce(sum(warc_length), 0) FROM fetches WHERE epoch(started) < {began_s!r}"  # noqa: S608
    return Activity(
        span=(began_s, now_s),
        step_s=step_s,
        requests=sum(sum(getattr(each, name) for name in CLASSES) for each in bins),
        bytes=sum(each.bytes for each in bins),
        archive_bytes=sum(each.archive_bytes for each in bins),
        archive_bytes_before=int(source.log.query(before).rows[0][0]),
        bins=tuple(bins),
    )


def _first_s(source: Source, now_s: float) -> float:
    """Return the time of the first request; now if there is none."""
    found = source.log.query("SELECT epoch(min(started)) FROM fetches").rows[0][0]
    return now_s if found is None else float(found)
