"""Known pages that are kept fresh: the lane REFRESH of each host's queue, by due time (A13).

A page in this lane is settled (`done`, or `failed` for long) and is in the index. It does not count as queued, and
a crawl that keeps nothing fresh does not read the lane. Its due time is stored only here, so it survives any crash.
A visit takes the page out (`leave_lane`), and the scheduler puts it back with its next due time (`set_due`).

Due times are moved when a host is planned anew (`move_due_times`). A plan is made from an older state of the disk, so
a page that left the lane meanwhile stays where it went.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import ceil
from typing import NamedTuple

from teia.frontier.cell.connection import CellConnection, RowKey
from teia.frontier.cell.schema import (
    LANE_DUE,
    LANE_NEW,
    LANE_REFRESH,
    STATE_DONE,
    STATE_EXCLUDED,
    STATE_FAILED,
    STATE_QUEUED,
)
from teia.records import Outcome

LATEST_S = 1e12
"""Stands for a time that never comes."""


class CapturedPage(NamedTuple):
    """A page with a capture, with the fields that a plan needs.

    `known_s` is the time of the capture or of its last known change; `record` is empty until the page was
    revisited.
    """

    key: int
    tail: str
    depth: int
    in_links: int
    media_type: str
    status: int
    state: int
    lane: int
    rank: int
    changes: int
    last_visit_s: float
    known_s: float
    record: bytes


_CAPTURED = """
    SELECT u.key, u.tail, u.depth, u.in_links, p.media_type, p.status, u.state, u.lane, u.rank, p.changes,
           p.last_visit_s, p.last_change_s, coalesce(h.record, x'')
    FROM pages AS p JOIN urls AS u USING (slot, host_id, key) LEFT JOIN histories AS h USING (slot, host_id, key)
"""
_HAS_CAPTURE = f"u.state IN ({STATE_DONE}, {STATE_FAILED}) AND p.digest <> x''"
_AT = "slot = ? AND host_id = ? AND key = ?"
CAPTURED_S = """
    coalesce((SELECT v.time_s FROM visits AS v WHERE v.slot = p.slot AND v.host_id = p.host_id
              AND v.key = p.key AND v.file = p.file AND v.offset = p.offset),
             (SELECT min(v.time_s) FROM visits AS v WHERE v.slot = p.slot AND v.host_id = p.host_id
              AND v.key = p.key AND v.digest = p.digest), p.last_visit_s)
"""
"""Of `pages AS p`: time of the capture's fetch. A later 304 or a failed visit does not move it.

If another URL brought the body first, it is the page's own first visit that found this body.
"""


def leave_lane(cell: CellConnection, row_key: RowKey, rank: int) -> int:
    """Take a page out of the lane for its visit; return the lane it waits in if it has to be tried again."""
    sql = "DELETE FROM queue WHERE slot = ? AND host_id = ? AND lane = ? AND rank = ? AND key = ?"
    cell.db.execute(sql, (*row_key[:2], LANE_REFRESH, rank, row_key[2]))
    return LANE_DUE


def withdraw(cell: CellConnection, row_key: RowKey) -> None:
    """Take a page out of the lane, if it is there."""
    row = cell.db.execute(f"SELECT rank FROM urls WHERE {_AT} AND lane = ?", (*row_key, LANE_REFRESH)).fetchone()  # noqa: S608
    if row is not None:
        cell.db.execute(f"UPDATE urls SET lane = ? WHERE {_AT}", (leave_lane(cell, row_key, row[0]), *row_key))  # noqa: S608


def set_due(cell: CellConnection, row_key: RowKey, due_s: float) -> bool:
    """Set the due time of a settled page; inside a transaction. Return False for one that is not settled."""
    # Rounded up: never requested before its due time.
    rank = ceil(min(due_s, LATEST_S) * 1000)
    withdraw(cell, row_key)
    sql = f"UPDATE urls SET lane = ?, rank = ? WHERE {_AT} AND state IN (?, ?)"  # noqa: S608  # our own text
    if not cell.db.execute(sql, (LANE_REFRESH, rank, *row_key, STATE_DONE, STATE_FAILED)).rowcount:
        return False
    cell.db.execute("INSERT INTO queue VALUES (?, ?, ?, ?, ?)", (*row_key[:2], LANE_REFRESH, rank, row_key[2]))
    return True


class DueTimeChange(NamedTuple):
    """A page's new due time, with its position in the queue when that was decided."""

    key: int
    lane: int
    rank: int
    due_s: float


