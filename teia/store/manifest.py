"""The manifest of a collection: a signed statement about each WARC file, in a chain.

    <collection>/manifest.jsonl     one JSON object a line, never changed, only appended to

An entry names a file, a part of it (`from`, `bytes`), the SHA-256 of that part, the digest of the line before
(`previous`), and an Ed25519 signature of itself. So whoever has the public key finds a file that was changed, an entry
that was changed, and an entry that was left out. The events are:

    closed      the whole file, which will not grow; with the number of its records
    grew        the next part of a file that is still open
    erasing     records are about to be removed from the file; until the next entry it matches or not
    erased      the whole file, after that; `reason` says why
    damaged     the file did not match when the removal began; after it nobody could tell
    accepted    the whole file, as a user accepted it though it did not match
    lost        the file is gone, and a user knows it

`replaces` are the numbers of the entries about the file that hold no longer. Entries are appended under a lock of the
file. A crash leaves at most a torn last line, which counts for nothing and is cut by the next append; what it said is
said again, because whoever appends compares the files with the chain.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

from teia.clock import from_iso, iso_utc
from teia.durable import disk_errors, file_lock, sync_folder
from teia.errors import StoreError
from teia.lib.progress import advance
from teia.store.archive import Position, committed_files, serial_of
from teia.store.reader import walk_file
from teia.store.signing_key import is_signed_by, open_signer

MANIFEST = "manifest.jsonl"
VERSION = 1
NO_LINE = "0" * 64
"""`previous` of the first entry."""

MAX_REASON_CHARS = 500
LOCK_TRIES, LOCK_PAUSE_S = 200, 0.05
_READ_BYTES, _TAIL_BYTES = 1 << 20, 1 << 16
_SIGNATURE = ', "signature": "'
_FILE = re.compile(r"cells/\d{2,4}/archive/[^/]+")


class ManifestEvent(StrEnum):
    """Kind of entry."""

    CLOSED = "closed"
    GREW = "grew"
    ERASING = "erasing"
    ERASED = "erased"
    DAMAGED = "damaged"
    ACCEPTED = "accepted"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Statement:
    """What an entry says of a file: octets `begin` to `end` have this digest. `file` is a path in the collection.

    A file that `is_open` may grow; the parts that were signed stay as they are.
    """

    event: ManifestEvent
    file: str
    begin: int
    end: int
    sha256: str
    records: int | None = None
    reason: str = ""
    replaces: tuple[int, ...] = ()
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the manifest."""

    number: int
    time_s: float
    said: Statement


@dataclass(slots=True)
class SignedFile:
    """What the chain says of a file: its parts, one after another, and whether it may grow.

    `damaged_s` is when it did not match before a removal, and no user has accepted it since.
    """

    file: str
    parts: list[Entry] = field(default_factory=list)
    is_closed: bool = False
    is_lost: bool = False
    is_erasing: bool = False
    damaged_s: float | None = None

    @property
    def end(self) -> int:
        return self.parts[-1].said.end if self.parts else 0

    @property
    def signed_s(self) -> float:
        return self.parts[-1].time_s if self.parts else 0.0

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(entry.number for entry in self.parts)

    def apply(self, entry: Entry) -> None:
        said = entry.said
        if said.event is ManifestEvent.DAMAGED:
            self.damaged_s = entry.time_s
            return
        self.is_erasing = said.event is ManifestEvent.ERASING
        if self.is_erasing:
            return
        if said.event in {ManifestEvent.ACCEPTED, ManifestEvent.LOST}:  # a user has seen it
            self.damaged_s = None
        self.is_lost = said.event is ManifestEvent.LOST
        self.is_closed = not said.is_open
        self.parts = [*self.parts, entry] if said.event is ManifestEvent.GREW else [entry]


@dataclass(slots=True)
class Manifest:
    """The manifest as it was read: number of entries, digest of the last one, and what it says of each file.

    `complaints` are the lines that are not what was signed. `keys` has the first entry signed by each key.
    """

    entries: int = 0
    head: str = NO_LINE
    files: dict[str, SignedFile] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    keys: dict[bytes, int] = field(default_factory=dict)

    def of(self, file: str) -> SignedFile:
        return self.files.get(file) or SignedFile(file)


