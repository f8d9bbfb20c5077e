"""Capture page: an archived page, shown safely (T10).

The bar around a capture is ours. The capture itself is in a sandboxed frame, loaded from a signed address that ignores
cookies (raw.py). Its links lead back here, to the capture of the linked page that is nearest in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from fastapi import Query

from teia.clock import iso_utc
from teia.crawler.child.read_copy import HTML
from teia.crawler.keep_fresh.estimate import freshness_of
from teia.crawler.lookup import Lookup, UrlEntry
from teia.errors import UsageError
from teia.frontier.tables.pages import VisitEntry
from teia.lib.message import Message
from teia.parse.headers import parse_head
from teia.parse.mime import content_type, effective_type
from teia.urls import from_user
from teia.views.captures import StoredCapture, nearest_capture, read_capture, versions
from teia.web import limits
from teia.web.access.roles import Role
from teia.web.parts.archived_records import (
    SignedRecord,
    Signer,
    check_reserved,
    parse_time,
    payload_of,
    resolve_references,
)
from teia.web.server.installation import Installation
from teia.web.server.json_routes import InstallationDep, PageRoutes, VisitorDep

PART_CHARS = 40_000
"""Characters of a text or a source on one page."""

MAX_LINE_CHARS = 4_000
SAME_MOMENT_S = 0.001

Tab = Literal["page", "text", "source", "record"]


@dataclass(frozen=True, slots=True)
class HeaderField:
    """Header of a WARC record or of an HTTP response."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class CaptureView:
    """A capture of a page. `time` is null if there is none; then only the URL is known.

    `frame`, `picture`, `file` and `record` are addresses that are valid for ten minutes: the page for the frame, an
    image, the body as a file, the WARC record. `is_whole`: its bytes match the stored digests, checked now. `text` and
    `source` are the contents of their tabs, `part` of `parts`.
    """

    url: str
    collection: str
    tab: str
    time: str | None = None
    asked: str | None = None
    is_exact: bool = True
    status: int = 0
    type: str = ""
    bytes: int = 0
    version: int = 0
    versions: int = 0
    older: str | None = None
    newer: str | None = None
    newest: str | None = None
    fresh_probability: float | None = None
    truncated: str = ""
    is_whole: bool = True
    pictures: int = 0
    pictures_kept: int = 0
    frame: str = ""
    picture: str = ""
    file: str = ""
    record: str = ""
    text: str = ""
    source: tuple[str, ...] = ()
    first_line: int = 1
    part: int = 1
    parts: int = 1
    record_headers: tuple[HeaderField, ...] = ()
    answer_headers: tuple[HeaderField, ...] = ()
    place: str = ""


def add_routes(pages: PageRoutes) -> None:
    pages.page("/c/{collection}/copy", "copy.html", Role.PUBLIC)(copy)


def copy(
    installation: InstallationDep,
    visitor: VisitorDep,
    collection: str,
    url: Annotated[str, Query(max_length=limits.URL_CHARS)],
    time: Annotated[str, Query(max_length=40)] = "",
    tab: Tab = "page",
    part: Annotated[int, Query(ge=1, le=100_000)] = 1,
) -> CaptureView:
    """Return a capture of a page: the one nearest to a time, or the last one."""
    installation.check_captures(collection)
    requested_s = parse_time(time)
    canonical = from_user(url)
    if canonical is None:
        raise UsageError(Message("{url!r} is not an http or https URL", url=url[:200]))
    with installation.lookup(collection) as lookup:
        entry = lookup.find(canonical)
        visits = lookup.visits(entry) if entry is not None else []
        visit = nearest_capture(visits, requested_s)
        if entry is None or visit is None:
            return CaptureView(canonical, collection, tab, asked=time or None, is_exact=False)
        view = CaptureView(
            url=canonical,
            collection=collection,
            tab=tab,
            time=iso_utc(visit.time_s),
            asked=None if requested_s is None else iso_utc(requested_s),
            is_exact=requested_s is None or abs(requested_s - visit.time_s) < SAME_MOMENT_S,
            fresh_probability=_fresh_probability(lookup, entry, installation.clock.now_s()),
            place=f"{visit.file} {visit.offset}",
        )
        view = _with_versions(view, versions(visits), visit)
        with installation.capture_slots.hold():
            found = read_capture(lookup, entry, visit)
            check_reserved(installation, visitor, collection, found)
            return _with_contents(installation, lookup, view, found, part)