def move_due_times(cell: CellConnection, slot: int, host_id: int, moves: Iterable[DueTimeChange]) -> int:
    """Give pages of a host other due times; inside a transaction. Return how many were still at their old places."""
    at = f"UPDATE urls SET lane = ?, rank = ? WHERE {_AT} AND lane = ? AND rank = ? AND state IN (?, ?)"  # noqa: S608
    moved = 0
    for key, lane, old, due_s in moves:
        rank = ceil(min(due_s, LATEST_S) * 1000)
        row_key = (slot, host_id, key)
        # The old place is part of the condition: a page that moved since the plan was made stays where it is.
        if not cell.db.execute(at, (LANE_REFRESH, rank, *row_key, lane, old, STATE_DONE, STATE_FAILED)).rowcount:
            continue
        if lane == LANE_REFRESH:
            leave_lane(cell, row_key, old)
        cell.db.execute("INSERT INTO queue VALUES (?, ?, ?, ?, ?)", (slot, host_id, LANE_REFRESH, rank, key))
        moved += 1
    return moved


def captured_pages(cell: CellConnection, slot: int, host_id: int, after: int, limit: int) -> list[CapturedPage]:
    """Return pages of a host that have a capture, in the order of their keys, which is as good as a random one."""
    sql = f"{_CAPTURED} WHERE p.slot = ? AND p.host_id = ? AND p.key > ? AND {_HAS_CAPTURE} ORDER BY p.key LIMIT ?"
    return [CapturedPage(*row) for row in cell.db.execute(sql, (slot, host_id, after, limit))]


def captured_pages_at(cell: CellConnection, row_keys: Sequence[RowKey]) -> list[CapturedPage | None]:
    """Like `captured_pages`, for given pages; None for one without a capture, or that waits to be tried again."""
    sql = f"{_CAPTURED} WHERE p.slot = ? AND p.host_id = ? AND p.key = ? AND {_HAS_CAPTURE}"
    rows = [cell.db.execute(sql, row_key).fetchone() for row_key in row_keys]
    return [None if row is None else CapturedPage(*row) for row in rows]


def captured_s(cell: CellConnection, row_key: RowKey) -> float:
    """Return the time at which a page's capture was fetched."""
    sql = f"SELECT {CAPTURED_S} FROM pages AS p WHERE {_AT}"  # noqa: S608  # our own text
    return float(cell.db.execute(sql, row_key).fetchone()[0])


def count_captured(cell: CellConnection, slot: int, host_id: int) -> int:
    """Return the number of pages of a host that have a capture."""
    tables = "pages AS p JOIN urls AS u USING (slot, host_id, key)"
    sql = f"SELECT count(*) FROM {tables} WHERE p.slot = ? AND p.host_id = ? AND {_HAS_CAPTURE}"  # noqa: S608  # our text
    return int(cell.db.execute(sql, (slot, host_id)).fetchone()[0])


def hosts_with_pages(cell: CellConnection) -> list[tuple[int, str, str, int]]:
    """Return (host id, name, last address, requests so far) of every host that was requested."""
    return cell.db.execute(
        "SELECT host_id, name, address, requests FROM hosts WHERE requests ORDER BY host_id"
    ).fetchall()


class NextPage(NamedTuple):
    """A page that is next in the lane, with its due time and its last visit."""

    key: int
    due_s: float
    requested_s: float


def next_pages(
    cell: CellConnection, slot: int, host_id: int, limit: int, skip: Collection[int], after_ms: int = -1
) -> list[NextPage]:
    """Return the pages of a host with the earliest due times, due or not; `skip` are in memory already.

    `after_ms` leaves out those that are due until then.
    """
    sql = """
        SELECT q.key, q.rank / 1000.0, p.last_visit_s FROM queue AS q JOIN pages AS p USING (slot, host_id, key)
        WHERE q.slot = ? AND q.host_id = ? AND q.lane = ? AND q.rank > ? ORDER BY q.rank, q.key LIMIT ?
    """
    # Pages in memory are filtered out here, so that many more are read.
    rows = cell.db.execute(sql, (slot, host_id, LANE_REFRESH, after_ms, limit + len(skip)))
    return [NextPage(*row) for row in rows if row[0] not in skip][:limit]


