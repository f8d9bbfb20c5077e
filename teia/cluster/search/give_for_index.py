"""Data that a node gives to others besides search answers: link files, ranks, entries of pages, anchor texts.

Everything is requested in pieces that fit into a message. Only the files named here are available: a request names the
kind of file and its cell, never a path. A file that was replaced has another identity; a node that has a part of the
old one starts over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock

import msgspec

from teia.clock import Clock
from teia.cluster.search.messages import ANCHORS, FILE, PAGES, SearchRequest
from teia.collections.settings import saved
from teia.errors import ClusterError, IndexFailure
from teia.index.entry import pack_entry
from teia.index.outgoing import FILE as OUTGOING
from teia.index.outgoing import OutgoingAnchors, Row
from teia.index.position import has_index
from teia.index.reader import CellReader
from teia.indexer.ranks import link_file, rank_file
from teia.store.root import Root
from teia.urls import cell_of

PIECE_BYTES = 512 * 1024
MAX_KEYS = 1_000
MAX_ROWS = 2_000
LINKS, RANKS = "links", "ranks"


class FileRequest(msgspec.Struct, frozen=True, array_like=True):
    """Request for a piece of a file, from a byte on; `identity` is that of the part the sender has, or empty."""

    what: str
    cell: int
    identity: str
    start: int


class FilePiece(msgspec.Struct, frozen=True, array_like=True):
    """A piece of a file: the file's identity and size, and the piece's start. No identity: there is no file."""

    identity: str
    size: int
    start: int
    data: bytes


class PagesRequest(msgspec.Struct, frozen=True, array_like=True):
    """Request for packed entries of pages of a cell, by key."""

    cell: int
    keys: tuple[int, ...]


class PagesReply(msgspec.Struct, frozen=True, array_like=True):
    """The entries found; `rest` did not fit and may be requested again."""

    entries: dict[int, bytes]
    rest: tuple[int, ...]


class AnchorsRequest(msgspec.Struct, frozen=True, array_like=True):
    """Request for anchor texts of links to the pages of some cells: by cell, the number of the last known row."""

    identity: str
    after: dict[int, int]


class AnchorsReply(msgspec.Struct, frozen=True, array_like=True):
    """The next anchor texts, by cell. If the identity differs from the request's, they count from the beginning."""

    identity: str
    rows: dict[int, list[Row]]


encode = msgspec.msgpack.Encoder().encode
_decode_file = msgspec.msgpack.Decoder(FileRequest).decode
_decode_pages = msgspec.msgpack.Decoder(PagesRequest).decode
_decode_anchors = msgspec.msgpack.Decoder(AnchorsRequest).decode


class IndexDataServer:
    """The giving side of one node; threads may share it."""

    def __init__(self, root: Root, collection: str, clock: Clock) -> None:
        self.requested_at: float | None = None
        """Time at which pages were last requested."""
        self._clock = clock
        self._collection = root.collection(collection)
        self._cells = {folder.number: folder for folder in self._collection.cells()}
        self._starts = self._collection.starts()
        self._original_cells = saved(root, collection).config.collection.cells
        """Number of cells that were not split off others."""
        self._readers: dict[int, CellReader] = {}
        self._lock = Lock()

    def __call__(self, request: SearchRequest) -> bytes:
        """Answer one request (`DataHandler` of answer.py)."""
        match request.kind:
            case kind if kind == FILE:
                return encode(self._read_piece(_decode_file(request.body)))
            case kind if kind == PAGES:
                self.requested_at = self._clock.ticks_s()
                return encode(self._find_pages(_decode_pages(request.body)))
            case kind if kind == ANCHORS:
                return encode(self._find_anchors(_decode_anchors(request.body)))
        raise ClusterError(f"unknown kind of request {request.kind!r}")

    def _path(self, request: FileRequest) -> Path:
        if request.what == RANKS:
            return rank_file(self._collection)
        if request.what == LINKS and request.cell in self._cells:
            return link_file(self._cells[request.cell])
        raise ClusterError(f"it has no {request.what!r} of cell {request.cell}")

    def _read_piece(self, request: FileRequest) -> FilePiece:
        try:
            with self._path(request).open("rb") as file:
                status = os.fstat(file.fileno())
                # A file that was replaced has another inode.
                identity = f"{status.st_dev:x}-{status.st_ino:x}"
                if request.what == RANKS:  # replaced as a whole, never appended to
                    identity += f"-{status.st_mtime_ns:x}"
                # Another file, or a shorter one: from the beginning.
                start = request.start if request.identity == identity and request.start <= status.st_size else 0
                file.seek(start)
                return FilePiece(identity, status.st_size, start, file.read(PIECE_BYTES))
        except FileNotFoundError:
            return FilePiece("", 0, 0, b"")

    def _find_pages(self, request: PagesRequest) -> PagesReply:
        keys, found = request.keys[:MAX_KEYS], dict[int, bytes]()
        for cell in self._with_ancestors(request.cell):
            missing = [key for key in keys if key not in found]
            found |= self._read_entries(cell, missing) if missing else {}
        return _fitting_pages(keys, found)

    def _with_ancestors(self, cell: int) -> Iterator[int]:
        """Yield a cell, and those that it was split off: pages indexed before the split are there."""
        yield cell
        while self._original_cells <= cell < len(self._starts):
            cell = cell_of(self._starts[cell], self._starts[:cell])
            yield cell

    def _read_entries(self, cell: int, keys: Sequence[int]) -> dict[int, bytes]:
        folder = self._cells.get(cell)
        if folder is None or not has_index(folder.index):
            return {}
        with self._lock:
            reader = self._readers.setdefault(cell, CellReader(folder.index))
        try:
            found = reader.entries(reader.searcher(), keys)
        except IndexFailure:
            return {}
        return {key: pack_entry(entry) for key, entry in found.items()}

    def _find_anchors(self, request: AnchorsRequest) -> AnchorsReply:
        path = self._collection.path / OUTGOING
        if not path.exists():
            return AnchorsReply("", {})
        outgoing = OutgoingAnchors(path, read_only=True)
        try:
            identity, rows, room = outgoing.identity, {}, PIECE_BYTES
            for cell, number in request.after.items():
                known = number if request.identity == identity else 0
                rows[cell], room = _fitting_rows(outgoing.after(cell, known, MAX_ROWS), room)
                if room <= 0:
                    break
            return AnchorsReply(identity, {cell: some for cell, some in rows.items() if some})
        finally:
            outgoing.close()


def _fitting_rows(rows: Sequence[Row], room: int) -> tuple[list[Row], int]:
    """Return as many rows as fit, and the remaining room: none, once a row did not fit."""
    some: list[Row] = []
    for row in rows:
        size = len(encode(row))
        if size > room:
            return some, 0
        some.append(row)
        room -= size
    return some, room


def _fitting_pages(keys: Sequence[int], found: dict[int, bytes]) -> PagesReply:
    """Return as many entries as fit, at least one; an entry that would never fit is left out."""
    entries: dict[int, bytes] = {}
    room = PIECE_BYTES
    for at, key in enumerate(keys):
        octets = found.get(key)
        if octets is None or len(octets) > PIECE_BYTES:
            continue
        if len(octets) > room:
            return PagesReply(entries, tuple(keys[at:]))
        entries[key] = octets
        room -= len(octets)
    return PagesReply(entries, ())