# ---- reading --------------------------------------------------------------------------------------------------------


def read_manifest(collection: Path, *, must_verify: bool = False) -> Manifest:
    """Read the manifest of a collection's folder; with `must_verify` check the chain and every signature."""
    found = Manifest()
    for number, line in enumerate(_lines(collection / MANIFEST), 1):
        entry = _parse(line)
        if entry is None or entry.number != number:
            found.complaints.append(f"{MANIFEST} line {number}: is not entry {number}")
        elif must_verify:
            found.complaints += _line_complaints(line, number, found)
        if entry is not None:
            found.files.setdefault(entry.said.file, SignedFile(entry.said.file)).apply(entry)
        found.entries, found.head = number, hashlib.sha256(line).hexdigest()
    return found


def read_signed_file(collection: Path, file: str) -> SignedFile:
    """Return what the manifest says of one file; entries of other files are passed over, not parsed."""
    found, name = SignedFile(file), json.dumps(file).encode()
    for line in _lines(collection / MANIFEST):
        entry = _parse(line) if name in line else None
        if entry is not None and entry.said.file == file:
            found.apply(entry)
    return found


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the whole lines of the file, without their ends."""
    if not path.exists():
        return
    with disk_errors(path, "read"), path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line[:-1]


def _parse(line: bytes) -> Entry | None:
    try:
        found = json.loads(line)
        texts = {name: str(found.get(name, "")) for name in ("sha256", "reason")}
        said = Statement(
            ManifestEvent(found["event"]), str(found["file"]), int(found["from"]), int(found["bytes"]), texts["sha256"],
            found.get("records"), texts["reason"], tuple(map(int, found.get("replaces", ()))), bool(found.get("open")),
        )  # fmt: skip
        is_ours = found["version"] == VERSION and _FILE.fullmatch(said.file) and 0 <= said.begin <= said.end
        return Entry(int(found["number"]), from_iso(found["time"]), said) if is_ours else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _line_complaints(line: bytes, number: int, before: Manifest) -> list[str]:
    complaints, found = [], json.loads(line)
    if found.get("previous") != before.head:
        complaints.append(f"{MANIFEST} line {number}: does not follow line {number - 1}: one was changed or left out")
    key = _signer_of(line, found)
    if key is None:
        complaints.append(f"{MANIFEST} line {number}: the signature is wrong")
    else:
        before.keys.setdefault(key, number)
    return complaints


def _signer_of(line: bytes, fields: dict[str, Any]) -> bytes | None:
    """Return the public key that signed a line; None if its signature is wrong."""
    signed, _, signature = line.decode("utf-8", "replace").rpartition(_SIGNATURE)
    try:
        key, octets = bytes.fromhex(fields["key"]), bytes.fromhex(signature.removesuffix('"}'))
    except (KeyError, TypeError, ValueError):
        return None
    return key if is_signed_by(key, octets, f"{signed}}}".encode()) else None


# ---- writing --------------------------------------------------------------------------------------------------------


def append(
    collection: Path, statements: Sequence[Statement], now_s: float, inodes: Mapping[str, int] | None = None
) -> None:
    """Sign statements and append them; the caller holds the root's lock.

    `inodes` are those of the files when they were read, pinned since. A file that was replaced, because records were
    erased from it, gets no entry now.
    """
    if not statements:
        return
    path, signer = collection / MANIFEST, open_signer(collection.parent)
    is_new = not path.exists()
    with file_lock(path, tries=LOCK_TRIES, pause_s=LOCK_PAUSE_S) as is_ours, disk_errors(path, "written"):
        if not is_ours:
            raise StoreError(f"{path}: locked by another process for too long; try again")
        with path.open("r+b") as file:
            number, size, head = _last_line(file, signer.public)
            file.truncate(size)
            file.seek(size)
            for statement in statements:
                if inodes is not None and inodes.get(statement.file) != inode_of(collection / statement.file):
                    continue
                number += 1
                signed = json.dumps(_entry_fields(statement, number, now_s, head, signer.public))
                line = f'{signed[:-1]}{_SIGNATURE}{signer.sign(signed.encode()).hex()}"}}'.encode()
                file.write(line + b"\n")
                head = hashlib.sha256(line).hexdigest()
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            sync_folder(collection)


def _last_line(file: BinaryIO, key: bytes) -> tuple[int, int, str]:
    """Return the number of the last whole line, its end in the file, and its digest.

    The end of the file is enough if this key has signed the line; else it may have been changed, and all are counted.
    """
    size, tail = file.seek(0, os.SEEK_END), b""
    begin = size
    # The end of the last whole line, after which a torn one may follow, and the end of the line before.
    while begin and tail.count(b"\n") < 2:
        begin = max(0, begin - _TAIL_BYTES)
        file.seek(begin)
        tail = file.read(size - begin)
    whole, end, _ = tail.rpartition(b"\n")
    if not end:
        return 0, 0, NO_LINE
    line = whole.rpartition(b"\n")[2]
    entry = _parse(line)
    if entry is not None and _signer_of(line, json.loads(line)) == key:
        number = entry.number
    else:
        file.seek(0)
        number = file.read().count(b"\n")
    return number, begin + len(whole) + 1, hashlib.sha256(line).hexdigest()


def _entry_fields(said: Statement, number: int, now_s: float, previous: str, key: bytes) -> dict[str, Any]:
    fields = {
        "version": VERSION,
        "number": number,
        "time": iso_utc(now_s),
        "event": said.event.value,
        "file": said.file,
        "from": said.begin,
        "bytes": said.end,
        "sha256": said.sha256,
        "records": said.records,
        "reason": said.reason[:MAX_REASON_CHARS],
        "replaces": list(said.replaces),
        "open": said.is_open,
    }
    given = {name: value for name, value in fields.items() if value or name in {"from", "bytes"}}
    return {**given, "previous": previous, "key": key.hex()}


# ---- files ----------------------------------------------------------------------------------------------------------


def name_in(collection: Path, path: Path) -> str:
    """Return the name of a WARC file in the manifest."""
    return path.relative_to(collection).as_posix()


@contextmanager
def pinned(path: Path) -> Iterator[int]:
    """Yield the inode of a file, 0 if there is none; as long as the block lasts, no other file gets its number."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        yield 0
        return
    try:
        yield os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)


