"""What is known of the rendering of pages: kinds of pages of a host, and the pages whose text their scripts made.

    renderings      kinds of pages, by a key of the kind; bytes here, decoded by crawler/rendering/kinds.py
    rendered_pages  pages whose last capture was read as rendered: their texts are compared only with such texts

The tables are created where they are missing, so that older cells have them too; a read-only user must do without.
"""

from __future__ import annotations

from collections.abc import Iterable

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import CellConnection, RowKey
from teia.frontier.cell.old_names import NEW_NAMES_FORMAT
from teia.urls import site_of, slot_of


def kinds_of(cell: CellConnection, host_id: int, host: str) -> list[bytes]:
    """Return the kinds of pages of a host."""
    sql = "SELECT record FROM renderings WHERE slot = ? AND host_id = ?"
    return [record for (record,) in cell.db.execute(sql, (slot_of(site_of(host)), host_id))]


def store_kinds(cell: FrontierCell, host_id: int, host: str, kinds: Iterable[tuple[int, bytes]]) -> None:
    """Store kinds of pages of a host; inside a transaction."""
    if _is_mixed(cell):
        return
    slot = slot_of(site_of(host))
    rows = [(slot, host_id, key, record) for key, record in kinds]
    cell.db.executemany("INSERT OR REPLACE INTO renderings VALUES (?, ?, ?, ?)", rows)


def all_kinds(cell: CellConnection) -> list[tuple[str, bytes]]:
    """Return the kinds of pages of all hosts, each with the name of its host."""
    if not _exists(cell):
        return []
    sql = "SELECT h.name, r.record FROM renderings AS r JOIN hosts AS h USING (host_id)"
    return cell.db.execute(sql).fetchall()


def is_rendered(cell: CellConnection, row_key: RowKey) -> bool:
    """Tell whether the last capture of a page was read as rendered."""
    sql = "SELECT 1 FROM rendered_pages WHERE slot = ? AND host_id = ? AND key = ?"
    return cell.db.execute(sql, row_key).fetchone() is not None


def note_form(cell: FrontierCell, row_key: RowKey, *, rendered: bool) -> None:
    """Note the form in which the last capture of a page was read; inside a transaction."""
    if rendered and not _is_mixed(cell):
        cell.db.execute("INSERT OR IGNORE INTO rendered_pages VALUES (?, ?, ?)", row_key)
    elif is_rendered(cell, row_key):
        cell.db.execute("DELETE FROM rendered_pages WHERE slot = ? AND host_id = ? AND key = ?", row_key)


def count_rendered(cell: CellConnection) -> int:
    """Return the number of pages whose last capture was read as rendered."""
    if not _exists(cell):
        return 0
    return int(cell.db.execute("SELECT count(*) FROM rendered_pages").fetchone()[0])


def _is_mixed(cell: FrontierCell) -> bool:
    """Tell whether a node that does not know these tables replays the changes of this cell."""
    return cell.journal is not None and cell.journal.format < NEW_NAMES_FORMAT


def _exists(cell: CellConnection) -> bool:
    """Tell whether the cell has these tables; a cell that no crawl of this version has opened has not."""
    return cell.db.execute("SELECT 1 FROM sqlite_master WHERE name = 'renderings'").fetchone() is not None
