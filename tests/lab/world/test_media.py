"""Pictures, documents, archives and sounds that other programs can read."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib

import pypdfium2

from teia.lab.world.media import archive, pdf, png, sound
from teia.lab.world.url_kinds import UrlKind
from tests.lab.worlds import EPOCH_S, fetch, make_world, slots_of_kind, url_of


def test_pictures_are_whole_png_files() -> None:
    for bits in (0, 1, 2**64 - 1, 0x123456789ABCDEF0):
        data = png(bits)
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        at, names, pixels = 8, [], b""
        while at < len(data):
            length, name = struct.unpack(">I4s", data[at : at + 8])
            content = data[at + 8 : at + 8 + length]
            assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(name + content)
            names.append(name)
            pixels += content if name == b"IDAT" else b""
            at += 12 + length
        assert names == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]
        assert len(zlib.decompress(pixels)) == 48 * 65


def test_documents_hold_their_text() -> None:
    texts = ["Uma frase com acentos: ção, é, ú (e parênteses \\ barra). " * 12] * 9
    document = pypdfium2.PdfDocument(pdf("Título", texts, 3))
    words = " ".join(page.get_textpage().get_text_range() for page in document).split()
    assert document.get_metadata_dict()["Title"] == "Título"
    assert len(document) == 2
    assert words == ["Título", *" ".join(texts).split()]


def test_a_world_serves_documents_with_the_title_of_their_links() -> None:
    world = make_world(pages=1_000, text__pdfs=0.1)
    found = slots_of_kind(world, UrlKind.PDF)
    assert len(found) > 50
    for space, slot in found[:20]:
        url = url_of(world, space, slot)
        answer = fetch(world, url)
        assert url.endswith(".pdf")
        assert b"application/pdf" in answer.headers
        document = pypdfium2.PdfDocument(answer.body)
        assert document.get_metadata_dict()["Title"] == space.title(slot).decode(space.lexicon.codec)


def test_pictures_of_pages_exist() -> None:
    world = make_world(pages=300, text__images=1.0)
    for space, slot in slots_of_kind(world, UrlKind.PAGE)[:30]:
        body = fetch(world, url_of(world, space, slot)).body
        path = re.search(rb'(?i)img src="?/([a-z]+/\d+\.png)', body)
        assert path is not None
        picture = fetch(world, f"{world.roots[space.host.name].decode()}{path.group(1).decode()}", EPOCH_S)
        assert picture.status == 200
        assert b"Content-Type: image/png\r\n" in picture.headers


def test_archives_and_sounds_are_what_they_say() -> None:
    assert zipfile.ZipFile(io.BytesIO(archive(b"text"))).read("readme.txt") == b"text"
    assert len(sound(3)) == 3 * 417
    assert sound(1)[:2] == b"\xff\xfb"
