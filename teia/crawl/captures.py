"""Other people's WARC files, taken apart into captures: one answer each, with the records that belong to it.

Records of one answer lie together in every archive we know, in different orders: request, response, metadata (ours,
Wget) or response, request (warcio, Heritrix). So a capture is a run of records with the same target that holds at most
one answer. Each record is kept as it came, to be stored as it came. warcinfo records describe the file they stand in
and are left out; the files they go into have their own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from teia.crawl.links import field_of
from teia.durable import disk_errors
from teia.errors import CorruptFile, StoreError
from teia.frontier.soft404 import probe_path
from teia.records import Fetched
from teia.store.reader import Damage, Record, record_of, split_head, walk_file
from teia.urls import canonicalize, split

MAX_RECORDS = 16
"""Of one capture; more are another one."""

_IDENTITY_BYTES = 1 << 16
_STATUS = re.compile(rb"HTTP/[\d.]+ +(\d{3})(?!\d)", re.IGNORECASE)
_ANSWERS = frozenset({"response", "revisit"})


@dataclass(slots=True)
class Capture:
    """The records of one answer. `offset` is where the first of them lies in its file, `url` its target as written."""

    url: str
    offset: int
    records: list[Record] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)

    def add(self, record: Record, raw: bytes) -> None:
        self.records.append(record)
        self.raw.append(raw)

    def takes(self, record: Record) -> bool:
        """Whether a record that follows belongs to the same answer."""
        if record.url != self.url or len(self.records) >= MAX_RECORDS:
            return False
        if record.kind in _ANSWERS:
            return self.answer is None
        return not (record.kind == "request" and self.answer is not None and self.of_kind("request"))

    def of_kind(self, kind: str) -> Record | None:
        return next((record for record in self.records if record.kind == kind), None)

    @property
    def answer(self) -> Record | None:
        return self.of_kind("response") or self.of_kind("revisit")

    @property
    def in_order(self) -> list[tuple[Record, bytes]]:
        """The records in the order ours are written: the request, the answer, what is said about it."""
        place = {"request": 0, "response": 1, "revisit": 1, "metadata": 2}
        pairs = zip(self.records, self.raw, strict=True)
        return sorted(pairs, key=lambda pair: place.get(pair[0].kind, 3))


def captures(path: Path, on_damage: Callable[[Damage], None]) -> Iterator[Capture]:
    """Yield the captures of a file, `.warc.gz` or `.warc`; what cannot be read is reported and passed over."""
    current: Capture | None = None
    for member in walk_file(path):
        try:
            record = record_of(path, member)
        except CorruptFile as error:
            on_damage(Damage(path, member.offset, str(error).removeprefix(f"{path}: ")))
            continue
        if record.kind == "warcinfo":
            continue
        if current is None or not current.takes(record):
            if current is not None:
                yield current
            current = Capture(record.url, member.offset)
        current.add(record, member.data)
    if current is not None:
        yield current


def identity(path: Path) -> str:
    """A name for a file's content that a copy of it shares: by its size, its beginning and its end."""
    with disk_errors(path, "read"), path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        beginning = file.read(_IDENTITY_BYTES)
        file.seek(max(0, size - _IDENTITY_BYTES))
        return hashlib.sha256(b"%d\n" % size + beginning + file.read()).hexdigest()[:32]


def check_readable(path: Path) -> None:
    """Refuse in words what is no WARC file."""
    with disk_errors(path, "read"), path.open("rb") as file:
        beginning = file.read(16)
    if path.name.endswith((".arc", ".arc.gz")) or beginning.startswith(b"filedesc:"):
        raise StoreError(f"{path}: ARC files are not read; `warcio recompress` makes a WARC file of one")
    if path.name.endswith(".warc") and not beginning.startswith(b"WARC/"):
        raise StoreError(f"{path}: does not begin with a WARC record; is it compressed? then name it .warc.gz")


# ---- what an answer says --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """An HTTP answer of a capture that is a page of the web: what a request of ours would have brought."""

    fetched: Fetched
    depth: int
    is_revisit: bool
    metadata: Record | None


def page_answer(capture: Capture, url_rules: tuple[str, ...], max_body_bytes: int) -> PageAnswer | None:
    """The page a capture holds; None if it holds none: other protocols, a POST, robots.txt, a probe, no head."""
    answer, request = capture.answer, capture.of_kind("request")
    url = canonicalize(capture.url, url_rules)
    if answer is None or url is None or split(url).path in {"/robots.txt", probe_path(split(url).host)}:
        return None
    if not answer.headers.get("content-type", "").lower().startswith("application/http"):
        return None
    head, body = split_head(answer.block)
    status = _STATUS.match(head)
    if status is None or (request is not None and not request.block.startswith(b"GET ")):
        return None
    metadata = capture.of_kind("metadata")
    said = metadata.block if metadata is not None else b""
    truncated = answer.headers.get("warc-truncated", "")
    if len(body) > max_body_bytes:
        body, truncated = body[:max_body_bytes], "length"
    fetched = Fetched(
        url,
        status[1].decode(),
        int(status[1]),
        answer.time_s,
        answer.time_s + _milliseconds(field_of(said, "fetchTimeMs")) / 1000,
        answer.headers.get("warc-ip-address", ""),
        b"",
        head,
        body,
        truncated,
    )
    return PageAnswer(fetched, _depth(field_of(said, "hopsFromSeed")), answer.kind == "revisit", metadata)


def _milliseconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0.0


def _depth(text: str) -> int:
    """`3` as teia writes it, `LLE` as Heritrix does: one letter for each hop."""
    if text.isascii() and text.isdigit() and len(text) < 5:
        return int(text)
    return len(text) if text.isascii() and text.isalpha() and len(text) < 1000 else 0
