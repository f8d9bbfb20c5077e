"""The copies of a page in the archive: which there are, the one of a moment, and whether it is still what was stored.

A visit that brought the same body again left a record without one (a revisit); its copy is the body of the record that
it names. A *version* is a visit whose body differs from the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teia.clock import from_iso
from teia.crawl.lookup import Lookup, UrlEntry, VisitEntry
from teia.durable import disk_errors
from teia.errors import StoreError
from teia.store.archive import place_of
from teia.store.audit import matches
from teia.store.reader import Record, split_head

MAX_HOPS = 4
"""From a revisit to what it repeats; ours name the record with the body at once."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy. `record` is what the visit left; head and body are of the record that has the body, undecoded."""

    url: str
    cell: int
    time_s: float
    status: int
    record: Record
    head: bytes
    body: bytes
    truncated: str
    is_whole: bool
    """Whether the bytes have the digests that were written beside them, looked at now."""


def versions(visits: Sequence[VisitEntry]) -> list[VisitEntry]:
    """The visits with a copy that differs from the copy before, oldest first."""
    found: list[VisitEntry] = []
    for visit in visits:
        if visit.file and (not found or visit.digest != found[-1].digest):
            found.append(visit)
    return found


def nearest(visits: Sequence[VisitEntry], time_s: float | None) -> VisitEntry | None:
    """The visit with a copy that is nearest to a moment; the last one where none is asked for."""
    kept = [visit for visit in visits if visit.file]
    if time_s is None or not kept:
        return kept[-1] if kept else None
    return min(kept, key=lambda visit: abs(visit.time_s - time_s))


def copy_of(lookup: Lookup, entry: UrlEntry, visit: VisitEntry) -> Copy:
    """Read the copy that a visit left."""
    return copy_at(lookup, entry.cell, visit.file, visit.offset)


def copy_at(lookup: Lookup, cell: int, file: str, offset: int) -> Copy:
    """Read the copy at a place of the archive."""
    record = lookup.record(cell, file, offset)
    if record.kind not in {"response", "revisit"}:
        raise StoreError(f"{file}: the record at offset {offset} is a {record.kind}, not an answer")
    bodied = _with_body(lookup, record, cell)
    head, body = split_head(bodied.block)
    own_head = split_head(record.block)[0]
    return Copy(
        url=record.url,
        cell=cell,
        time_s=record.time_s,
        status=_status(own_head),
        record=record,
        head=head,
        body=body,
        truncated=bodied.headers.get("warc-truncated", ""),
        is_whole=all(_is_whole(each) for each in {id(record): record, id(bodied): bodied}.values()),
    )


def member_of(lookup: Lookup, copy: Copy) -> bytes:
    """A copy's record as it lies in its file: a gzip member, and a WARC file by itself."""
    path = place_of(lookup.folders[copy.cell].archive, copy.record.file)
    with disk_errors(path, "read"), path.open("rb") as file:
        file.seek(copy.record.offset)
        return file.read(copy.record.length)


def _with_body(lookup: Lookup, record: Record, cell: int) -> Record:
    for _ in range(MAX_HOPS):
        if record.kind != "revisit":
            return record
        url = record.headers.get("warc-refers-to-target-uri", "")
        date = record.headers.get("warc-refers-to-date", "")
        entry = lookup.find(url) if url else None
        visit = nearest(lookup.visits(entry), from_iso(date)) if entry is not None and date else None
        if (
            entry is None
            or visit is None
            or (entry.cell, visit.file, visit.offset) == (cell, record.file, record.offset)
        ):
            break
        cell, record = entry.cell, lookup.record(entry.cell, visit.file, visit.offset)
    raise StoreError(f"the copy of {record.url} repeats an earlier one that is not in {lookup.name}")


def _is_whole(record: Record) -> bool:
    if not matches(record.headers.get("warc-block-digest"), record.block):
        return False
    if record.kind == "revisit":
        return True
    return matches(record.headers.get("warc-payload-digest"), split_head(record.block)[1])


def _status(head: bytes) -> int:
    word = head[:64].split(b" ")[1:2]
    return int(word[0][:3]) if word and word[0][:3].isdigit() else 0
