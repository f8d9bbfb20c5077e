"""Bodies that the archive of a collection holds, found by a short checksum before an answer is parsed (A9, C6).

    seen.sqlite     bodies: checksum of the body as received -> record that has it, result of parsing it

The checksum only suggests a record: a parse child compares digests before it relies on one. So the file is derived
data. It is not synced, a row may be old or lost, and without the file the crawler stores bodies a second time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Iterable
from pathlib import Path
from typing import NamedTuple

from isal import isal_zlib

from teia.errors import StoreError
from teia.sqlite import open_derived, sqlite_errors, transaction

_DDL = """
CREATE TABLE IF NOT EXISTS bodies (
    checksum INTEGER PRIMARY KEY, file TEXT NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL,
    parsed BLOB NOT NULL
);
"""
FILTER_BITS = 1 << 23
MAX_FILTERED = 1_000_000
"""Number of bodies up to which a filter of 1 MB in memory tells of most new ones that they are not in the file.

A look-up takes 12 µs of the crawler's loop, and longer while a commit adds bodies. A larger file is always asked.
"""

_REMEDY = "delete it; bodies stored before may then be stored again"


OPEN_FILES = 3
"""Files that stay open from the first look-up on: the database, its log and its index of the log."""


class SeenBody(NamedTuple):
    """Location of a response record, and the result of parsing its body, as its parse child encoded it."""

    file: str
    offset: int
    length: int
    parsed: bytes


def checksum_of(body: bytes, scope: int = 0) -> int:
    """Return a 63-bit number for a body; equal bodies of different scopes have different numbers."""
    return (isal_zlib.crc32(body) << 31 | len(body) & 0x7FFFFFFF) ^ scope * 0x9E3779B97F4A7C1 & (1 << 63) - 1


def _filter_place(checksum: int) -> tuple[int, int]:
    """Return the octet and the bit of a checksum in the filter."""
    place = (checksum >> 31) % FILTER_BITS  # the lower bits are the length, which many bodies share
    return place >> 3, 1 << (place & 7)


class SeenBodies:
    """The file of one collection; one thread looks bodies up while another one adds some.

    They share one connection, opened at the first look-up: a crawl with few open files allowed must start first.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None
        self._filter: bytearray | None = bytearray(FILTER_BITS // 8)
        self._filtered = 0

    def _open(self) -> sqlite3.Connection:
        try:
            return open_derived(self._path, _DDL, _REMEDY)
        except StoreError as error:
            # A damaged file is begun anew, as derived data may be.
            if getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF not in {
                sqlite3.SQLITE_NOTADB,
                sqlite3.SQLITE_CORRUPT,
            }:
                raise
            for name in (self._path.name, f"{self._path.name}-wal", f"{self._path.name}-shm"):
                self._path.with_name(name).unlink(missing_ok=True)
            return open_derived(self._path, _DDL, _REMEDY)

    def find(self, checksum: int) -> SeenBody | None:
        """Return the record that probably has a body with this checksum."""
        if self._db is None:
            self._db = self._open()
            with sqlite_errors(self._path):
                stored = self._db.execute("SELECT checksum FROM bodies LIMIT ?", (MAX_FILTERED + 1,))
                self._add_to_filter(number for (number,) in stored)
        octet, bit = _filter_place(checksum)
        known = self._filter  # the other thread may drop it
        if known is not None and not known[octet] & bit:
            return None
        with sqlite_errors(self._path):
            sql = "SELECT file, offset, length, parsed FROM bodies WHERE checksum = ?"
            row = self._db.execute(sql, (checksum,)).fetchone()
        return None if row is None else SeenBody(*row)

    def add(self, bodies: Iterable[tuple[int, SeenBody]]) -> None:
        """Add bodies whose records are committed and that were looked up; the last one with a checksum counts."""
        assert self._db is not None
        rows = [(number, *body) for number, body in bodies]
        with sqlite_errors(self._path), transaction(self._db):
            self._db.executemany("INSERT OR REPLACE INTO bodies VALUES (?, ?, ?, ?, ?)", rows)
        self._add_to_filter(row[0] for row in rows)

    def forget(self, places: Container[tuple[str, int]]) -> None:
        """Delete bodies by the file and offset of their records, so that no page of the file holds them any more."""
        if not self._path.exists():
            return
        self._db = self._db or self._open()
        with sqlite_errors(self._path):
            rows = self._db.execute("SELECT checksum, file, offset FROM bodies")
            found = [(checksum,) for checksum, file, offset in rows if (file, offset) in places]
            self._db.execute("PRAGMA secure_delete = ON")
            with transaction(self._db):
                self._db.executemany("DELETE FROM bodies WHERE checksum = ?", found)
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _add_to_filter(self, checksums: Iterable[int]) -> None:
        for checksum in checksums:
            octet, bit = _filter_place(checksum)
            self._filtered += 1
            if self._filter is not None:
                self._filter[octet] |= bit
        if self._filtered > MAX_FILTERED:
            self._filter = None

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
