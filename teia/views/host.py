"""Everything about one host: its pages, its treatment, its answers, and the feasibility of a pass (C2).

The view is bounded: its last requests, its first URLs in line, its patterns. Its freshness takes a walk over all its
pages, so it is computed separately (`estimate_freshness`).

Feasibility compares delays by the duration of a pass:

    pass      pages x (delay + time of an answer)
    weekly    the delay at which a pass takes a week; and how many pages fit into a week at the current delay
    plan      how many visits of a week go to known pages, where they are kept fresh, and how many to new ones

The last requests are read from the end of the cell's fetch log: rows that are still in the frontier newest first,
before them the last Parquet file, by its column of hosts alone. Both are bounded, so that the view of a host costs the
same after any amount of crawling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from teia.clock import iso_utc
from teia.collections.settings import saved
from teia.config.sections import Config, RefreshSettings
from teia.crawler.fetch_rows import with_serial
from teia.crawler.keep_fresh.freshness import WEEK_S
from teia.crawler.keep_fresh.host_plan import SHORTEST_SLOT_S
from teia.crawler.lookup import Lookup
from teia.errors import CorruptFile, StoreError
from teia.fetch.robots import parse_robots
from teia.frontier.cell import site_statements
from teia.frontier.cell.alias_evidence import alias_names, alias_row
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.tables import hosts as host_rows
from teia.frontier.tables import pending_log
from teia.frontier.traps.detector import SHAPE, PatternState
from teia.frontier.traps.pattern_table import HostPatterns
from teia.lib.copy_fields import copy_fields
from teia.lib.message import Message
from teia.signals.trust import SignalKind, SignalSource
from teia.store.fetchlog import FetchRow, LogPart, log_files
from teia.store.root import CellFolder, Root
from teia.urls import site_of, slot_of
from teia.views.hosts import HostLine, HostTable
from teia.views.queue import QueueFilter, QueuePreview, preview_queue
from teia.views.reports.source import snapshot
from teia.views.reports.traps import STATUS_NAMES

RHYTHM_S = 900.0
TICKS = 500
NEXT_URLS = 10
MAX_RECOUNTED = 20_000
"""Most URLs of a host that are counted for its own page; larger hosts are counted in the background."""

SUSPECTS = 10
ALIASES = 10


@dataclass(frozen=True, slots=True)
class HostRobots:
    """One robots.txt of a host as it applies to us: number of lines, delay; `read` is the time of its fetch."""

    origin: str
    read: str
    outcome: str
    lines: int
    crawl_delay_s: float | None


@dataclass(frozen=True, slots=True)
class SuspectPattern:
    """URLs of one pattern that may be a trap: the reason, and their treatment."""

    pattern: str
    rule: str
    standing: str
    pages: int
    given_up: int


@dataclass(frozen=True, slots=True)
class HostSignal:
    """Trust in one kind of signal of a host, learnt from visits.

    `heeded` visits followed a signal; `precision` of them found a change. `weight` is the value of the signal beyond
    what the pages' change rates predict anyway, and `sure_weight` its lower bound. `recall` of the changes were
    announced. Rejected claims are counted: `future` and `broken` dates, `foreign` pages.
    """

    kind: str
    heeded: int
    precision: float
    recall: float
    weight: float
    sure_weight: float
    is_hardly_heard: bool
    future: int
    broken: int
    foreign: int


@dataclass(frozen=True, slots=True)
class RhythmTick:
    """One request in the rhythm of a host."""

    time: str
    outcome: str
    is_early: bool


@dataclass(frozen=True, slots=True)
class HostView:
    """One host; `shares` is how many other hosts have its address.

    `rhythm` are its requests of the last quarter of an hour, `outcomes`, `times` and `sizes` of the last
    `requests_seen`.
    """

    host: str
    cell: int
    address: str
    shares: int
    state: str
    ready_at: str | None
    last_asked: str | None
    parked: str
    alias_of: str
    aliases: tuple[str, ...]
    urls: int
    visited: int
    waiting: int
    failed: int
    excluded: int
    requests: int
    bytes: int
    rest_s: float
    response_s: float
    robots: tuple[HostRobots, ...]
    feasibility: Feasibility
    rhythm: tuple[RhythmTick, ...]
    early: int
    requests_seen: int
    outcomes: dict[str, int]
    times: tuple[Bin, ...]
    sizes: tuple[Bin, ...]
    time_median_s: float | None
    time_p95_s: float | None
    next: tuple[QueuePreview, ...]
    suspects: tuple[SuspectPattern, ...]
    signals: tuple[HostSignal, ...]


def host_state(line: HostLine, now_s: float) -> str:
    """Return the state of a host as far as the ledger tells: `parked`, `resting`, `ready` or `idle`."""
    if line.parked:
        return "parked"
    if not line.waiting and not line.waits.refresh_due:
        return "idle"
    return "resting" if line.ready_at_s is not None and line.ready_at_s > now_s else "ready"


def find_line(table: HostTable, host: str) -> HostLine:
    """Find the line of a named host; StoreError if the host is not known."""
    line = table.hosts.get(host.lower())
    if line is None:
        raise StoreError(Message("unknown host {host!r}; write the name as in URLs, without the port", host=host[:200]))
    return line


def host_view(
    lookup: Lookup,
    table: HostTable,
    host: str,
    config: Config,
    now_s: float,
    delay_s: float | None = None,
    pages: int | None = None,
) -> HostView:
    """Look a host up."""
    line = find_line(table, host)
    frontier = lookup.cells[line.cell]
    line = _recount(frontier, line)
    requests = last_requests(lookup.folders[line.cell], frontier, line.host)
    recent = [each for each in requests if each.time_s > now_s - RHYTHM_S]
    took_s = [each.took_s for each in requests]
    main, others = _alias_names(lookup, line)
    return copy_fields(
        HostView,
        line,
        shares=table.count_sharing(line),
        state=host_state(line, now_s),
        ready_at=_time(line.ready_at_s),
        # Not by the ledger, which has the requests of all collections.
        last_asked=_time(requests[-1].time_s if requests else None),
        alias_of=main,
        aliases=others,
        rest_s=line.delay_s,
        robots=_robots(lookup, line, config),
        feasibility=compute_feasibility(line, delay_s, pages),
        rhythm=rhythm_ticks(recent),
        early=sum(each.is_early for each in requests),
        requests_seen=len(requests),
        outcomes=dict(Counter(each.outcome for each in requests).most_common()),
        times=tuple(log_bins(took_s)),
        sizes=tuple(log_bins(each.bytes for each in requests)),
        time_median_s=quantile(took_s, 0.5),
        time_p95_s=quantile(took_s, 0.95),
        next=tuple(preview_queue(lookup, table, config, now_s, NEXT_URLS, QueueFilter(host=line.host))),
        suspects=_suspects(lookup, line),
        signals=_signals(lookup, line),
    )


def _recount(frontier: FrontierCell, line: HostLine) -> HostLine:
    """Return a line of the table with the numbers of now, so that they agree with the last requests.

    The table is some seconds old. The URLs of a large host are not counted again.
    """
    row = host_rows.find(frontier, line.host_id)
    if row is None:
        return line
    line = replace(line, requests=row.requests, bytes=row.bytes)
    if line.urls > MAX_RECOUNTED:
        return line
    counts = host_rows.count_urls_of(frontier, slot_of(site_of(line.host)), line.host_id)
    return replace(
        line,
        urls=counts.known,
        visited=counts.done,
        failed=counts.failed,
        excluded=counts.excluded,
        with_outcome=counts.with_outcome,
        errors=counts.errors,
    )


def rhythm_ticks(requests: Sequence[TimedRequest]) -> tuple[RhythmTick, ...]:
    return tuple(RhythmTick(iso_utc(each.time_s), each.outcome, each.is_early) for each in requests[-TICKS:])


def _time(unix_s: float | None) -> str | None:
    return None if unix_s is None else iso_utc(unix_s)


def _robots(lookup: Lookup, line: HostLine, config: Config) -> tuple[HostRobots, ...]:
    found = []
    for origin, read_s, outcome, status, body in lookup.cells[line.cell].robots_of(line.host_id, line.host):
        rules = parse_robots(body, config.courtesy.user_agent) if status == 200 else None
        lines, delay_s = (len(rules.lines), rules.crawl_delay_s) if rules is not None else (0, None)
        found.append(HostRobots(origin, iso_utc(read_s), outcome, lines, delay_s))
    return tuple(found)


def _alias_names(lookup: Lookup, line: HostLine) -> tuple[str, tuple[str, ...]]:
    """Return the main name of a host that is an alias, and the aliases of one that is not."""
    cell = lookup.cells[line.cell]
    pair = alias_row(cell, line.host)
    return pair.other if pair is not None else "", tuple(alias_names(cell, line.host, ALIASES))


def _suspects(lookup: Lookup, line: HostLine) -> tuple[SuspectPattern, ...]:
    known = HostPatterns(line.host, line.host_id, slot_of(site_of(line.host)))
    known.load(lookup.cells[line.cell])
    found = [
        SuspectPattern(each.text, str(each.reason), STATUS_NAMES[each.state], int(each.all.read), each.given_up)
        for each in known.by_number.values()
        if each.state is not PatternState.OPEN and not each.text.startswith(SHAPE)
    ]
    return tuple(sorted(found, key=lambda each: (-each.given_up, each.pattern))[:SUSPECTS])


def _signals(lookup: Lookup, line: HostLine) -> tuple[HostSignal, ...]:
    frontier = lookup.cells[line.cell]
    if not site_statements.has_tables(frontier):  # no version with signals has written it yet
        return ()
    records = site_statements.trust_of(frontier, slot_of(site_of(line.host)), line.host_id)
    try:
        sources = [(SignalKind(kind).word, SignalSource.decode(record)) for kind, record in sorted(records.items())]
    except ValueError as error:
        raise CorruptFile(frontier.path, str(error)) from error
    return tuple(
        HostSignal(
            kind=kind,
            heeded=round(source.tested),
            precision=round(source.precision.mean, 4),
            recall=round(source.recall.mean, 4),
            weight=round(source.weight, 4),
            sure_weight=round(source.sure_weight, 4),
            is_hardly_heard=source.is_distrusted,
            future=source.future,
            broken=source.broken,
            foreign=source.foreign,
        )
        for kind, source in sources
    )


@dataclass(frozen=True, slots=True)
class HostFreshnessEstimate:
    """Estimated and possible freshness of a host's captures, for requests `slot_s` apart; None if unknown.

    `best` is the long-run value. `possible` is the value now; it depends on visits made already, so it is None for a
    `slot_s` that is not the host's own.
    """

    slot_s: float
    fresh: float | None
    best: float | None
    possible: float | None


def estimate_freshness(
    root: Root, collection: str, line: HostLine, slot_s: float, now_s: float
) -> HostFreshnessEstimate:
    """Estimate the freshness possible for a host; reads the histories of all its pages."""
    from teia.crawler.keep_fresh.weights import weigher
    from teia.views.reports.freshness import bound_of_host  # brings what plans are made with

    config = saved(root, collection).config
    weigh = weigher(config.refresh, root.collection(collection).ranks)
    with snapshot(root, collection) as cells:
        cell = next(cell for cell in cells if cell.number == line.cell)
        found = bound_of_host(cells, cell, line.host_id, line.host, max(slot_s, 0.001), config.refresh, weigh, now_s)
    if found is None:
        return HostFreshnessEstimate(slot_s, None, None, None)
    return HostFreshnessEstimate(slot_s, round(found.fresh, 4), round(found.best, 4), round(found.possible, 4))


# ---- one pass over a host --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Feasibility:
    """Visits that a politeness delay allows. `week_delay_s` is None if the server itself is too slow."""

    pages: int
    delay_s: float
    response_s: float
    pass_s: float
    fits_in_week: bool
    week_pages: int
    week_delay_s: float | None


def compute_feasibility(line: HostLine, delay_s: float | None = None, pages: int | None = None) -> Feasibility:
    """Return the feasibility of a pass over a host, by default for all its pages at its current delay."""
    page_count = line.visited + line.waiting if pages is None else pages
    used_delay_s = line.delay_s if delay_s is None else delay_s
    slot_s = used_delay_s + line.response_s
    pass_s = page_count * slot_s
    week_delay_s = WEEK_S / page_count - line.response_s if page_count else None
    return Feasibility(
        pages=page_count,
        delay_s=used_delay_s,
        response_s=line.response_s,
        pass_s=pass_s,
        fits_in_week=pass_s <= WEEK_S,
        week_pages=page_count if slot_s <= 0 else min(page_count, int(WEEK_S / slot_s)),
        week_delay_s=week_delay_s if week_delay_s is not None and week_delay_s > 0 else None,
    )


@dataclass(frozen=True, slots=True)
class WeekPlan:
    """Forecast of the visits of a host's next week, if nothing changes."""

    known: int
    new: int


