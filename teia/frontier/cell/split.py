"""Division of a cell: the sites of its last slots leave it for a new cell.

The slot leads every key, so the rows that leave are a range of each table, and the cell's log holds only that range.
The new cell is a copy of the file with the other rows deleted. Rows of `meta` that contain the name of a host or a site
go with it. Guests, sites stored in a cell outside whose slots they lie, stay. Rows of the fetch log that were not
rolled out stay too: they have been counted here.

A cell records the cells split off it (`split NUMBER`, the first slot). Links for those sites that still arrive here
are forwarded (site_homes.py), and a process that opens the cell knows that it is no longer whole, even with
outdated settings.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import accumulate
from pathlib import Path

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import CellConnection
from teia.frontier.cell.journal import LOG_SEQ, applied_seq, delete_slots_of
from teia.frontier.cell.mail import THE_STREAM
from teia.frontier.cell.old_names import NEW_NAMES_FORMAT, rename_to_old
from teia.frontier.cell.schema import LANE_REFRESH
from teia.sqlite import sqlite_errors
from teia.urls import site_of, slot_of

SPLIT = "split "
NOT_COPIED = ("archive", "records", "stored", "captures")
"""Rows of `meta` about the archive, which stays, and its counts; captures are counted when the new cell is opened."""


def split_cells(cell: CellConnection) -> dict[int, int]:
    """Return the cells that were split off this one, and the first slot of each."""
    return {int(number): int(slot) for number, slot in cell.meta_under(SPLIT).items()}


def middle_slot(cell: CellConnection, first: int, end: int) -> int | None:
    """Return the first slot of the second half that divides a range's URLs most evenly; None if none does."""
    sql = "SELECT slot, count(*) FROM urls WHERE slot >= ? AND slot < ? GROUP BY slot ORDER BY slot"
    rows = cell.db.execute(sql, (first, end)).fetchall()
    before = list(accumulate((count for _, count in rows), initial=0))
    if len(rows) < 2:
        return None
    # Twice the URLs in front minus all: zero where the halves are equal.
    best = min(range(1, len(rows)), key=lambda at: abs(2 * before[at] - before[-1]))
    return int(rows[best][0])


def delete_slots(cell: FrontierCell, number: int, first: int, end: int, named: Iterable[str]) -> int:
    """Delete the rows that go to a new cell; inside a transaction. Return the number of URLs.

    `named`: prefixes of the rows of `meta` that contain a host's or site's name.
    """
    names = [name for name in _meta_names(cell.db, named) if first <= _slot(name) < end]
    for table in tables_of(cell.db):
        delete_slots_of(cell.db, table, first, end)
    cell.delete_meta(names)
    cell.set_meta({f"{SPLIT}{number}": first})
    # Counted anew: deleting a range does not tell how many URLs of it were queued.
    known, (cell.known, cell.queued) = cell.known, _count(cell.db)
    cell.count_captures()
    cell._host_ids.clear()
    return known - cell.known


def extract_slots(copy: Path, first: int, end: int, named: Iterable[str], seq: int) -> None:
    """Turn a copy of a cell's file into a new cell with some of its slots; `seq` is its first record's number.

    No other process uses the copy: after a crash it is thrown away.
    """
    with sqlite_errors(copy), closing(sqlite3.connect(copy, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        for table in tables_of(db):
            db.execute(f"DELETE FROM {table} WHERE slot < ? OR slot >= ?", (first, end))  # noqa: S608  # our own table
        gone = [name for name in _meta_names(db, named) if not first <= _slot(name) < end]
        gone += [*NOT_COPIED, *(f"{SPLIT}{number}" for number in split_cells(CellConnection(copy, db)))]
        db.executemany("DELETE FROM meta WHERE name = ?", [(name,) for name in gone])
        # Log and outbox stay with the old cell, which delivers them.
        db.execute("DELETE FROM log")
        db.execute("DELETE FROM outbox")
        known, queued = _count(db)
        rows = [("known", known), ("queued", queued), (LOG_SEQ, seq)]
        db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)
        db.execute("VACUUM")


def copy_cell(source: Path, target: Path, changes_format: int) -> tuple[int, int]:
    """Copy a cell's file between two commits, which continue meanwhile, for all nodes that read this format of changes.

    Return its (last record, last links message).
    """
    with (
        closing(FrontierCell(source, read_only=True)) as cell,
        sqlite_errors(source),
        closing(sqlite3.connect(target, isolation_level=None)) as copy,
    ):
        copy.execute("PRAGMA synchronous = OFF")
        cell.db.backup(copy)  # all pages in one step, so one state of the file
        if changes_format < NEW_NAMES_FORMAT:
            rename_to_old(copy)
        row = copy.execute("SELECT seq FROM inbox WHERE from_cell = ?", (THE_STREAM,)).fetchone()
        return applied_seq(copy), 0 if row is None else int(row[0])


def compact_copy(copy: Path) -> None:
    """Rewrite a copy without free space, in which deleted rows may be left; no other process uses it."""
    with sqlite_errors(copy), closing(sqlite3.connect(copy, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        db.execute("VACUUM")


def tables_of(db: sqlite3.Connection) -> list[str]:
    """Return the tables whose rows belong to slots; not those of the cell as a whole."""
    names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    return [name for (name,) in names if "slot" in {row[1] for row in db.execute(f"PRAGMA table_info({name})")}]


def _meta_names(db: sqlite3.Connection, starts: Iterable[str]) -> Sequence[str]:
    """Return the names of rows of `meta` that begin with one of some words."""
    return [name for (name,) in db.execute("SELECT name FROM meta") if name.startswith(tuple(starts))]


def _slot(name: str) -> int:
    """Return the slot of the host or site that a row of `meta` is about."""
    return slot_of(site_of(name.partition(" ")[2]))


def _count(db: sqlite3.Connection) -> tuple[int, int]:
    (known,) = db.execute("SELECT count(*) FROM urls").fetchone()
    (queued,) = db.execute("SELECT count(*) FROM queue WHERE lane <> ?", (LANE_REFRESH,)).fetchone()
    return int(known), int(queued)
