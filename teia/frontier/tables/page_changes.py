"""Pages in the order of their last changes, and which of them belong in the index. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from teia.frontier.cell.connection import CellConnection
from teia.frontier.cell.rows import url_from
from teia.frontier.cell.schema import STATE_DONE, STATE_QUEUED

_IS_INDEXABLE = f"""
    u.state IN ({STATE_QUEUED}, {STATE_DONE}) AND NOT p.is_gone AND p.status BETWEEN 200 AND 299 AND NOT p.noindex
    AND p.file <> '' AND (p.text_digest <> x'' OR p.title <> '')
"""
"""Condition for a page that belongs in the index.

Its last good capture is a page with words, no noindex forbids it, and it is not gone. A page that failed or was
forbidden stays gone while it waits for its next fetch: its state says only that it waits, and no change number tells
the index of it. A good visit brings it back, with a change number.
"""
_JOINED = """
    pages AS p JOIN hosts AS h ON h.host_id = p.host_id
    JOIN urls AS u ON u.slot = p.slot AND u.host_id = p.host_id AND u.key = p.key
"""
LAST = 1 << 62
"""Stands for a number behind all changes."""


class ChangedPage(NamedTuple):
    """A page with the number of its last change, and its values after it. `changes` is 0 for a new page.

    `is_indexable`: as it is now, it belongs in the index.
    """

    change: int
    url: str
    key: int
    digest: bytes
    is_indexable: bool
    visits: int = 0
    changes: int = 0
    changed_s: float = 0.0


def changed_pages(cell: CellConnection, after: int, limit: int, upto: int = LAST) -> list[ChangedPage]:
    """Return pages by their last changes, behind one of them and up to another."""
    sql = f"""
        SELECT h.name, u.tail, p.change, p.key, p.digest, {_IS_INDEXABLE}, p.visits, p.changes, p.last_change_s
        FROM {_JOINED} WHERE p.change > ? AND p.change <= ? ORDER BY p.change LIMIT ?
    """  # noqa: S608  # our own text
    return [
        ChangedPage(change, url_from(host, tail), key, digest, bool(is_indexable), *rest)
        for host, tail, change, key, digest, is_indexable, *rest in cell.rows(sql, after, upto, limit)
    ]


def changed_captures(cell: CellConnection, after: int) -> Iterator[tuple[int, int, str]]:
    """Yield (change, key, archive file) of pages with a capture, behind a change."""
    sql = "SELECT change, key, file FROM pages WHERE change > ? AND file <> '' ORDER BY change"
    return cell.rows(sql, after)


def last_captured_change(cell: CellConnection) -> int:
    """Return the last change of a page with a capture; 0 if there is none."""
    return int(cell.row("SELECT max(change) FROM pages WHERE file <> ''")[0] or 0)


def last_change_s(cell: CellConnection) -> float | None:
    """Return the time of the last change; None if no page was visited."""
    row = cell.row("SELECT last_change_s FROM pages ORDER BY change DESC LIMIT 1")
    return None if row is None else float(row[0])


def pages_changed_after(cell: CellConnection, moment_s: float) -> Iterator[tuple[str, int]]:
    """Yield (URL, key) of every page that was visited by a moment and changed later or is gone, the last changes first.

    Not by the time at which its URL was found: captures that are imported are older than that.
    """
    visits = "visits AS v WHERE v.slot = p.slot AND v.host_id = p.host_id AND v.key = p.key AND v.time_s <= ?"
    sql = f"""
        SELECT h.name, u.tail, p.key FROM {_JOINED}
        WHERE (p.last_change_s > ? OR p.is_gone) AND EXISTS (SELECT 1 FROM {visits}) ORDER BY p.change DESC
    """  # noqa: S608  # our own text
    for host, tail, key in cell.rows(sql, moment_s, moment_s):
        yield url_from(host, tail), key


def count_indexable(cell: CellConnection, after: int, upto: int = LAST) -> int:
    """Return the number of pages that belong in the index, among those that changed behind one change up to another."""
    sql = f"SELECT count(*) FROM {_JOINED} WHERE p.change > ? AND p.change <= ? AND {_IS_INDEXABLE}"  # noqa: S608  # our text
    return int(cell.row(sql, after, upto)[0])


def pages_for_index(cell: CellConnection) -> Iterator[tuple[str, int, bytes, bool, int]]:
    """Yield (URL, key, digest, True if it belongs in the index, number of its last change) of every page."""
    sql = f"SELECT h.name, u.tail, p.key, p.digest, {_IS_INDEXABLE}, p.change FROM {_JOINED}"  # noqa: S608  # our own text
    for host, tail, key, digest, belongs, change in cell.rows(sql):
        yield url_from(host, tail), key, digest, bool(belongs), change
