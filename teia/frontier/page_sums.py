"""Checksums of the pages of a SQLite database in WAL mode: `frontier.sums` beside `frontier.sqlite`.

SQLite notices a flipped byte only where it breaks the structure of a page; elsewhere a reader sees another number or
another letter. So each page has a CRC-32 in a file beside the database. In WAL mode a page of the database changes only
at a checkpoint, and only the owner of the database makes one:

    1  page numbers and sums are read from the log; until 3, the sums of these pages are 0 (unknown), and that is synced
    2  SQLite moves the pages from the log into the database
    3  if all were moved, the sums are written, and all others that are unknown are computed

A crash between 1 and 3, or a reader that holds the log back, leaves unknown sums, never wrong ones; the next checkpoint
computes them. A database without sums gets them at its first checkpoint.

    header   16 bytes: `teia sums 1`, a line end, the size of a page (u32)
    sums     u32 for each page, the first page first; 0 if it is unknown
"""

from __future__ import annotations

import os
import sqlite3
import struct
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from isal import isal_zlib

from teia.durable import disk_errors, temporary_name
from teia.sqlite import move_log, shrink_log

_MAGIC = b"teia sums 1\n"
_HEADER = struct.Struct("<12sI")
_SUM = struct.Struct("<I")
_WAL_HEADER, _FRAME_HEADER = 32, 24
_AT_ONCE = 256
"""Pages read together where all are read."""

UNKNOWN = 0


def sums_path(database: Path) -> Path:
    """Return the name of the checksums of a database."""
    return database.with_suffix(".sums")


def forget_sums(database: Path) -> None:
    """Remove the checksums of a database that is about to be removed or replaced."""
    sums_path(database).unlink(missing_ok=True)


class MovedFrames(NamedTuple):
    """A log after a move; each new log has another salt."""

    salt: bytes = b""
    moved: int = 0
    """Number of frames that SQLite has moved."""
    seen: int = 0
    """Number of frames that the log had then: it has more if a reader of an older state holds it back."""
    sums: Mapping[int, int] = {}
    """Checksums of moved pages, by their numbers, which are not in the file yet."""


def shrink_summed_log(
    db: sqlite3.Connection,
    database: Path,
    wait_s: float = 0.0,
    *,
    keeps_file: bool = False,
    is_partial: bool = False,
    before: MovedFrames = MovedFrames(),  # noqa: B008  # immutable
) -> MovedFrames:
    """Move the log into the database like `shrink_log`, and keep the checksums of the pages that it moves.

    `keeps_file`: the next transaction writes over the log instead of a new one; the owner limits its size. Checksums
    that cannot be written are given up: better none than wrong ones.

    `is_partial`: a part is moved while others commit; give the result as `before` to the move of the rest. SQLite syncs
    the database with the rest alone, so checksums are written then. What is committed meanwhile must not be moved,
    because its checksums are not unknown yet: a snapshot holds it back.
    """
    salt, frames = _frames_in_log(database, before)
    first, pending = (before.moved, dict(before.sums)) if salt == before.salt else (0, {})
    size = _page_size(database)
    sums = _sums_of(database) if _is_for(sums_path(database), size) else None
    if sums is not None and frames:
        sums.extend([UNKNOWN] * (max(number for number, _ in frames) - len(sums)))
        for number, _ in frames:
            sums[number - 1] = UNKNOWN
        try:
            _write_sums(database, sums, is_synced=True)
        except OSError:
            forget_sums(database)
    committed, moved = move_log(db)
    is_whole = moved == committed >= 0 if keeps_file else shrink_log(db, wait_s)
    if not keeps_file:
        # If it stops half-way, nobody knows how far it came.
        moved = committed if is_whole else 0
    # Frames behind the last one that was moved belong to no transaction, or stay in the log. Of a page, the last one
    # counts.
    pending.update(frames[: max(0, moved - first)])
    if not is_whole or is_partial:
        return MovedFrames(salt, max(first, moved), max(first, committed), pending)
    with suppress(OSError):
        if sums is not None and size:
            for number, page_sum in pending.items():
                sums[number - 1] = page_sum
            # Of an earlier log that a reader held back, the sums are unknown too.
            for number, page in _read(database, _unknown_pages(sums), size):
                sums[number - 1] = _sum(page)
            _write_sums(database, sums)
        elif size:
            sum_all(database)
    return MovedFrames(salt, moved, committed)