def week_plan(line: HostLine, settings: RefreshSettings) -> WeekPlan | None:
    """Forecast a week of live crawling; None if pages are not kept fresh, none was visited, or the host is parked.

    Known pages get `refresh.share` of the visits while new ones wait, else all; no page is visited more often than
    every `least_s`. New pages are those that wait now, each once; suspects are held back and not fetched. A budget
    counts if the host and its settings are those of `BudgetPaces.of_host`.
    """
    if not settings.keep or not line.visited or line.parked:
        return None
    visits = WEEK_S / max(line.slot_s, SHORTEST_SLOT_S)
    most = line.visited * WEEK_S / settings.least_s
    # New pages get what known ones leave, and no more than are waiting.
    new = min(visits - min(visits * settings.share, most), float(line.waits.new + line.waits.retry))
    return WeekPlan(round(min(visits - new, most)), round(new))


# ---- the last requests -----------------------------------------------------------------------------------------------


MAX_LOG_ROWS = 20_000
MAX_REQUESTS = 2_000
TOLERANCE_S = 0.001
_decode = msgspec.msgpack.Decoder(FetchRow).decode


@dataclass(frozen=True, slots=True)
class TimedRequest:
    """One request. `is_early`: the delay before it was shorter than politeness required."""

    time_s: float
    took_s: float
    outcome: str
    bytes: int
    is_early: bool


