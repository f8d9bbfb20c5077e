"""A large file that changes little, stored as a *map* and the *packs* that hold its pieces.

A file is cut into pieces of 64 kB. A piece that an earlier snapshot of the same file has is not stored again: the map
names its place there. The others are written, one after another, into one new pack. So a snapshot costs only the pieces
that changed since the one it builds on; SQLite leaves the pages it does not touch as they are.

    map:   deflated MessagePack [version, size, SHA-256 of the file, [pack, ...], [bytes in each], [piece, ...]]
    piece: [number of its pack, offset there, length there, BLAKE2b-128 of the unpacked piece]
    pack:  deflated pieces, one after another

Everything is checked when the file is put together again: each piece by its digest, the file by its own.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec
from isal import isal_zlib

from teia.durable import disk_errors
from teia.errors import ClusterError
from teia.lib.undecodable import UNDECODABLE

VERSION = 1
PIECE_BYTES = 64 * 1024
MAX_PACKS = 16
MAX_MAP_BYTES = 1 << 30
LEAST_ALIVE = 0.5
"""Least share of its packs that a map must use; below it the next snapshot stores everything again."""


class Damaged(ClusterError):
    """A snapshot differs from what was stored."""


class PackPiece(msgspec.Struct, array_like=True, frozen=True):
    """The place of a piece of a file."""

    pack: int
    offset: int
    length: int
    digest: bytes


class FileMap(msgspec.Struct, array_like=True, frozen=True):
    """The packs and pieces that make up a file."""

    version: int
    size: int
    sha256: bytes
    packs: list[str]
    pack_bytes: list[int]
    pieces: list[PackPiece]

    @property
    def is_worth_building_on(self) -> bool:
        alive = sum(piece.length for piece in self.pieces)
        return len(self.packs) < MAX_PACKS and alive >= LEAST_ALIVE * sum(self.pack_bytes)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(FileMap).decode


def pack(file: Path, into: Path, name: str, base: FileMap | None) -> FileMap:
    """Write the pieces of a file that `base` lacks into a new pack, which will be called `name`; return the map."""
    if base is not None and not base.is_worth_building_on:
        base = None
    known = {} if base is None else {piece.digest: piece for piece in base.pieces}
    packs, sizes = ([], []) if base is None else (list(base.packs), list(base.pack_bytes))
    new, offset, size, whole, pieces = len(packs), 0, 0, hashlib.sha256(), list[PackPiece]()
    with disk_errors(into, "written"), file.open("rb") as source, into.open("wb") as target:
        while data := source.read(PIECE_BYTES):
            digest = _digest(data)
            whole.update(data)
            size += len(data)
            if digest not in known:
                packed: bytes = isal_zlib.compress(data, 1)
                target.write(packed)
                # Repeated pieces within the file are stored once too.
                known[digest] = PackPiece(new, offset, len(packed), digest)
                offset += len(packed)
            pieces.append(known[digest])
    return _drop_unused_packs(FileMap(VERSION, size, whole.digest(), [*packs, name], [*sizes, offset], pieces))


def _drop_unused_packs(file_map: FileMap) -> FileMap:
    """Return the same map without packs that it uses no piece of."""
    used = sorted({piece.pack for piece in file_map.pieces})
    number = {old: new for new, old in enumerate(used)}
    pieces = [msgspec.structs.replace(piece, pack=number[piece.pack]) for piece in file_map.pieces]
    packs, sizes = [file_map.packs[old] for old in used], [file_map.pack_bytes[old] for old in used]
    return msgspec.structs.replace(file_map, packs=packs, pack_bytes=sizes, pieces=pieces)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def unpack(file_map: FileMap, packs: Mapping[str, Path], into: BinaryIO) -> None:
    """Put a file together from its packs; Damaged if a digest does not match."""
    sources: list[BinaryIO] = []
    whole, size = hashlib.sha256(), 0
    try:
        sources.extend(packs[name].open("rb") for name in file_map.packs)
        for number, piece in enumerate(file_map.pieces):
            data = _piece(sources[piece.pack], piece)
            if data is None:
                raise Damaged(f"piece {number} of {len(file_map.pieces)} in {file_map.packs[piece.pack]} is damaged")
            whole.update(data)
            size += len(data)
            into.write(data)
    finally:
        for source in sources:
            source.close()
    if (size, whole.digest()) != (file_map.size, file_map.sha256):
        raise Damaged("the parts do not form the original file")


def _piece(source: BinaryIO, piece: PackPiece) -> bytes | None:
    source.seek(piece.offset)
    try:
        unpacker = zlib.decompressobj()
        # Bounded: a damaged piece cannot inflate without end.
        data = unpacker.decompress(source.read(piece.length), PIECE_BYTES)
    except zlib.error:
        return None
    # A piece that was cut short inflates without an error, but does not end.
    return data if unpacker.eof and _digest(data) == piece.digest else None


def write_map(file_map: FileMap, file: Path) -> bytes:
    """Write a map; return its digest."""
    data: bytes = isal_zlib.compress(_encode(file_map), 1)
    with disk_errors(file, "written"):
        file.write_bytes(data)
    return hashlib.sha256(data).digest()


def read_map(file: Path, sha256: bytes) -> FileMap:
    """Read a map that must have this digest; Damaged if it has another."""
    with disk_errors(file, "read"):
        data = file.read_bytes()
    if hashlib.sha256(data).digest() != sha256:
        raise Damaged("its map is damaged")
    try:
        file_map = _decode(zlib.decompressobj().decompress(data, MAX_MAP_BYTES))
    except (zlib.error, *UNDECODABLE) as error:
        raise Damaged(f"its map cannot be read ({error})") from error
    if file_map.version != VERSION:
        raise ClusterError(
            f"a snapshot was written by another version of teia (maps of version {file_map.version}, here {VERSION})"
        )
    if any(piece.pack >= len(file_map.packs) for piece in file_map.pieces):
        raise Damaged("its map refers to missing packs")
    return file_map
