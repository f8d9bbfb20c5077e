"""A collection's folder with an archive of several small files, signed as a crawl would."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from teia.store.archive import Position, archive_files
from teia.store.closed_file import describe
from teia.store.manifest import append, growth_of, name_in, read_manifest, unsigned_files

from .answers import START_S, archive_of, page

NOW_S = START_S + 1_000.0


@dataclass(frozen=True, slots=True)
class SignedArchive:
    """A collection's folder, its WARC files, and the committed position in the last of them."""

    collection: Path
    files: list[Path]
    end: Position

    def name(self, number: int) -> str:
        return name_in(self.collection, self.files[number])


def unsigned_archive(root: Path, pages: int = 12) -> SignedArchive:
    """Three or more files, of which the last is open."""
    collection = root / "main"
    archive = collection / "cells" / "07" / "archive"
    _, end = archive_of(archive, [page(number) for number in range(pages)], file_bytes=4_000)
    files = archive_files(archive)
    assert len(files) >= 3
    return SignedArchive(collection, files, end)


def sign(made: SignedArchive, end: Position | None = None, now_s: float = NOW_S) -> int:
    """Sign what a committed position allows; return the number of new entries."""
    manifest = read_manifest(made.collection)
    found = unsigned_files(made.collection, made.files[0].parent, end or made.end, manifest)
    statements = [describe(path).statement(made.collection, path) for path in found.closed]
    statements += growth_of(made.collection, found, manifest)
    append(made.collection, statements, now_s)
    return len(statements)


def signed_archive(root: Path, pages: int = 12) -> SignedArchive:
    made = unsigned_archive(root, pages)
    assert sign(made) == len(made.files)
    return made


def change_byte(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        octet = file.read(1)
        file.seek(offset)
        file.write(bytes([octet[0] ^ 1]))
