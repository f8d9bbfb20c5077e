"""Single records of the archive, loaded into frames: `/raw/{signed}`.

A client with such an address may read that record, and nothing else, for ten minutes, signed in or not: a request is
authorised by the signature alone, and cookies are ignored. A capture of a foreign page is shown from such an address,
so that the requests it triggers in the browser carry none of the reader's rights. The headers (web/server/headers.py)
give every response here an origin of its own, on which no script runs.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from html import escape
from tempfile import SpooledTemporaryFile
from typing import Annotated
from urllib.parse import quote

from fastapi import Depends
from fastapi.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from teia.clock import iso_utc
from teia.config.sections import LimitSettings
from teia.crawler.lookup import Lookup
from teia.durable import disk_errors
from teia.errors import TeiaError
from teia.lib.message import Message
from teia.parse.decode import decode
from teia.parse.headers import parse_head
from teia.parse.html.replay import fill_references
from teia.parse.mime import content_type, effective_type
from teia.urls import split
from teia.views.captures import StoredCapture, nearest_capture, read_capture_at, read_member
from teia.web import limits
from teia.web.access.roles import Role
from teia.web.server.installation import Busy, Installation, installation_of
from teia.web.server.json_routes import PageRoutes
from teia.web.server.templates import link

MAX_RESOLVED = 600
"""Most images and style sheets of one page that are looked up in the archive."""

SMALL_BYTES = 64 << 10
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


def resolve_references(
    signer: Signer, lookup: Lookup, time_s: float, references: Sequence[tuple[str, str]]
) -> list[str]:
    """Return the replacement of each reference in a page.

    Links lead to our captures. Images and style sheets become signed addresses if they are archived, else empty.
    """
    replacements, looked_up = [], 0
    for url, use in references:
        if use == "link":
            to = link(f"/c/{lookup.name}/copy", url=url, time=iso_utc(time_s))
            # The address replaces a reference inside an attribute of the page.
            replacements.append(escape(to))
        elif looked_up < MAX_RESOLVED:
            looked_up += 1
            replacements.append(_resolve(signer, lookup, time_s, url, use))
        else:
            replacements.append("")
    return replacements


def _resolve(signer: Signer, lookup: Lookup, time_s: float, url: str, use: str) -> str:
    entry = lookup.find(url)
    visit = nearest_capture(lookup.visits(entry), time_s) if entry is not None else None
    # The capture of an error page is no image or style sheet.
    if entry is None or visit is None or not visit.outcome.startswith("2"):
        return ""
    return signer.sign(SignedRecord(use, lookup.name, entry.cell, visit.file, visit.offset))


def payload_of(found: StoredCapture) -> bytes:
    """Return the body of a capture without chunks and compression."""
    return decode(parse_head(found.head).headers, found.body, LimitSettings()).payload


class SpooledResponse(Response):
    """Response sent from a file as fast as the client reads; only small bodies stay in memory for a slow client.

    The file is on the disk of the archive, because the folder for temporary files may itself be in memory.
    """

    def __init__(
        self, installation: Installation, octets: bytes, media_type: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(b"", media_type=media_type, headers=dict(headers or {}))
        self.headers["content-length"] = str(len(octets))
        if not installation.capture_streams.acquire(blocking=False):
            raise Busy(Message("too many captures are being read"))
        self._streams = installation.capture_streams
        self._file = SpooledTemporaryFile(SMALL_BYTES, dir=str(installation.root.path))  # noqa: SIM115  # closed by _end
        try:
            with disk_errors(installation.root.path, "written"):
                self._file.write(octets)
                self._file.seek(0)
        except BaseException:
            self._end()
            raise

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(limits.CAPTURE_STREAM_S):
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                while piece := self._file.read(SMALL_BYTES):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            return  # the client is too slow: its connection is closed with an incomplete body
        finally:
            self._end()

    def _end(self) -> None:
        self._file.close()
        self._streams.release()


def _attachment(installation: Installation, octets: bytes, name: str) -> Response:
    return SpooledResponse(
        installation, octets, _ATTACHMENT_TYPE, {"content-disposition": f"attachment; filename*=UTF-8''{name}"}
    )


def _file_name(url: str) -> str:
    """Return a file name for a URL: the last segment of its path."""
    parts = split(url)
    last = parts.path.rstrip("/").rpartition("/")[2]
    return quote((last or parts.host)[:100], safe="")


# ---- signed addresses ------------------------------------------------------------------------------------------------

SECRET = "raw"  # noqa: S105  # the name of the key, not the key
KINDS = frozenset({"page", "picture", "style", "file", "record"})
MAX_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class SignedRecord:
    """A record of a collection's archive, and its use."""

    kind: str
    collection: str
    cell: int
    file: str
    offset: int


class Signer:
    """Signer and verifier of addresses of one site."""

    def __init__(self, installation: Installation) -> None:
        self._key = installation.accounts.signing_key(SECRET)
        self._clock = installation.clock

    def sign(self, record: SignedRecord) -> str:
        """Return the signed address of a record, valid for `limits.RAW_S`."""
        # The end of its validity is part of the signed text, so a client cannot extend it.
        until_s = int(self._clock.now_s() + limits.RAW_S)
        payload = _encode(json.dumps([until_s, *astuple(record)], separators=(",", ":")).encode())
        return f"/raw/{payload}.{self._signature(payload)}"

    def verify(self, signed: str) -> SignedRecord | None:
        """Return the record of an address; None if its signature is invalid or it has expired."""
        payload, _, signature = signed[:MAX_CHARS].partition(".")
        # The signature is checked before anything is parsed.
        if not hmac.compare_digest(self._signature(payload).encode(), signature.encode("utf-8", "replace")):
            return None
        try:
            until_s, kind, collection, cell, file, offset = json.loads(_decode(payload))
        except (ValueError, binascii.Error):
            return None
        if self._clock.now_s() > until_s or kind not in KINDS:
            return None
        return SignedRecord(kind, collection, cell, file, offset)

    def _signature(self, payload: str) -> str:
        return _encode(hmac.digest(self._key, payload.encode("utf-8", "replace"), hashlib.sha256))


def _encode(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
