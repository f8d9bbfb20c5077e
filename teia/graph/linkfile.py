r"""The links of a cell's pages, one file a cell: appended to, never changed in place.

Whenever a page is read, its links are appended; the last record of a page counts, and one without links takes the page
out. So a repetition after a crash changes nothing. When more than half of the file is outdated, it is rewritten without
that.

    file    "teia links 1\n" and blanks, 16 octets; then blocks, little-endian
    block   head: magic, pages u32, links u64, checksum u64 (XXH3 of the numbers before it and of all behind it)
            sources i64[pages]   targets i64[links]   counts u32[pages]

A block holds what was appended between two flushes, column by column, so that a million pages are read without a loop
over pages. Each block is synced before the next is begun: after a crash only the last can be torn, and it is cut off.
Damage that is no torn end is an error that names the file.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

import numpy as np
import xxhash
from numpy.typing import NDArray

from teia.durable import disk_errors, replacing, sync_folder
from teia.errors import CorruptFile
from teia.lib.closing import Closing

Keys: TypeAlias = NDArray[np.int64]

START = b"teia links 1\n   "
MAX_LINKS = 1 << 16
"""Most links of one page; further ones are left out. The archive stores at most 6,000."""

BLOCK_LINKS = 1 << 18
BLOCK_PAGES = 1 << 16
"""A block that reaches one of these is written, flushed or not."""

MIN_COMPACTED_BYTES = 1 << 20

_MAGIC = b"LINK"
_REMEDY = "rebuild it with `teia rebuild index`"
_HEAD = struct.Struct("<4sIQQ")
_SIZES = struct.Struct("<IQ")
_MAX_BLOCK_BYTES = _HEAD.size + 12 * BLOCK_PAGES + 8 * (BLOCK_LINKS + MAX_LINKS)


class Chunk(NamedTuple):
    """Some pages with their links: the first `counts[0]` targets are those of the first source, and so on."""

    sources: Keys
    counts: NDArray[np.int64]
    targets: Keys


# ---- blocks ---------------------------------------------------------------------------------------------------------


def _checksum(pages: int, links: int, body: bytes) -> int:
    return xxhash.xxh3_64_intdigest(_SIZES.pack(pages, links) + body)


def _encode_block(chunk: Chunk) -> bytes:
    pages, links = len(chunk.sources), len(chunk.targets)
    columns = (chunk.sources.astype("<i8"), chunk.targets.astype("<i8"), chunk.counts.astype("<u4"))
    body = b"".join(column.tobytes() for column in columns)
    return _HEAD.pack(_MAGIC, pages, links, _checksum(pages, links, body)) + body


def _decode_block(pages: int, links: int, body: bytes) -> Chunk:
    sources = np.frombuffer(body, "<i8", pages)
    targets = np.frombuffer(body, "<i8", links, 8 * pages)
    counts = np.frombuffer(body, "<u4", pages, 8 * (pages + links))
    return Chunk(sources, counts.astype(np.int64), targets)


def _read_blocks(file: BinaryIO | FileIO, path: Path) -> Iterator[tuple[int, Chunk]]:
    """Yield (offset behind it, block) up to a torn end; CorruptFile if damage cannot be a torn end."""
    file.seek(0)
    size = os.fstat(file.fileno()).st_size
    end = len(START)
    # A file shorter than its first line was never begun; `_recover` begins it.
    if file.read(end) != START and size >= end:
        raise CorruptFile(path, f"is not a link file of this version; {_REMEDY}")
    while len(head := file.read(_HEAD.size)) == _HEAD.size and size - end >= _HEAD.size:
        magic, pages, links, checksum = _HEAD.unpack(head)
        body_bytes = 12 * pages + 8 * links
        remaining_bytes = size - end - _HEAD.size
        # The limit is tested before the read: a damaged head may claim any length.
        is_head = magic == _MAGIC and _HEAD.size + body_bytes <= _MAX_BLOCK_BYTES
        body = file.read(body_bytes) if is_head and body_bytes <= remaining_bytes else b""
        if not body or _checksum(pages, links, body) != checksum:
            # A torn end is at most one block. More bytes behind it mean damage in the middle.
            if remaining_bytes > (body_bytes if is_head else _MAX_BLOCK_BYTES):
                raise CorruptFile(path, f"is damaged at byte {end}; {_REMEDY}")
            return
        end += _HEAD.size + body_bytes
        yield end, _decode_block(pages, links, body)


def _select_rows(chunk: Chunk, is_current: NDArray[np.bool_]) -> Chunk:
    if is_current.all():
        return chunk
    return Chunk(
        chunk.sources[is_current], chunk.counts[is_current], chunk.targets[np.repeat(is_current, chunk.counts)]
    )


def join_chunks(chunks: Sequence[Chunk]) -> Chunk:
    """Join several chunks into one."""
    sources, counts, targets = (np.concatenate(column) for column in zip(*chunks, strict=True))
    return Chunk(sources, counts, targets)


def _fill_blocks(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Join small chunks, as far as a block may be filled."""
    waiting: list[Chunk] = []
    pages = links = 0
    for chunk in chunks:
        pages, links = pages + len(chunk.sources), links + len(chunk.targets)
        if waiting and (pages > BLOCK_PAGES or links > BLOCK_LINKS):
            yield join_chunks(waiting)
            waiting, pages, links = [], len(chunk.sources), len(chunk.targets)
        waiting.append(chunk)
    if waiting:
        yield join_chunks(waiting)


