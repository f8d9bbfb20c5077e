"""The entry point of parsing: any answer becomes a page, within the limits, the same whenever it is read."""

from __future__ import annotations

from dataclasses import replace

from teia.config.sections import LimitSettings
from teia.parse.document import ParseOptions
from teia.parse.parse import MAX_METADATA_CHARS, parse_document
from teia.urls import canonicalize

LIMITS = replace(LimitSettings(), decoded_bytes=1 << 20)
SEEDS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=windows-1252\r\nLink: </c>; rel=canonical\r\n\r\n<p>caf\xe9",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: //b.test/x\r\nRefresh: 0; url=/y\r\nX-Robots-Tag: teia: noindex\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/css\r\n\r\n@import 'a.css'; p{background:url(b.png)}",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, br\r\n\r\n\x1f\x8b\x08\0\0\0\0\0",
    b"HTTP/1.1 200 OK\r\nContent-Type: image/svg+xml\r\n\r\n<svg><a xlink:href=/x><title>t</title></a></svg>",
    b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe<\0h\0t\0m\0l\0>\0",
)


def fuzz_one(data: bytes) -> None:
    head, blank, body = data.partition(b"\r\n\r\n")
    for options in (ParseOptions(LIMITS), ParseOptions(LIMITS, want_requisites=True)):
        found = parse_document("http://a.test/d/page", head + blank, body, options)
        assert found.failed == (), found.failed
        page = found.page
        assert all(canonicalize(link.url) == link.url for link in page.links)
        assert len(found.decoded.payload) <= LIMITS.decoded_bytes
        assert len(page.text) <= 20 * len(found.decoded.payload)
        assert all(len(value) <= MAX_METADATA_CHARS for value in page.metadata.values())
        page.text.encode()  # a text that has no UTF-8 could not be indexed
        assert parse_document("http://a.test/d/page", head + blank, body, options).page == page