# ---- at the size limit (F2) -----------------------------------------------------------------------------------------


def queued_urls(cell: CellConnection, slot: int, host_id: int, limit: int) -> list[CapturedPage]:
    """Return the first queued new URLs of a host, with the fields that determine their importance."""
    sql = """
        SELECT u.key, u.tail, u.depth, u.in_links, '', 0, u.state, u.lane, u.rank, 0, 0.0, 0.0, x''
        FROM queue AS q JOIN urls AS u USING (slot, host_id, key)
        WHERE q.slot = ? AND q.host_id = ? AND q.lane = ? ORDER BY q.rank, q.key LIMIT ?
    """
    return [CapturedPage(*row) for row in cell.db.execute(sql, (slot, host_id, LANE_NEW, limit))]


def most_linked_new(cell: CellConnection, limit: int) -> list[tuple[tuple[int, int, str], CapturedPage]]:
    """Return the new URLs of all hosts with the most in-links, each with its (slot, host id, name of the host)."""
    sql = """
        SELECT u.slot, u.host_id, h.name, u.key, u.tail, u.depth, u.in_links, '', 0, u.state, u.lane, u.rank, 0, 0.0,
               0.0, x''
        FROM (SELECT * FROM urls WHERE state = ? AND lane = ? ORDER BY in_links DESC LIMIT ?) AS u
        JOIN hosts AS h USING (host_id)
    """
    rows = cell.db.execute(sql, (STATE_QUEUED, LANE_NEW, limit))
    return [((slot, host_id, name), CapturedPage(*page)) for slot, host_id, name, *page in rows]


def is_new(cell: CellConnection, row_key: RowKey) -> bool:
    """Tell whether a URL waits for its first visit, in the lane of new URLs."""
    sql = f"SELECT 1 FROM urls WHERE {_AT} AND lane = ? AND state = ?"  # noqa: S608  # our own text
    return cell.db.execute(sql, (*row_key, LANE_NEW, STATE_QUEUED)).fetchone() is not None


def drop_page(cell: CellConnection, row_key: RowKey) -> bool:
    """Drop a captured page; inside a transaction. Return False if it is not kept fresh any more.

    The page leaves the index; its captures stay in the archive.
    """
    sql = f"SELECT 1 FROM urls WHERE {_AT} AND lane = ? AND state IN (?, ?)"  # noqa: S608  # our own text
    if cell.db.execute(sql, (*row_key, LANE_REFRESH, STATE_DONE, STATE_FAILED)).fetchone() is None:
        return False
    withdraw(cell, row_key)
    gone = f"UPDATE urls SET state = ?, outcome = ? WHERE {_AT}"  # noqa: S608
    cell.db.execute(gone, (STATE_EXCLUDED, Outcome.BUDGET, *row_key))
    return True


def request_new(cell: CellConnection, row_key: RowKey, now_s: float) -> bool:
    """Queue a new URL before the other new ones of its host; inside a transaction. Return False if it is not new."""
    sql = f"SELECT rank FROM urls WHERE {_AT} AND lane = ? AND state = ?"  # noqa: S608
    row = cell.db.execute(sql, (*row_key, LANE_NEW, STATE_QUEUED)).fetchone()
    if row is None:
        return False
    rank = int(now_s * 1000)
    cell.db.execute(f"UPDATE urls SET lane = ?, rank = ? WHERE {_AT}", (LANE_DUE, rank, *row_key))  # noqa: S608
    sql = "UPDATE queue SET lane = ?, rank = ? WHERE slot = ? AND host_id = ? AND lane = ? AND rank = ? AND key = ?"
    cell.db.execute(sql, (LANE_DUE, rank, *row_key[:2], LANE_NEW, row[0], row_key[2]))
    return True
