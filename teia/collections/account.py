"""Progress of a crawl: its account now, and its numbers over time.

The account has the keys of `teia crawl --json` and `teia status --json`. The numbers are a bounded set of points in
`control.sqlite`, for charts:

    fine      every 5 s, for 20 minutes
    coarse    every 10 minutes, for 31 days
    true      every 10 s, for a day: true freshness of the captures of a lab's web, as measured (live_freshness.py)

A point holds the account's values at that time. Counts restart with every run of the crawler. So a count that fell, or
points far apart, mark the end of a run: charts show a gap there, not a rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from teia.collections.control_file import CrawlReports
from teia.collections.index_state import IndexState, compare_running_index
from teia.crawler.running_collection import Crawl, RunCounts
from teia.store.root import CollectionFolder


@dataclass(frozen=True, slots=True)
class Summary:
    """One crawl's account.

    figures.py defines the numbers. `pages` are answers with a stored body, `captures` all answers that the archive has,
    of earlier runs too, `indexed` those pages that searches can find now. `index_behind` are pages that
    belong into the index and are not there yet, `index_unreadable` those whose captures could not be read for it;
    `index_writing` says whether a process writes the index. `seconds` ends when everything is committed and handed to
    the indexer; indexing the rest took `index_seconds` more. `not_rendered` is the reason why no page can
    be rendered, though the settings want it. `lost_here` are documents that reached their time limit
    because this machine had too many requests under way, `parallel_requests` is the number that it allows. `freshness`
    is for crawls that keep their pages fresh: the estimate from the known change rates, its error, and the best
    possible value.
    """

    collection: str
    state: str
    seconds: float
    requests: int
    pages: int
    pages_per_s: float
    bytes: int
    hosts: int
    urls_known: int
    urls_queued: int
    outcomes: dict[str, int]
    links: int
    archive_records: int
    indexed: int
    politeness_violations: int
    paused_why: str = ""
    failed_seeds: tuple[str, ...] = ()
    index_seconds: float = 0.0
    freshness: dict[str, float] | None = None
    index_behind: int = 0
    index_unreadable: int = 0
    index_writing: bool = False
    lost_here: int = 0
    not_rendered: str = ""
    parallel_requests: int = 0
    captures: int = 0


def empty_summary(collection: str) -> Summary:
    """Return the account of a collection that was never crawled."""
    return Summary(collection, "waiting", 0.0, 0, 0, 0.0, 0, 0, 0, 0, {}, 0, 0, 0, 0)


def summarize(crawl: Crawl, seconds: float, politeness_violations: int = 0) -> Summary:
    """Add up what one crawl has committed since its start."""
    counts, cells = crawl.counts, crawl.committer.cells
    # A cell's folder lies two levels below that of its collection.
    folder = CollectionFolder(crawl.name, next(iter(cells)).folder.path.parent.parent)
    state = compare_running_index(folder, ((each.folder, each.frontier) for each in cells))
    return Summary(
        collection=crawl.name,
        state=str(crawl.state),
        seconds=round(seconds, 3),
        requests=counts.requests,
        pages=counts.pages,
        pages_per_s=round(counts.pages / seconds, 2) if seconds > 0 else 0.0,
        bytes=counts.bytes_received,
        hosts=counts.hosts,
        urls_known=sum(cell.frontier.known for cell in cells),
        urls_queued=sum(cell.frontier.queued for cell in cells),
        outcomes=dict(counts.outcomes.most_common()),
        links=counts.links,
        archive_records=counts.archive_records,
        captures=sum(cell.frontier.captures for cell in cells),
        indexed=state.indexed,
        politeness_violations=politeness_violations,
        paused_why=crawl.paused_why,
        lost_here=crawl.lost_here,
        not_rendered=crawl.not_rendered,
        parallel_requests=crawl.parallel_requests,
        failed_seeds=tuple(f"{url}: {why}" for url, why in counts.failed_seeds.items()),
        freshness=crawl.committer.refresh.account() if crawl.committer.refresh is not None else None,
        **(index_counts(state) if crawl.config.index.enabled else {}),
    )


def with_index(summary: Summary, state: IndexState, index_seconds: float = 0.0) -> Summary:
    """Return a summary with the current state of the index, which was still being written after the crawl ended."""
    return replace(summary, indexed=state.indexed, index_seconds=index_seconds, **index_counts(state))


def index_counts(state: IndexState) -> dict[str, Any]:
    """Return the index backlog as summary keys; callers skip this for a collection without an index."""
    return {
        "index_behind": state.lag,
        "index_unreadable": state.unreadable,
        "index_writing": state.is_being_written,
    }


# ---- numbers over time -----------------------------------------------------------------------------------------------

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
    """Writes the points of the collections of one process, and their runs that no schedule started."""

    def __init__(self, reports: CrawlReports) -> None:
        self._reports = reports
        self._next_s: dict[tuple[str, float], float] = {}
        self._runs: dict[str, tuple[RunCounts, int]] = {}

    def note_run(self, crawl: Crawl, now_s: float) -> None:
        """Record a crawl as a run, or its end. A run is what is counted together, also over several shifts."""
        counts, number = self._runs.get(crawl.name, (None, 0))
        if counts is not crawl.counts:
            number = self._reports.begin_run(crawl.name, now_s)
            self._runs[crawl.name] = (crawl.counts, number)
        self._reports.note_run(crawl.name, number, now_s, "" if crawl.state.is_active else str(crawl.state))

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
