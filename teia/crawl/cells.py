"""A cell as its keeper holds it: the frontier's database and the archive, opened together at one committed point.

The frontier's `meta` row `archive` is the archive's committed position. It is written in the same transaction as the
pages whose records end there, so after any death the archive is cut at that point and nothing is known that is not
stored (tests/system/test_kill.py).
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import suppress

from teia.clock import Clock
from teia.frontier.cell import FrontierCell
from teia.frontier.journal import Journal
from teia.frontier.order import Order
from teia.frontier.reorder import put_in_order
from teia.index.handover import Handover
from teia.store.archive import ArchiveWriter, Position
from teia.store.root import CellFolder


class Cell:
    """One cell, open for writing."""

    def __init__(
        self,
        folder: CellFolder,
        collection: str,
        order: Order,
        file_bytes: int,
        clock: Clock,
        journal: Journal | None = None,
    ) -> None:
        self.number = folder.number
        self.folder = folder
        self.frontier = FrontierCell(folder.frontier, order, journal=journal)
        self._archive_arguments = (folder.archive, collection, folder.number, file_bytes, clock)
        self.archive = self._open_archive()
        self.handover = Handover(folder.handover)
        with self.frontier.transaction():
            put_in_order(self.frontier)
            if committed_position(self.frontier) != self.archive.position:
                note_position(self.frontier, self.archive.position)

    def _open_archive(self) -> ArchiveWriter:
        return ArchiveWriter(*self._archive_arguments, committed_position(self.frontier))

    def rewind(self) -> None:
        """Go back to what is committed, after a group that was appended but could not be committed."""
        self.archive.close()
        self.archive = self._open_archive()

    def give_room_back(self) -> None:
        """Bring SQLite's log into the database and cut it to nothing: it may be 128 MB. As far as there is room."""
        with suppress(sqlite3.Error):
            self.frontier.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self.handover.close()
        self.archive.close()
        self.frontier.close()


def committed_position(frontier: FrontierCell) -> Position | None:
    """Where the archive ends as far as the frontier knows; None in a cell that never stored anything."""
    row = frontier.db.execute("SELECT value FROM meta WHERE name = 'archive'").fetchone()
    if row is None:
        return None
    file, offset = json.loads(row[0])
    return Position(file, offset)


def note_position(frontier: FrontierCell, position: Position, new_records: int = 0) -> None:
    """Commit a position and count the records that lie before it; inside a transaction of the frontier."""
    value = json.dumps([position.file, position.offset])
    rows = [("archive", value), ("records", stored_records(frontier) + new_records)]
    frontier.db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)


def stored_records(frontier: FrontierCell) -> int:
    """How many records the archive holds, the one at the head of each file left out."""
    row = frontier.db.execute("SELECT value FROM meta WHERE name = 'records'").fetchone()
    return 0 if row is None else int(row[0])
