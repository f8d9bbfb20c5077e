"""HTTP/1.x as bytes: parsing of requests and rendering of answers.

It is written by hand and minimal, without a framework, for two reasons: the lab may not be the bottleneck of a crawl,
and frameworks correct the wrong answers that a synthetic web must be able to give.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus

import msgspec

from teia.lab.world.exchange import ServerFault, WorldAnswer

MOST_HEAD_BYTES = 16 * 1024
MOST_BODY_BYTES = 1024 * 1024
"""Largest body of a request. Bodies are skipped, not used; a longer one is refused."""

CHUNK_BYTES = 4096
CACHED_BLOCKS = 4096

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_CLOSE = b"Connection: close\r\n"
_CONNECTION_LINES = {
    (True, False): b"",
    (True, True): b"Connection: keep-alive\r\n",
    (False, False): _CLOSE,
    (False, True): _CLOSE,
}
"""The Connection header by (connection is kept, request was HTTP/1.0), where it differs from the version's default."""

_BODYLESS = frozenset({204, 304})
_NO_FAULT = ServerFault.NONE  # looking a member up in its class is slow


class BadRequest(Exception):
    """A head that is answered with an error status; never leaves the connection, so it is not in `teia.errors`."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class RequestHead(msgspec.Struct, frozen=True, gc=False):
    """The head of a request. Header names are lower-case, `host` is lower-case and has no port."""

    method: str
    target: str
    host: str
    headers: Mapping[str, str]
    keep_alive: bool
    is_http10: bool  # HTTP/1.0
    body_bytes: int  # bytes that follow and are to be skipped


def parse_head(head: bytes) -> RequestHead:
    """Parse the request line and the headers, without the empty line that ends them; BadRequest if they are invalid."""
    line, _, rest = head.decode("latin-1").partition("\r\n")
    try:
        method, target, version = line.split(" ")
    except ValueError:
        raise BadRequest(400) from None
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise BadRequest(505 if version.startswith("HTTP/") else 400)
    parsed = _parse_headers(rest)
    is_http10 = version == "HTTP/1.0"
    host = parsed.host
    if not target.startswith("/"):
        host, target = _split_absolute(target)
    if not method or (host is None and not is_http10):
        raise BadRequest(400)
    keep_alive = parsed.wants_keep_alive if is_http10 else not parsed.wants_close
    return RequestHead(method, target, host or "", parsed.headers, keep_alive, is_http10, parsed.body_bytes)


class _ParsedHeaders(msgspec.Struct, frozen=True):
    """The parsed headers of a request."""

    headers: Mapping[str, str]
    host: str | None
    wants_close: bool
    wants_keep_alive: bool
    body_bytes: int


@lru_cache(CACHED_BLOCKS)
def _parse_headers(block: str) -> _ParsedHeaders:
    """Parse the headers. A client sends the same headers to a host every time, so results are cached."""
    headers: dict[str, str] = {}
    for line in block.split("\r\n") if block else ():
        name, colon, value = line.partition(":")
        if not colon or not name or " " in name or "\t" in name:
            raise BadRequest(400)
        name = name.lower()
        value = value.strip(" \t")
        headers[name] = value if name not in headers else f"{headers[name]}, {value}"
    host = _strip_port(headers["host"]) if "host" in headers else None
    connection = headers.get("connection", "").lower()
    return _ParsedHeaders(headers, host, "close" in connection, "keep-alive" in connection, _body_bytes(headers))


def _split_absolute(target: str) -> tuple[str, str]:
    """Return host and path of a target in absolute form, as a client sends it to a proxy."""
    scheme, _, rest = target.partition("://")
    if scheme.lower() != "http" or not rest:
        raise BadRequest(400)
    host, slash, path = rest.partition("/")
    return _strip_port(host), f"/{path}" if slash else "/"


def _strip_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


def _body_bytes(headers: dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise BadRequest(501)
    text = headers.get("content-length")
    if text is None:
        return 0
    if not (text.isascii() and text.isdecimal()):
        raise BadRequest(400)
    # The length comes first, because int() refuses numbers of more than 4,300 digits with another error.
    if len(text) > 12 or int(text) > MOST_BODY_BYTES:
        raise BadRequest(413)
    return int(text)


class DateLine:
    """The Date header, formatted once a second."""

    def __init__(self) -> None:
        self._second = -1
        self._line = b""

    def at(self, unix_s: float) -> bytes:
        second = int(unix_s)
        if second != self._second:
            self._second = second
            self._line = f"Date: {formatdate(second, usegmt=True)}\r\n".encode()
        return self._line


def render(answer: WorldAnswer, head: RequestHead, date_line: bytes) -> tuple[bytes, bytes]:
    """Return the answer to a request as bytes: the head with its empty line, and the body."""
    if answer.fault is not _NO_FAULT and answer.fault is ServerFault.GARBAGE:
        return b"", answer.body
    length_line, body = _frame_body(answer, head)
    if head.method == "HEAD":
        body = b""
    start = _STATUS_LINES.get(answer.status) or b"HTTP/1.1 %d Unknown\r\n" % answer.status
    server_line = b"" if b"Server:" in answer.headers else b"Server: teia-lab\r\n"
    connection_line = _CONNECTION_LINES[head.keep_alive, head.is_http10]
    return b"".join((start, date_line, server_line, answer.headers, length_line, connection_line, b"\r\n")), body


def _frame_body(answer: WorldAnswer, head: RequestHead) -> tuple[bytes, bytes]:
    """Return the header line that delimits the body, and the body in that form."""
    body = answer.body
    if answer.fault is not _NO_FAULT and answer.fault is ServerFault.SHORT:
        return b"Content-Length: %d\r\n" % max(1, len(body)), body[: len(body) // 2]
    if answer.status in _BODYLESS:
        return b"", b""
    if answer.chunked and not head.is_http10:
        return b"Transfer-Encoding: chunked\r\n", _chunks(body)
    return b"Content-Length: %d\r\n" % len(body), body


def _chunks(body: bytes) -> bytes:
    pieces = [body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