def sum_all(database: Path) -> None:
    """Compute all checksums of a database whose log is empty.

    Nothing is synced: after a power loss the file is whole, or unreadable, or has zeros, which means unknown.
    """
    size = _page_size(database)
    numbers = range(1, database.stat().st_size // size + 1)
    sums = array("I", (_sum(page) for _, page in _read(database, numbers, size)))
    temporary = temporary_name(sums_path(database))
    temporary.write_bytes(_HEADER.pack(_MAGIC, size) + _encoded(sums))
    temporary.replace(sums_path(database))


def damaged_pages(database: Path) -> list[int]:
    """Return the numbers of the pages that do not match their checksums; unknown ones match."""
    sums, size = _sums_of(database), _page_size(database)
    if not sums or not size:
        return []
    with disk_errors(database, "read"):
        pages = database.stat().st_size // size
        numbers = range(1, min(pages, len(sums)) + 1)
        suspects = [
            number for number, page in _read(database, numbers, size) if sums[number - 1] not in {UNKNOWN, _sum(page)}
        ]
        return [number for number in suspects if _is_damaged(database, number, size)]


def damage_text(pages: Sequence[int]) -> str:
    """Describe damaged pages, and the ways out."""
    return (
        f"{len(pages):,} pages do not match their checksums (the first is page {pages[0]}); it is damaged, or another"
        " program has written it: restore it from a backup, import its archive into another collection with `teia"
        " import warc`, or accept it as it is with `teia audit frontier --accept`"
    )


def _is_damaged(database: Path, number: int, size: int) -> bool:
    """Check one page again: its owner may have been moving it. A sum that is the same before and after decides."""
    with sums_path(database).open("rb") as file:
        descriptor, at = file.fileno(), _HEADER.size + _SUM.size * (number - 1)
        while True:
            before = os.pread(descriptor, _SUM.size, at)
            found = [_sum(page) for _, page in _read(database, [number], size)]
            if os.pread(descriptor, _SUM.size, at) == before:
                return before != _SUM.pack(UNKNOWN) and found != [*_SUM.unpack(before)]


def _sum(page: bytes) -> int:
    return isal_zlib.crc32(page) or 1  # 0 means unknown


def _write_sums(database: Path, sums: array[int], *, is_synced: bool = False) -> None:
    """Write all checksums over those in the file; together, because one write for each took longer than the move."""
    descriptor = os.open(sums_path(database), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, _encoded(sums), _HEADER.size)
        if is_synced:
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def _sums_of(database: Path) -> array[int]:
    """Return the known checksums; none if there is no such file, or one of another form."""
    path = sums_path(database)
    with disk_errors(path, "read"):
        if not _is_for(path, _page_size(database)):
            return array("I")
        data = path.read_bytes()[_HEADER.size :]
    sums = array("I", data[: len(data) // _SUM.size * _SUM.size])
    if sys.byteorder == "big":
        sums.byteswap()
    return sums


def _encoded(sums: array[int]) -> bytes:
    if sys.byteorder == "big":
        sums = sums[:]
        sums.byteswap()
    return sums.tobytes()


def _unknown_pages(sums: array[int]) -> list[int]:
    """Return the numbers of the pages whose checksums are unknown; few are, so the others are skipped together."""
    data, unknown, found = sums.tobytes(), bytes(sums.itemsize), []
    at = data.find(unknown)
    while at >= 0:
        # Zeros at the end of one sum and at the beginning of the next are no sum.
        number, within = divmod(at, sums.itemsize)
        if not within:
            found.append(number + 1)
        at = data.find(unknown, at + (sums.itemsize - within))
    return found


def _is_for(path: Path, page_size: int) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(_HEADER.size) == _HEADER.pack(_MAGIC, page_size)
    except FileNotFoundError:
        return False


def _page_size(database: Path) -> int:
    """Return the page size by the database's header; 0 if it is no database."""
    try:
        with database.open("rb") as file:
            head = file.read(18)
    except FileNotFoundError:
        return 0
    size = int.from_bytes(head[16:18], "big")
    return 65_536 if size == 1 else size if size >= 512 and not size & (size - 1) else 0


def log_reaches(database: Path, octets: int, after: MovedFrames) -> bool:
    """Tell whether the present log has so many octets, behind the given frames if they are of this log.

    The size of the file does not tell, because a log that was moved is written over.
    """
    try:
        with database.with_name(f"{database.name}-wal").open("rb", buffering=0) as file:
            head = file.read(_WAL_HEADER)
            length, salt = _FRAME_HEADER + int.from_bytes(head[8:12], "big"), head[16:24]
            last = octets // length + (after.seen if salt == after.salt else 0)
            return len(head) == _WAL_HEADER and os.pread(file.fileno(), 8, _WAL_HEADER + last * length + 8) == salt
    except OSError:
        return False


def _frames_in_log(database: Path, before: MovedFrames) -> tuple[bytes, list[tuple[int, int]]]:
    """Return the salt of the present log, and page number and checksum of each frame behind those moved `before`.

    Frames of an earlier log, which is written over, have another salt.
    """
    found: list[tuple[int, int]] = []
    try:
        file = database.with_name(f"{database.name}-wal").open("rb", buffering=0)
    except FileNotFoundError:
        return b"", found
    with file:
        head = file.read(_WAL_HEADER)
        if len(head) < _WAL_HEADER:
            return b"", found
        size, salt = int.from_bytes(head[8:12], "big"), head[16:24]
        length, crc32 = _FRAME_HEADER + size, isal_zlib.crc32
        if salt == before.salt:
            file.seek(before.moved * length, os.SEEK_CUR)
        # Of a frame: the number of its page, four bytes, the salt; then checksums and the page.
        frame = struct.Struct(f">I4x8s{length - 16}x")
        while data := file.read(length * _AT_ONCE):
            pages = memoryview(data)[: len(data) // length * length]
            places = range(_FRAME_HEADER, len(pages), length)
            for at, (number, frame_salt) in zip(places, frame.iter_unpack(pages), strict=True):
                if frame_salt != salt:
                    return salt, found
                found.append((number, crc32(pages[at : at + size]) or 1))
    return salt, found


def _read(database: Path, numbers: Iterable[int], size: int) -> Iterator[tuple[int, bytes]]:
    """Yield pages by their numbers, which ascend; neighbours are read together."""
    with database.open("rb") as file:
        descriptor = file.fileno()
        for first, count in _runs(numbers):
            data = os.pread(descriptor, size * count, (first - 1) * size)
            for at in range(len(data) // size):
                yield first + at, data[at * size : (at + 1) * size]


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = count = 0
    for number in numbers:
        if count and number == first + count and count < _AT_ONCE:
            count += 1
        else:
            if count:
                yield first, count
            first, count = number, 1
    if count:
        yield first, count
