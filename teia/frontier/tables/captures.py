"""Locations of captures in the archive, as a cell's tables name them."""

from __future__ import annotations

from collections.abc import Callable

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import CellConnection


def archive_files(cell: CellConnection) -> list[str]:
    """Return the archive files that hold pages of a cell."""
    return [file for (file,) in cell.rows("SELECT DISTINCT file FROM pages WHERE file <> ''")]


def end_of_visits(cell: CellConnection, file: str) -> int:
    """Return the end of the last record of an archive file that a visit names; 0 if none does."""
    return int(cell.row("SELECT max(offset + length) FROM visits WHERE file = ?", file)[0] or 0)


def forget_lost(cell: FrontierCell, is_lost: Callable[[str, int, int], bool], now_s: float) -> tuple[int, int]:
    """Remove lost captures from the tables, and queue their pages again; return the numbers of pages and visits.

    Without its validators a page is fetched whole. It leaves the index until it is fetched again. Inside a transaction.
    """
    urls = visits = 0
    captures_sql = "SELECT file, offset, length, slot, host_id, key{} FROM {} WHERE file <> ''"
    for file, offset, length, *row_key in list(cell.rows(captures_sql.format("", "pages"))):
        if is_lost(file, offset, length):
            urls += cell.visit_again(row_key, now_s)
            cell.db.execute(
                "UPDATE pages SET file = '', offset = 0, length = 0, etag = '', last_modified = '', is_gone = 1"
                " WHERE slot = ? AND host_id = ? AND key = ?",
                row_key,
            )
    for file, offset, length, *row_key in list(cell.rows(captures_sql.format(", time_s", "visits"))):
        if is_lost(file, offset, length):
            visits += 1
            cell.db.execute(
                "UPDATE visits SET file = '', offset = 0, length = 0"
                " WHERE slot = ? AND host_id = ? AND key = ? AND time_s = ?",
                row_key,
            )
    return urls, visits
