"""An answer as WARC 1.1 records, each a gzip member of its own.

Pure functions: they run in the parse children, and the same answer gives the same bytes, record ids included. Headers
are written by hand and compressed by isal, a third of the cost of a library (docs/decisions/0008-archive.md).

Records of a page in the archive, in this order:

    request     the request as sent, with the values of credentials blotted out
    response    the final head and the body without its chunks, still compressed as it came; or
    revisit     the head alone, when the body is one we have (identical digest, or 304)
    metadata    our data about it, one `name: value` a line
    conversion  the document that the page's scripts made of it, if it was rendered

The head is stored so that every reader finds the payload: interim (1xx) answers dropped, bare LF made CR LF, `http/`
made `HTTP/`, folded lines joined, lines without a colon dropped, `Transfer-Encoding` renamed. Content-Length stays as
received, even when the body was cut: readers use the record's own length, and WARC-Truncated says why. No input can end
a header line: controls in URLs are percent-encoded, elsewhere they become blanks (RFC 9110, 5.5).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote

from isal import igzip_lib

from teia.clock import iso_utc
from teia.records import Fetched

COMPRESSION_LEVEL = 1
GZIP_HEADER = bytes.fromhex("1f8b08000000000000ff")
"""First bytes of our gzip members: no name, no time. The CRC does not cover these bytes, so the audit compares them."""

IDENTICAL = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
TRUNCATED = frozenset({"length", "time", "disconnect"})
"""The reasons the standard knows; any other is written `unspecified`."""

_RESPONSE = "application/http; msgtype=response"
_REQUEST = "application/http; msgtype=request"
_FIELDS = "application/warc-fields"
_NO_PAYLOAD = "sha256:" + hashlib.sha256().hexdigest()

Fields: TypeAlias = Mapping[str, str | tuple[str, ...]]
"""Contents of a record of `name: value` lines; a tuple is a name that stands on several lines."""


@dataclass(frozen=True, slots=True)
class RevisitOf:
    """An earlier response whose payload this answer may repeat. `time_s` is that record's WARC-Date."""

    url: str
    time_s: float
    payload_digest: str
    record_id: str = ""


@dataclass(frozen=True, slots=True)
class Members:
    """Records ready to be appended: `data` is the gzip members one after the other, `lengths` and `kinds` name them.

    `record_id` and `payload_digest` belong to the response or revisit; they are empty when there was no answer.
    """

    data: bytes
    lengths: tuple[int, ...]
    kinds: tuple[str, ...]
    record_id: str = ""
    payload_digest: str = ""


@dataclass(frozen=True, slots=True)
class StoredHead:
    """A final head as it is stored, and how many interim answers came before it."""

    block: bytes
    interim: int


# ---- valid header text ----------------------------------------------------------------------------------------------

_CONTROLS = re.compile("[\x00-\x1f\x7f]+")
_CONTROL_OCTETS = bytes((*range(0x20), 0x7F))
_LINE_END = "\r\n"
_NOT_IN_URL = re.compile(r"[^!-~]")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_URL_SAFE = "".join(map(chr, range(0x21, 0x7F)))


def header_value(text: str) -> str:
    """Return a text that is safe as the value of a header: no control characters, no blanks around it."""
    return _CONTROLS.sub(" ", text).strip()


def header_url(url: str) -> str:
    """Return a URL with everything but visible ASCII percent-encoded. Canonical URLs come back unchanged."""
    if _NOT_IN_URL.search(url) is None:
        return url
    return quote(url, safe=_URL_SAFE, errors="surrogatepass")


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


# ---- heads ----------------------------------------------------------------------------------------------------------

_STATUS_LINE = re.compile(rb"http/(\d[\d.]*)[ \t]+(\d{3})(?![0-9])(.*)", re.IGNORECASE | re.DOTALL)
_BAD_OCTETS = bytes.maketrans(b"\r\0", b"  ")
_CREDENTIALS = frozenset({b"authorization", b"proxy-authorization", b"cookie"})


_PLAIN_HEAD = re.compile(
    rb"HTTP/\d[\d.]*+ [2-9]\d\d(?: [^\r\n\0]*[^\r\n\0 \t\v\f])?\r\n"
    rb"(?:(?!\s*(?i:transfer-encoding)\s*:)[^\s\0:][^\r\n\0:]*+:(?:[^\r\n\0]*[^\r\n\0 \t\v\f])?\r\n)*+\r\n"
)
_PLAIN_REQUEST = re.compile(rb"(?:(?!\s*(?i:authorization|proxy-authorization|cookie)\s*[:\r])[^\r\n\0]++\r\n)++\r\n")
"""Heads that are stored as they are, as most are; seeing that costs a third of taking one apart."""


def final_head(raw: bytes) -> StoredHead | None:
    """Return the last head of an answer in the form it is stored in; None if there is none that reads as HTTP."""
    return StoredHead(raw, 0) if _PLAIN_HEAD.fullmatch(raw) else _repaired_head(raw)


