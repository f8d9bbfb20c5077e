"""Anchor texts of links to pages in cells of other nodes, waiting here until those nodes request them.

On one machine the indexer gives an anchor text to the cell of the linked page (anchors.py). In a cluster another node
may own that cell. Then the texts are stored here, numbered in the order in which they were found, and the owner of the
cell requests those after the last it has. Nothing is ever removed: a node that takes the cell over requests them from
the beginning. `identity` is drawn when the file is created, so that a new file is not taken for the old one.

In the other direction, texts received from other nodes wait in the cell's folder, a file for each transfer, until the
indexer takes them (`read_spool`).
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from teia.durable import disk_errors
from teia.index.anchors import MAX_TEXT_CHARS, MAX_TEXTS_PER_HOST, TargetText
from teia.lib.undecodable import UNDECODABLE
from teia.sqlite import open_derived, sqlite_errors, transaction

FILE = "anchors-out.sqlite"
SUFFIX = ".anchors"
# AUTOINCREMENT: a number is never given twice, because other nodes remember the last one they received.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS identity (text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS outgoing (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    cell INTEGER NOT NULL, target INTEGER NOT NULL, host TEXT NOT NULL, text TEXT NOT NULL,
    UNIQUE (target, host, text)
);
CREATE INDEX IF NOT EXISTS by_cell ON outgoing (cell, number);
"""

Row: TypeAlias = tuple[int, str, int, str]
"""(number, linking host, key of the page linked to, the words)"""

ReceivedText: TypeAlias = tuple[str, int, str]
"""The same without its number."""


class OutgoingAnchors:
    """The file; one writer, any number of readers."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        if read_only:
            with sqlite_errors(path):
                where = f"{path.absolute().as_uri()}?mode=ro"
                self._db = sqlite3.connect(where, uri=True, isolation_level=None, check_same_thread=False)
            return
        self._db = open_derived(path, _SCHEMA)
        drawn = "INSERT INTO identity SELECT ? WHERE NOT EXISTS (SELECT 1 FROM identity)"
        self._db.execute(drawn, (secrets.token_hex(8),))

    @property
    def identity(self) -> str:
        row = self._db.execute("SELECT text FROM identity").fetchone()
        return "" if row is None else str(row[0])

    def add(self, cell: int, host: str, links: Iterable[TargetText]) -> None:
        """Take the links that pages of one host have to pages of one cell; as many of a host as anchors.py keeps."""
        rows = sorted({(target, text[:MAX_TEXT_CHARS]) for target, text in links if text})
        known = "SELECT count(*) FROM outgoing WHERE target = ? AND host = ?"
        with transaction(self._db):
            for target, text in rows:
                if self._db.execute(known, (target, host)).fetchone()[0] < MAX_TEXTS_PER_HOST:
                    sql = "INSERT OR IGNORE INTO outgoing (cell, target, host, text) VALUES (?, ?, ?, ?)"
                    self._db.execute(sql, (cell, target, host, text))

    def after(self, cell: int, number: int, limit: int) -> list[Row]:
        """Return the next anchor texts for a cell, after a number."""
        sql = "SELECT number, host, target, text FROM outgoing WHERE cell = ? AND number > ? ORDER BY number LIMIT ?"
        return [(row[0], row[1], row[2], row[3]) for row in self._db.execute(sql, (cell, number, limit))]

    def close(self) -> None:
        self._db.close()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[ReceivedText]).decode


def spool(folder: Path, name: str, rows: Iterable[ReceivedText]) -> None:
    """Store texts received from another node for the indexer; a repetition changes nothing."""
    with disk_errors(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
        # The dot hides the file from `read_spool` until it is whole.
        new = folder / f".{name}{SUFFIX}"
        new.write_bytes(_encode(list(rows)))
        new.replace(folder / f"{name}{SUFFIX}")


def read_spool(folder: Path) -> Iterator[tuple[Path, list[ReceivedText]]]:
    """Yield the waiting texts in the order of file names; the indexer removes each file after use.

    A file that cannot be read is removed at once.
    """
    for path in sorted(folder.glob(f"[!.]*{SUFFIX}")):
        try:
            yield path, _decode(path.read_bytes())
        except (OSError, *UNDECODABLE):
            path.unlink(missing_ok=True)
