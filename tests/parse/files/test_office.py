"""Text, title and links of Office, OpenDocument and EPUB files, whatever the server calls them."""

from __future__ import annotations

import io
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZipFile

import pytest

from teia.config.sections import LimitSettings
from teia.parse.document import ParseOptions
from teia.parse.parse import ParseResult, parse_document
from teia.records import Link

CORE = (
    '<cp:coreProperties xmlns:dc="d"><dc:title>A small document</dc:title><dc:creator>Somebody</dc:creator>'
    "<dcterms:created>2024-02-03T04:05:06Z</dcterms:created></cp:coreProperties>"
)
RELATIONS = (
    '<Relationships><Relationship Id="r1" Target="http://a.test/elsewhere" TargetMode="External"/>'
    '<Relationship Id="r2" Target="styles.xml"/></Relationships>'
)
WORD = {
    "[Content_Types].xml": "<Types/>",
    "docProps/core.xml": CORE,
    "word/_rels/document.xml.rels": RELATIONS,
    "word/document.xml": '<?xml version="1.0"?><w:document><w:body><w:p><w:r><w:t>First</w:t></w:r><w:r>'
    '<w:t xml:space="preserve"> </w:t></w:r><w:r><w:t>words &amp; more</w:t></w:r></w:p>'
    "<w:p><w:r><w:instrText>HYPERLINK</w:instrText><w:t>Second</w:t><w:tab/><w:t>part</w:t></w:r></w:p></w:body></w:document>",
}
SHEET = {
    "docProps/core.xml": CORE,
    "xl/workbook.xml": '<workbook><sheets><sheet name="Prices" sheetId="1"/></sheets></workbook>',
    "xl/sharedStrings.xml": "<sst><si><t>apple</t></si><si><r><t>red </t></r><r><t>pear</t></r></si></sst>",
    "xl/worksheets/sheet1.xml": '<worksheet><row><c t="s"><v>1</v></c><c><v>12.5</v></c></row><row>'
    '<c t="s"><v>0</v></c><c t="inlineStr"><is><t>fresh</t></is></c><c t="s"><v>99</v></c></row></worksheet>',
    "xl/worksheets/_rels/sheet1.xml.rels": RELATIONS,
}
SLIDES = {
    "docProps/core.xml": CORE,
    "ppt/presentation.xml": "<p:presentation/>",
    "ppt/slides/slide10.xml": "<p:sld><a:p><a:r><a:t>last slide</a:t></a:r></a:p></p:sld>",
    "ppt/slides/slide2.xml": "<p:sld><a:p><a:r><a:t>second slide</a:t></a:r></a:p></p:sld>",
    "ppt/slides/_rels/slide2.xml.rels": RELATIONS,
}
OPEN = {
    "mimetype": "application/vnd.oasis.opendocument.text",
    "meta.xml": "<office:meta><dc:title>A small document</dc:title>"
    "<meta:initial-creator>Somebody</meta:initial-creator><meta:creation-date>2024-02-03T04:05:06</meta:creation-date></office:meta>",
    "content.xml": '<office:text><text:h>Heading</text:h><text:p>one<text:s/>two<text:a xlink:href="http://a.test/elsewhere">'
    "there</text:a></text:p></office:text>",
}
BOOK = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": '<container><rootfile full-path="OEBPS/book.opf"/></container>',
    "OEBPS/book.opf": "<package><metadata><dc:title>A small document</dc:title><dc:creator>Somebody</dc:creator>"
    '<dc:language>pt</dc:language></metadata><manifest><item id="b" href="two.xhtml"/>'
    '<item id="a" href="part%201.xhtml"/>'
    '</manifest><spine><itemref idref="a"/><itemref idref="b"/></spine></package>',
    "OEBPS/part 1.xhtml": "<!DOCTYPE html><html><head><style>p {}</style></head><body><p>Era uma vez"
    ' <a href="http://a.test/elsewhere">um rei</a></p></body></html>',
    "OEBPS/two.xhtml": "<html><body><h1>Fim</h1><script>alert(1)</script></body></html>",
}
OOXML = "application/vnd.openxmlformats-officedocument."


def packed(parts: dict[str, str]) -> bytes:
    file = io.BytesIO()
    with ZipFile(file, "w", ZIP_DEFLATED) as package:
        for name, text in parts.items():
            package.writestr(name, text)
    return file.getvalue()


def parsed(body: bytes, media_type: str, options: ParseOptions | None = None) -> ParseResult:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\n\r\n".encode()
    return parse_document("http://a.test/x", head, body, options or ParseOptions())