def _repaired_head(raw: bytes) -> StoredHead | None:
    interim = 0
    for block in raw.replace(b"\r\n", b"\n").lstrip(b"\n").split(b"\n\n"):
        lines = block.strip(b"\n").split(b"\n")
        status = _STATUS_LINE.match(lines[0])
        if status is None:
            return None
        if status[2].startswith(b"1"):
            interim += 1
            continue
        first = b"HTTP/%b %b%b" % (status[1], status[2], status[3].translate(_BAD_OCTETS).rstrip())
        return StoredHead(b"\r\n".join([first, *_header_lines(lines[1:]), b"", b""]), interim)
    return None


def _header_lines(lines: list[bytes]) -> list[bytes]:
    clean: list[bytes] = []
    for line in lines:
        line = line.translate(_BAD_OCTETS).rstrip()
        if line[:1] in {b" ", b"\t"} and clean:
            # A folded line (obsolete, RFC 9112, 5.2): some readers would take it for a header of its own.
            clean[-1] += b" " + line.lstrip()
        elif b":" in line:
            # The body is stored without chunks; a reader that saw `chunked` would try to undo them again.
            clean.append(b"X-Crawler-" + line if _name(line) == b"transfer-encoding" else line)
    return clean


def _name(line: bytes) -> bytes:
    return line.partition(b":")[0].strip().lower()


def _request_head(raw: bytes) -> bytes:
    """Return a request's head with one form of line ends and without the secrets in it."""
    return raw if _PLAIN_REQUEST.fullmatch(raw) else _repaired_request(raw)


def _repaired_request(raw: bytes) -> bytes:
    lines = raw.translate(None, b"\r\0").strip(b"\n").split(b"\n")
    shown = [line.partition(b":")[0] + b": (not archived)" if _name(line) in _CREDENTIALS else line for line in lines]
    return b"\r\n".join([*shown, b"", b""])


# ---- records --------------------------------------------------------------------------------------------------------


def _record_id(kind: str, url: str, date: str, block_digest: str) -> str:
    """Return a UUID made from what the record is (version 8, RFC 9562), so that equal runs give equal files."""
    seed = f"{kind}\n{url}\n{date}\n{block_digest}".encode()
    h = hashlib.sha256(seed).hexdigest()
    return f"<urn:uuid:{h[:8]}-{h[8:12]}-8{h[13:16]}-{'89ab'[int(h[16], 16) & 3]}{h[17:20]}-{h[20:32]}>"


def _member(
    kind: str, url: str, date: str, media_type: str, block: bytes, extra: str, body: bytes = b""
) -> tuple[str, bytes]:
    """Return the id and the gzip member of one record, whose block may come in two parts, lest a large one be copied.

    `url` and `extra`, whole header lines, are safe already.
    """
    digest = hashlib.sha256(block)
    digest.update(body)
    block_digest = f"sha256:{digest.hexdigest()}"
    record_id, header = record_header(kind, url, date, media_type, extra, block_digest, len(block) + len(body))
    record = b"".join((header.encode("utf-8", "replace"), block, body, b"\r\n\r\n"))
    return record_id, igzip_lib.compress(record, COMPRESSION_LEVEL, igzip_lib.COMP_GZIP)


def record_header(
    kind: str, url: str, date: str, media_type: str, extra: str, block_digest: str, length: int
) -> tuple[str, str]:
    """Return the id and the header of a record, with its blank line; `url` and `extra` are safe already."""
    record_id = _record_id(kind, url, date, block_digest)
    target = f"WARC-Target-URI: {url}\r\n" if url else ""
    return record_id, (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {record_id}\r\nWARC-Date: {date}\r\n{target}{extra}"
        f"WARC-Block-Digest: {block_digest}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n"
    )


def warc_fields(fields: Fields) -> bytes:
    """Return `name: value` lines; names that are no token are left out."""
    lines: list[bytes] = []
    for name, value in fields.items():
        if not _TOKEN.fullmatch(name):
            continue
        if isinstance(value, str):
            lines.append(f"{name}: {header_value(value)}\r\n".encode("utf-8", "replace"))
        elif value:
            lines.append(_field_lines(name, value))
    return b"".join(lines)


def _field_lines(name: str, values: tuple[str, ...]) -> bytes:
    lines = f"{name}: {f'{_LINE_END}{name}: '.join(values)}{_LINE_END}".encode("utf-8", "replace")
    # A page's links are a hundred values without controls; one look at all of them is cheaper than a hundred.
    controls = len(lines) - len(lines.translate(None, _CONTROL_OCTETS))
    if controls == len(_LINE_END) * len(values):
        return lines
    return _field_lines(name, tuple(map(header_value, values)))


