"""Everything about one host: its pages, its treatment, its answers, and the feasibility of a pass (C2).

The view is bounded: its last requests, its first URLs in line, its patterns. Its freshness takes a walk over all its
pages, so it is computed separately (`standing_at`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from teia.clock import iso_utc
from teia.collections.stored import saved
from teia.config.sections import Config
from teia.crawler.lookup import Lookup
from teia.errors import CorruptFile, StoreError
from teia.fetch.robots import parse_robots
from teia.frontier.cell import site_statements
from teia.frontier.cell.alias_evidence import ALIAS
from teia.frontier.traps.pattern_table import HostPatterns
from teia.frontier.traps.suspicion import SHAPE, Standing
from teia.signals.trust import Kind, Voice
from teia.store.root import Root
from teia.urls import site_of, slot_of
from teia.views.feasibility import Feasibility, feasibility_of
from teia.views.host_rhythm import Asked, Bin, last_requests, log_bins, quantile
from teia.views.hosts import HostLine, HostTable
from teia.views.queue import Coming, Filter, coming
from teia.views.reports.source import snapshot
from teia.views.reports.traps import STANDINGS

RHYTHM_S = 900.0
TICKS = 500
NEXT_URLS = 10
SUSPECTS = 10
ALIASES = 10


@dataclass(frozen=True, slots=True)
class Robots:
    """One robots.txt of a host as it applies to us: number of lines, delay; `read` is the time of its fetch."""

    origin: str
    read: str
    outcome: str
    lines: int
    crawl_delay_s: float | None


@dataclass(frozen=True, slots=True)
class Suspect:
    """URLs of one pattern that may be a trap: the reason, and their treatment."""

    pattern: str
    rule: str
    standing: str
    pages: int
    given_up: int


@dataclass(frozen=True, slots=True)
class Signal:
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
class Tick:
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
    robots: tuple[Robots, ...]
    feasibility: Feasibility
    rhythm: tuple[Tick, ...]
    early: int
    requests_seen: int
    outcomes: dict[str, int]
    times: tuple[Bin, ...]
    sizes: tuple[Bin, ...]
    time_median_s: float | None
    time_p95_s: float | None
    next: tuple[Coming, ...]
    suspects: tuple[Suspect, ...]
    signals: tuple[Signal, ...]


def state_of(line: HostLine, now_s: float) -> str:
    """Return the state of a host as far as the ledger tells: `parked`, `resting`, `ready` or `idle`."""
    if line.parked:
        return "parked"
    if not line.waiting and not line.waits.refresh_due:
        return "idle"
    return "resting" if line.ready_at_s is not None and line.ready_at_s > now_s else "ready"


def line_of(table: HostTable, host: str) -> HostLine:
    """Find the line of a named host; StoreError if the host is not known."""
    line = table.hosts.get(host.lower())
    if line is None:
        raise StoreError(f"no host {host[:200]!r} is known; names are written as in URLs, without port")
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
    line = line_of(table, host)
    frontier = lookup.cells[line.cell]
    asked = last_requests(lookup.folders[line.cell], frontier, line.host)
    recent = [each for each in asked if each.time_s > now_s - RHYTHM_S]
    took_s = [each.took_s for each in asked]
    main, others = _names(lookup, line)
    return HostView(
        host=line.host,
        cell=line.cell,
        address=line.address,
        shares=table.sharing(line),
        state=state_of(line, now_s),
        ready_at=_time(line.ready_at_s),
        last_asked=_time(asked[-1].time_s if asked else line.last_asked_s),
        parked=line.parked,
        alias_of=main,
        aliases=others,
        urls=line.urls,
        visited=line.visited,
        waiting=line.waiting,
        failed=line.failed,
        excluded=line.excluded,
        requests=line.requests,
        bytes=line.bytes,
        rest_s=line.rest_s,
        response_s=line.response_s,
        robots=_robots(lookup, line, config),
        feasibility=feasibility_of(line, delay_s, pages),
        rhythm=ticks_of(recent),
        early=sum(each.is_early for each in asked),
        requests_seen=len(asked),
        outcomes=dict(Counter(each.outcome for each in asked).most_common()),
        times=tuple(log_bins(took_s)),
        sizes=tuple(log_bins(each.bytes for each in asked)),
        time_median_s=quantile(took_s, 0.5),
        time_p95_s=quantile(took_s, 0.95),
        next=tuple(coming(lookup, table, config, now_s, NEXT_URLS, Filter(host=line.host))),
        suspects=_suspects(lookup, line),
        signals=_signals(lookup, line),
    )


def ticks_of(asked: Sequence[Asked]) -> tuple[Tick, ...]:
    return tuple(Tick(iso_utc(each.time_s), each.outcome, each.is_early) for each in asked[-TICKS:])


def _time(unix_s: float | None) -> str | None:
    return None if unix_s is None else iso_utc(unix_s)


def _robots(lookup: Lookup, line: HostLine, config: Config) -> tuple[Robots, ...]:
    found = []
    for origin, read_s, outcome, status, body in lookup.cells[line.cell].robots_of(line.host_id, line.host):
        rules = parse_robots(body, config.courtesy.user_agent) if status == 200 else None
        lines, delay_s = (len(rules.lines), rules.crawl_delay_s) if rules is not None else (0, None)
        found.append(Robots(origin, iso_utc(read_s), outcome, lines, delay_s))
    return tuple(found)


def _names(lookup: Lookup, line: HostLine) -> tuple[str, tuple[str, ...]]:
    """Return the main name of a host that is an alias, and the aliases of one that is not."""
    db, slot = lookup.cells[line.cell].db, slot_of(site_of(line.host))
    sql = "SELECT other FROM aliases WHERE slot = ? AND host_id = ? AND state = ?"
    row = db.execute(sql, (slot, line.host_id, ALIAS)).fetchone()
    sql = """
        SELECT h.name FROM aliases AS a JOIN hosts AS h ON h.host_id = a.host_id
        WHERE a.slot = ? AND a.other = ? AND a.state = ? LIMIT ?
    """
    others = db.execute(sql, (slot, line.host, ALIAS, ALIASES))
    return row[0] if row is not None else "", tuple(name for (name,) in others)


def _suspects(lookup: Lookup, line: HostLine) -> tuple[Suspect, ...]:
    known = HostPatterns(line.host, line.host_id, slot_of(site_of(line.host)))
    known.load(lookup.cells[line.cell].db)
    found = [
        Suspect(each.text, str(each.doubt), STANDINGS[each.standing], int(each.all.read), each.given_up)
        for each in known.by_number.values()
        if each.standing is not Standing.OPEN and not each.text.startswith(SHAPE)
    ]
    return tuple(sorted(found, key=lambda each: (-each.given_up, each.pattern))[:SUSPECTS])


def _signals(lookup: Lookup, line: HostLine) -> tuple[Signal, ...]:
    frontier = lookup.cells[line.cell]
    if not site_statements.are_there(frontier.db):  # no version with signals has written it yet
        return ()
    kept = site_statements.voices_of(frontier.db, slot_of(site_of(line.host)), line.host_id)
    try:
        voices = [(Kind(kind).word, Voice.decode(record)) for kind, record in sorted(kept.items())]
    except ValueError as error:
        raise CorruptFile(frontier.path, str(error)) from error
    return tuple(
        Signal(
            kind=kind,
            heeded=round(voice.heeded),
            precision=round(voice.precision.mean, 4),
            recall=round(voice.recall.mean, 4),
            weight=round(voice.weight, 4),
            sure_weight=round(voice.sure_weight, 4),
            is_hardly_heard=voice.is_hardly_heard,
            future=voice.future,
            broken=voice.broken,
            foreign=voice.foreign,
        )
        for kind, voice in voices
    )


@dataclass(frozen=True, slots=True)
class Possible:
    """Estimated and possible freshness of a host's captures, for requests `slot_s` apart; None if unknown.

    `best` is the long-run value. `possible` is the value now; it depends on visits made already, so it is None for a
    `slot_s` that is not the host's own.
    """

    slot_s: float
    fresh: float | None
    best: float | None
    possible: float | None


def standing_at(root: Root, collection: str, line: HostLine, slot_s: float, now_s: float) -> Possible:
    """Estimate the freshness possible for a host; reads the histories of all its pages."""
    from teia.crawler.keep_fresh.weights import weigher
    from teia.views.reports.freshness import one_host  # brings what plans are made with

    config = saved(root, collection).config
    weigh = weigher(config.refresh, root.collection(collection).ranks)
    with snapshot(root, collection) as cells:
        cell = next(cell for cell in cells if cell.number == line.cell)
        found = one_host(cell, line.host_id, line.host, max(slot_s, 0.001), config.refresh, weigh, now_s)
    if found is None:
        return Possible(slot_s, None, None, None)
    return Possible(slot_s, round(found.fresh, 4), round(found.best, 4), round(found.possible, 4))
