"""Office, OpenDocument and EPUB files: any parts of any content are read without an error, within the limits."""

from __future__ import annotations

from io import BytesIO
from zipfile import ZipFile

from teia.parse.document import Document, ParseOptions
from teia.parse.files.office import MAX_TEXT_CHARS, read_office
from teia.parse.headers import parse_head
from teia.urls import canonicalize
from tests.fuzz.pieces import Pieces

HEAD = parse_head(b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.oasis.opendocument.text\r\n\r\n")
NAMES = (
    "word/document.xml", "word/_rels/document.xml.rels", "docProps/core.xml", "ppt/presentation.xml",
    "ppt/slides/slide1.xml", "xl/workbook.xml", "xl/sharedStrings.xml", "xl/worksheets/sheet1.xml", "content.xml",
    "meta.xml", "META-INF/container.xml", "OEBPS/content.opf", "OEBPS/a.xhtml", "[Content_Types].xml",
    "xl/worksheets/sheet99999999999999999999.xml", "mimetype",
)  # fmt: skip
SEEDS = (
    b"\x01\x00<w:document><w:p><w:r><w:t>one</w:t></w:r></w:p></w:document>\xff\x02<cp:coreProperties><dc:title>t"
    b"</dc:title><dcterms:created>2024-01-02</dcterms:created></cp:coreProperties>\xff\x01<Relationships><Relationship "
    b'Target="http://a.test/" TargetMode="External" Id="r"/></Relationships>',
    b"\x01\x05<workbook/>\xff\x06<sst><si><t>a</t></si></sst>\xff\x07<worksheet><row><c t='s'><v>0</v></c>"
    b"<c t='inlineStr'><is><t>x</t></is></c></row></worksheet>\xff\x0e<row><c t='s'><v>-1</v></c></row>",
    b"\x01\x08<office:document-content><text:h>x</text:h><text:p>a<text:s text:c='5'/>"
    b"<text:a xlink:href='/y'>b</text:a></text:p></office:document-content>\xff\x09<meta><dc:title>t</dc:title></meta>",
    b"\x01\x0a<container><rootfile full-path='OEBPS/content.opf'/></container>\xff\x0b<package><manifest><item id='a' "
    b"href='a.xhtml'/></manifest><spine><itemref idref='a'/></spine></package>\xff\x0c<!DOCTYPE x><p>one<script>x",
    b"\x00PK\x03\x04",
)


def fuzz_one(data: bytes) -> None:
    pieces = Pieces(data)
    is_packed = pieces.number() & 1
    content = _packed(pieces) if is_packed else pieces.rest()
    found = read_office(Document("http://a.test/x", HEAD, content, ParseOptions()))
    if found is not None:
        assert len(found.text) <= MAX_TEXT_CHARS
        assert all(canonicalize(link.url) == link.url for link in found.links)


def _packed(pieces: Pieces) -> bytes:
    made = BytesIO()
    with ZipFile(made, "w") as parts:
        written: set[str] = set()
        while pieces.left:
            name, content = pieces.choice(NAMES), pieces.field()
            if name not in written:
                written.add(name)
                parts.writestr(name, content)
    return made.getvalue()
