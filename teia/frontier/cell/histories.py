"""Histories of revisited pages and of their hosts: the tables `histories` and `host_histories`.

A first visit yields no record: its time is in `pages`. Where pages are kept fresh, it stores a mask, which holds the
sketch of its text. The records are bytes in this module; refresh/ interprets them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import RowKey
from teia.frontier.cell.revisits import captured_s
from teia.records import NOT_MODIFIED


@dataclass(frozen=True, slots=True)
class KnownPage:
    """A page after its last good visit. `record` and `mask` are empty until it was revisited."""

    status: int
    digest: bytes
    text_digest: bytes
    simhash: int
    redirect_to: str
    etag: str
    last_modified: str
    last_change_s: float
    outcome: str
    record: bytes
    mask: bytes


@dataclass(frozen=True, slots=True)
class RevisitedPage:
    """A page of a host, with the fields by which change rates are compared."""

    key: int
    tail: str
    depth: int
    media_type: str
    record: bytes


def load_page(frontier: FrontierCell, row_key: RowKey) -> KnownPage | None:
    """Return a page's row before a visit is recorded; None if there was no answer to compare with."""
    sql = """
        SELECT p.status, p.digest, p.text_digest, p.simhash, p.redirect_to, p.etag, p.last_modified, p.last_change_s,
               u.outcome, coalesce(h.record, x''), coalesce(h.mask, x'')
        FROM pages AS p JOIN urls AS u USING (slot, host_id, key) LEFT JOIN histories AS h USING (slot, host_id, key)
        WHERE p.slot = ? AND p.host_id = ? AND p.key = ? AND p.digest <> x''
    """
    row = frontier.db.execute(sql, row_key).fetchone()
    return None if row is None else KnownPage(*row)


def store_page(frontier: FrontierCell, row_key: RowKey, record: bytes, mask: bytes) -> None:
    """Store a page's history; inside a transaction."""
    frontier.db.execute("INSERT OR REPLACE INTO histories VALUES (?, ?, ?, ?, ?)", (*row_key, record, mask))


def host_trust(frontier: FrontierCell, slot: int, host_id: int) -> tuple[bytes, bytes]:
    """Return the trust in a host's validators and the mask of its varying page parts; empty if unknown."""
    sql = "SELECT trust, mask FROM host_histories WHERE slot = ? AND host_id = ?"
    row: tuple[bytes, bytes] | None = frontier.db.execute(sql, (slot, host_id)).fetchone()
    return (b"", b"") if row is None else row


def store_host_trust(frontier: FrontierCell, slot: int, host_id: int, trust: bytes, mask: bytes) -> None:
    """Store a host's trust and mask; inside a transaction."""
    frontier.db.execute("INSERT OR REPLACE INTO host_histories VALUES (?, ?, ?, ?)", (slot, host_id, trust, mask))


def pages_not_modified(frontier: FrontierCell, slot: int, host_id: int, limit: int) -> list[tuple[int, bytes]]:
    """Return some pages of a host that it ever called not modified: their keys and masks."""
    sql = """
        SELECT key, mask FROM histories AS h WHERE slot = ? AND host_id = ? AND EXISTS (
            SELECT 1 FROM visits AS v WHERE v.slot = h.slot AND v.host_id = h.host_id AND v.key = h.key AND outcome = ?)
        LIMIT ?
    """
    return frontier.db.execute(sql, (slot, host_id, str(NOT_MODIFIED), limit)).fetchall()


def visits_with_body(frontier: FrontierCell, row_key: RowKey) -> list[tuple[float, int]]:
    """Return the times of a page's visits that brought a body, and their comparisons with the one before."""
    at = "slot = ? AND host_id = ? AND key = ?"
    first = f"SELECT min(time_s) FROM visits WHERE {at} AND digest <> x'' AND outcome <> ?"  # noqa: S608  # our own text
    (first_s,) = frontier.db.execute(first, (*row_key, str(NOT_MODIFIED))).fetchone()
    if first_s is None:  # the capture was imported
        first_s = captured_s(frontier, row_key)
    later = f"SELECT time_s, comparison FROM visits WHERE {at} AND time_s > ? AND comparison > 0 ORDER BY time_s"  # noqa: S608
    return [(first_s, 0), *frontier.db.execute(later, (*row_key, first_s)).fetchall()]


def body_times(frontier: FrontierCell, slot: int, host_id: int, keys: Iterable[int]) -> list[tuple[float, float]]:
    """Return the times of the first and the last visit of pages of a host that brought a body; (0, 0) without one."""
    sql = """
        SELECT coalesce(min(time_s), 0.0), coalesce(max(time_s), 0.0) FROM visits
        WHERE slot = ? AND host_id = ? AND key = ? AND digest <> x'' AND outcome <> ?
    """
    return [frontier.db.execute(sql, (slot, host_id, key, str(NOT_MODIFIED))).fetchone() for key in keys]


def revisited_page(frontier: FrontierCell, row_key: RowKey) -> RevisitedPage | None:
    """Return a page that has a history; None if it has none."""
    sql = """
        SELECT h.key, u.tail, u.depth, p.media_type, h.record
        FROM histories AS h JOIN urls AS u USING (slot, host_id, key) JOIN pages AS p USING (slot, host_id, key)
        WHERE h.slot = ? AND h.host_id = ? AND h.key = ? AND h.record <> x''
    """
    row = frontier.db.execute(sql, row_key).fetchone()
    return None if row is None else RevisitedPage(*row)


def first_records(frontier: FrontierCell, row_key: RowKey, limit: int) -> list[tuple[int, bytes]]:
    """Return the keys and records of those of a host's first `limit` pages that were revisited, except one page."""
    sql = "SELECT key, record FROM histories WHERE slot = ? AND host_id = ? AND key <> ? ORDER BY key LIMIT ?"
    return [(key, record) for key, record in frontier.db.execute(sql, (*row_key, limit)) if record]


def other_records(frontier: FrontierCell, slot: int, host_id: int, key: int, limit: int) -> list[bytes]:
    """Return the records of up to `limit` pages of a host, except one."""
    sql = "SELECT record FROM histories WHERE slot = ? AND host_id = ? AND key <> ? AND record <> x'' LIMIT ?"
    return [record for (record,) in frontier.db.execute(sql, (slot, host_id, key, limit))]