def inode_of(path: Path) -> int:
    """Return a number that changes when a file is replaced while its old one is `pinned`; 0 if there is none."""
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def digest_of(path: Path, begin: int = 0, end: int | None = None) -> tuple[int, str]:
    """Return the end of a part of a file, the end of the file if none is given, and the SHA-256 of the part."""
    with path.open("rb") as file:
        return _digest(file.fileno(), begin, end)


def _digest(descriptor: int, begin: int, end: int | None) -> tuple[int, str]:
    digest, position = hashlib.sha256(), begin
    while end is None or position < end:
        wanted = _READ_BYTES if end is None else min(_READ_BYTES, end - position)
        piece = os.pread(descriptor, wanted, position)
        if not piece:
            break
        digest.update(piece)
        position += len(piece)
        advance(len(piece))
    return position, digest.hexdigest()


def count_records(path: Path) -> int:
    """Count the readable records of a file."""
    return sum(not member.damage for member in walk_file(path))


def mismatch(collection: Path, signed: SignedFile) -> str:
    """Compare a file with what the chain says of it; return how they differ, empty if they do not."""
    path = collection / signed.file
    if signed.is_lost or not signed.parts:
        return ""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < signed.end or (signed.is_closed and size > signed.end):
                return f"has {size:,} bytes, but {signed.end:,} were signed (entry {signed.numbers[-1]})"
            for entry in signed.parts:
                said = entry.said
                if _digest(file.fileno(), said.begin, said.end) != (said.end, said.sha256):
                    where = f"bytes {said.begin:,} to {said.end:,}"
                    return f"{where} are not those that were signed on {iso_utc(entry.time_s)} (entry {entry.number})"
    except FileNotFoundError:
        return f"is missing; {signed.end:,} bytes of it were signed (entry {signed.numbers[-1]})"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return ""


@dataclass(frozen=True, slots=True)
class Unsigned:
    """Files of a cell that the manifest does not cover: closed ones, and the open one with its committed end."""

    closed: list[Path]
    open_file: Path | None = None
    end: int = 0


