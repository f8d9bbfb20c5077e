"""Entries of pages whose copies lie on another node's disk, brought from that node's index.

A node that takes a cell over knows all about its pages, but the archive of those that others fetched is not here. What
the index needs of them is in the index of whoever fetched them (schema.py, `entry`). It is brought here before the
indexer begins with the cell, which takes what is the copy that counts, by its digest.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from teia.errors import StoreError
from teia.index.entry import Entry, unpacked

FILE = "borrowed.sqlite"
_SCHEMA = "CREATE TABLE IF NOT EXISTS entries (key INTEGER PRIMARY KEY, entry BLOB NOT NULL)"


class BorrowedEntries:
    """The entries of one cell; where there is no file there are none, unless they are to be `put`."""

    def __init__(self, folder: Path, *, writing: bool = False) -> None:
        self._path = folder / FILE
        self._db: sqlite3.Connection | None = None
        if writing or self._path.exists():
            try:
                self._db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = OFF")  # what is lost is brought again
                self._db.execute(_SCHEMA)
            except sqlite3.Error as error:
                raise StoreError(f"{self._path}: cannot be opened ({error}); delete it") from error

    def put(self, entries: Iterable[tuple[int, bytes]]) -> None:
        """Keep packed entries by key."""
        assert self._db is not None
        with self._db:
            self._db.execute("BEGIN")
            self._db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", entries)

    def get(self, key: int) -> Entry | None:
        if self._db is None:
            return None
        row = self._db.execute("SELECT entry FROM entries WHERE key = ?", (key,)).fetchone()
        return None if row is None else unpacked(row[0])

    def __len__(self) -> int:
        return 0 if self._db is None else int(self._db.execute("SELECT count(*) FROM entries").fetchone()[0])

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def remove(self) -> None:
        """Forget all: the index has them, or they are brought anew."""
        self.close()
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(FILE + suffix).unlink(missing_ok=True)


class LackingPages:
    """Pages of a cell that belong into its index and could not be taken: nobody had their copies at the time.

    They are tried again now and then: archives that were shipped arrive late, and nodes come back. By key, with a URL.
    """

    FILE = "lacking.sqlite"

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        path = folder / self.FILE
        self._db: sqlite3.Connection | None = None
        if read_only and not path.exists():
            return
        try:
            self._db = sqlite3.connect(path, isolation_level=None, timeout=10.0)
            if not read_only:
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = OFF")
                self._db.execute("CREATE TABLE IF NOT EXISTS lacking (key INTEGER PRIMARY KEY, url TEXT NOT NULL)")
        except sqlite3.Error as error:
            raise StoreError(f"{path}: cannot be opened ({error}); `teia rebuild index` makes it again") from error

    def add(self, pages: Iterable[tuple[int, str]]) -> None:
        assert self._db is not None
        self._db.executemany("INSERT OR REPLACE INTO lacking VALUES (?, ?)", pages)

    def drop(self, keys: Iterable[int]) -> None:
        assert self._db is not None
        self._db.executemany("DELETE FROM lacking WHERE key = ?", ((key,) for key in keys))

    def after(self, key: int | None, limit: int) -> list[tuple[int, str]]:
        """The next of them in the order of keys."""
        if self._db is None:
            return []
        sql = "SELECT key, url FROM lacking WHERE ? IS NULL OR key > ? ORDER BY key LIMIT ?"
        return [(row[0], row[1]) for row in self._db.execute(sql, (key, key, limit))]

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
