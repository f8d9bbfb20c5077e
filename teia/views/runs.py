"""Runs of a collection: each with its duration, its size, and the pages that changed since the run before.

A run is one crawl, by a schedule or by a command, from its start to its end. The record of runs has their times
(collections/control_file.py), the fetch log has their requests. Requests between runs, of a crawl that keeps pages
fresh, belong to no run, but the next run is compared with them.

    new      the page was fetched for the first time
    changed  its text, or else its body, differs from the capture of the runs before
    gone     the server says that it is not there (404, 410), and it was there at its visit before
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from teia.clock import iso_utc
from teia.collections.control_file import INTERRUPTED, CrawlReports
from teia.errors import StoreError
from teia.lib.message import Message
from teia.store.fetchlog import OF_PAGES
from teia.store.root import Root
from teia.views.reports.source import Source, open_source

RUNNING = "running"
SHOWN_RUNS = 100
SHOWN_ROWS = 100
SLICE_ROWS = 500_000
"""Rows of the log that are compared together: more take more memory than a query has."""

REPORT_LAG_S = 5.0
FAR_S = 32_503_680_000.0
"""The year 3000: the end of a run that has not ended."""


class RunPart(StrEnum):
    """Part of a run's requests: those that changed something, those that failed, or all."""

    NEW = "new"
    CHANGED = "changed"
    GONE = "gone"
    FAILED = "failed"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Times of one run; `ended_s` is None while it runs, `due_s` is None if no schedule or command set its time."""

    number: int
    due_s: float | None
    began_s: float
    seen_s: float
    ended_s: float | None
    why: str


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run. `state` is `running` or the reason of its end; `bytes` were received, `archive_bytes` written.

    `requests`, `pages` and `bytes` are the figures of these names (collections/figures.py). `available` are URLs whose
    last answer in the run was the page or 304; of these `new` were fetched for the first time and `changed` differ from
    the capture before. `gone` were there before, `failed` are URLs without a usable answer.
    """

    number: int
    state: str
    began: str
    ended: str | None
    seconds: float
    requests: int
    pages: int
    available: int
    new: int
    changed: int
    gone: int
    failed: int
    bytes: int
    archive_bytes: int


@dataclass(frozen=True, slots=True)
class RequestOfRun:
    """One request of a run: its last answer for a URL, or a line of its log."""

    time: str
    outcome: str
    url: str
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RunDetail:
    """One run with the first `shown` rows of one part of it; `sql` selects all its requests."""

    run: RunSummary
    part: RunPart
    rows: tuple[RequestOfRun, ...]
    shown: int
    sql: str


class NoSuchRun(StoreError):
    """Raised for a number that no run of the collection has."""


_OF_RUN = """
WITH of_run AS (
    SELECT CASE WHEN runs.number IS NULL THEN 0.0 WHEN started > runs.until THEN runs.number + 0.5
            ELSE runs.number END AS run, fetches.*, hash(url) AS key,
        coalesce(status BETWEEN 200 AND 299 OR status = 304, false) AS there,
        hash(coalesce(text_digest, digest)) AS content,
        -- A 304 has no body, and the digest of nothing is no content of the page.
        coalesce(text_digest, digest) IS NOT NULL AND coalesce(status <> 304, true) AS has_content
    FROM fetches ASOF LEFT JOIN runs ON fetches.started >= runs.began WHERE hash(url) % {slices} = {slice}
)"""
_IN_RUNS = (
    _OF_RUN  # noqa: S608  # our own text
    + """, last AS (
    SELECT run, key, arg_max(there, started) AS there, arg_max(outcome, started) AS outcome,
        arg_max(content, started) FILTER (has_content AND there) AS content
    FROM of_run WHERE {pages} GROUP BY run, key
), compared AS (
    SELECT *, coalesce(max(there::INT) OVER before, 0) = 1 AS was_known, lag(there) OVER pages AS was_there,
        last_value(content IGNORE NULLS) OVER before AS content_before
    FROM last
    WINDOW pages AS (PARTITION BY key ORDER BY run),
        before AS (PARTITION BY key ORDER BY run ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), judged AS (
    SELECT run, key, there,
        there AND NOT was_known AS is_new,
        there AND was_known AND content IS NOT NULL AND content_before IS NOT NULL AND content <> content_before
            AS is_changed,
        outcome IN ('404', '410', 'gone') AND coalesce(was_there, false) AS is_gone,
        NOT there AND outcome NOT IN ('404', '410', 'gone') AND NOT outcome LIKE '3__' AS is_failed
    FROM compared
)
"""
)
"""Requests with their runs, and the last answer of each URL in each run beside the runs before.

URLs and contents are compared by their hashes, and a large log slice by slice: a million URLs as text take more memory
than a query has.
"""

_COUNTS = (
    _IN_RUNS
    + """
SELECT run, sum(there::INT), sum(is_new::INT), sum(is_changed::INT), sum(is_gone::INT), sum(is_failed::INT)
FROM judged GROUP BY run
"""
)
_SIZES = (
    _OF_RUN
    + """
SELECT run, count(*), count(*) FILTER ({pages} AND decoded_bytes > 0), sum(bytes),
    sum(coalesce(warc_length, 0))
FROM of_run GROUP BY run
"""
)
_LOG = _OF_RUN + " SELECT {columns} FROM of_run WHERE run = {run} ORDER BY started DESC LIMIT {limit}"  # noqa: S608  # our own text
_CHANGED = (
    _IN_RUNS
    + """
SELECT {columns} FROM of_run JOIN judged USING (run, key) WHERE run = {run} AND {where}
QUALIFY row_number() OVER (PARTITION BY key ORDER BY started DESC) = 1 ORDER BY url LIMIT {limit}
"""
)
_ROW = "started, outcome, url, bytes, epoch(ended) - epoch(started)"
_CONDITIONS = {
    RunPart.NEW: "is_new",
    RunPart.CHANGED: "is_changed",
    RunPart.GONE: "is_gone",
    RunPart.FAILED: "is_failed",
}