@pytest.mark.parametrize(
    ("parts", "media_type", "text"),
    [
        (WORD, f"{OOXML}wordprocessingml.document", "First words & more\nSecond\tpart"),
        (SHEET, f"{OOXML}spreadsheetml.sheet", "Prices\nred pear\t12.5\napple\tfresh"),
        (SLIDES, f"{OOXML}presentationml.presentation", "second slide\nlast slide"),
        (OPEN, "application/vnd.oasis.opendocument.text", "Heading\none twothere"),
        (BOOK, "application/epub+zip", "Era uma vez um rei\nFim"),
        (WORD, "application/octet-stream", "First words & more\nSecond\tpart"),
        (BOOK, "application/zip", "Era uma vez um rei\nFim"),
    ],
)
def test_text_title_and_links_are_found(parts: dict[str, str], media_type: str, text: str) -> None:
    result = parsed(packed(parts), media_type)
    page = result.page
    assert result.failed == ()
    assert page.text == text
    assert (page.title, page.author) == ("A small document", "Somebody")
    assert page.links == (Link("http://a.test/elsewhere"),)
    assert parts is BOOK or page.published.startswith("2024-02-03T04:05:06")
    assert page.language == "pt" or parts is not BOOK


@pytest.mark.parametrize("body", [packed({"readme.txt": "x"}), b"PK\x03\x04" + b"\xff" * 300])
def test_other_zip_files_have_no_text(body: bytes) -> None:
    result = parsed(body, "application/zip")
    assert (result.failed, result.page.text) == ((), "")


def test_a_broken_document_is_a_page_without_text() -> None:
    result = parsed(packed(WORD)[:300], f"{OOXML}wordprocessingml.document")
    assert (result.failed, result.page.text, result.page.metadata) == ((), "", {"document": "unreadable"})


def test_a_file_that_expands_beyond_the_limit_is_cut() -> None:
    bomb = WORD | {"word/document.xml": "<w:document><w:p><w:t>" + "word " * 400_000 + "</w:t></w:p></w:document>"}
    body = packed(bomb)
    assert len(body) < 20_000
    page = parsed(
        body, f"{OOXML}wordprocessingml.document", ParseOptions(limits=LimitSettings(decoded_bytes=100_000))
    ).page
    assert len(page.text) <= 100_000
    assert "text" in page.truncated


def test_entities_of_a_document_are_never_defined() -> None:
    evil = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><w:document><w:p>'
    evil += "<w:t>before &b; after</w:t></w:p></w:document>"
    page = parsed(packed(WORD | {"word/document.xml": evil}), f"{OOXML}wordprocessingml.document").page
    assert page.text == "before &b; after"


def test_a_part_in_a_compression_that_no_office_program_uses_is_not_expanded() -> None:
    file = io.BytesIO(packed({"word/document.xml": WORD["word/document.xml"]}))
    with ZipFile(file, "a") as package:
        # Readable, so its title would show that it was expanded; `zipfile` cannot limit the size of such a part.
        package.writestr("docProps/core.xml", CORE, ZIP_BZIP2)
    page = parsed(file.getvalue(), OOXML + "wordprocessingml.document").page
    assert (page.title, page.text) == ("", "First words & more\nSecond\tpart")


@pytest.mark.parametrize("number", ["²", "9" * 5_000, "-1", "1.5", ""])
def test_a_cell_with_an_odd_number_of_a_text_is_empty(number: str) -> None:
    rows = f'<worksheet><row><c t="s"><v>{number}</v></c><c><v>12.5</v></c></row></worksheet>'
    found = parsed(packed(SHEET | {"xl/worksheets/sheet1.xml": rows}), OOXML + "spreadsheetml.sheet")
    assert (found.page.text, found.failed) == ("Prices\n12.5", ())


def test_a_part_with_thousands_of_digits_in_its_name_does_not_cost_the_text() -> None:
    parts = SLIDES | {f"ppt/slides/slide{'1' * 5_000}.xml": "<p:sld/>"}
    found = parsed(packed(parts), OOXML + "presentationml.presentation")
    assert (found.page.text, found.failed) == ("second slide\nlast slide", ())


def test_one_text_in_many_cells_of_a_row_is_cut_at_the_limit() -> None:
    rows = "<worksheet><row>" + '<c t="s"><v>0</v></c>' * 5_000 + "</row></worksheet>"
    long = "<sst><si><t>" + "ab " * 400_000 + "</t></si></sst>"
    parts = SHEET | {"xl/sharedStrings.xml": long, "xl/worksheets/sheet1.xml": rows}
    found = parsed(packed(parts), OOXML + "spreadsheetml.sheet")
    assert found.failed == ()
    assert found.page.truncated == "text"
    assert found.page.text.startswith("Prices\nab ab")
