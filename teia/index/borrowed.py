"""Index entries of pages whose captures lie on another node's disk, copied from that node's index.

A node that takes over a cell has all metadata of its pages, but not the archive of pages that other nodes fetched. The
data that the index needs is in the index of the node that fetched them (schema.py, `entry`). It is copied here before
the indexer begins with the cell. The indexer then takes the entry of the current capture, by its digest.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from teia.index.entry import PackedEntry, open_packed
from teia.sqlite import open_derived, transaction

FILE = "borrowed.sqlite"
_SCHEMA = "CREATE TABLE IF NOT EXISTS entries (key INTEGER PRIMARY KEY, entry BLOB NOT NULL)"


class BorrowedEntries:
    """The entries of one cell; where there is no file there are none, unless they are to be `put`."""

    def __init__(self, folder: Path, *, writing: bool = False) -> None:
        self._path = folder / FILE
        self._db: sqlite3.Connection | None = None
        if writing or self._path.exists():
            self._db = open_derived(self._path, _SCHEMA, "delete it")

    def put(self, entries: Iterable[tuple[int, bytes]]) -> None:
        """Store packed entries by key."""
        assert self._db is not None
        with transaction(self._db):
            self._db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", entries)

    def get(self, key: int) -> PackedEntry | None:
        if self._db is None:
            return None
        row = self._db.execute("SELECT entry FROM entries WHERE key = ?", (key,)).fetchone()
        return None if row is None else open_packed(row[0])

    def urls(self) -> Iterator[str]:
        """Yield the URLs of all entries."""
        for (packed,) in () if self._db is None else self._db.execute("SELECT entry FROM entries"):
            if (page := open_packed(packed)) is not None:
                yield page.entry.url

    def __len__(self) -> int:
        return 0 if self._db is None else int(self._db.execute("SELECT count(*) FROM entries").fetchone()[0])

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def remove(self) -> None:
        """Delete all: the index has them, or they are copied again."""
        self.close()
        # A write-ahead log left behind could be taken for that of the next file of this name.
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(FILE + suffix).unlink(missing_ok=True)


class LackingPages:
    """Pages that a cell's index lacks: no node had a readable capture.

    They are tried again now and then: shipped archives arrive late, nodes come back, and a damaged capture is replaced
    when its page is fetched again. By key, with a URL. The file is created for the first of them.
    """

    FILE = "lacking.sqlite"

    def __init__(self, folder: Path) -> None:
        self._path = folder / self.FILE
        self._db: sqlite3.Connection | None = None

    def _open(self, *, writing: bool = False) -> sqlite3.Connection | None:
        if self._db is None and (writing or self._path.exists()):
            ddl = "CREATE TABLE IF NOT EXISTS lacking (key INTEGER PRIMARY KEY, url TEXT NOT NULL)"
            self._db = open_derived(self._path, ddl)
        return self._db

    def add(self, pages: Sequence[tuple[int, str]]) -> None:
        if pages and (db := self._open(writing=True)) is not None:
            db.executemany("INSERT OR REPLACE INTO lacking VALUES (?, ?)", pages)

    def drop(self, keys: Iterable[int]) -> None:
        if (db := self._open()) is not None:
            db.executemany("DELETE FROM lacking WHERE key = ?", ((key,) for key in keys))

    def after(self, key: int | None, limit: int) -> list[tuple[int, str]]:
        """Return the next lacking pages in the order of keys."""
        if (db := self._open()) is None:
            return []
        sql = "SELECT key, url FROM lacking WHERE ? IS NULL OR key > ? ORDER BY key LIMIT ?"
        return [(row[0], row[1]) for row in db.execute(sql, (key, key, limit))]

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


def count_lacking(folder: Path) -> int:
    """Count the pages that an index lacks, without writing; 0 where none was noted."""
    path = folder / LackingPages.FILE
    if not path.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=1.0)) as db:
            return int(db.execute("SELECT count(*) FROM lacking").fetchone()[0])
    except sqlite3.Error:  # it is just being created, or the folder belongs to another user
        return 0
