"""PDF files: any bytes are read by pdfium without a crash of this process, within the limits."""

from __future__ import annotations

from teia.parse.document import Document, ParseOptions
from teia.parse.files.pdf import MAX_TEXT_CHARS, read_pdf
from teia.parse.headers import parse_head
from teia.urls import canonicalize
from tests.parse.files.test_pdf import make_pdf

HEAD = parse_head(b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n")
SEEDS = (make_pdf(["one"], "http://a.test/x"), make_pdf(["one", "two"]), b"%PDF-1.7\n%%EOF")


def fuzz_one(data: bytes) -> None:
    found = read_pdf(Document("http://a.test/x.pdf", HEAD, data, ParseOptions()))
    assert found is not None
    assert len(found.text) <= MAX_TEXT_CHARS
    assert all(canonicalize(link.url) == link.url for link in found.links)
