"""The processor of documents that are ZIP files of XML: Office Open XML, OpenDocument and EPUB.

    docx  word/document.xml, with notes          odt odp  content.xml
    xlsx  xl/worksheets, xl/sharedStrings.xml    ods      content.xml
    pptx  ppt/slides, in their order             epub     the pages of the spine, in their order

The kind is that of the contents: servers often send such a file as octets or as a plain ZIP file. Only text, title,
author, date and outward links are read, by the reader of sitemaps (xml_events.py), which resolves no entities and
survives broken XML. A file that expands beyond the limits is cut there, and the cut is reported.
"""

from __future__ import annotations

import posixpath
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from urllib.parse import unquote
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from teia.clock import iso_utc
from teia.parse.dates import parse_date
from teia.parse.document import Document, Findings
from teia.parse.files.xml_events import DoctypeRefused, Event, XmlEnd, XmlStart, XmlText, events
from teia.parse.html.links import LinkCollector
from teia.parse.text import encoding
from teia.parse.text.normal import one_line
from teia.records import LinkKind

MAX_PARTS = 2_000
MAX_TEXT_CHARS = 4_000_000
MAX_TITLE_CHARS = 500
DOCTYPE_CHARS = 4_096

_DOCTYPE = re.compile(r"<!DOCTYPE[^>\[]*+(?:\[.*?\])?[^>]*+>", re.IGNORECASE | re.DOTALL)
_NUMBER = re.compile(r"\d{1,9}")
_METHODS = frozenset({ZIP_STORED, ZIP_DEFLATED})
"""Compressions of these formats. `zipfile` reads others too, without a limit: a kilobyte may become gigabytes."""

_OPEN_BLOCKS = frozenset({"p", "h", "table-row", "list-item"})
_PAGE_BLOCKS = frozenset({"p", "div", "li", "tr", "br", "h1", "h2", "h3", "h4", "h5", "h6", "section", "title"})
_UNSHOWN = frozenset({"script", "style"})


@dataclass(slots=True)
class _Contents:
    """The parts of a file, within the limits; and what is found in them."""

    parts: ZipFile
    links: LinkCollector
    max_bytes: int
    texts: list[str] = field(default_factory=list)
    chars: int = 0
    is_cut: bool = False
    title: str = ""
    author: str = ""
    created: str = ""
    language: str = ""

    def names(self, pattern: str) -> list[str]:
        """Return the parts whose names match, by the numbers in them."""
        found = [name for name in self.parts.namelist()[:MAX_PARTS] if re.fullmatch(pattern, name)]
        return sorted(found, key=lambda name: [int(number) for number in _NUMBER.findall(name)])

    def xml(self, name: str) -> Iterator[Event]:
        """Read a part as XML; one that is missing or broken is empty."""
        try:
            info = self.parts.getinfo(name)
            if info.compress_type not in _METHODS:
                return
            with self.parts.open(info) as part:
                octets = part.read(self.max_bytes + 1)
        except (KeyError, BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error):
            return
        self.is_cut |= len(octets) > self.max_bytes
        self.max_bytes = max(0, self.max_bytes - len(octets))
        text = encoding.to_text(octets, encoding.determine_encoding(octets, "", is_html=False))
        # Pages of books declare one, which the reader of XML refuses; it stands at the beginning.
        with suppress(DoctypeRefused):  # a second one, or one that does not end: the part ends there
            yield from events(_DOCTYPE.sub("", text[:DOCTYPE_CHARS], count=1) + text[DOCTYPE_CHARS:])

    def add(self, text: str) -> bool:
        """Add a paragraph; return whether there is room for more."""
        if text.strip():
            self.texts.append(text.strip())
            self.chars += len(text)
        self.is_cut |= self.chars > MAX_TEXT_CHARS
        return self.chars <= MAX_TEXT_CHARS


