"""The processor of PDF files: title, text and the links of their annotations, by pdfium.

pdfium is a large parser of a hostile format; it is the reason to parse in killable children.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pypdfium2
import pypdfium2.raw as pdfium

from teia.clock import iso_utc
from teia.parse.dates import parse_date
from teia.parse.document import Document, Findings
from teia.parse.html.links import LinkCollector
from teia.parse.text.normal import one_line
from teia.records import LinkKind

MAX_PAGES = 500
MAX_TEXT_CHARS = 4_000_000
MAX_TITLE_CHARS = 500
MAX_URI_BYTES = 4_096


def read_pdf(document: Document) -> Findings | None:
    """Return text and links of a PDF; a file that pdfium cannot open is kept in the archive and has no text."""
    try:
        pdf = pypdfium2.PdfDocument(document.payload)
    except pypdfium2.PdfiumError:
        return Findings(metadata={"pdf": "unreadable"})
    try:
        return _read(pdf, document)
    finally:
        pdf.close()


def _read(pdf: pypdfium2.PdfDocument, document: Document) -> Findings:
    links = LinkCollector(document.url, document.options)
    texts: list[str] = []
    chars = 0
    pages = min(len(pdf), MAX_PAGES)
    for number in range(pages):
        # Checked between pages: one page is bounded by the child's own limits.
        if chars >= MAX_TEXT_CHARS:
            break
        text = _read_page(pdf, number, links)
        chars += len(text)
        texts.append(text)
    is_cut = len(texts) < len(pdf)
    info = pdf.get_metadata_dict(skip_empty=True)
    published_s = parse_date(_iso_of_pdf_date(info.get("CreationDate", "")))
    return Findings(
        title=one_line(info.get("Title", ""), MAX_TITLE_CHARS),
        text="\n\n".join(texts)[:MAX_TEXT_CHARS].strip(),
        author=one_line(info.get("Author", ""), MAX_TITLE_CHARS),
        published=iso_utc(published_s) if published_s is not None else "",
        metadata={"pages": str(len(pdf))},
        links=links.links(),
        truncated=(("pages",) if is_cut else ()) + (("links",) if links.is_full else ()),
    )


def _read_page(pdf: pypdfium2.PdfDocument, number: int, links: LinkCollector) -> str:
    """Return the text of one page and add its links; a broken page costs only itself."""
    try:
        page = pdf[number]
    except pypdfium2.PdfiumError:
        return ""
    try:
        for reference in _uris(pdf, page):
            links.add(reference, LinkKind.ANCHOR)
        text_page = page.get_textpage()
        try:
            text: str = text_page.get_text_bounded()
            # pdfium writes U+FFFE for a hyphen at the end of a line.
            return text.replace("\r\n", "\n").replace("\x00", "").replace("\ufffe", "")
        finally:
            text_page.close()
    except pypdfium2.PdfiumError:
        return ""
    finally:
        page.close()


def _uris(pdf: pypdfium2.PdfDocument, page: pypdfium2.PdfPage) -> Iterator[str]:
    position, link = ctypes.c_int(0), pdfium.FPDF_LINK()
    while pdfium.FPDFLink_Enumerate(page, position, link):
        action = pdfium.FPDFLink_GetAction(link)
        # The first call returns the length with its zero byte, the second fills the buffer.
        size = pdfium.FPDFAction_GetURIPath(pdf, action, None, 0) if action else 0
        if 1 < size <= MAX_URI_BYTES:
            buffer = ctypes.create_string_buffer(size)
            pdfium.FPDFAction_GetURIPath(pdf, action, buffer, size)
            yield buffer.value.decode("utf-8", "replace")


def _iso_of_pdf_date(text: str) -> str:
    """Return `D:20240131120000+01'00'` as ISO 8601, without its zone: authors' clocks are no more precise."""
    digits = text.removeprefix("D:")[:14]
    if len(digits) < 8 or not digits.isascii() or not digits.isdigit():
        return ""
    day = f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}"
    return f"{day}T{digits[8:10]}:{digits[10:12]}:{digits[12:14]}" if len(digits) == 14 else day