# ---- reading --------------------------------------------------------------------------------------------------------


class Edges(Closing):
    """The links of one file as they counted when it was opened: of each page the last record.

    `pages` of them have links, `links` in all; `stale` links of the file are of the past. A file that is not there has
    none. Memory holds a block, and a few octets for each page.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pages = self.links = self.stale = 0
        self._is_current = np.zeros(0, np.bool_)
        with disk_errors(path, "read"):
            try:
                self._file: BinaryIO | None = path.open("rb")
            except FileNotFoundError:
                self._file = None
        try:
            self._find_current()
        except BaseException:
            self.close()
            raise

    def _find_current(self) -> None:
        """Find the last record of each page."""
        # Copied, because a view would keep the whole block in memory.
        columns = [(block.sources.copy(), block.counts) for block in self._blocks()]
        if not columns:
            return
        sources, counts = (np.concatenate(column) for column in zip(*columns, strict=True))
        # `unique` names the first place of each; of the reversed column that is the last record.
        _, from_end = np.unique(sources[::-1], return_index=True)
        self._is_current = np.zeros(len(sources), np.bool_)
        self._is_current[len(sources) - 1 - from_end] = True
        self._is_current &= counts > 0
        self.pages = int(self._is_current.sum())
        self.links = int(counts[self._is_current].sum())
        self.stale = int(counts.sum()) - self.links

    def _blocks(self) -> Iterator[Chunk]:
        if self._file is not None:
            with disk_errors(self.path, "read"):
                yield from (block for _, block in _read_blocks(self._file, self.path))

    def __iter__(self) -> Iterator[Chunk]:
        """Yield every page with links, once, some thousands at a time; may be done again."""
        at = 0
        for block in self._blocks():
            is_current = self._is_current[at : at + len(block.sources)]
            at += len(block.sources)
            if not len(is_current):
                return  # the part appended since
            if is_current.any():
                yield _select_rows(block, is_current)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


# ---- writing --------------------------------------------------------------------------------------------------------


class LinkFile(Closing):
    """The links of one cell, open for writing by one process; any number may read them with `Edges` meanwhile.

    The indexer calls `append` for each page it adds, and `append(key, ())` for each it removes; then `flush`. Only
    after that it stores its position, so that this file has everything up to there. The folder must exist: open the
    cell's index first, which throws away a folder of another version. `cut_bytes` is how much of a torn block was cut
    off when the file was opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut_bytes = 0
        self._clear()
        with disk_errors(path, "opened"):
            self._file = FileIO(path, "r+" if path.exists() else "x+")
            try:
                self._recover()
            except BaseException:
                self._file.close()
                raise
        self._check_at = 0
        self._compact_if_stale()

    def _recover(self) -> None:
        """Cut off a torn end, and begin a file that is new or was never begun."""
        end = len(START)
        for after, _ in _read_blocks(self._file, self.path):
            end = after
        size = os.fstat(self._file.fileno()).st_size
        if size < end:
            self._write_durably(START, at=0)
            sync_folder(self.path.parent)
        elif size > end:
            self.cut_bytes = size - end
            self._file.truncate(end)
        self._file.seek(end)

    def _write_durably(self, data: bytes, at: int) -> None:
        """Write and sync; what cannot be written whole is taken back."""
        try:
            self._file.seek(at)
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) :]
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(at)
            self._file.seek(at)
            raise

    def _clear(self) -> None:
        self._sources, self._counts, self._targets = array("q"), array("I"), array("q")

    def append(self, source: int, targets: Iterable[int]) -> None:
        """Set the links of a page, replacing earlier ones.

        Repeated targets and the page itself are left out. Without targets the page is removed.
        """
        each = sorted(set(targets) - {source})[:MAX_LINKS]
        self._sources.append(source)
        self._counts.append(len(each))
        self._targets.extend(each)
        if len(self._targets) >= BLOCK_LINKS or len(self._sources) >= BLOCK_PAGES:
            self._write()

    def flush(self) -> None:
        """Make appended links durable, and visible to readers."""
        self._write()
        if self._file.tell() >= self._check_at:
            self._compact_if_stale()

    def _write(self) -> None:
        if not self._sources:
            return
        sources, targets = np.array(self._sources, np.int64), np.array(self._targets, np.int64)
        block = _encode_block(Chunk(sources, np.array(self._counts, np.int64), targets))
        with disk_errors(self.path, "written"):
            self._write_durably(block, at=self._file.tell())
        self._clear()

    def _compact_if_stale(self) -> None:
        """Rewrite the file if more than half of it is outdated; check again when that may be so again."""
        with Edges(self.path) as edges:
            if edges.stale > edges.links and self._file.tell() >= MIN_COMPACTED_BYTES:
                self._rewrite(edges)
            # At least so many bytes must be appended before more than half of the file can be stale.
            fresh_bytes = 8 * max(0, edges.links - edges.stale)
        self._check_at = self._file.tell() + max(fresh_bytes, MIN_COMPACTED_BYTES)

    def _rewrite(self, edges: Edges) -> None:
        # Readers that have the old file open continue with it.
        with replacing(self.path) as file:
            file.write(START)
            for chunk in _fill_blocks(edges):
                file.write(_encode_block(chunk))
        self._file.close()
        with disk_errors(self.path, "opened"):
            self._file = FileIO(self.path, "r+")
            self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        """Write the appended links, and close the file."""
        try:
            self.flush()
        finally:
            self._file.close()