def warcinfo_member(file_name: str, time_s: float, fields: Fields) -> bytes:
    """Return the record a WARC file begins with."""
    extra = f"WARC-Filename: {header_value(file_name)}\r\n"
    return _member("warcinfo", "", iso_utc(time_s), _FIELDS, warc_fields(fields), extra)[1]


def metadata_member(url: str, time_s: float, block: bytes, answer_id: str) -> bytes:
    """Return a record of `name: value` lines about an answer that is in the archive already or came from elsewhere."""
    concurrent = f"WARC-Concurrent-To: {header_value(answer_id)}\r\n" if answer_id else ""
    return _member("metadata", header_url(url), iso_utc(time_s), _FIELDS, block, concurrent)[1]


def conversion_member(url: str, time_s: float, media_type: str, document: bytes, answer_id: str) -> bytes:
    """Return a record of another form of an answer's content: the document that a page's scripts made."""
    refers_to = f"WARC-Refers-To: {header_value(answer_id)}\r\n" if answer_id else ""
    extra = f"{refers_to}WARC-Payload-Digest: {digest_of(document)}\r\n"
    return _member("conversion", header_url(url), iso_utc(time_s), media_type, document, extra)[1]


def page_members(
    fetched: Fetched, dechunked: bytes, metadata: Fields, revisit_of: RevisitOf | None = None, digest: str = ""
) -> Members:
    """Return the records of one answer.

    `dechunked` is the body without its chunks, as received otherwise. A revisit is written only if it is true: the
    answer is a 304, or its payload has the digest of `revisit_of`. Without a readable head there is no answer to store,
    and only request and metadata are written. The metadata record is left out when there is nothing to say. `digest` is
    that of `dechunked` (`digest_of`) where the caller knows it already.
    """
    url, date = header_url(fetched.url), iso_utc(fetched.started_s)
    head = final_head(fetched.head)
    parts: list[tuple[str, bytes]] = []
    answer_id, payload_digest, concurrent = "", "", ""
    if head is not None:
        # The answer is made first, for its id stands in the request record, which comes before it in the file.
        kind, answer_id, payload_digest, answer = _answer(fetched, url, date, head, dechunked, revisit_of, digest)
        concurrent = f"WARC-Concurrent-To: {answer_id}\r\n"
    if fetched.request_head:
        parts.append(
            ("request", _member("request", url, date, _REQUEST, _request_head(fetched.request_head), concurrent)[1])
        )
    if head is not None:
        parts.append((kind, answer))
    fields = dict(metadata)
    if head is not None and head.interim:
        fields["interim-answers"] = str(head.interim)
    if fields:
        parts.append(("metadata", _member("metadata", url, date, _FIELDS, warc_fields(fields), concurrent)[1]))
    return Members(
        b"".join(member for _, member in parts),
        tuple(len(member) for _, member in parts),
        tuple(kind for kind, _ in parts),
        answer_id,
        payload_digest,
    )


def _answer(
    fetched: Fetched, url: str, date: str, head: StoredHead, body: bytes, revisit_of: RevisitOf | None, digest: str
) -> tuple[str, str, str, bytes]:
    """Return kind, id, payload digest and member of the response or revisit."""
    address = f"WARC-IP-Address: {header_value(fetched.address)}\r\n" if fetched.address else ""
    if revisit_of is not None and fetched.status == 304:
        return _revisit(NOT_MODIFIED, url, date, head, revisit_of, address)
    payload_digest = (digest or digest_of(body)) if body else _NO_PAYLOAD
    # A truncated body with the same digest is no proof of the same page: the rest is unknown.
    if revisit_of is not None and body and payload_digest == revisit_of.payload_digest and not fetched.truncated:
        return _revisit(IDENTICAL, url, date, head, revisit_of, address)
    extra = f"{address}WARC-Payload-Digest: {payload_digest}\r\n"
    if fetched.truncated:
        why = fetched.truncated if fetched.truncated in TRUNCATED else "unspecified"
        extra += f"WARC-Truncated: {why}\r\n"
    record_id, member = _member("response", url, date, _RESPONSE, head.block, extra, body)
    return "response", record_id, payload_digest, member


def _revisit(
    profile: str, url: str, date: str, head: StoredHead, revisit_of: RevisitOf, address: str
) -> tuple[str, str, str, bytes]:
    refers_to = f"WARC-Refers-To: {header_value(revisit_of.record_id)}\r\n" if revisit_of.record_id else ""
    extra = (
        f"{address}WARC-Profile: {profile}\r\n{refers_to}"
        f"WARC-Refers-To-Target-URI: {header_url(revisit_of.url)}\r\n"
        f"WARC-Refers-To-Date: {iso_utc(revisit_of.time_s)}\r\n"
        f"WARC-Payload-Digest: {header_value(revisit_of.payload_digest)}\r\n"
    )
    record_id, member = _member("revisit", url, date, _RESPONSE, head.block, extra)
    return "revisit", record_id, revisit_of.payload_digest, member
