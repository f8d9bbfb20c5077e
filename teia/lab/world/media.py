"""Files that are not web pages: pictures, PDF documents, style sheets, archives and sounds. All of them are valid."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

PICTURE_WIDTH, PICTURE_HEIGHT = 64, 48
STYLE = b"body{font:16px/1.5 serif;margin:auto;max-width:45em}\nnav li{display:inline}\naside{color:#555}\n"
_LINE_CHARS = 88
_LINES_PER_SHEET = 46


def png(bits: int) -> bytes:
    """Return a small picture in the colours that 64 bits give."""
    palette = bytes(bits >> shift & 0xFF for shift in (0, 8, 16, 24, 32, 40, 48, 56, 4, 12, 20, 28))
    wave = bits % 13 + 3
    rows = (
        b"\x00" + bytes((x * wave + y * (wave ^ 5)) // 24 & 3 for x in range(PICTURE_WIDTH))
        for y in range(PICTURE_HEIGHT)
    )
    header = struct.pack(">IIBBBBB", PICTURE_WIDTH, PICTURE_HEIGHT, 8, 3, 0, 0, 0)
    chunks = (
        (b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(b"".join(rows), 6)), (b"IEND", b""),
    )  # fmt: skip
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(name, data) for name, data in chunks)


def _png_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def pdf(title: str, texts: list[str], revision: int) -> bytes:
    """Return a document of as many sheets as the texts need. `revision` shows only in its metadata."""
    lines = [title, ""]
    for text in texts:
        lines += [*_wrapped(text), ""]
    sheets = [lines[at : at + _LINES_PER_SHEET] for at in range(0, len(lines), _LINES_PER_SHEET)]
    first = 5  # the objects before: catalog, pages, font, info
    kids = b" ".join(b"%d 0 R" % (first + 2 * number) for number in range(len(sheets)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count %d /Kids [%b] >>" % (len(sheets), kids),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< /Title (%b) /Producer (teia lab, revision %d) >>" % (_pdf_text(title), revision),
    ]
    for number, sheet in enumerate(sheets):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >>"
            b" /Contents %d 0 R >>" % (first + 2 * number + 1)
        )
        content = b"BT /F1 11 Tf 60 780 Td 15 TL\n%b\nET" % b"\n".join(b"(%b) '" % _pdf_text(line) for line in sheet)
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content))
    return _pdf_file(objects)


def _wrapped(text: str) -> list[str]:
    """Break a paragraph at blanks; much faster than `textwrap`, which also handles hyphens and tabs."""
    lines = []
    while len(text) > _LINE_CHARS:
        cut = text.rfind(" ", 1, _LINE_CHARS)
        cut = cut if cut > 0 else _LINE_CHARS
        lines.append(text[:cut])
        text = text[cut:].lstrip(" ")
    return [*lines, text]


def _pdf_text(text: str) -> bytes:
    return text.encode("cp1252", "replace").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


def _pdf_file(objects: list[bytes]) -> bytes:
    """Number the objects and add the table of their offsets."""
    file = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    starts = []
    for number, content in enumerate(objects, start=1):
        starts.append(len(file))
        file += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = len(file)
    file += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    file += b"".join(b"%010d 00000 n \n" % start for start in starts)
    file += b"trailer\n<< /Size %d /Root 1 0 R /Info 4 0 R >>\n" % (len(objects) + 1)
    file += b"startxref\n%d\n%%%%EOF\n" % table
    return bytes(file)


def archive(text: bytes) -> bytes:
    """Return a ZIP file with one text in it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(zipfile.ZipInfo("readme.txt", (2001, 1, 1, 0, 0, 0)), text)
    return buffer.getvalue()


def sound(frames: int = 20) -> bytes:
    """Return an MP3 file of silence: MPEG-1 layer III, 128 kbit/s, 44.1 kHz, 417 bytes a frame."""
    return (b"\xff\xfb\x90\x00" + bytes(413)) * frames
