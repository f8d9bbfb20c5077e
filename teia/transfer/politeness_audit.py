"""`teia audit politeness`: replay of the fetch log, to find requests that came too early or were not allowed.

The log has every request by calendar time, with the politeness delay required before it. A request is early if it began
sooner than that after the last answer of its host had ended, or sooner than our own delay after the last answer of its
address. A page is a violation if no robots.txt of its host had been fetched before it. The audit trusts no counter of
the crawler; the lab's own log is the second opinion (tests/system).

Our own delay may have been changed. A shorter one applies from the next answer on, so between two requests the shortest
delay in force is required. After an answer of a host whose owner agreed to a shorter delay, that one is required,
unless many sites were at its address. No delay is required while several requests at once were allowed. An address that
many sites share requires less (shared_addresses.py): the sites are counted in the log as it proceeds, and those that
the ledger knows from other collections and earlier runs are added.

A calendar that was set back repeats some hours, and two requests of such hours cannot be put into order by their times.
The log has its rows in the order of their commits, so their times tell when the calendar was set back (`set_backs`).
Requests of repeated hours are judged by `rested_s`, which the crawler measured with a monotonic clock, and not by
address.

The queries use the SQL that DuckDB and SQLite share, so that the end of a small crawl need not load DuckDB. The delays
in force and the facts about addresses and hosts are tables beside the log, so the queries stay short.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from teia.clock import iso_utc
from teia.config.sections import CourtesySettings
from teia.crawler.fetch_rows import CACHED, IMPORTED_RUN
from teia.frontier.queue.ledger import CourtesyInForce
from teia.frontier.queue.shared_addresses import CDN_SITES, Networks
from teia.store.audit import Audit
from teia.store.fetchlog import Log

STEP_S = 1.0
"""Least step back of the calendar that counts: a clock that is kept right is never set back so far."""

BEFORE_COMMIT_S = 300.0
"""Longest time from a request to its commit: the first requests after a step are so much older than their commit."""

TOLERANCE_S = 0.002
"""Tolerance in seconds: the calendar clock may be stepped a little; delays are measured with a monotonic clock."""

MAX_DETAILS = 20
MAX_HOSTS = 1_000_000


def audit_politeness(
    log: Log,
    courtesy: CourtesySettings,
    history: Sequence[CourtesyInForce] = (),
    shared: Mapping[str, int] | None = None,
    others: Sequence[Log] = (),
    repeated: Sequence[RepeatedTime] = (),
) -> Audit:
    """Check every request of a fetch log.

    `history` lists the delays in force with their start times, `shared` the number of sites at an address, if known.
    `others` are the logs of collections that were crawled beside: a robots.txt fetched for one counts for all.
    `repeated` are the times that the calendar showed twice (`set_backs`).
    """
    sites = _sites_by_address(log, courtesy, shared or {})
    checked = int(log.query(f"SELECT count(*) FROM {_OURS}").rows[0][0])  # noqa: S608  # our own text
    complaints: list[str] = []
    violations = 0
    excused = _excused(log, others) if courtesy.robots else frozenset()
    in_force = history or [CourtesyInForce.from_settings(0.0, courtesy)]
    _add_tables(log, in_force, sites, excused, repeated)
    for what, sql in _queries(courtesy, in_force, sites, excused, repeated):
        (number,) = log.query(f"SELECT count(*) FROM ({sql})").rows[0]  # noqa: S608  # our own text
        violations += int(number)
        if number:
            rows = log.query(f"{sql} LIMIT {MAX_DETAILS}").rows
            complaints += [_describe(what, *row) for row in rows]
    complaints += [
        f"the clock was set back at {iso_utc(each.until_s)}; requests from {iso_utc(each.since_s)} on until then are"
        " judged by the delay that the crawler measured"
        for each in repeated
    ]
    return Audit(checked, violations, tuple(complaints[:MAX_DETAILS]))


class RepeatedTime(NamedTuple):
    """A span of calendar time that passed twice, because the calendar was set back."""

    since_s: float
    until_s: float


def set_backs(logs: Iterable[Iterable[float]]) -> list[RepeatedTime]:
    """Return the times that passed twice, from the times of the commits of each cell in their order."""
    found: list[RepeatedTime] = []
    for committed_s in logs:
        latest_s = float("-inf")
        for at_s in committed_s:
            if at_s < latest_s - STEP_S:
                found.append(RepeatedTime(at_s - BEFORE_COMMIT_S, latest_s))
                latest_s = at_s  # the calendar as it is now; another step back is seen from here
            latest_s = max(latest_s, at_s)
    merged: list[RepeatedTime] = []
    for each in sorted(found):
        if merged and each.since_s <= merged[-1].until_s:
            each = RepeatedTime(merged[-1].since_s, max(merged.pop().until_s, each.until_s))
        merged.append(each)
    return merged


def _describe(what: str, url: str, started_s: float, note: str) -> str:
    return f"{what}: {url} at {iso_utc(started_s)}{f' ({note})' if note else ''}"


def _sites_by_address(log: Log, courtesy: CourtesySettings, shared: Mapping[str, int]) -> dict[str, int]:
    """Count the sites of each shared address from sources beside the log: named networks and the ledger."""
    networks = Networks(courtesy.cdn_nets)
    rows = log.query(f"SELECT DISTINCT address FROM {_OURS} WHERE address IS NOT NULL").rows  # noqa: S608  # our own text
    sites = {address: CDN_SITES if address in networks else shared.get(address, 0) for (address,) in rows}
    return {address: number for address, number in sites.items() if number > courtesy.shared_sites}


def _excused(log: Log, others: Sequence[Log]) -> frozenset[str]:
    """Return the hosts whose robots.txt another collection had fetched before the first page that came without."""
    if not others:
        return frozenset()
    without = f"SELECT host, min(started) FROM ({_without_robots()}) GROUP BY host"  # noqa: S608  # our own text
    first_s: dict[str, float] = dict(log.query(without, MAX_HOSTS).rows)
    excused: set[str] = set()
    for other in others if first_s else ():
        fetched = other.query(
            "SELECT host, min(epoch(started)) FROM fetches WHERE kind = 'robots' GROUP BY host", MAX_HOSTS
        ).rows
        excused |= {host for host, at_s in fetched if host in first_s and at_s <= first_s[host]}
    return frozenset(excused)


def _queries(
    courtesy: CourtesySettings,
    history: Sequence[CourtesyInForce],
    sites: Mapping[str, int],
    excused: frozenset[str],
    repeated: Sequence[RepeatedTime] = (),
) -> list[tuple[str, str]]:
    """Return the queries on the log; each selects (url, started, note) of the requests that broke a rule."""
    queries = []
    if any(each.per_host == 1 for each in history):  # else no delay is required
        owed, agreed = _owed(history), _agreed(courtesy) if any(each.agreed for each in history) else ""
        queries = [
            ("too early for its host", _early("host", owed, "rest_s", measured="rested_s" if repeated else "")),
            (
                "too early for its address",
                _early("address", owed, _address_delay(courtesy, agreed), sites, agreed, "NULL" if repeated else ""),
            ),
        ]
    if courtesy.robots:
        queries.append(("before robots.txt", f"SELECT url, started, note FROM ({_without_robots(excused, repeated)})"))  # noqa: S608
    return queries


# ---- settings in force ----------------------------------------------------------------------------------------------

_Time = tuple[str, float, float, float, int]
"""A row of `times`: the host, or none for all; from when, until when; the delay; how many requests at once."""

_BETWEEN = "started >= since_s AND before <= until_s"
"""True if the time between two requests overlaps that of a row of `times`."""


def _add_tables(
    log: Log,
    history: Sequence[CourtesyInForce],
    sites: Mapping[str, int],
    excused: frozenset[str],
    repeated: Sequence[RepeatedTime],
) -> None:
    """Create the tables beside the log that the queries need, and no others."""
    if len(history) > 1 or history[0].agreed:
        log.add_table(
            "times",
            ("of_host", "since_s", "until_s", "delay_s", "per_host"),
            [*_general_delays(history), *_agreed_delays(history)],
        )
    if sites:
        log.add_table("sharing", ("at_address", "site_count"), list(sites.items()))
    if excused:
        log.add_table("excused", ("of_host",), [(host,) for host in excused])
    if repeated:
        log.add_table("repeated", RepeatedTime._fields, repeated)


def _general_delays(history: Sequence[CourtesyInForce]) -> Iterator[_Time]:
    """Yield the general delay over time; unchanged ones are merged into one row."""
    spans = _spans(history)
    for (delay_s, per_host), same in groupby(spans, key=lambda span: (span[2].delay_s, span[2].per_host)):
        found = list(same)
        yield "", found[0][0], found[-1][1], float(delay_s), per_host


def _agreed_delays(history: Sequence[CourtesyInForce]) -> Iterator[_Time]:
    """Yield the delays that hosts agreed to; unchanged ones are merged into one row."""
    current: dict[str, tuple[float, float]] = {}
    for since_s, _, each in _spans(history):
        agreed = dict(each.agreed)
        for host in [host for host, (_, delay_s) in current.items() if agreed.get(host) != delay_s]:
            began_s, delay_s = current.pop(host)
            yield host, began_s, since_s, delay_s, 1
        for host, delay_s in agreed.items():
            current.setdefault(host, (since_s, float(delay_s)))
    for host, (began_s, delay_s) in current.items():
        yield host, began_s, _FOREVER_S, delay_s, 1


# Far beyond every Unix time: stands for infinity in SQL.
_FOREVER_S = 1e18


def _spans(history: Sequence[CourtesyInForce]) -> Iterator[tuple[float, float, CourtesyInForce]]:
    """Yield everything that was in force, with begin and end; the first began at -infinity, the last has not ended."""
    # Rounded to microseconds, the resolution of the log.
    bounds = [-_FOREVER_S, *(round(each.since_s, 6) for each in history[1:]), _FOREVER_S]
    for (since_s, until_s), each in zip(pairwise(bounds), history, strict=True):
        yield since_s, until_s, each


def _owed(history: Sequence[CourtesyInForce]) -> str:
    """Return SQL for the delay between two requests to one address, by `before` and `started`; NULL if none."""
    always = list(_general_delays(history))
    if len(always) == 1:
        return str(always[0][3])
    shortest = "CASE WHEN max(per_host) = 1 THEN min(delay_s) END"
    return f"(SELECT {shortest} FROM times WHERE of_host = '' AND {_BETWEEN})"  # noqa: S608  # our own text


def _agreed(courtesy: CourtesySettings) -> str:
    """Return SQL for the delay that the previous host agreed to; NULL if none, or if many sites share its address."""
    found = f"(SELECT min(delay_s) FROM times WHERE of_host = last_host AND {_BETWEEN})"  # noqa: S608  # our own text
    return f"CASE WHEN counted <= {courtesy.shared_sites} AND known < {CDN_SITES} THEN {found} END"


def _address_delay(courtesy: CourtesySettings, agreed: str) -> str:
    """Return the delay of an address that `sites` registered domains share, as `shared_delay_s` computes it, in SQL."""
    shared = f"greatest({float(courtesy.shared_rest_s)}, owed * {courtesy.shared_sites} / sites)"
    delay = f"CASE WHEN sites <= {courtesy.shared_sites} THEN owed ELSE least(owed, {shared}) END"
    return f"least(agreed, {delay})" if agreed else delay


# ---- the queries ----------------------------------------------------------------------------------------------------


def _early(
    column: str,
    owed: str,
    delay: str,
    sites: Mapping[str, int] | None = None,
    agreed: str = "",
    measured: str = "",
) -> str:
    """Return SQL for requests sooner than `delay` after the last answer of a `column`, where a delay is `owed`.

    `measured` is the delay in times that passed twice; empty if there are none.
    """
    gap = "(started - before)"
    known = f"coalesce((SELECT site_count FROM sharing WHERE at_address = {column}), 0)" if sites else "0"  # noqa: S608
    # 1 for the first request to a site at this host or address; the running sum is the number of sites seen so far.
    is_first = f"CAST(row_number() OVER (PARTITION BY {column}, site ORDER BY started, ended) = 1 AS INTEGER)"
    # The latest end of all earlier answers counts, not that of the last request: answers may overlap.
    earlier = f"(PARTITION BY {column} ORDER BY started, ended ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    own = f", {agreed} AS agreed" if agreed else ""
    last_host = f", lag(host) OVER (PARTITION BY {column} ORDER BY started, ended) AS last_host" if agreed else ""
    return f"""
        WITH followed AS MATERIALIZED
            (SELECT *, greatest(known, counted) AS sites, {owed} AS owed{own}
             FROM (SELECT *, max(ended) OVER {earlier} AS before, {known} AS known,
                          coalesce(sum(is_first) OVER {earlier}, 0) AS counted{last_host}
                   FROM (SELECT *, {is_first} AS is_first FROM {_OURS} WHERE {column} IS NOT NULL)))
        SELECT url, started, {_text(gap)} || ' s of ' || {_text("rest")} || ' s' AS note
        FROM (SELECT *, {delay} AS rest FROM followed WHERE owed IS NOT NULL AND before IS NOT NULL)
        WHERE {_waited(gap, measured)} < rest - {TOLERANCE_S}
        ORDER BY started
    """  # noqa: S608  # our own text


def _waited(gap: str, measured: str) -> str:
    """Return SQL for the delay of a request: by the calendar, or as measured where that passed twice."""
    if not measured:
        return gap
    return f"CASE WHEN {_is_repeated('started')} OR {_is_repeated('before')} THEN {measured} ELSE {gap} END"


def _is_repeated(time: str) -> str:
    return f"EXISTS (SELECT 1 FROM repeated AS t WHERE {time} >= t.since_s AND {time} <= t.until_s)"  # noqa: S608  # ours


def _text(seconds: str) -> str:
    return f"CAST(round({seconds}, 3) AS VARCHAR)"


_OURS = f"""
    (SELECT url, host, site, address, kind, rest_s, rested_s, epoch(started) AS started, epoch(ended) AS ended
     FROM fetches WHERE (run IS NULL OR run <> {IMPORTED_RUN}) AND kind <> '{CACHED}')
"""  # noqa: S608  # our own text


def _without_robots(excused: frozenset[str] = frozenset(), repeated: Sequence[RepeatedTime] = ()) -> str:
    others = "AND f.host NOT IN (SELECT of_host FROM excused)" if excused else ""
    # In a time that passed twice the order is unknown: it is enough that there is a robots.txt.
    in_order = f"AND NOT {_is_repeated('f.started')}" if repeated else ""
    return f"""
        SELECT f.url, f.host, f.started, '' AS note
        FROM {_OURS} AS f
        LEFT JOIN (SELECT host, min(epoch(started)) AS first FROM fetches WHERE kind = 'robots' GROUP BY host) AS r
            USING (host)
        WHERE f.kind <> 'robots' AND (r.first IS NULL OR (r.first > f.started {in_order})) {others}
        ORDER BY f.started
    """  # noqa: S608  # our own text
