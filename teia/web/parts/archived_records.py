"""Records of the archive on their way to a reader: who may read one, its signed address, its body."""

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

from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from teia.clock import from_iso, iso_utc
from teia.config.sections import LimitSettings
from teia.crawler.lookup import Lookup
from teia.durable import disk_errors
from teia.errors import UsageError
from teia.lib.message import Message
from teia.parse.decode import decode
from teia.parse.headers import parse_head
from teia.parse.html.directives import NOARCHIVE
from teia.views.captures import StoredCapture, nearest_capture
from teia.web import limits
from teia.web.access.roles import Role
from teia.web.server.auth import Visitor
from teia.web.server.installation import Busy, ClosedCopies, Installation
from teia.web.server.templates import link

LATEST_S = 253_370_764_800.0
"""First instant of the year 9999."""


def check_reserved(installation: Installation, visitor: Visitor, collection: str, found: StoredCapture) -> None:
    """Refuse a capture that its site does not want to be shown, unless the visitor is signed in."""
    is_reserved = NOARCHIVE in found.reserved and installation.config(collection).public.noarchive
    if is_reserved and not visitor.may(Role.VIEWER):
        raise ClosedCopies(
            Message("its site asks that no captures of this page are shown (noarchive); sign in to read it")
        )


def parse_time(time: str) -> float | None:
    """Return the instant that a reader named; None for an empty field."""
    if not time:
        return None
    try:
        moment_s = from_iso(time)
    except (ValueError, OverflowError):
        moment_s = -1.0
    if not 0 <= moment_s < LATEST_S:
        raise UsageError(Message("time: {time!r} is not a time; write it like 2026-11-04T06:12:00Z", time=time))
    return moment_s


MAX_RESOLVED = 600
"""Most images and style sheets of one page that are looked up in the archive."""

SMALL_BYTES = 64 << 10
"""Body that stays in memory while a client reads it."""


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
