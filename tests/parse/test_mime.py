"""What an answer is, when headers and bytes disagree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.parse.mime import content_type, effective_type, parse_media_type, xml_root

HTML_PAGE = b"\n <!DOCTYPE html><html><body>hello"


def effective(claim: str, data: bytes) -> str:
    return effective_type(content_type([claim] if claim else []), data)


@pytest.mark.parametrize(
    ("claim", "data", "expected"),
    [
        ("text/html", HTML_PAGE, "text/html"),
        ("", HTML_PAGE, "text/html"),
        ("nonsense", b"<?xml version='1.0'?><a/>", "text/xml"),
        ("", b"just text", "text/plain"),
        ("", b"\x00\x01\x02", "application/octet-stream"),
        ("", b"%PDF-1.7 ...", "application/pdf"),
        ("", b"%!PS-Adobe-3.0", "application/postscript"),
        ("application/octet-stream", b"%PDF-1.4\n", "application/pdf"),
        ("text/html", b"\n\n%PDF-1.4\n\x00\x01", "application/pdf"),
        ("text/html", b"PK\x03\x04\x00\x00", "application/zip"),
        ("text/html", b"CD001" + bytes(2_000), "application/octet-stream"),
        ("text/html", b"\0 stray <ul><li><a href=/x>y</a>", "text/html"),
        ("text/plain", b"\x89PNG\r\n\x1a\n", "image/png"),
        ("image/png", b"GIF89a", "image/gif"),
        ("image/png", HTML_PAGE, "text/html"),
        ("application/pdf", b"<html><h1>404</h1>", "text/html"),
        ("text/plain", HTML_PAGE, "text/plain"),
        ("image/svg+xml", b"<svg xmlns='x'>", "image/svg+xml"),
        ("application/vnd.oasis.opendocument.text", b"PK\x03\x04", "application/vnd.oasis.opendocument.text"),
        ("text/html; charset=utf-16", "<p>é".encode("utf-16-le"), "text/html"),
        ("text/html", "\ufeff<p>".encode("utf-16-le"), "text/html"),
        ("text/html", b"<html>\x00zeros in a page", "text/html"),
        ("text/html", b"", "text/html"),
        ("text/html", b"<?xml version='1.0'?>\n<rss version='2.0'>", "application/rss+xml"),
        ("text/html", b"<feed xmlns='http://www.w3.org/2005/Atom'>", "application/atom+xml"),
        ("text/html", b"<?xml version='1.0'?><urlset>", "text/xml"),
        ("text/html", b"<?xml version='1.0'?><html xmlns='x'>", "text/html"),
    ],
)
def test_type_that_counts(claim: str, data: bytes, expected: str) -> None:
    assert effective(claim, data) == expected


def test_only_the_first_kibibyte_is_looked_at() -> None:
    assert effective("text/html", b"x" * 1_024 + b"\x00" * 10) == "text/html"


def test_the_last_valid_of_several_headers_counts_and_keeps_an_earlier_charset() -> None:
    together = content_type(["text/html; charset=big5", "broken", "text/html, */*"])
    assert together is not None
    assert (together.essence, together.charset) == ("text/html", "big5")
    assert content_type(["text/html;charset=a", "text/plain"]) == parse_media_type("text/plain")


def test_an_empty_charset_is_not_replaced_by_an_earlier_one() -> None:
    assert content_type(["text/html;charset=a", 'text/html;charset=""']) == parse_media_type('text/html;charset=""')


@pytest.mark.parametrize(
    ("data", "root"),
    [
        (b"<?xml version='1.0'?><!-- <rss> --><sm:urlset xmlns:sm='x'>", "urlset"),
        ("\ufeff<?xml?><RSS>".encode("utf-16-le"), "rss"),
        (b"no tags", ""),
        (b"<!-- never closed <rss>", ""),
    ],
)
def test_root_element_is_found(data: bytes, root: str) -> None:
    assert xml_root(data) == root


@given(st.text(max_size=100), st.binary(max_size=100))
def test_any_claim_and_any_bytes_have_a_type(claim: str, data: bytes) -> None:
    assert isinstance(effective(claim, data), str)
