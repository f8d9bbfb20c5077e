"""Bodies that the archive of a collection holds, found by a short checksum before an answer is parsed (A9, C6).

    seen.sqlite     bodies: checksum of the body as received -> record that has it, result of parsing it

The checksum only suggests a record: a parse child compares the bytes before it relies on one. So the file is derived
data. It is not synced, a row may be old or lost, and without the file the crawler stores bodies a second time.
"""

from __future__ import annotations

from collections.abc import Iterable
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
_REMEDY = "delete it; bodies stored before may then be stored again"


class SeenBody(NamedTuple):
    """Location of a response record, and the result of parsing its body, as its parse child encoded it."""

    file: str
    offset: int
    length: int
    parsed: bytes


def checksum_of(body: bytes, scope: int = 0) -> int:
    """Return a 63-bit number for a body; equal bodies of different scopes have different numbers."""
    return (isal_zlib.crc32(body) << 31 | len(body) & 0x7FFFFFFF) ^ scope * 0x9E3779B97F4A7C1 & (1 << 63) - 1


class SeenBodies:
    """The file of one collection; one thread looks bodies up while another one adds some."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._writer = open_derived(path, _DDL, _REMEDY)
        except StoreError:  # damaged: begun anew, as derived data may be
            for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
                path.with_name(name).unlink(missing_ok=True)
            self._writer = open_derived(path, _DDL, _REMEDY)
        self._reader = open_derived(path, "", _REMEDY)

    def find(self, checksum: int) -> SeenBody | None:
        """Return the record that probably has a body with this checksum."""
        with sqlite_errors(self._path):
            sql = "SELECT file, offset, length, parsed FROM bodies WHERE checksum = ?"
            row = self._reader.execute(sql, (checksum,)).fetchone()
        return None if row is None else SeenBody(*row)

    def add(self, bodies: Iterable[tuple[int, SeenBody]]) -> None:
        """Add bodies whose records are committed; the last one with a checksum counts."""
        with sqlite_errors(self._path), transaction(self._writer):
            self._writer.executemany(
                "INSERT OR REPLACE INTO bodies VALUES (?, ?, ?, ?, ?)", ((number, *body) for number, body in bodies)
            )

    def close(self) -> None:
        self._reader.close()
        self._writer.close()
