"""Rows of the fetch log that are not yet in Parquet files, encoded by their writer (crawler/fetch_rows.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from teia.frontier.cell.connection import CellConnection

_SERIAL = "log_serial"


def append(cell: CellConnection, rows: Iterable[bytes]) -> None:
    """Store rows; inside a transaction."""
    cell.db.executemany("INSERT INTO log (row) VALUES (?)", [(row,) for row in rows])


def read(cell: CellConnection, limit: int = -1) -> list[tuple[int, bytes]]:
    """Return the first rows with their numbers, oldest first; all of them without a limit."""
    return list(walk(cell, limit))


def walk(cell: CellConnection, limit: int = -1) -> Iterator[tuple[int, bytes]]:
    """Yield what `read` returns, without holding all of it in memory."""
    return cell.rows("SELECT seq, row FROM log ORDER BY seq LIMIT ?", limit)


def search_last(cell: CellConnection, octets: bytes, limit: int) -> list[bytes]:
    """Return those of the last rows that contain some octets, newest first."""
    sql = "SELECT row FROM (SELECT row FROM log ORDER BY seq DESC LIMIT ?) WHERE instr(row, ?)"
    return [row for (row,) in cell.rows(sql, limit, octets)]


def replace(cell: CellConnection, seq: int, row: bytes) -> None:
    """Replace a row; inside a transaction."""
    cell.db.execute("UPDATE log SET row = ? WHERE seq = ?", (row, seq))


def count(cell: CellConnection) -> int:
    """Return the number of rows, without a walk over them: they leave the table in their order."""
    return int(cell.row("SELECT (SELECT max(seq) FROM log) - (SELECT min(seq) FROM log) + 1")[0] or 0)


def next_serial(cell: CellConnection) -> int:
    """Return the number of the Parquet file that is written next."""
    return int(cell.meta(_SERIAL) or 1)


def delete_rolled_out(cell: CellConnection, last: int, serial: int) -> None:
    """Delete the rows up to `last`, which are in the Parquet file of a number; inside a transaction."""
    cell.db.execute("DELETE FROM log WHERE seq <= ?", (last,))
    cell.set_meta({_SERIAL: serial + 1})
