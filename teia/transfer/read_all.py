"""Read access to collections, while a crawl runs or long after.

Every database is opened read-only, so a reader can neither hold up the crawler nor change its data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from teia.clock import iso_utc
from teia.collections.account import index_counts
from teia.collections.control_file import RUNS_KEPT, CrawlReports
from teia.collections.index_state import read_index_state
from teia.collections.settings import saved
from teia.config.sections import CourtesySettings
from teia.crawler.fetch_rows import IMPORTED_RUN, fetch_log, log_parts
from teia.crawler.lookup import Lookup
from teia.crawler.open_cell import committed_position, stored_records
from teia.errors import StoreError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.schema import STATE_NAMES
from teia.frontier.queue.ledger import read_courtesy_history, read_shared_addresses
from teia.frontier.tables.pages import CellUrl, all_urls
from teia.records import Outcome
from teia.store.archive import Position
from teia.store.audit import Audit, audit_archive
from teia.store.fetchlog import OF_PAGES, Log, LogPart, log_files
from teia.store.pending import PendingLog
from teia.store.root import CellFolder, Root
from teia.transfer.politeness_audit import RepeatedTime, audit_politeness, set_backs
from teia.urls import from_user

if TYPE_CHECKING:
    from teia.store.sql import FetchLog

MAX_SEEDS = 100
BATCH = 2_000
"""Number of URLs whose ranks are looked up together."""


def audit_fetch_log(root: Root, collection: str, courtesy: CourtesySettings) -> Audit:
    """Replay a collection's fetch log and report impolite requests."""
    ledger = root.path / "ledger.sqlite"
    history, shared = read_courtesy_history(ledger), read_shared_addresses(ledger)
    repeated: list[RepeatedTime] = []
    with ExitStack() as stack:
        names = (collection, *(name for name in root.collections() if name != collection))
        logs: list[Log] = []
        for name in names:
            try:
                parts = log_parts(root, name)
                opened = _log_for_audit(parts)
            except StoreError:  # another collection's trouble is not this one's
                if name == collection:
                    raise
                continue
            stack.callback(opened.close)
            if name == collection:
                repeated = set_backs(map(_commit_times, parts))
            logs.append(opened)
        # The first is the collection itself; an error in its log has been raised above.
        log, *others = logs
        return audit_politeness(log, courtesy, history, shared, others, repeated)


def _commit_times(part: LogPart) -> Iterator[float]:
    """Yield the times at which the requests of a cell were committed, in the order of the commits."""
    if files := log_files(part):
        from teia.store.parquet import commit_times

        yield from chain.from_iterable(map(commit_times, files))
    # Rows of `teia import log` come in between, with times of another machine.
    yield from (row.committed for row in part.pending if row.committed and row.run != IMPORTED_RUN)


def _log_for_audit(parts: list[LogPart]) -> FetchLog | PendingLog:
    # All rows are still in the frontiers: SQLite reads them, and DuckDB is not loaded.
    if not any(log_files(part) for part in parts):
        return PendingLog(parts)
    from teia.store.sql import FetchLog

    return FetchLog(parts)


def known_urls(root: Root, collection: str) -> Iterator[dict[str, Any]]:
    """Yield every URL a collection knows, as `teia export urls` writes it, in the order of the cells."""
    # Imported here: a crawl imports this module too, and needs neither.
    import numpy as np

    from teia.graph.rankfile import RankFile

    folder = root.collection(collection)
    ranks = RankFile.open(folder.ranks)
    for cell_folder in folder.cells():
        with closing(FrontierCell(cell_folder.frontier, read_only=True)) as cell:
            urls = all_urls(cell)
            while batch := list(islice(urls, BATCH)):
                scores = ranks.scores(np.array([each.row_key[2] for each in batch], np.int64)).tolist()
                yield from map(_exported, batch, scores if len(ranks) else [None] * len(batch))


def _exported(known: CellUrl, rank: float | None) -> dict[str, Any]:
    page = known.page
    return {
        "url": known.url,
        "state": STATE_NAMES[known.row.state],
        "outcome": known.row.outcome or None,
        "depth": known.row.depth,
        "visits": page.visits if page else 0,
        "changes": page.changes if page else 0,
        "last_visit": iso_utc(page.last_visit_s) if page else None,
        "digest": page.digest.hex() or None if page else None,
        "in_links": known.row.in_links,
        "pagerank": rank,
    }


def committed_archive(folder: CellFolder) -> Position | None:
    """Return the committed end of a cell's archive; a running crawler may be writing behind it."""
    with closing(FrontierCell(folder.frontier, read_only=True)) as cell:
        return committed_position(cell)


