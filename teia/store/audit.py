"""Integrity audit of the archive: `teia audit archive`.

Nothing of the writing side is trusted: members are inflated (CRC checked), fastwarc parses each, its digests are
computed anew (not by fastwarc, which knows fewer spellings of them than the web archives hold), and every CDXJ file is
compared with its WARC file. The one thing taken from the writer is the fixed gzip header of our own files, whose ten
bytes no checksum covers.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from teia.durable import disk_errors
from teia.errors import CorruptFile
from teia.store.archive import Position, committed_files, index_path, serial_of
from teia.store.cdxj import index_lines
from teia.store.reader import ArchiveRecord, Member, record_of, split_head, walk_file
from teia.store.warc import GZIP_HEADER

MAX_DETAILS = 1_000
"""Most violations reported in words; all are counted."""


@dataclass(frozen=True, slots=True)
class Audit:
    """Result of an audit: records checked, rules broken, and one line for each of the first of those."""

    checked: int
    violations: int
    details: tuple[str, ...]


def audit_archive(folder: Path, end: Position | None = None, audited: Mapping[str, int] | None = None) -> Audit:
    """Check every record and every index of a cell's archive, up to the committed position where there is one.

    `audited` are the bytes of each file that an earlier audit has read; they are passed over.
    """
    checked = violations = 0
    details: list[str] = []
    with disk_errors(folder, "read"):
        files = committed_files(folder, end)
    if end is not None and end.file not in {path.name for path, _ in files}:
        violations += 1
        details.append(f"{end.file}: {end.offset} bytes were committed, but the file is missing")
    for path, stop in files:
        for offset, complaints in _audit_file(path, stop, (audited or {}).get(path.name, 0)):
            checked += offset is not None
            violations += len(complaints)
            where = path.name if offset is None else f"{path.name} offset {offset}"
            # Violations are all counted; only the words of the first MAX_DETAILS are kept.
            details.extend(f"{where}: {why}" for why in complaints[: MAX_DETAILS - len(details)])
    return Audit(checked, violations, tuple(details))


def _audit_file(path: Path, end: int | None, start: int) -> Iterator[tuple[int | None, list[str]]]:
    """Yield the complaints about each record, by its offset, and those about the file and its index (None)."""
    ours = serial_of(path.name) is not None
    reached = start
    with path.open("rb") as raw:
        for member in walk_file(path, end, start=start):
            complaints = _record_complaints(path, member, ours and member.offset == 0)
            if ours and not member.damage:
                raw.seek(member.offset)
                if raw.read(len(GZIP_HEADER)) != GZIP_HEADER:
                    complaints.append("the gzip header was changed")
            reached = member.offset + member.length
            yield member.offset, complaints
    # A whole record may be missing at the end: every other record would still pass.
    if end is not None and reached != end:
        yield None, [f"{end} bytes were committed, but the records end at {reached}"]
    yield None, _index_complaints(path)


def _record_complaints(path: Path, member: Member, must_be_warcinfo: bool) -> list[str]:
    try:
        record = record_of(path, member)
    except CorruptFile as error:
        return [str(error).removeprefix(f"{path}: offset {member.offset}: ")]
    complaints = _digest_complaints(record)
    if any("\0" in value or "\r" in value for value in record.headers.values()):
        complaints.append("a header value contains CR or NUL")
    if must_be_warcinfo and record.headers.get("warc-filename") != path.name:
        complaints.append("the file does not begin with a warcinfo record that names it")
    if record.kind in {"request", "response", "revisit", "resource"} and not record.url:
        complaints.append(f"a {record.kind} record without WARC-Target-URI")
    return complaints


def _digest_complaints(record: ArchiveRecord) -> list[str]:
    """Compare the digests a record names with its bytes; a revisit's payload is in another record."""
    is_http = record.headers.get("content-type", "").startswith("application/http")
    payload = split_head(record.block)[1] if is_http else record.block
    complaints = []
    if not matches(record.headers.get("warc-block-digest"), record.block):
        complaints.append("the block digest does not match")
    if record.kind != "revisit" and not matches(record.headers.get("warc-payload-digest"), payload):
        complaints.append("the payload digest does not match")
    return complaints


def matches(named: str | None, data: bytes) -> bool:
    """Tell whether data has the digest a record names, in any encoding of RFC 4648; without a digest it matches."""
    algorithm, _, value = (named or "").partition(":")
    try:
        # "sha-256" and "SHA256" are both found in foreign archives.
        digest = hashlib.new(algorithm.lower().replace("-", ""), data, usedforsecurity=False).digest()
    except ValueError:
        return named is None
    return value.rstrip("=") in {
        base64.b32encode(digest).decode().rstrip("="),
        base64.b64encode(digest).decode().rstrip("="),
        base64.urlsafe_b64encode(digest).decode().rstrip("="),
    } or (value.lower() == digest.hex())


def _index_complaints(path: Path) -> list[str]:
    index = index_path(path)
    if not index.exists():
        return []
    with index.open("rb") as file:
        for number, (expected, found) in enumerate(zip_longest(index_lines(path), file), 1):
            if expected != found:
                return [f"{index.name} line {number} does not match the WARC file; delete the index to rebuild it"]
    return []