def recorded_runs(root: Root, collection: str, limit: int = SHOWN_RUNS) -> list[RunRecord]:
    """Return the last runs of a collection, newest first. An open run without a process ended when it was last seen."""
    with CrawlReports(root.control) as reports:
        found = [RunRecord(*row) for row in reports.recorded_runs(collection, limit)]
        is_running = bool(found) and reports.running_crawl(collection) is not None
    return [each if is_running and index == 0 else _closed(each) for index, each in enumerate(found)]


def _closed(run: RunRecord) -> RunRecord:
    if run.ended_s is not None:
        return run
    return RunRecord(run.number, run.due_s, run.began_s, run.seen_s, run.seen_s, INTERRUPTED)


def run_summaries(root: Root, collection: str, now_s: float) -> list[RunSummary]:
    """Return the last runs of a collection with their counts, newest first."""
    runs = recorded_runs(root, collection)
    if not runs:
        return []
    with open_source(root, collection) as source:
        return _summarize(source, runs, now_s)


def run_detail(root: Root, collection: str, number: int, now_s: float, part: RunPart = RunPart.ALL) -> RunDetail:
    """Return one run and the first rows of a part of it; the newest requests first, for changes the order of URLs."""
    runs = recorded_runs(root, collection)
    if not any(each.number == number for each in runs):
        raise NoSuchRun(Message("{collection} has no run {n}", collection=collection, n=number))
    with open_source(root, collection) as source:
        summary = next(each for each in _summarize(source, runs, now_s) if each.number == number)
        return RunDetail(summary, part, _rows(source, number, part), SHOWN_ROWS, _sql(runs, number))


def _summarize(source: Source, runs: Sequence[RunRecord], now_s: float) -> list[RunSummary]:
    _add_runs(source, runs)
    counts: dict[float, list[int]] = defaultdict(lambda: [0] * 5)
    sizes: dict[float, list[int]] = defaultdict(lambda: [0] * 4)
    for index, slices in _slices(source):
        for totals, sql in ((counts, _COUNTS), (sizes, _SIZES)):
            for number, *values in source.log.query(sql.format(slices=slices, slice=index, pages=OF_PAGES)).rows:
                found = totals[float(number)]
                totals[float(number)] = [have + int(more or 0) for have, more in zip(found, values, strict=True)]
    return [_summary(run, counts[run.number], sizes[run.number], now_s) for run in runs]


def _slices(source: Source) -> Iterator[tuple[int, int]]:
    """Yield the number of each slice of the log, and how many there are."""
    rows = int(source.log.query("SELECT count(*) FROM fetches").rows[0][0])
    slices = rows // SLICE_ROWS + 1
    return ((index, slices) for index in range(slices))


def _add_runs(source: Source, runs: Sequence[RunRecord]) -> None:
    rows = [(float(each.number), _moment(each.began_s), _moment(_until_s(each))) for each in runs]
    source.log.add_table("runs", ("number", "began", "until"), rows)


def _moment(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


def _until_s(run: RunRecord) -> float:
    """Return the time of a run's last request; the last report of a run that died is a moment older."""
    if run.ended_s is None:
        return FAR_S
    return run.ended_s + (REPORT_LAG_S if run.why == INTERRUPTED else 0.0)


def _summary(run: RunRecord, counts: Sequence[int], sizes: Sequence[int], now_s: float) -> RunSummary:
    available, new, changed, gone, failed = counts
    requests, pages, received, archived = sizes
    return RunSummary(
        number=run.number,
        state=run.why or RUNNING,
        began=iso_utc(run.began_s),
        ended=None if run.ended_s is None else iso_utc(run.ended_s),
        seconds=round(max(0.0, (now_s if run.ended_s is None else run.ended_s) - run.began_s), 3),
        requests=requests,
        pages=pages,
        available=available,
        new=new,
        changed=changed,
        gone=gone,
        failed=failed,
        bytes=received,
        archive_bytes=archived,
    )


def _rows(source: Source, number: int, part: RunPart) -> tuple[RequestOfRun, ...]:
    """Return the first rows of a part: the newest requests, or the last answers of URLs in their order."""
    where, found = _CONDITIONS.get(part), list[RequestOfRun]()
    for index, slices in _slices(source):
        names = {
            "slices": slices,
            "slice": index,
            "pages": OF_PAGES,
            "columns": _ROW,
            "run": int(number),
            "limit": SHOWN_ROWS,
        }
        sql = _LOG.format(**names) if where is None else _CHANGED.format(**names, where=where)
        found += [_request(*row) for row in source.log.query(sql, SHOWN_ROWS).rows]
    found.sort(key=lambda each: each.url if where else each.time, reverse=where is None)
    return tuple(found[:SHOWN_ROWS])


def _request(started: datetime, outcome: str, url: str, size: Any, seconds: Any) -> RequestOfRun:
    return RequestOfRun(iso_utc(started.timestamp()), outcome, url, int(size or 0), round(float(seconds or 0.0), 3))


def _sql(runs: Sequence[RunRecord], number: int) -> str:
    """Return the SQL for all requests of a run."""
    began = {each.number: each.began_s for each in runs}
    later = [at for other, at in began.items() if other > number]
    until = f" AND started < '{iso_utc(min(later))}'" if later else ""
    return f"SELECT * FROM fetches WHERE started >= '{iso_utc(began[number])}'{until} ORDER BY started"  # noqa: S608
