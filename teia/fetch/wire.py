"""Outgoing requests: heads, pins, and the place each is sent to.

The head is known byte for byte, because every header is ours: libcurl adds the request line and `Host`, nothing else
(tests/fetch/test_curl.py compares with what a server saw). So the archive's request record costs no callback.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from teia.fetch.fetcher import FetchRequest, PostBody
from teia.urls import Parts, split

MAX_VALIDATOR_CHARS = 1024
"""An ETag or date longer than this is not sent back; its server gets an unconditional request."""


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """Header lines as libcurl wants them and as they look on the wire."""

    lines: tuple[bytes, ...]
    block: bytes


@lru_cache(maxsize=256)
def common_headers(user_agent: str, accept: str, keep: bool) -> RequestHeaders:
    """Return the headers of an unconditional request; nearly all requests share two or three of these."""
    lines = [f"User-Agent: {user_agent}", f"Accept: {accept}", "Accept-Encoding: gzip"]
    if not keep:
        lines.append("Connection: close")
    return _headers(tuple(line.encode("ascii") for line in lines))


def request_headers(request: FetchRequest, user_agent: str, keep: bool) -> RequestHeaders:
    common = common_headers(request.user_agent or user_agent, request.accept, keep)
    if request.post is not None:
        headers = _headers((*common.lines, *_post_lines(request.post)))
        return RequestHeaders((*headers.lines, b"Expect:"), headers.block)  # libcurl would wait before a long body
    if not request.is_conditional and not request.cache_only:
        return common
    validators = (("If-None-Match", request.etag), ("If-Modified-Since", request.last_modified))
    lines = [f"{name}: {value}".encode("latin-1") for name, value in validators if value and _may_be_sent(value)]
    if not request.cache_only:
        return _headers((*common.lines, *lines))
    # RFC 9111, 5.2.1.7: the proxy answers from its cache or with 504, and never contacts the server.
    headers = _headers((*common.lines, b"Cache-Control: only-if-cached", *lines))
    host = f"Host: {split(request.url).authority}".encode()
    return RequestHeaders((host, *headers.lines), headers.block)  # libcurl would name the proxy


def _post_lines(post: PostBody) -> tuple[bytes, ...]:
    """Return the header lines that only a POST has."""
    lines = (("Content-Type", post.media_type), ("Content-Length", str(len(post.body))), *post.headers)
    return tuple(f"{name}: {value}".encode("ascii") for name, value in lines)


def request_head(parts: Parts, headers: RequestHeaders, method: bytes = b"GET") -> bytes:
    """Return the request head as it is on the wire."""
    target, authority = parts.target.encode(), parts.authority.encode()
    return b"%b %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (method, target, authority, headers.block)


def recipient_of(request: FetchRequest) -> Parts:
    """Return the recipient of a request: the URL's own server, or the cache, for any scheme of the URL."""
    if not request.cache_only:
        return split(request.url)
    address = f"[{request.address}]" if ":" in request.address else request.address
    return Parts("http", address, request.connect_port, "/")


def _headers(lines: tuple[bytes, ...]) -> RequestHeaders:
    return RequestHeaders(lines, b"".join(line + b"\r\n" for line in lines))


def _may_be_sent(value: str) -> bool:
    """Check that a validator, which the server itself sent, has no bytes that could end the header line."""
    return len(value) <= MAX_VALIDATOR_CHARS and all(" " <= char <= "ÿ" and char != "\x7f" for char in value)


@dataclass(frozen=True, slots=True)
class Pin:
    """An entry of libcurl's name cache: `key` (host:port) is at `address`. The cache is the multi's, not the handle's.

    Always with `+`, because a name may begin with `-`, and `-a.test:80` would remove the pin of `a.test`.
    """

    key: str
    address: str

    def replacing(self, last: Pin | None) -> list[str]:
        """Return the RESOLVE list that sets this pin and removes the last one, so that pins never pile up."""
        entry = f"+{self.key}:{self.address}"
        return [entry] if last is None or last.key == self.key else [f"-{last.key}", entry]


def pin_for(parts: Parts, request: FetchRequest) -> tuple[Pin, str]:
    """Return the pin of a request, and the CONNECT_TO entry where the port is not the URL's (else empty)."""
    address = f"[{request.address}]" if ":" in request.address else request.address
    if request.connect_port == parts.port:
        return Pin(f"{parts.host}:{parts.port}", address), ""
    destination = f"{address}:{request.connect_port}"
    return Pin(destination, address), f"{parts.host}:{parts.port}:{destination}"
