"""Foreign WARC files split into captures: one answer each, with the records that belong to it.

Records of one answer lie together in every archive we know, in different orders: request, response, metadata (ours,
Wget) or response, request (warcio, Heritrix). So a capture is a run of records with the same target that holds at most
one answer. Each record is stored as it came. warcinfo records describe their own file and are left out; our archive
files have their own.

A file of two megabytes may hold gigabytes once it is decompressed, so memory is bounded: one record by the reader, the
records of a capture by MAX_CAPTURE_BYTES together.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from teia.config.sections import LimitSettings
from teia.crawler.links import field_of
from teia.durable import disk_errors
from teia.errors import CorruptFile, StoreError
from teia.frontier.cell.soft404 import probe_path
from teia.records import Fetched
from teia.store.reader import (
    MAX_RECORD_BYTES,
    ArchiveRecord,
    Damage,
    header_of,
    is_one_member,
    record_of,
    split_head,
    walk_decompressed,
    walk_file,
)
from teia.transfer.arc_captures import arc_records, is_arc
from teia.urls import canonicalize, split

MAX_RECORDS = 16
MAX_CAPTURE_BYTES = MAX_RECORD_BYTES
"""Most bytes of one capture, decompressed; further records become another capture."""

# Estimated memory of one header field as Python objects.
_FIELD_BYTES = 200
_IDENTITY_BYTES = 1 << 16
_STATUS = re.compile(rb"HTTP/[\d.]+ +(\d{3})(?!\d)", re.IGNORECASE)
_ANSWERS = frozenset({"response", "revisit"})


@dataclass(slots=True)
class WarcCapture:
    """The records of one answer. `url` is its target as written.

    `offset` is that of the first record in its file; in an ARC file the record's number.
    """

    url: str
    offset: int
    records: list[ArchiveRecord] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, record: ArchiveRecord, head: bytes) -> None:
        self.records.append(record)
        self.heads.append(head)
        self.size_bytes += _bytes_of(record, head)

    def accepts(self, record: ArchiveRecord, head: bytes) -> bool:
        """Tell whether a record that follows belongs to the same answer, and there is room for it."""
        if record.url != self.url or len(self.records) >= MAX_RECORDS:
            return False
        if self.size_bytes + _bytes_of(record, head) > MAX_CAPTURE_BYTES:
            return False
        if record.kind in _ANSWERS:
            return self.answer is None
        return not (record.kind == "request" and self.answer is not None and self.find_kind("request"))

    def find_kind(self, kind: str) -> ArchiveRecord | None:
        return next((record for record in self.records if record.kind == kind), None)

    @property
    def answer(self) -> ArchiveRecord | None:
        return self.find_kind("response") or self.find_kind("revisit")

    @property
    def ordered(self) -> list[tuple[ArchiveRecord, bytes]]:
        """The records with their heads, in the order of our own: the request, the answer, the metadata."""
        rank = {"request": 0, "response": 1, "revisit": 1, "metadata": 2}
        pairs = zip(self.records, self.heads, strict=True)
        return sorted(pairs, key=lambda pair: rank.get(pair[0].kind, 3))


def _bytes_of(record: ArchiveRecord, head: bytes) -> int:
    """Estimate the memory of a record: its block, its head, and the head's fields one by one."""
    return len(record.block) + len(head) + _FIELD_BYTES * len(record.headers)


def read_captures(path: Path, on_damage: Callable[[Damage], None]) -> Iterator[WarcCapture]:
    """Yield the captures of a WARC or ARC file; unreadable parts are reported and skipped."""
    if is_arc(path):
        for number, record, head in arc_records(path, on_damage):
            capture = WarcCapture(record.url, number)
            capture.add(record, head)
            yield capture
        return
    current: WarcCapture | None = None
    for offset, record, head in _warc_records(path, on_damage):
        if current is None or not current.accepts(record, head):
            if current is not None:
                yield current
            current = WarcCapture(record.url, offset)
        current.add(record, head)
    if current is not None:
        yield current


def _warc_records(path: Path, on_damage: Callable[[Damage], None]) -> Iterator[tuple[int, ArchiveRecord, bytes]]:
    """Yield place, record and header of each record but the descriptions of files."""
    for member in walk_decompressed(path) if is_one_member(path) else walk_file(path):
        try:
            record = record_of(path, member)
        except CorruptFile as error:
            on_damage(Damage(path, member.offset, str(error).removeprefix(f"{path}: ")))
            continue
        if record.kind == "warcinfo":
            continue
        held = [(member.offset, record, header_of(member))]
        del member, record  # while the caller works, this frame holds no second reference
        yield held.pop()


def content_id(path: Path) -> str:
    """Return a name for a file's content, the same for a copy of it: from its size, its beginning and its end."""
    with disk_errors(path, "read"), path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        beginning = file.read(_IDENTITY_BYTES)
        file.seek(max(0, size - _IDENTITY_BYTES))
        return hashlib.sha256(b"%d\n" % size + beginning + file.read()).hexdigest()[:32]


def check_readable(path: Path) -> None:
    """Raise an error for a file that is neither a WARC nor an ARC file."""
    with disk_errors(path, "read"), path.open("rb") as file:
        beginning = file.read(16)
    if path.name.endswith((".arc", ".arc.gz")) and not is_arc(path):
        raise StoreError(f"{path}: does not begin like an ARC file")
    if path.name.endswith(".warc") and not beginning.startswith(b"WARC/"):
        raise StoreError(
            f"{path}: does not begin with a WARC record; if it is compressed, its name must end in .warc.gz"
        )


# ---- answers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """An HTTP answer of a capture that is a web page: the equivalent of our own request's result."""

    fetched: Fetched
    depth: int
    is_revisit: bool
    metadata: ArchiveRecord | None


def page_answer(capture: WarcCapture, url_rules: tuple[str, ...], limits: LimitSettings) -> PageAnswer | None:
    """Return the page a capture holds; None if it holds none.

    None are other protocols, a POST, robots.txt, a probe, and answers without a head or with an endless one.
    """
    answer, request = capture.answer, capture.find_kind("request")
    url = canonicalize(capture.url, url_rules)
    if answer is None or url is None or split(url).path in {"/robots.txt", probe_path(split(url).host)}:
        return None
    if not answer.headers.get("content-type", "").lower().startswith("application/http"):
        return None
    # One byte above the limit tells a body that is too long from one that just fits.
    head, body = split_head(answer.block, limits.body_bytes + 1)
    if len(head) > limits.header_bytes:
        return None
    status = _STATUS.match(head)
    if status is None or (request is not None and not request.block.startswith(b"GET ")):
        return None
    metadata = capture.find_kind("metadata")
    fields = metadata.block if metadata is not None else b""
    truncated = answer.headers.get("warc-truncated", "")
    if len(body) > limits.body_bytes:
        body, truncated = body[: limits.body_bytes], "length"
    fetched = Fetched(
        url,
        status[1].decode(),
        int(status[1]),
        answer.time_s,
        answer.time_s + _milliseconds(field_of(fields, "fetchTimeMs")) / 1000,
        answer.headers.get("warc-ip-address", ""),
        b"",
        head,
        body,
        truncated,
    )
    return PageAnswer(fetched, _depth(field_of(fields, "hopsFromSeed")), answer.kind == "revisit", metadata)


def _milliseconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0.0


def _depth(text: str) -> int:
    """Parse the depth: `3` as teia writes it, `LLE` as Heritrix does, one letter for each hop."""
    if text.isascii() and text.isdigit() and len(text) < 5:
        return int(text)
    return len(text) if text.isascii() and text.isalpha() and len(text) < 1000 else 0
