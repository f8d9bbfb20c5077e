"""The one way in never raises, says what was cut, and its pages can travel."""

from __future__ import annotations

import gzip
import hashlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.config.sections import LimitSettings
from teia.parse.document import ParseOptions
from teia.parse.parse import parse_document
from teia.records import Page

URL = "http://a.test/dir/page"
TYPES = [
    "text/html",
    "text/plain",
    "application/pdf",
    "application/xml",
    "text/css",
    "image/png",
    "",
    "text/html; charset=utf-16",
]
SCRAPS = [
    "<html>", "<a href='", "'>", "</a>", "<base href=", "<meta charset=", "<!--", "-->", "<script>", "</script>",
    "<table>", "<td>", "<svg>", "<style>@import '", "url(", "<img srcset='a 1x,", "&#", "&amp;", "\0", "\ufeff", "é",
    "😀", "<frameset>", "<template>", "<noscript>", "<plaintext>", "<title>", "<select>", "<math>", "<![CDATA[",
    "<?xml", "<rss>", "http://b/", " ",
]  # fmt: skip


def test_a_whole_answer_is_read() -> None:
    body = gzip.compress("<title>Olá</title><a href=x>y</a>".encode())
    wire = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    codings = b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n" + codings
    result = parse_document(URL, head, wire)
    assert result.head.status == 200
    assert result.decoded.dechunked == body
    assert (result.page.title, result.page.truncated) == ("Olá", "")
    assert [link.url for link in result.page.links] == ["http://a.test/dir/x"]
    assert result.page.digest == hashlib.sha256(result.decoded.payload).hexdigest()


@pytest.mark.parametrize(
    ("headers", "body", "truncated", "error"),
    [
        (b"Content-Encoding: gzip\r\n", gzip.compress(b"<p>" + bytes(range(256)) * 200)[:-20], "coding", None),
        (b"Transfer-Encoding: chunked\r\n", b"ff\r\n<p>text", "chunk", None),
        (b"Content-Encoding: gzip\r\n", gzip.compress(bytes(10**7)), "ratio", None),
        (b"Content-Encoding: br\r\n", b"xxxx", "", "invalid compressed data"),
        (b"Content-Encoding: dcb\r\n", b"xxxx", "", "unknown content encoding 'dcb'"),
    ],
)
def test_what_is_not_whole_says_so(headers: bytes, body: bytes, truncated: str, error: str | None) -> None:
    page = parse_document(URL, b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + headers + b"\r\n", body).page
    assert page.truncated == truncated
    assert page.metadata.get("coding") == error


def test_types_nobody_reads_are_typed_and_digested() -> None:
    page = parse_document(URL, b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n", b"\0\0\0\x18ftyp").page
    assert (page.media_type, page.charset, page.text, page.text_digest) == ("video/mp4", "", "", "")
    assert len(page.digest) == 64


def test_plain_text_is_text_without_links() -> None:
    page = parse_document(
        URL, b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n", b"<a href=/x>\0 http://b.test/"
    ).page
    assert (page.text, page.links) == ("<a href=/x> http://b.test/", ())


def test_a_page_in_xml_is_a_page() -> None:
    body = b"<?xml version='1.0' encoding='iso-8859-1'?><html xmlns='x'><title>\xe1</title><a href='/x'/></html>"
    for media_type in (b"application/xhtml+xml", b"text/xml"):
        page = parse_document(URL, b"HTTP/1.1 200 OK\r\nContent-Type: " + media_type + b"\r\n\r\n", body).page
        assert (page.title, page.links[0].url) == ("á", "http://a.test/x")


def test_links_found_by_header_and_page_are_one() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nLink: </c>; rel=canonical\r\n\r\n"
    assert len(parse_document(URL, head, b"<link rel=canonical href=/c>").page.links) == 1


def test_a_page_survives_the_way_to_the_crawler() -> None:
    page = parse_document(URL, b"HTTP/1.1 200 OK\r\n\r\n", b"<html><title>t</title><a href=/x rel=nofollow>y</a>").page
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(page), type=Page) == page


def test_the_same_bytes_give_the_same_page() -> None:
    body = b"<p>x <a href=/1>1</a>" * 100
    assert parse_document(URL, b"", body).page == parse_document(URL, b"", body).page


def check(head: bytes, body: bytes, *, is_sitemap: bool) -> None:
    options = ParseOptions(LimitSettings(links_per_page=20), want_requisites=True)
    result = parse_document(URL, head, body, options, is_sitemap=is_sitemap)
    assert result.failed == ()
    assert result.page.url == URL
    assert all(link.url.startswith(("http://", "https://")) for link in result.page.links)
    msgspec.msgpack.encode(result.page)


@given(st.binary(max_size=400), st.binary(max_size=400), st.booleans())
def test_any_bytes_can_be_parsed(head: bytes, body: bytes, is_sitemap: bool) -> None:
    check(head, body, is_sitemap=is_sitemap)


@settings(max_examples=400)
@given(st.sampled_from(TYPES), st.lists(st.sampled_from(SCRAPS) | st.text(max_size=5), max_size=40))
def test_any_mixture_of_markup_can_be_parsed(media_type: str, scraps: list[str]) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\n\r\n".encode()
    check(head, "".join(scraps).encode("utf-8", "replace"), is_sitemap=False)


@given(st.data())
def test_mutated_pages_can_be_parsed(data: st.DataObject) -> None:
    page = bytearray(
        b"<!doctype html><html lang=pt><head><meta charset=utf-8><title>t</title><link rel=canonical href='/c'></head>"
        b"<body><table><tr><td><a href='/x?a=1&amp;b=2'>one</a></td></tr></table><img src=i srcset='a 1x'></body>"
    )
    for _ in range(data.draw(st.integers(1, 8))):
        page[data.draw(st.integers(0, len(page) - 1))] = data.draw(st.integers(0, 255))
    check(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", bytes(page), is_sitemap=False)
