"""Single records of the archive, loaded into frames: `/raw/{signed}`.

A client with such an address may read that record, and nothing else, for ten minutes, signed in or not: a request is
authorised by the signature alone, and cookies are ignored. A capture of a foreign page is shown from such an address,
so that the requests it triggers in the browser carry none of the reader's rights. The headers (web/server/headers.py)
give every response here an origin of its own, on which no script runs.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import Depends
from fastapi.responses import PlainTextResponse, Response

from teia.crawler.lookup import Lookup
from teia.errors import TeiaError
from teia.parse.headers import parse_head
from teia.parse.html.replay import fill_references
from teia.parse.mime import content_type, effective_type
from teia.urls import split
from teia.views.captures import StoredCapture, read_capture_at, read_member
from teia.web.access.roles import Role
from teia.web.parts.archived_records import SignedRecord, Signer, SpooledResponse, payload_of, resolve_references
from teia.web.server.installation import Busy, Installation, installation_of
from teia.web.server.json_routes import PageRoutes

# Never a type that the browser would show: a body may contain scripts.
_ATTACHMENT_TYPE = "application/octet-stream"


def add_routes(pages: PageRoutes) -> None:
    pages.add("GET", "/raw/{signed:path}", Role.PUBLIC, raw, include_in_schema=False, response_class=Response)


def raw(installation: Annotated[Installation, Depends(installation_of)], signed: str) -> Response:
    """Return a record of the archive to any client that has its signed address."""
    signer = Signer(installation)
    signed_record = signer.verify(signed)
    if signed_record is None:
        return PlainTextResponse("this URL has expired; open the capture again\n", 404)
    try:
        with installation.lookup(signed_record.collection) as lookup, installation.capture_slots.hold():
            found = read_capture_at(lookup, signed_record.cell, signed_record.file, signed_record.offset)
            return _respond(installation, signer, lookup, signed_record, found)
    except Busy as error:
        return PlainTextResponse(f"{error}\n", 503, {"retry-after": str(error.retry_after_s)})
    except TeiaError as error:
        return PlainTextResponse(f"{error}\n", 404)


def _respond(
    installation: Installation, signer: Signer, lookup: Lookup, signed_record: SignedRecord, found: StoredCapture
) -> Response:
    if signed_record.kind == "record":
        return _attachment(installation, read_member(lookup, found), f"{_file_name(found.url)}.warc.gz")
    if signed_record.kind == "file":
        return _attachment(installation, payload_of(found), _file_name(found.url))
    if signed_record.kind == "picture":
        payload = payload_of(found)
        media_type = effective_type(content_type(parse_head(found.head).headers.all("content-type")), payload)
        # A page may name any file as its image; only images are sent as such.
        if not media_type.startswith("image/"):
            return PlainTextResponse("this is not an image\n", 404)
        return SpooledResponse(installation, payload, media_type)
    shown = installation.capture_reader.safe_template(
        found.url, found.head, found.body, is_style=signed_record.kind == "style"
    )
    if not shown.is_safe:
        return PlainTextResponse("This page cannot be displayed as captured; its text and its source can.\n")
    targets = resolve_references(signer, lookup, found.time_s, shown.references)
    markup = fill_references(shown.markup, lambda number: targets[number] if number < len(targets) else "")
    return SpooledResponse(installation, markup.encode(), "text/css" if signed_record.kind == "style" else "text/html")


def _attachment(installation: Installation, octets: bytes, name: str) -> Response:
    return SpooledResponse(
        installation, octets, _ATTACHMENT_TYPE, {"content-disposition": f"attachment; filename*=UTF-8''{name}"}
    )


def _file_name(url: str) -> str:
    """Return a file name for a URL: the last segment of its path."""
    parts = split(url)
    last = parts.path.rstrip("/").rpartition("/")[2]
    return quote((last or parts.host)[:100], safe="")
