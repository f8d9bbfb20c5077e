from __future__ import annotations

from teia.parse.files.pdf import MAX_PAGES
from teia.parse.parse import ParseResult, parse_document
from teia.records import Link

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n"


def make_pdf(texts: list[str], uri: str = "") -> bytes:
    """A PDF with a text on each page and a link on the first; readers rebuild the missing table."""
    first = 10
    kids = b" ".join(b"%d 0 R" % (first + 2 * n) for n in range(len(texts)))
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(texts)),
        3: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        4: b"<< /Title (A small document) /Author (Somebody) /CreationDate (D:20240203040506+01'00') >>",
        5: b"<< /Type /Annot /Subtype /Link /Rect [0 0 99 99] /A << /S /URI /URI (%s) >> >>" % uri.encode(),
    }
    for number, text in enumerate(texts):
        stream = b"BT /F1 12 Tf 20 100 Td (%s) Tj ET" % text.encode()
        annotations = b"/Annots [5 0 R]" if uri and number == 0 else b""
        objects[first + 2 * number] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Resources << /Font << /F1 3 0 R >> >> "
            b"/Contents %d 0 R %s >>" % (first + 2 * number + 1, annotations)
        )
        objects[first + 2 * number + 1] = b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream)
    body = b"".join(b"%d 0 obj\n%s\nendobj\n" % pair for pair in objects.items())
    return b"%PDF-1.4\n" + body + b"trailer << /Root 1 0 R /Info 4 0 R >>\n%%EOF\n"


def parsed(body: bytes) -> ParseResult:
    return parse_document("http://a.test/x.pdf", HEAD, body)


def test_text_title_and_links_of_a_pdf_are_found() -> None:
    page = parsed(make_pdf(["The first page", "and the second"], "http://a.test/elsewhere")).page
    assert page.title == "A small document"
    assert page.author == "Somebody"
    assert page.published.startswith("2024-02-03T04:05:06")
    assert page.text.split() == ["The", "first", "page", "and", "the", "second"]
    assert page.links == (Link("http://a.test/elsewhere"),)
    assert page.metadata["pages"] == "2"
    assert page.text_digest


def test_pages_are_bounded_and_the_cut_is_reported() -> None:
    page = parsed(make_pdf(["page"] * (MAX_PAGES + 1))).page
    assert page.truncated == "pages"
    assert page.text.split() == ["page"] * MAX_PAGES


def test_a_pdf_that_cannot_be_opened_is_a_page_without_text() -> None:
    result = parsed(b"%PDF-1.7\n" + b"\xff" * 500)
    assert result.failed == ()
    assert (result.page.text, result.page.metadata) == ("", {"pdf": "unreadable"})
