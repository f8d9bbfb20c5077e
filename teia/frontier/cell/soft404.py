"""A host's answer for URLs that do not exist, as a cell stores it.

Many servers answer 200 and a page in plain words instead of 404. A *probe*, one request a host for a generated path
that cannot exist, fetches that page; pages that look like it are soft 404s (crawler/sites/soft404.py compares). The
answer is stored, so that a host is probed once and not after every restart.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import ProbeResult
from teia.records import Outcome
from teia.urls import site_of, slot_of

MAX_COMPARED = 10_000
"""Pages of a host that are compared when its probe returns; it is sent long before there are so many."""

_64_BITS = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class SuspectPage:
    """A page of a host, with the fields that are compared with its probe."""

    key: int
    tail: str
    text: bytes
    simhash: int
    title: str


def probe_path(host: str) -> str:
    """Return a path that does not exist on a host, always the same; a server's log shows that it is teia's."""
    drawn = hashlib.sha256(f"teia probe {host}".encode()).hexdigest()
    return f"/teia-probe-{drawn[:20]}"


def save_probe(cell: FrontierCell, host_id: int, host: str, found: ProbeResult) -> None:
    """Store the result of a host's probe; inside a transaction."""
    cell.db.execute(
        "INSERT OR REPLACE INTO probes VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            slot_of(site_of(host)),
            host_id,
            found.url,
            found.time_s,
            found.outcome,
            found.text,
            _signed(found.simhash),
            found.title,
        ),
    )


def load_probe(cell: FrontierCell, host_id: int, host: str) -> ProbeResult | None:
    """Return the result of a host's last probe; None if there was none."""
    sql = "SELECT url, time_s, outcome, text_digest, simhash, title FROM probes WHERE slot = ? AND host_id = ?"
    row = cell.db.execute(sql, (slot_of(site_of(host)), host_id)).fetchone()
    if row is None:
        return None
    url, time_s, outcome, text, simhash, title = row
    return ProbeResult(url, time_s, outcome, text, simhash & _64_BITS, title)


def suspect_pages(cell: FrontierCell, host_id: int, host: str) -> list[SuspectPage]:
    """Return the pages that were fetched before the probe returned."""
    sql = """
        SELECT p.key, u.tail, CASE WHEN p.text_digest = x'' THEN p.digest ELSE p.text_digest END, p.simhash, p.title
        FROM pages AS p JOIN urls AS u ON u.slot = p.slot AND u.host_id = p.host_id AND u.key = p.key
        WHERE p.slot = ? AND p.host_id = ? AND p.status BETWEEN 200 AND 299 LIMIT ?
    """
    rows = cell.db.execute(sql, (slot_of(site_of(host)), host_id, MAX_COMPARED))
    return [SuspectPage(key, tail, text, simhash & _64_BITS, title) for key, tail, text, simhash, title in rows]


def mark_soft404s(cell: FrontierCell, host_id: int, host: str, keys: list[int]) -> None:
    """Mark fetched pages as soft 404s; inside a transaction."""
    slot = slot_of(site_of(host))
    cell.db.executemany(
        "UPDATE urls SET outcome = ? WHERE slot = ? AND host_id = ? AND key = ?",
        [(Outcome.SOFT_404, slot, host_id, key) for key in keys],
    )
    cell.db.executemany(
        "UPDATE pages SET noindex = 1 WHERE slot = ? AND host_id = ? AND key = ?",
        [(slot, host_id, key) for key in keys],
    )


def _signed(number: int) -> int:
    """Convert an unsigned 64-bit number to the signed one that SQLite stores."""
    return number - (1 << 64) if number >= 1 << 63 else number