def read_office(document: Document) -> Findings | None:
    """Return the text of an Office, OpenDocument or EPUB file; None for any other ZIP file."""
    try:
        parts = ZipFile(BytesIO(document.payload))
    except (BadZipFile, ValueError, NotImplementedError, OSError):
        return Findings(metadata={"document": "unreadable"}) if document.media_type != "application/zip" else None
    names = frozenset(parts.namelist()[:MAX_PARTS])
    read = next((read for name, read in _READERS.items() if name in names), None)
    if read is None:
        return None
    limits = document.options.limits
    contents = _Contents(parts, LinkCollector(document.url, document.options), limits.decoded_bytes)
    read(contents)
    created_s = parse_date(contents.created)
    return Findings(
        title=one_line(contents.title, MAX_TITLE_CHARS),
        text="\n".join(contents.texts)[:MAX_TEXT_CHARS],
        author=one_line(contents.author, MAX_TITLE_CHARS),
        published=iso_utc(created_s) if created_s is not None else "",
        language=contents.language,
        links=contents.links.links(),
        truncated=(("text",) if contents.is_cut else ()) + (("links",) if contents.links.is_full else ()),
    )


# ---- Office Open XML ------------------------------------------------------------------------------------------------


def _read_word(contents: _Contents) -> None:
    _read_properties(contents, "docProps/core.xml")
    for name in ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml"):
        _read_runs(contents, name)
    _read_relations(contents, "word/_rels/document.xml.rels")


def _read_slides(contents: _Contents) -> None:
    _read_properties(contents, "docProps/core.xml")
    for name in contents.names(r"ppt/slides/slide\d+\.xml") + contents.names(r"ppt/notesSlides/notesSlide\d+\.xml"):
        _read_runs(contents, name)
    for name in contents.names(r"ppt/slides/_rels/slide\d+\.xml\.rels"):
        _read_relations(contents, name)


def _read_runs(contents: _Contents, name: str) -> None:
    """Read the paragraphs of a text or a slide: `p`, with their characters in `t`."""
    line: list[str] = []
    is_text = is_blank = False
    for event in contents.xml(name):
        if isinstance(event, XmlText):
            if is_text:
                line.append(event.text)
                is_blank = False
        elif isinstance(event, XmlStart):
            is_text = is_blank = event.name == "t"
            line += {"tab": ["\t"], "br": ["\n"]}.get(event.name, [])
        elif event.name == "t":
            # A run of blanks alone, which the reader of XML leaves out.
            line += [" "] if is_blank else []
            is_text = is_blank = False
        elif event.name == "p":
            if not contents.add("".join(line)):
                return
            line.clear()


def _read_sheets(contents: _Contents) -> None:
    """Read the cells of every sheet, row by row; texts are in a table that all sheets share."""
    _read_properties(contents, "docProps/core.xml")
    shared = list(_shared_strings(contents))
    for event in contents.xml("xl/workbook.xml"):
        if isinstance(event, XmlStart) and event.name == "sheet":
            contents.add(event.attribute("name"))
    for name in contents.names(r"xl/worksheets/sheet\d+\.xml"):
        for row in _rows(contents, name, shared):
            if not contents.add("\t".join(row)):
                return
    for name in contents.names(r"xl/worksheets/_rels/sheet\d+\.xml\.rels"):
        _read_relations(contents, name)


def _shared_strings(contents: _Contents) -> Iterator[str]:
    parts: list[str] = []
    for event in contents.xml("xl/sharedStrings.xml"):
        if isinstance(event, XmlText):
            parts.append(event.text)
        elif isinstance(event, XmlEnd) and event.name == "si":
            yield "".join(parts)
            parts.clear()


def _rows(contents: _Contents, name: str, shared: list[str]) -> Iterator[list[str]]:
    cells: list[str] = []
    chars = 0
    kind = inside = ""
    for event in contents.xml(name):
        if isinstance(event, XmlText):
            # Many cells may show one long text; what is beyond the limit is cut anyway.
            if chars > MAX_TEXT_CHARS or inside not in {"v", "t"}:
                continue
            cells.append(_shared_text(event.text, shared) if inside == "v" and kind == "s" else event.text)
            chars += len(cells[-1])
        elif isinstance(event, XmlStart):
            kind = event.attribute("t") if event.name == "c" else kind
            inside = event.name
        else:
            inside = ""
            if event.name == "row":
                yield cells
                cells, chars = [], 0


