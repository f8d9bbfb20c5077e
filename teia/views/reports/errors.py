"""Report of failures: by class, by host, with examples (C5's table 6)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from teia.frontier.cell.rows import url_from
from teia.records import Outcome
from teia.views.reports.outcomes import code_of, describe_outcome
from teia.views.reports.source import Source, share_of

EXAMPLES = 3
IS_ERROR = f"outcome NOT IN ('', '{Outcome.ALIAS}') AND outcome NOT GLOB '[23][0-9][0-9]'"
REFUSED = frozenset(
    {
        Outcome.ROBOTS,
        Outcome.ROBOTS_UNREACHABLE,
        Outcome.OUT_OF_SCOPE,
        Outcome.FORBIDDEN_TYPE,
        Outcome.TOO_LARGE,
        Outcome.BLOCKED_ADDRESS,
        Outcome.TRAP,
        Outcome.BUDGET,
    }
)
OURS = frozenset({Outcome.SYSTEM, Outcome.PARSE_FAILED})


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One kind of failure. `detail` is its last recorded message."""

    kind: str
    outcome: str
    code: int | None
    meaning: str
    urls: int
    share: float
    hosts: int
    detail: str
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostErrors:
    """A host with failures: the number of its failed URLs, and their most frequent outcome."""

    host: str
    errors: int
    share: float
    mostly: str


@dataclass(frozen=True, slots=True)
class Errors:
    """Failures of a collection. `share` of a row is of all failures, `share` of a host of its visited URLs."""

    visited: int
    errors: int
    rows: tuple[ErrorRow, ...]
    by_host: tuple[HostErrors, ...]
    notes: tuple[str, ...] = (
        "Kind: client and server are the HTTP error classes; network means that no response was received; refused"
        " means that the crawler did not fetch or store it; ours is an error of the crawler itself. Each URL is"
        " counted by its last outcome.",
    )


def kind_of(outcome: str) -> str:
    """Return the class of a failure."""
    if outcome.isdigit():
        return {"4": "client", "5": "server"}.get(outcome[0], "other")
    if outcome == Outcome.SOFT_404:
        return "client"
    if outcome in REFUSED:
        return "refused"
    return "ours" if outcome in OURS else "network"


def errors(source: Source, top: int = 20) -> Errors:
    """Count failures by outcome and by host."""
    visited = sum(n for (n,) in source.rows("SELECT count(*) FROM urls WHERE outcome <> ''"))
    rows = _by_outcome(source)
    return Errors(visited, sum(row.urls for row in rows), rows, _by_host(source, top))


def _by_outcome(source: Source) -> tuple[ErrorRow, ...]:
    # Beside min() SQLite takes the other columns from the row that has the least: one example a cell in one pass.
    sql = f"""
        SELECT outcome, n, hosts, h.name, tail FROM
            (SELECT outcome, count(*) AS n, count(DISTINCT host_id) AS hosts, min(key), host_id, tail
             FROM urls WHERE {IS_ERROR} GROUP BY outcome)
        JOIN hosts AS h USING (host_id)
    """  # noqa: S608  # our own text
    urls: dict[str, int] = defaultdict(int)
    hosts: dict[str, int] = defaultdict(int)
    examples: dict[str, list[str]] = defaultdict(list)
    for outcome, number, on_hosts, host, tail in source.rows(sql):
        urls[outcome] += number
        # A host lies in one cell, so that numbers of hosts add up.
        hosts[outcome] += on_hosts
        examples[outcome].append(url_from(host, tail))
    # The newest message of each outcome.
    details = dict(
        source.log.query(
            "SELECT outcome, arg_max(detail, started) FROM fetches WHERE detail IS NOT NULL GROUP BY outcome"
        ).rows
    )
    total = sum(urls.values())
    return tuple(
        ErrorRow(
            kind_of(each),
            each,
            code_of(each),
            describe_outcome(each),
            urls[each],
            share_of(urls[each], total),
            hosts[each],
            details.get(each) or "",
            tuple(examples[each][:EXAMPLES]),
        )
        for each in sorted(urls, key=lambda name: (-urls[name], name))
    )


def _by_host(source: Source, top: int) -> tuple[HostErrors, ...]:
    sql = f"""
        SELECT h.name, errors, visited,
            (SELECT outcome FROM urls AS u WHERE u.slot = h.slot AND u.host_id = h.host_id AND {IS_ERROR}
             GROUP BY outcome ORDER BY count(*) DESC, outcome LIMIT 1)
        FROM (SELECT host_id, count(*) AS visited, sum({IS_ERROR}) AS errors
              FROM urls WHERE outcome <> '' GROUP BY host_id HAVING errors > 0 ORDER BY errors DESC LIMIT ?)
        JOIN hosts AS h USING (host_id)
    """  # noqa: S608  # our own text
    rows = [HostErrors(host, n, share_of(n, visited), mostly) for host, n, visited, mostly in source.rows(sql, top)]
    return tuple(sorted(rows, key=lambda row: (-row.errors, row.host))[:top])