def last_requests(folder: CellFolder, frontier: FrontierCell, host: str) -> list[TimedRequest]:
    """Return the last requests to a host, oldest first."""

    def read(serial: int) -> list[TimedRequest]:
        found = list(_pending(frontier, host))
        return found if len(found) >= MAX_REQUESTS else found + _rolled_out(folder, serial, host)

    found, _ = with_serial(frontier, read)
    return sorted(found[:MAX_REQUESTS], key=lambda each: each.time_s)


def _pending(frontier: FrontierCell, host: str) -> Iterator[TimedRequest]:
    for blob in pending_log.search_last(
        frontier, host.encode(), MAX_LOG_ROWS
    ):  # only those are decoded that may be its
        row = _decode(blob)
        if row.host == host:
            yield timed_request(row.started, row.ended, row.outcome, row.bytes, row.rest_s, row.rested_s)


def _rolled_out(folder: CellFolder, serial: int, host: str) -> list[TimedRequest]:
    # Files from this number on may be incomplete: their rows are still in the frontier.
    files = log_files(LogPart(folder.log, serial))
    if not files:
        return []
    import pyarrow as pa  # only where something was rolled out
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    columns = ["started", "ended", "outcome", "bytes", "rest_s", "rested_s"]
    with pq.ParquetFile(files[-1], read_dictionary=["host", "outcome"]) as file:
        table = file.read([*columns, "host"], use_threads=False)
    table = table.filter(pc.equal(table.column("host"), host))
    # The newest rows, which are at the end.
    table = table.slice(max(0, len(table) - MAX_REQUESTS))
    since_1970 = pa.timestamp("us", "UTC")
    times = [table.column(name).cast(since_1970).cast(pa.int64()).to_pylist() for name in columns[:2]]
    others = [table.column(name).to_pylist() for name in columns[2:]]
    rows = [timed_request(began / 1e6, ended / 1e6, *rest) for began, ended, *rest in zip(*times, *others, strict=True)]
    # Newest first, like `_pending`.
    return rows[::-1]


