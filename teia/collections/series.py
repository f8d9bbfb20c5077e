"""Time series of a crawl's numbers: a bounded set of points in `control.sqlite`, for charts.

    fine      every 5 s, for 20 minutes
    coarse    every 10 minutes, for 31 days
    true      every 10 s, for a day: true freshness of the captures of a lab's web, as measured (live_freshness.py)

A point holds the account's values at that time. Counts restart with every run of the crawler. So a count that fell, or
points far apart, mark the end of a run: charts show a gap there, not a rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from teia.collections.account import Summary
from teia.collections.reports import CrawlReports

FINE_S, COARSE_S = 5.0, 600.0
RETENTION_S = {FINE_S: 1_200.0, COARSE_S: 31 * 86_400.0}
TRUE_S, TRUE_RETENTION_S = 10.0, 86_400.0
MIN_REVISITED = 200
"""Number of revisited pages below which no freshness is reported."""

GAP = 3.0
"""Number of steps beyond which two points have a gap between them."""


Counted = Literal["requests", "pages"]


class SeriesPoint(NamedTuple):
    """One point. `requests` and `pages` are since the run began; the last three of crawls that keep pages fresh."""

    time_s: float
    requests: float
    pages: float
    known: float
    queued: float
    fresh: float | None
    best: float | None
    possible: float | None = None


class SeriesWriter:
    """Writes the points of the collections of one process."""

    def __init__(self, reports: CrawlReports) -> None:
        self._reports = reports
        self._next_s: dict[tuple[str, float], float] = {}

    def note(self, summary: Summary, now_s: float) -> None:
        """Write a point of each series that is due; called with every account."""
        fresh = summary.freshness if summary.freshness and summary.freshness["visited_again"] >= MIN_REVISITED else {}
        numbers = (summary.requests, summary.pages, summary.urls_known, summary.urls_queued)
        point = (*numbers, fresh.get("fresh"), fresh.get("best"), fresh.get("possible"))
        for step_s, retention_s in RETENTION_S.items():
            if now_s >= self._next_s.get((summary.collection, step_s), 0.0):
                self._next_s[summary.collection, step_s] = now_s + step_s
                self._reports.note_point(summary.collection, step_s, now_s, point, retention_s)


def points_of(reports: CrawlReports, collection: str, step_s: float, since_s: float) -> list[SeriesPoint]:
    """Return the points of a collection since a time."""
    return [SeriesPoint(time_s, *values) for time_s, values in reports.points(collection, step_s, since_s)]  # type: ignore[arg-type]


def note_truth(reports: CrawlReports, collection: str, now_s: float, share: float) -> None:
    """Record the share of captures that matched their pages."""
    reports.note_point(collection, TRUE_S, now_s, (share,), TRUE_RETENTION_S)


def truth_of(reports: CrawlReports, collection: str, since_s: float, most: int) -> list[tuple[float, float]]:
    """Return the freshness measured since a time, oldest first; long series are thinned and keep the newest point."""
    found = [(time_s, float(values[0] or 0.0)) for time_s, values in reports.points(collection, TRUE_S, since_s)]
    # Every n-th point, counted from the newest; -(-a // b) rounds up.
    return found[:: -max(1, -(-len(found) // most))][::-1]


def rates_of(
    points: Sequence[SeriesPoint], step_s: float, of: Counted = "requests"
) -> list[tuple[float, float | None]]:
    """Return requests or pages a second between points; None where a run ended in between."""
    rates: list[tuple[float, float | None]] = []
    for before, after in pairwise(points):
        passed_s, more = after.time_s - before.time_s, getattr(after, of) - getattr(before, of)
        # A count that fell is that of a new run.
        is_gap = passed_s > GAP * step_s or more < 0 or passed_s <= 0
        rates.append((after.time_s, None if is_gap else more / passed_s))
    return rates


@dataclass(frozen=True, slots=True)
class CatchUpForecast:
    """Forecast of visited pages catching up with known ones: in how many seconds, None if never."""

    seconds: float | None
    grows_per_s: float


def forecast_catch_up(points: Iterable[SeriesPoint]) -> CatchUpForecast | None:
    """Forecast from the growth or shrinkage of the queue over the points; None without enough points."""
    found = list(points)
    if len(found) < 2 or found[-1].time_s - found[0].time_s < FINE_S:
        return None
    grows = (found[-1].queued - found[0].queued) / (found[-1].time_s - found[0].time_s)
    return CatchUpForecast(found[-1].queued / -grows if grows < 0 else None, grows)