def _fresh_probability(lookup: Lookup, entry: UrlEntry, now_s: float) -> float | None:
    fresh = freshness_of(lookup.cells, entry.cell, entry.host, entry.host_id, entry.key, now_s)
    return None if fresh is None else fresh.fresh_probability


def _with_versions(view: CaptureView, known: Sequence[VisitEntry], visit: VisitEntry) -> CaptureView:
    """Fill in the number of the version, and the times of its neighbours."""
    # A visit that found no change has no version of its own; it shows the last version before it.
    at = max((n for n, each in enumerate(known) if each.time_s <= visit.time_s), default=0)
    later = known[at + 1 :]
    return replace(
        view,
        version=at + 1,
        versions=len(known),
        older=iso_utc(known[at - 1].time_s) if at else None,
        newer=iso_utc(later[0].time_s) if later else None,
        newest=iso_utc(later[-1].time_s) if later else None,
    )


def _with_contents(
    installation: Installation, lookup: Lookup, view: CaptureView, found: StoredCapture, part: int
) -> CaptureView:
    """Fill in the contents of the capture that the tab shows."""
    payload, head, signer = payload_of(found), parse_head(found.head), Signer(installation)
    media_type = effective_type(content_type(head.headers.all("content-type")), payload)

    def signed(kind: str) -> str:
        return signer.sign(SignedRecord(kind, lookup.name, found.cell, found.record.file, found.record.offset))

    view = replace(
        view,
        status=found.status,
        type=media_type,
        bytes=len(payload),
        truncated=found.truncated,
        is_whole=found.is_whole,
        frame=signed("page") if media_type in HTML else "",
        picture=signed("picture") if media_type.startswith("image/") else "",
        file=signed("file"),
        record=signed("record"),
    )
    if view.tab == "page" and view.frame:
        pictures, archived = _count_pictures(installation, signer, lookup, found)
        return replace(view, pictures=pictures, pictures_kept=archived)
    if view.tab == "record":
        answered = [HeaderField(name, value) for name in head.headers.names for value in head.headers.all(name)]
        stored = [HeaderField(*each) for each in found.record.headers.items()]
        return replace(view, record_headers=tuple(stored), answer_headers=tuple(answered))
    if view.tab in {"text", "source"}:
        return _with_text(installation, view, found, part)
    return view


def _with_text(installation: Installation, view: CaptureView, found: StoredCapture, part: int) -> CaptureView:
    """Fill in one part of a capture's text or source."""
    read = installation.capture_reader.text(found.url, found.head, found.body)
    whole = read.text if view.tab == "text" else read.source
    parts = max(1, -(-len(whole) // PART_CHARS))
    # An old link may name a part that a shorter text does not have.
    part = min(part, parts)
    begin = (part - 1) * PART_CHARS
    shown = whole[begin : begin + PART_CHARS]
    if view.tab == "text":
        return replace(view, text=shown, part=part, parts=parts)
    # Lines are numbered from the beginning of the whole source.
    first, lines = whole.count("\n", 0, begin) + 1, tuple(_line(each) for each in shown.splitlines())
    return replace(view, source=lines, first_line=first, part=part, parts=parts)


def _count_pictures(
    installation: Installation, signer: Signer, lookup: Lookup, found: StoredCapture
) -> tuple[int, int]:
    """Return the number of images of a page, and how many of them are archived."""
    shown = installation.capture_reader.safe_template(found.url, found.head, found.body)
    filled = resolve_references(signer, lookup, found.time_s, shown.references)
    archived = [bool(address) for (_, use), address in zip(shown.references, filled, strict=True) if use == "picture"]
    return len(archived), sum(archived)


def _line(text: str) -> str:
    return text if len(text) <= MAX_LINE_CHARS else text[:MAX_LINE_CHARS] + " …"
