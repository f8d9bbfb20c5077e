"""Captures of a page in the archive: the list, the one nearest to a moment, and a check that it is intact.

A visit that brought the same body again left a record without one (a revisit); its capture is the body of the record
that it names. A *version* is a visit whose body differs from the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teia.clock import from_iso
from teia.crawler.links import field_of
from teia.crawler.lookup import Lookup, UrlEntry
from teia.durable import disk_errors
from teia.errors import StoreError
from teia.frontier.tables.pages import VisitEntry
from teia.lib.message import Message
from teia.store.archive import archive_path
from teia.store.audit import matches
from teia.store.reader import ArchiveRecord, split_head

MAX_HOPS = 4
"""Longest chain from a revisit to the record with the body; our own revisits name that record at once."""


@dataclass(frozen=True, slots=True)
class StoredCapture:
    """One capture. `record` is the visit's own; head and body are of the record that has the body, undecoded."""

    url: str
    cell: int
    time_s: float
    status: int
    record: ArchiveRecord
    head: bytes
    body: bytes
    truncated: str
    is_whole: bool
    """True if the bytes match the digests stored beside them, checked now."""
    reserved: frozenset[str] = frozenset()
    """Uses that the page reserves, such as `noarchive`."""


def versions(visits: Sequence[VisitEntry]) -> list[VisitEntry]:
    """Return the visits with a capture that differs from the capture before, oldest first."""
    found: list[VisitEntry] = []
    for visit in visits:
        if visit.file and (not found or visit.digest != found[-1].digest):
            found.append(visit)
    return found


def nearest_capture(visits: Sequence[VisitEntry], time_s: float | None) -> VisitEntry | None:
    """Return the visit with the capture nearest to a moment; the last one if no moment is given."""
    captured = [visit for visit in visits if visit.file]
    if time_s is None or not captured:
        return captured[-1] if captured else None
    return min(captured, key=lambda visit: abs(visit.time_s - time_s))


def read_capture(lookup: Lookup, entry: UrlEntry, visit: VisitEntry) -> StoredCapture:
    """Read the capture of a visit."""
    return read_capture_at(lookup, entry.cell, visit.file, visit.offset)


def read_capture_at(lookup: Lookup, cell: int, file: str, offset: int) -> StoredCapture:
    """Read the capture at a place of the archive."""
    record = lookup.record(cell, file, offset)
    if record.kind not in {"response", "revisit"}:
        raise StoreError(f"{file}: the record at offset {offset} is of type {record.kind}, not a response")
    body_cell, bodied = _with_body(lookup, record, cell)
    head, body = split_head(bodied.block)
    own_head = split_head(record.block)[0]
    return StoredCapture(
        url=record.url,
        cell=cell,
        time_s=record.time_s,
        status=_status(own_head),
        record=record,
        head=head,
        body=body,
        truncated=bodied.headers.get("warc-truncated", ""),
        # One check, if the record has its own body.
        is_whole=all(_is_whole(each) for each in {id(record): record, id(bodied): bodied}.values()),
        # A 304 says nothing of the page; what it said with its body still holds.
        reserved=_reserved(lookup, cell, record) | _reserved(lookup, body_cell, bodied),
    )


def _reserved(lookup: Lookup, cell: int, record: ArchiveRecord) -> frozenset[str]:
    """Return the uses that a page reserves, by the metadata record behind its answer."""
    try:
        after = lookup.record(cell, record.file, record.offset + record.length)
    except StoreError:
        return frozenset()
    return frozenset(field_of(after.block, "reserved").split()) if after.kind == "metadata" else frozenset()


def read_member(lookup: Lookup, capture: StoredCapture) -> bytes:
    """Return a capture's record as stored in its file: a gzip member, which is a WARC file by itself."""
    path = archive_path(lookup.folders[capture.cell].archive, capture.record.file)
    with disk_errors(path, "read"), path.open("rb") as file:
        file.seek(capture.record.offset)
        return file.read(capture.record.length)


def _with_body(lookup: Lookup, record: ArchiveRecord, cell: int) -> tuple[int, ArchiveRecord]:
    """Return the record that has the body of a capture, and its cell."""
    for _ in range(MAX_HOPS):
        if record.kind != "revisit":
            return cell, record
        # WARC names the other record by URL and date, not by its place in a file.
        url = record.headers.get("warc-refers-to-target-uri", "")
        date = record.headers.get("warc-refers-to-date", "")
        entry = lookup.find(url) if url else None
        visit = nearest_capture(lookup.visits(entry), from_iso(date)) if entry is not None and date else None
        if (
            entry is None
            or visit is None
            # It refers to itself: the record with the body is missing.
            or (entry.cell, visit.file, visit.offset) == (cell, record.file, record.offset)
        ):
            break
        cell, record = entry.cell, lookup.record(entry.cell, visit.file, visit.offset)
    raise StoreError(
        Message("the capture of {url} refers to an earlier one that is not in {name}", url=record.url, name=lookup.name)
    )


def _is_whole(record: ArchiveRecord) -> bool:
    if not matches(record.headers.get("warc-block-digest"), record.block):
        return False
    # A revisit has no payload of its own.
    if record.kind == "revisit":
        return True
    return matches(record.headers.get("warc-payload-digest"), split_head(record.block)[1])


def _status(head: bytes) -> int:
    word = head[:64].split(b" ")[1:2]
    return int(word[0][:3]) if word and word[0][:3].isdigit() else 0
