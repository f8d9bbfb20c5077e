"""`teia audit politeness`: the fetch log replayed, looking for requests that came too early or should not have come.

The log is what every request did, by the calendar, with the rest that courtesy demanded before it. A request is early
if it began sooner than that after the last answer of its host had ended, or sooner than our own delay after the last
answer of its address. A page is unasked for if no robots.txt of its host had been fetched before it. The audit trusts
no counter of the crawler; the lab's own log is the second opinion (tests/system).

Our own delay may have been changed. A shorter one holds from a place's next answer on, so of the delays that were in
force between two requests the shortest is what they owe each other; after an answer of a host whose owner agreed to a
shorter one, that. Nothing is owed while several requests at once were allowed. An address that many sites share owes
less (frontier/sharing.py): they are counted in the log as it goes on, and what the ledger knows of the address, from
other collections and earlier runs, is added.

The questions are in the SQL that DuckDB and SQLite share, so that the end of a small crawl need not load DuckDB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from teia.clock import iso_utc
from teia.config import CourtesySettings
from teia.crawl.logrows import CACHED
from teia.frontier.ledger import InForce
from teia.frontier.sharing import OF_A_CDN, Networks
from teia.store.fetchlog import Log

TOLERANCE_S = 0.002
"""The calendar may be stepped a little between two readings; rests are kept by a clock that is not."""

MAX_DETAILS = 20
MAX_HOSTS = 1_000_000

IMPORTED_RUN = -1
"""The `run` of rows that `teia import log` brought: requests of somebody else, for whom this audit does not speak."""


@dataclass(frozen=True, slots=True)
class PolitenessAudit:
    """How many requests were looked at, how many broke a rule, and the first of those in words."""

    checked: int
    violations: int
    details: tuple[str, ...]


def audit_politeness(
    log: Log,
    courtesy: CourtesySettings,
    history: Sequence[InForce] = (),
    shared: Mapping[str, int] | None = None,
    others: Sequence[Log] = (),
) -> PolitenessAudit:
    """Check every request of a fetch log.

    `history` is which delay was in force since when, `shared` how many sites share an address, if that is known.
    `others` are the logs of collections that were crawled beside: what robots.txt told one, it told all.
    """
    sites = _sites_by_address(log, courtesy, shared or {})
    checked = int(log.query(f"SELECT count(*) FROM {_OURS}").rows[0][0])  # noqa: S608  # our own text
    complaints: list[str] = []
    violations = 0
    excused = _excused(log, others) if courtesy.robots else frozenset()
    in_force = history or [InForce.of(0.0, courtesy)]
    for what, sql in _questions(courtesy, in_force, sites, excused):
        (number,) = log.query(f"SELECT count(*) FROM ({sql})").rows[0]  # noqa: S608  # our own text
        violations += int(number)
        if number:
            rows = log.query(f"{sql} LIMIT {MAX_DETAILS}").rows
            complaints += [_said(what, *row) for row in rows]
    return PolitenessAudit(checked, violations, tuple(complaints[:MAX_DETAILS]))


def _said(what: str, url: str, started_s: float, note: str) -> str:
    return f"{what}: {url} at {iso_utc(started_s)}{f' ({note})' if note else ''}"


def _sites_by_address(log: Log, courtesy: CourtesySettings, shared: Mapping[str, int]) -> dict[str, int]:
    """What is known of addresses beside the log: those in a named network, and those that the ledger knows."""
    networks = Networks(courtesy.cdn_nets)
    rows = log.query(f"SELECT DISTINCT address FROM {_OURS} WHERE address IS NOT NULL").rows  # noqa: S608  # our own text
    sites = {address: OF_A_CDN if address in networks else shared.get(address, 0) for (address,) in rows}
    return {address: number for address, number in sites.items() if number > courtesy.shared_sites}


def _excused(log: Log, others: Sequence[Log]) -> frozenset[str]:
    """The hosts whose robots.txt another collection had fetched before the first page that came without."""
    if not others:
        return frozenset()
    without = f"SELECT host, min(started) FROM ({_unasked()}) GROUP BY host"  # noqa: S608  # our own text
    first_s: dict[str, float] = dict(log.query(without, MAX_HOSTS).rows)
    excused: set[str] = set()
    for other in others if first_s else ():
        told = other.query(
            "SELECT host, min(epoch(started)) FROM fetches WHERE kind = 'robots' GROUP BY host", MAX_HOSTS
        ).rows
        excused |= {host for host, at_s in told if host in first_s and at_s <= first_s[host]}
    return frozenset(excused)


def _questions(
    courtesy: CourtesySettings, history: Sequence[InForce], sites: Mapping[str, int], excused: frozenset[str]
) -> list[tuple[str, str]]:
    """What is asked of the log; each question selects (url, started, note) of the requests that broke a rule."""
    owed, questions = _owed(history), []
    if any(each.per_host == 1 for each in history):  # else nothing is owed
        questions = [
            ("early for its host", _early("host", f"CASE WHEN {owed} IS NOT NULL THEN rest_s END")),
            ("early for its address", _early("address", _divided(owed, courtesy), sites)),
        ]
    if courtesy.robots:
        questions.append(("before robots.txt", f"SELECT url, started, note FROM ({_unasked(excused)})"))  # noqa: S608
    return questions


def _owed(history: Sequence[InForce]) -> str:
    """The rest that two requests to one address owe each other, by `before` and `started`; NULL where nothing is."""
    ends = [*(each.since_s for each in history[1:]), None]
    if len(history) == 1:
        return _delay(history[0]) if history[0].per_host == 1 else "CAST(NULL AS DOUBLE)"
    cases = [
        f"CASE WHEN {_overlaps(each.since_s if number else None, end)} THEN {_delay(each)} END"
        for number, (each, end) in enumerate(zip(history, ends, strict=True))
        if each.per_host == 1
    ]
    several = [
        _overlaps(each.since_s if number else None, end)
        for number, (each, end) in enumerate(zip(history, ends, strict=True))
        if each.per_host > 1
    ]
    least = f"least({', '.join(cases)})" if cases else "CAST(NULL AS DOUBLE)"
    return f"CASE WHEN NOT ({' OR '.join(several) or 'false'}) THEN {least} END"


def _delay(each: InForce) -> str:
    """Our own delay while something was in force, by the host that was asked before."""
    agreed = [(host, min(each.delay_s, agreed_s)) for host, agreed_s in each.agreed]
    known = " ".join(f"WHEN {_quoted(host)} THEN {float(delay_s)}" for host, delay_s in agreed)
    return f"(CASE last_host {known} ELSE {float(each.delay_s)} END)" if known else str(float(each.delay_s))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _overlaps(since_s: float | None, until_s: float | None) -> str:
    """Whether the time between two requests touches an interval; None is without end."""
    parts = [] if since_s is None else [f"started >= {since_s:.6f}"]
    parts += [] if until_s is None else [f"before <= {until_s:.6f}"]
    return " AND ".join(parts) or "true"


def _divided(owed: str, courtesy: CourtesySettings) -> str:
    """What an address owes that `sites` registered domains share: sharing.shared_rest_s, in SQL."""
    shared = f"greatest({float(courtesy.shared_rest_s)}, ({owed}) * {courtesy.shared_sites} / sites)"
    return f"(CASE WHEN sites <= {courtesy.shared_sites} THEN {owed} ELSE least({owed}, {shared}) END)"


def _early(place: str, rest: str, sites: Mapping[str, int] | None = None) -> str:
    gap = "(started - before)"
    known = " ".join(f"WHEN '{address}' THEN {number}" for address, number in (sites or {}).items())
    known = f"CASE {place} {known} ELSE 0 END" if known else "0"
    is_first = f"CAST(row_number() OVER (PARTITION BY {place}, site ORDER BY started, ended) = 1 AS INTEGER)"
    earlier = f"(PARTITION BY {place} ORDER BY started, ended ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    return f"""
        SELECT url, started, {_text(gap)} || ' s of ' || {_text(rest)} || ' s' AS note
        FROM (SELECT *, max(ended) OVER {earlier} AS before,
                     lag(host) OVER (PARTITION BY {place} ORDER BY started, ended) AS last_host,
                     greatest({known}, coalesce(sum(is_first) OVER {earlier}, 0)) AS sites
              FROM (SELECT *, {is_first} AS is_first FROM {_OURS} WHERE {place} IS NOT NULL))
        WHERE before IS NOT NULL AND {rest} IS NOT NULL AND {gap} < {rest} - {TOLERANCE_S}
        ORDER BY started
    """  # noqa: S608  # our own text


def _text(seconds: str) -> str:
    return f"CAST(round({seconds}, 3) AS VARCHAR)"


_OURS = f"""
    (SELECT url, host, site, address, kind, rest_s, epoch(started) AS started, epoch(ended) AS ended
     FROM fetches WHERE (run IS NULL OR run <> {IMPORTED_RUN}) AND kind <> '{CACHED}')
"""  # noqa: S608  # our own text


def _unasked(excused: frozenset[str] = frozenset()) -> str:
    names = ", ".join(_quoted(host) for host in sorted(excused))
    others = f"AND f.host NOT IN ({names})" if names else ""
    return f"""
        SELECT f.url, f.host, f.started, '' AS note
        FROM {_OURS} AS f
        LEFT JOIN (SELECT host, min(epoch(started)) AS first FROM fetches WHERE kind = 'robots' GROUP BY host) AS r
            USING (host)
        WHERE f.kind <> 'robots' AND (r.first IS NULL OR r.first > f.started) {others}
        ORDER BY f.started
    """  # noqa: S608  # our own text