def unsigned_files(
    collection: Path, archive: Path, end: Position | None, manifest: Manifest, *, cells_move: bool = False
) -> Unsigned:
    """Return the files of a cell to be signed.

    Only the committed position closes a file: a file that was begun, but in which nothing is committed, is removed
    after a crash, and the one before it grows. Where cells move between nodes, a read-only file is a copy of another
    node's, which signs it there.
    """
    closed, open_file, open_end = [], None, 0
    for path, stop in committed_files(archive, end):
        is_ours = serial_of(path.name) is not None
        if (is_ours and end is None) or (cells_move and not path.stat().st_mode & 0o200):
            continue
        signed = manifest.of(name_in(collection, path))
        if stop is not None:
            open_file, open_end = (path, stop) if signed.end < stop else (None, 0)
        elif not signed.is_closed:
            closed.append(path)
    return Unsigned(closed, open_file, open_end)


def growth_of(collection: Path, files: Unsigned, manifest: Manifest) -> list[Statement]:
    """Return a statement about the part of an open file that is committed and not signed yet."""
    if files.open_file is None:
        return []
    file = name_in(collection, files.open_file)
    begin = manifest.of(file).end
    end, sha256 = digest_of(files.open_file, begin, files.end)
    return [Statement(ManifestEvent.GREW, file, begin, end, sha256, is_open=True)] if end == files.end else []


# ---- files that are written anew ------------------------------------------------------------------------------------


def begin_erasure(collection: Path, path: Path, reason: str, now_s: float) -> None:
    """Append what has to be known of a signed file before records are erased from it; once, if that is repeated."""
    signed = read_signed_file(collection, name_in(collection, path))
    if not signed.parts or signed.is_erasing:
        return
    erasing = Statement(ManifestEvent.ERASING, signed.file, 0, signed.end, "", None, reason)
    append(collection, [*damage_of(collection, signed), erasing], now_s)


def damage_of(collection: Path, signed: SignedFile) -> list[Statement]:
    """Return what has to be said of a file before it is signed anew, if it is not what was signed before."""
    why = mismatch(collection, signed)
    if not why:
        return []
    end, sha256 = digest_of(collection / signed.file)
    return [Statement(ManifestEvent.DAMAGED, signed.file, 0, end, sha256, None, why)]


def end_erasure(collection: Path, path: Path, reason: str, now_s: float) -> None:
    """Append the digest of a signed file from which records were erased, as far as it was signed before."""
    signed = read_signed_file(collection, name_in(collection, path))
    # Not announced, if the file was signed after the removal had begun.
    if signed.is_erasing or mismatch(collection, signed):
        end, sha256 = digest_of(path, 0, signed.end)
        records = count_records(path) if signed.is_closed else None
        said = Statement(
            ManifestEvent.ERASED,
            signed.file,
            0,
            end,
            sha256,
            records,
            reason,
            signed.numbers,
            is_open=not signed.is_closed,
        )
        append(collection, [said], now_s)


def accept_mismatches(collection: Path, ends: Mapping[str, int], reason: str, now_s: float) -> list[str]:
    """Sign the files that do not match as they are now, and return how each differed; the caller holds the root's lock.

    `ends` are the committed ends of the files that are open; what lies behind is not signed.
    """
    accepted, statements = [], []
    for signed in read_manifest(collection).files.values():
        is_open = signed.file in ends
        why = mismatch(collection, signed)
        if not why and signed.damaged_s is not None:
            why = "had been changed when records were removed from it"
        if not why and is_open and signed.is_closed and not signed.is_lost:
            why = "is open again"
        if not why:
            continue
        accepted.append(f"{signed.file}: {why}")
        event, end, sha256 = ManifestEvent.LOST, 0, hashlib.sha256().hexdigest()
        if (collection / signed.file).is_file():
            event = ManifestEvent.ACCEPTED
            end, sha256 = digest_of(collection / signed.file, 0, ends.get(signed.file))
        said = Statement(event, signed.file, 0, end, sha256, None, reason, signed.numbers, is_open=is_open)
        statements.append(said)
    append(collection, statements, now_s)
    return accepted
