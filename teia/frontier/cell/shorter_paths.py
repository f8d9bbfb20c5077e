"""Pages that turned out to lie nearer to a seed than when they were read (T1).

The depth of a URL is the length of the shortest path found so far. A page that was read at depth 5 gave its links
depth 6, or dropped them if that was too deep; if it is found at depth 2 later, its links lie at depth 3. The table
`shorter_paths` holds such pages, written with the link that shortened the path, until the crawler has updated the depth
of their links (crawler/depths.py). That may bring other pages nearer, and so on; depths only ever fall, so it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from teia.frontier.cell.connection import CellConnection
from teia.frontier.cell.schema import STATE_DONE


@dataclass(frozen=True, slots=True)
class ShortenedPage:
    """A page, its last outcome, and the location of its capture; `depth` and `hops` are its present ones."""

    slot: int
    host_id: int
    key: int
    depth: int
    hops: int
    file: str
    offset: int
    length: int
    status: int
    outcome: str


def add(cell: CellConnection, row_keys: Iterable[Sequence[int]]) -> None:
    """Store pages by slot, host id and key; inside a transaction. A page without a row has no links to update."""
    sql = """
        INSERT OR IGNORE INTO shorter_paths
        SELECT slot, host_id, key FROM pages WHERE slot = ? AND host_id = ? AND key = ?
    """
    cell.has_shorter_paths = True
    cell.db.executemany(sql, row_keys)


def pending(cell: CellConnection, limit: int) -> list[ShortenedPage]:
    """Return some of the pages whose links lie nearer than is recorded, except those that no longer exist.

    CROSS JOIN makes SQLite begin with `shorter_paths`, which is small; otherwise it walks over all URLs. Where the
    table is known to be empty, as at most commits, SQLite is not asked at all.
    """
    if not cell.has_shorter_paths:
        return []
    sql = """
        SELECT n.slot, n.host_id, n.key, u.depth, u.hops, p.file, p.offset, p.length, p.status, u.outcome
        FROM shorter_paths AS n
        CROSS JOIN urls AS u ON u.slot = n.slot AND u.host_id = n.host_id AND u.key = n.key
        CROSS JOIN pages AS p ON p.slot = n.slot AND p.host_id = n.host_id AND p.key = n.key
        WHERE u.state = ? LIMIT ?
    """
    found = [ShortenedPage(*row) for row in cell.db.execute(sql, (STATE_DONE, limit))]
    # A page that waits for another visit stays in the table until it is done again.
    cell.has_shorter_paths = (
        bool(found) or cell.db.execute("SELECT 1 FROM shorter_paths LIMIT 1").fetchone() is not None
    )
    return found


def remove(cell: CellConnection, pages: Iterable[ShortenedPage]) -> None:
    row_keys = [(page.slot, page.host_id, page.key) for page in pages]
    cell.db.executemany("DELETE FROM shorter_paths WHERE slot = ? AND host_id = ? AND key = ?", row_keys)
