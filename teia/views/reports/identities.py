"""Servers that answer differently by the identity of the client (T9), from the crawler's comparisons in the log."""

from __future__ import annotations

from dataclasses import dataclass

from teia.crawler.sites.identity import DIFFERENT, SAME, UNSTABLE, parse_detail
from teia.lib.message import Message
from teia.views.reports.source import Source

MEANINGS = {
    DIFFERENT: Message("answers by identity"),
    UNSTABLE: Message("changes by itself"),
    SAME: Message("answers alike"),
}


@dataclass(frozen=True, slots=True)
class IdentityRow:
    """One host whose answers differ: the outcomes for our User-Agent and for the other one, and what that means."""

    host: str
    url: str
    time: str
    ours: str
    other: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Identities:
    """Hosts of which one page was requested under two User-Agents, and those that answered by identity."""

    compared: int
    different: int
    unstable: int
    rows: tuple[IdentityRow, ...]
    notes: tuple[str, ...] = (
        Message(
            "A host answers by identity if it answers alike twice to our User-Agent and differently to one that begins"
            " with Mozilla/5.0. `sites.identity_after_pages` turns the comparison on."
        ),
    )


def identities(source: Source, top: int = 25) -> Identities:
    """Show the last comparison of each host, those that answer by identity first."""
    sql = """
        SELECT host, url, strftime(started, '%Y-%m-%dT%H:%M:%SZ'), detail FROM fetches
        WHERE kind = 'probe' AND detail LIKE 'identity: %' ORDER BY started
    """
    last: dict[str, tuple[str, IdentityRow]] = {}
    for host, url, time, detail in source.log.query(sql).rows:
        found = parse_detail(detail)
        if found is not None:
            verdict, ours, other = found
            last[host] = verdict, IdentityRow(host, url, time, ours, other, MEANINGS[verdict])
    verdicts = [verdict for verdict, _ in last.values()]
    differing = [each for each in last.values() if each[0] != SAME]
    differing.sort(key=lambda each: (each[0] != DIFFERENT, each[1].host))
    rows = tuple(row for _, row in differing[:top])
    return Identities(len(last), verdicts.count(DIFFERENT), verdicts.count(UNSTABLE), rows)