def timed_request(
    started_s: float, ended_s: float, outcome: str, size: int, delay_s: float | None, waited_s: float | None
) -> TimedRequest:
    is_early = delay_s is not None and waited_s is not None and waited_s < delay_s - TOLERANCE_S
    return TimedRequest(started_s, max(0.0, ended_s - started_s), outcome, size, is_early)


# ---- in bins --------------------------------------------------------------------------------------------------------

Bin = tuple[float, float, int]
"""(from, to, how many)"""

PER_DECADE = (1.0, 2.0, 5.0)


def log_bins(values: Iterable[float]) -> list[Bin]:
    """Count positive values in bins between 1, 2 and 5 of every power of ten; bins outside the values are left out."""
    found = np.fromiter(values, float)
    found = found[found > 0]
    if not len(found):
        return []
    decade = np.floor(np.log10(found))
    # A hair upwards: rounding must not put 0.2 below its own edge.
    figures = found / 10.0**decade / (1 - 1e-12)
    steps = 3 * decade + np.clip(np.searchsorted(PER_DECADE, figures, "right") - 1, 0, None)
    counts = dict(zip(*(each.tolist() for each in np.unique(steps.astype(int), return_counts=True)), strict=True))
    return [(_edge(number), _edge(number + 1), counts.get(number, 0)) for number in range(min(counts), max(counts) + 1)]


def _edge(number: int) -> float:
    return float(f"{PER_DECADE[number % 3] * 10.0 ** (number // 3):.6g}")


def quantile(values: Sequence[float], part: float) -> float | None:
    """Return the quantile of the values; None if there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None