def _shared_text(number: str, shared: list[str]) -> str:
    found = _NUMBER.fullmatch(number.strip())
    return shared[int(found[0])] if found and int(found[0]) < len(shared) else ""


def _read_relations(contents: _Contents, name: str) -> None:
    for event in contents.xml(name):
        if isinstance(event, XmlStart) and event.attribute("targetmode").lower() == "external":
            contents.links.add(event.attribute("target"), LinkKind.ANCHOR)


def _read_properties(contents: _Contents, name: str) -> None:
    """Read title, author, date and language: Dublin Core in all of these formats."""
    fields = {"title": "title", "creator": "author", "initial-creator": "author", "language": "language"}
    fields |= {"created": "created", "creation-date": "created"}
    inside = ""
    for event in contents.xml(name):
        if isinstance(event, XmlText):
            if inside and not getattr(contents, inside):
                setattr(contents, inside, event.text.strip())
        else:
            inside = fields.get(event.name, "") if isinstance(event, XmlStart) else ""


# ---- OpenDocument ---------------------------------------------------------------------------------------------------


def _read_open_document(contents: _Contents) -> None:
    _read_properties(contents, "meta.xml")
    line: list[str] = []
    for event in contents.xml("content.xml"):
        if isinstance(event, XmlText):
            line.append(event.text)
        elif isinstance(event, XmlStart):
            line += {"s": [" "], "tab": ["\t"], "line-break": ["\n"], "table-cell": ["\t"]}.get(event.name, [])
            if event.name == "a" and event.attribute("xlink:href"):
                contents.links.add(event.attribute("xlink:href"), LinkKind.ANCHOR)
        elif event.name in _OPEN_BLOCKS:
            if not contents.add("".join(line)):
                return
            line.clear()
    contents.add("".join(line))


# ---- EPUB -----------------------------------------------------------------------------------------------------------


def _read_book(contents: _Contents) -> None:
    package = next(
        (
            event.attribute("full-path")
            for event in contents.xml("META-INF/container.xml")
            if isinstance(event, XmlStart) and event.name == "rootfile"
        ),
        "",
    )
    _read_properties(contents, package)
    items: dict[str, str] = {}
    for event in contents.xml(package):
        if isinstance(event, XmlStart) and event.name == "item":
            items[event.attribute("id")] = unquote(event.attribute("href"))
        elif isinstance(event, XmlStart) and event.name == "itemref":
            name = posixpath.normpath(
                posixpath.join(posixpath.dirname(package), items.get(event.attribute("idref"), ""))
            )
            if not _read_page(contents, name):
                return


def _read_page(contents: _Contents, name: str) -> bool:
    """Read one page of a book; return whether there is room for more."""
    line: list[str] = []
    unshown = ""
    for event in contents.xml(name):
        if isinstance(event, XmlText):
            line += [] if unshown else [event.text]
            continue
        if isinstance(event, XmlStart):
            unshown = unshown or (event.name if event.name in _UNSHOWN else "")
            if event.name == "a" and event.attribute("href").startswith(("http:", "https:")):
                contents.links.add(event.attribute("href"), LinkKind.ANCHOR)
        elif event.name == unshown:
            unshown = ""
        if event.name in _PAGE_BLOCKS:
            if not contents.add(" ".join("".join(line).split())):
                return False
            line.clear()
    return contents.add(" ".join("".join(line).split()))


_READERS: dict[str, Callable[[_Contents], None]] = {
    "word/document.xml": _read_word,
    "xl/workbook.xml": _read_sheets,
    "ppt/presentation.xml": _read_slides,
    "META-INF/container.xml": _read_book,
    "content.xml": _read_open_document,
}
"""The part by which each kind is recognised; an EPUB file has no other of these."""
