"""A cell is divided: the sites of its last slots leave it for a new cell.

The slot leads every key, so the rows that leave are a range of each table. They are deleted here by statements that
name the range, which is all that the cell's log has to hold of it; the new cell is a copy of the file with the other
rows deleted. Rows of `meta` that bear the name of a host or a site go with it. Guests, which live in a cell outside
whose slots they lie, stay. What was not rolled out of the fetch log stays too: it has been counted here.

A cell remembers what was split off it (`split NUMBER`, the first slot): links for those sites that come the old way are
passed on (cluster/homes.py), and whoever opens the cell knows that it is no longer whole, whatever he was told.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import accumulate
from pathlib import Path

from teia.frontier.cell import FrontierCell
from teia.frontier.database import sqlite_errors
from teia.frontier.journal import LOG_SEQ
from teia.frontier.schema import LANE_REFRESH
from teia.urls import site_of, slot_of

SPLIT, SPLIT_END = "split ", "split!"
NOT_COPIED = ("archive", "records", "stored")
"""Rows of `meta` about the archive, which stays, and what was counted: the new cell begins with nothing of its own."""


def split_off(db: sqlite3.Connection) -> dict[int, int]:
    """The cells that were split off this one, and the first slot of each."""
    rows = db.execute("SELECT name, value FROM meta WHERE name >= ? AND name < ?", (SPLIT, SPLIT_END))
    return {int(name.removeprefix(SPLIT)): int(slot) for name, slot in rows}


def middle(db: sqlite3.Connection, first: int, end: int) -> int | None:
    """The slot that divides the URLs of a range most evenly, as the first of the second half; None if none does."""
    sql = "SELECT slot, count(*) FROM urls WHERE slot >= ? AND slot < ? GROUP BY slot ORDER BY slot"
    rows = db.execute(sql, (first, end)).fetchall()
    before = list(accumulate((count for _, count in rows), initial=0))
    if len(rows) < 2:
        return None
    best = min(range(1, len(rows)), key=lambda at: abs(2 * before[at] - before[-1]))
    return int(rows[best][0])


def give_up(cell: FrontierCell, number: int, first: int, end: int, named: Iterable[str]) -> int:
    """Delete what goes to a new cell; inside a transaction. `named`: how rows of `meta` that go by name begin.

    Returns how many URLs that were.
    """
    names = [name for name in _named(cell.db, named) if first <= _slot(name) < end]
    for table in tables_of(cell.db):
        cell.db.execute(f"DELETE FROM {table} WHERE slot >= ? AND slot < ?", (first, end))  # noqa: S608  # our own table
    cell.db.executemany("DELETE FROM meta WHERE name = ?", [(name,) for name in names])
    cell.db.execute("INSERT INTO meta VALUES (?, ?)", (f"{SPLIT}{number}", first))
    known, (cell.known, cell.queued) = cell.known, _counted(cell.db)
    cell._host_ids.clear()
    return known - cell.known


def cut_out(copy: Path, first: int, end: int, named: Iterable[str], seq: int) -> None:
    """Make a copy of a cell's file into the file of a new cell that has some of its slots; `seq` is its first record's.

    The copy is nobody else's: a death leaves something to be thrown away.
    """
    with sqlite_errors(copy), closing(sqlite3.connect(copy, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        for table in tables_of(db):
            db.execute(f"DELETE FROM {table} WHERE slot < ? OR slot >= ?", (first, end))  # noqa: S608  # our own table
        gone = [name for name in _named(db, named) if not first <= _slot(name) < end]
        gone += [*NOT_COPIED, *(f"{SPLIT}{number}" for number in split_off(db))]
        db.executemany("DELETE FROM meta WHERE name = ?", [(name,) for name in gone])
        db.execute("DELETE FROM log")
        db.execute("DELETE FROM outbox")
        known, queued = _counted(db)
        rows = [("known", known), ("queued", queued), (LOG_SEQ, seq)]
        db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)
        db.execute("VACUUM")


def tables_of(db: sqlite3.Connection) -> list[str]:
    """The tables whose rows belong to slots; all but those that are of the cell as a whole."""
    names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    return [name for (name,) in names if "slot" in {row[1] for row in db.execute(f"PRAGMA table_info({name})")}]


def _named(db: sqlite3.Connection, starts: Iterable[str]) -> Sequence[str]:
    """The names of rows of `meta` that begin with one of some words."""
    return [name for (name,) in db.execute("SELECT name FROM meta") if name.startswith(tuple(starts))]


def _slot(name: str) -> int:
    """The slot of the host or site that a row of `meta` is about."""
    return slot_of(site_of(name.partition(" ")[2]))


def _counted(db: sqlite3.Connection) -> tuple[int, int]:
    (known,) = db.execute("SELECT count(*) FROM urls").fetchone()
    (queued,) = db.execute("SELECT count(*) FROM queue WHERE lane <> ?", (LANE_REFRESH,)).fetchone()
    return int(known), int(queued)
