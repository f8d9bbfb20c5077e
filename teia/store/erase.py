"""Removal of single records from WARC files, without moving the others.

A removed range becomes one record of the same length that holds nothing but zeros and the reason. So every offset that
the frontier, the fetch log, an index or another cell names stays right, and so do the digests of all other records. The
zeros are a hole in the file: they take no space on the disk.

    before    … request  response  metadata  request  response …
    after     … a record of zeros            request  response …

The file is written anew beside the old one and renamed over it, so a crash leaves the one or the other.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import BinaryIO

from teia.clock import iso_utc
from teia.durable import disk_errors, replacing
from teia.errors import CorruptFile
from teia.store.archive import index_path
from teia.store.cdxj import write_index
from teia.store.reader import record_of, walk_file
from teia.store.warc import GZIP_HEADER, header_value

START = b"WARC/1.1\r\nWARC-Type: metadata\r\nWARC-Removed: "
"""First bytes of a record of zeros; no other writer uses this header."""

MAX_RANGE_BYTES = 32 << 20
"""Longest record of zeros; a reader holds one in memory."""

SHORT_BYTES = 320
"""Length below which the header of a record of zeros is compressed: a foreign record may be that short."""

_BLOCK_BYTES = 0xFFFF
_BLOCK_HEAD_BYTES = 5
_COPY_BYTES = 1 << 20
_END = b"\r\n\r\n"


@dataclass(slots=True)
class Erased:
    """Result of a removal: records, their bytes, and the ranges that they filled."""

    records: int = 0
    bytes: int = 0
    ranges: int = 0

    def add(self, other: Erased) -> None:
        self.records += other.records
        self.bytes += other.bytes
        self.ranges += other.ranges


@dataclass(frozen=True, slots=True)
class _Range:
    offset: int
    length: int


def is_removed(record: bytes) -> bool:
    """Tell whether an uncompressed record stands in the place of removed ones."""
    return record.startswith(START)


Check = Callable[[], None]
"""Called between two records and two parts of a copy; what it raises ends the work, and the file is the old one."""


def _no_check() -> None: ...


def erase(path: Path, offsets: Collection[int], reason: str, now_s: float, check: Check = _no_check) -> Erased:
    """Remove the records at these offsets, with the requests and metadata of answers among them.

    Offsets at which no record begins, or one of zeros, are ignored: so the same removal may be repeated. Only the owner
    of the cell may call it, while nothing is appended to the file.
    """
    done, ranges = _plan(path, offsets, reason, now_s, check)
    if not ranges:
        return done
    index = index_path(path)
    was_indexed = index.exists()
    with disk_errors(path, "written"):
        # An index names records that are about to vanish; without one, nothing is wrong at any moment.
        index.unlink(missing_ok=True)
        mode = path.stat().st_mode & 0o777
        with replacing(path) as target, path.open("rb") as source:
            os.fchmod(target.fileno(), mode)
            _copy_without(source, target, ranges, reason, now_s, check)
    # The crawler's process may have written one meanwhile, of the file as it was (upkeep/closed_files.py).
    if was_indexed or index.exists():
        write_index(path)
    return done


def count_fewer(path: Path, offsets: Collection[int], reason: str, now_s: float, check: Check = _no_check) -> int:
    """Return how many records fewer the file has when the records at these offsets are removed."""
    done, _ = _plan(path, offsets, reason, now_s, check)
    # A record of zeros stands for the removed ones of each range.
    return done.records - done.ranges


def _plan(path: Path, offsets: Collection[int], reason: str, now_s: float, check: Check) -> tuple[Erased, list[_Range]]:
    """Return what a removal would remove, and the ranges that become records of zeros."""
    done, ranges = Erased(), list[_Range]()
    # A plain file was put there by a user; records of zeros are compressed.
    if path.name.endswith(".warc"):
        return done, ranges
    for each in _records_of(path, frozenset(offsets), check):
        done.records, done.bytes = done.records + 1, done.bytes + each.length
        last = ranges[-1] if ranges else None
        is_next = last is not None and last.offset + last.length == each.offset
        if last is not None and is_next and last.length + each.length <= MAX_RANGE_BYTES:
            ranges[-1] = _Range(last.offset, last.length + each.length)
        else:
            ranges.append(each)
    done.ranges = len(ranges)
    for each in [each for each in ranges if each.length < SHORT_BYTES and not _short(each, reason, now_s)]:
        # No record of zeros fits; it stays, and whoever reads the file again finds it.
        ranges.remove(each)
        done.records, done.bytes, done.ranges = done.records - 1, done.bytes - each.length, done.ranges - 1
    return done, ranges


def _records_of(path: Path, offsets: frozenset[int], check: Check) -> list[_Range]:
    """Return the records at these offsets and the records about answers among them, in the order of the file."""
    ids, about, found = set[str](), list[tuple[_Range, str, str]](), list[_Range]()
    for member in walk_file(path):
        check()
        try:
            record = record_of(path, member)
        except CorruptFile:
            continue
        if record.kind == "warcinfo" or is_removed(member.data):
            continue
        place, headers = _Range(member.offset, member.length), record.headers
        concurrent, own = headers.get("warc-concurrent-to", ""), headers.get("warc-record-id", "")
        if member.offset in offsets:
            found.append(place)
            # Some writers name the request in the answer, others the answer in the request.
            ids |= {name for name in (own, concurrent) if name}
        elif record.kind in {"request", "metadata", "conversion"}:
            about.append((place, concurrent or headers.get("warc-refers-to", ""), own))
    found += [place for place, answer, own in about if answer in ids or own in ids]
    return sorted(found, key=lambda each: each.offset)


def _copy_without(
    source: BinaryIO, target: BinaryIO, ranges: list[_Range], reason: str, now_s: float, check: Check
) -> None:
    position = 0
    for each in ranges:
        _copy(source, target, position, each.offset, check)
        short = _short(each, reason, now_s) if each.length < SHORT_BYTES else b""
        for piece in [short] if short else _zeros(each, reason, now_s):
            if isinstance(piece, int):
                target.seek(piece, os.SEEK_CUR)
            else:
                target.write(piece)
        position = each.offset + each.length
    _copy(source, target, position, os.fstat(source.fileno()).st_size, check)


def _copy(source: BinaryIO, target: BinaryIO, begin: int, end: int, check: Check) -> None:
    """Copy a part of a file; holes of earlier removals stay holes."""
    while begin < end:
        try:
            data = min(end, os.lseek(source.fileno(), begin, os.SEEK_DATA))
            hole = min(end, os.lseek(source.fileno(), data, os.SEEK_HOLE))
        except OSError as error:
            if error.errno != errno.ENXIO:  # nothing but a hole follows
                raise
            data = hole = end
        target.seek(data - begin, os.SEEK_CUR)
        while data < hole:
            check()
            piece = os.pread(source.fileno(), min(_COPY_BYTES, hole - data), data)
            target.write(piece)
            data += len(piece)
        begin = hole


def _zeros(place: _Range, reason: str, now_s: float) -> Iterator[bytes | int]:
    """Yield a gzip member of exactly this length: octets, or a number of zeros.

    Its data is in stored blocks, which deflate does not compress: five octets, then up to 65,535 of data.
    """
    blocks = -(-(place.length - len(GZIP_HEADER) - 8) // (_BLOCK_BYTES + _BLOCK_HEAD_BYTES))
    size = place.length - len(GZIP_HEADER) - 8 - blocks * _BLOCK_HEAD_BYTES
    header = _header(place, reason, now_s, size)
    zeros = size - len(header) - len(_END)
    if zeros < 0:
        raise CorruptFile(Path("a record"), f"offset {place.offset}: too short to be replaced")
    data: list[bytes | int] = [header, zeros, _END]
    yield GZIP_HEADER
    left = size
    for number in range(blocks):
        length = min(_BLOCK_BYTES, left)
        left -= length
        is_last = number == blocks - 1
        yield bytes([is_last]) + length.to_bytes(2, "little") + (length ^ 0xFFFF).to_bytes(2, "little")
        yield from _take(data, length)
    yield _crc32([header, zeros, _END]).to_bytes(4, "little") + size.to_bytes(4, "little")


def _short(place: _Range, reason: str, now_s: float) -> bytes:
    """Return a gzip member of exactly this short length, with a compressed header; empty if none is so short.

    The zeros after the header fill the length. The compressed size of the header depends a little on their number, so
    the number is also written with more digits.
    """
    start = _header_start(place, reason, now_s)
    for digits, zeros in product(range(1, 9), range(place.length)):
        header = start + b"Content-Length: %0*d" % (digits, zeros) + _END
        deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        head = deflate.compress(header) + deflate.flush(zlib.Z_SYNC_FLUSH)
        length = zeros + len(_END)
        if len(GZIP_HEADER) + len(head) + _BLOCK_HEAD_BYTES + length + 8 == place.length:
            block = (
                b"\x01" + length.to_bytes(2, "little") + (length ^ 0xFFFF).to_bytes(2, "little") + bytes(zeros) + _END
            )
            crc, size = _crc32([header, zeros, _END]), len(header) + length
            return GZIP_HEADER + head + block + crc.to_bytes(4, "little") + size.to_bytes(4, "little")
    return b""


def _take(data: list[bytes | int], length: int) -> Iterator[bytes | int]:
    """Take so many octets from the beginning of the data."""
    while length:
        first = data.pop(0)
        available = first if isinstance(first, int) else len(first)
        taken = min(length, available)
        if taken < available:
            data.insert(0, first - taken if isinstance(first, int) else first[taken:])
        if taken:
            yield taken if isinstance(first, int) else first[:taken]
        length -= taken


def _crc32(data: list[bytes | int]) -> int:
    crc, zeros = 0, bytes(_COPY_BYTES)
    for each in data:
        if isinstance(each, bytes):
            crc = zlib.crc32(each, crc)
            continue
        left = each
        while left:
            crc = zlib.crc32(zeros[: min(left, _COPY_BYTES)], crc)
            left -= min(left, _COPY_BYTES)
    return crc


def _header(place: _Range, reason: str, now_s: float, size: int) -> bytes:
    """Return the header of a record of this size as a whole; it names neither URL nor digest of what was there."""
    header = _header_start(place, reason, now_s) + b"Content-Type: application/octet-stream\r\nContent-Length: "
    # As many digits for any length, so that the header's own size does not depend on it.
    block_bytes = size - len(header) - 12 - len(_END) * 2
    return header + b"%012d" % max(0, block_bytes) + _END


def _header_start(place: _Range, reason: str, now_s: float) -> bytes:
    record_id = f"<urn:uuid:00000000-0000-8000-8000-{place.offset:012x}>"
    rest = f"{header_value(reason)}\r\nWARC-Record-ID: {record_id}\r\nWARC-Date: {iso_utc(now_s)}\r\n"
    return START + rest.encode()