def audit_archives(root: Root, collection: str) -> Audit:
    """Check every archive file of a collection, record by record."""
    checked = violations = 0
    details: list[str] = []
    for folder in root.collection(collection).cells():
        audit = audit_archive(folder.archive, committed_archive(folder))
        checked, violations = checked + audit.checked, violations + audit.violations
        details += audit.details
    return Audit(checked, violations, tuple(details))


def _failed_seeds(root: Root, collection: str) -> list[str]:
    """Return the seeds that could not be fetched, as a running crawl reports them; of many seeds the first ones."""
    found = []
    with Lookup(root, collection) as lookup:
        for seed in saved(root, collection).config.collection.seeds[:MAX_SEEDS]:
            url = from_user(seed)
            entry = None if url is None else lookup.find(url)
            if entry is None or entry.page is not None or entry.outcome in {"", Outcome.ALIAS}:
                continue
            # Given up, refused, or queued again after a failure.
            if not entry.outcome.isdigit() and (entry.state != "queued" or entry.failures):
                found.append(f"{entry.url}: {entry.outcome}")
    return found


_BETWEEN_RUNS = """
SELECT coalesce(sum(seconds), 0) FROM (
    SELECT date_diff('microsecond', min(started), max(ended)) / 1e6 AS seconds
    FROM (SELECT started, ended FROM fetches) ASOF LEFT JOIN bounds ON started >= bounds.at
    WHERE NOT bounds.is_run GROUP BY bounds.at
)"""


def _runs(root: Root, collection: str) -> list[tuple[Any, ...]]:
    try:
        with CrawlReports(root.control) as reports:
            return reports.recorded_runs(collection, RUNS_KEPT)
    except StoreError:  # a folder without runs: its requests are taken as one
        return []


def _crawling_s(log: FetchLog, runs: list[tuple[Any, ...]]) -> float:
    """Return the duration of all runs, and the time from the first to the last request between two of them."""
    spans = [(began_s, ended_s or seen_s) for _, _, began_s, seen_s, ended_s, _ in runs]
    # Requests between two runs are those of a crawl that keeps pages fresh.
    bounds = {0.0: False} | {ended_s: False for _, ended_s in spans} | {began_s: True for began_s, _ in spans}
    rows = [(datetime.fromtimestamp(at_s, UTC), is_run) for at_s, is_run in sorted(bounds.items())]
    log.add_table("bounds", ("at", "is_run"), rows)
    # A clock may have been set back during a run.
    return float(sum(max(0.0, ended_s - began_s) for began_s, ended_s in spans) + log.query(_BETWEEN_RUNS).rows[0][0])


def idle_account(root: Root, collection: str) -> dict[str, Any]:
    """Return the counts of a collection that is not being crawled, under the keys of a crawl's summary."""
    with fetch_log(root, collection) as log:
        sums = "count(*), coalesce(sum(bytes), 0), coalesce(sum(links), 0), count(DISTINCT host)"
        requests, received, links, hosts = log.query(f"SELECT {sums} FROM fetches").rows[0]  # noqa: S608  # our text
        stored = f"{OF_PAGES} AND decoded_bytes > 0"
        (pages,) = log.query(f"SELECT count(*) FROM fetches WHERE {stored}").rows[0]  # noqa: S608  # our text
        by_outcome = f"SELECT outcome, count(*) AS n FROM fetches WHERE {OF_PAGES} GROUP BY 1 ORDER BY 2 DESC"  # noqa: S608
        outcomes = {outcome: int(number) for outcome, number in log.query(by_outcome).rows}
        runs = _runs(root, collection)
        seconds = _crawling_s(log, runs)
    state = read_index_state(root.collection(collection))
    known = queued = records = captures = 0
    for folder in root.collection(collection).cells():
        cell = FrontierCell(folder.frontier, read_only=True)
        known, queued, records = known + cell.known, queued + cell.queued, records + stored_records(cell)
        captures += cell.captures
        cell.close()
    left = "limit" if runs and runs[0][-1] == "limit" else "stopped"
    return {
        "collection": collection,
        "state": left if queued else "finished",
        "seconds": round(seconds, 3),
        "requests": int(requests),
        "pages": int(pages),
        "pages_per_s": round(pages / seconds, 2) if seconds else 0.0,
        "bytes": int(received),
        "hosts": int(hosts),
        "urls_known": known,
        "urls_queued": queued,
        "captures": captures,
        "failed_seeds": _failed_seeds(root, collection),
        "outcomes": outcomes,
        "links": int(links),
        "archive_records": records,
        "indexed": state.indexed,
        # Not audited here, because that reads the whole log: see `teia audit politeness`.
        "politeness_violations": 0,
        "paused_why": "",
        **(index_counts(state) if saved(root, collection).config.index.enabled else {}),
    }
