from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pytest
from isal import igzip_lib

from teia.store.archive import Position, archive_files, index_path
from teia.store.audit import MAX_DETAILS, audit_archive
from teia.store.cdxj import write_index

from .answers import archive_of, page


def small(folder: Path) -> Path:
    archive_of(folder, [page(number, b"<p>%d" % number) for number in range(3)])
    (path,) = archive_files(folder)
    return path


def test_a_good_archive_has_no_violations(tmp_path: Path) -> None:
    _, position = archive_of(tmp_path, [page(number) for number in range(30)], file_bytes=9_000)
    for path in archive_files(tmp_path)[:-1]:
        write_index(path)
    audit = audit_archive(tmp_path, position)
    assert (audit.violations, audit.details) == (0, ())
    assert audit.checked == 30 * 3 + len(archive_files(tmp_path))


@pytest.mark.heavy
def test_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    """All bits of a byte: the last few of a deflate stream are padding, and mean nothing to any reader."""
    path = small(tmp_path)
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        audit = audit_archive(tmp_path)
        assert audit.violations > 0, place
        assert path.name in audit.details[0]


def test_a_flipped_byte_is_named_by_file_and_offset(tmp_path: Path) -> None:
    places, _ = archive_of(tmp_path, [page(number) for number in range(3)])
    (path,) = archive_files(tmp_path)
    data = bytearray(path.read_bytes())
    data[places[4].offset + 60] ^= 4
    path.write_bytes(data)
    audit = audit_archive(tmp_path)
    assert audit.violations == 1
    assert audit.details[0].startswith(f"{path.name} offset {places[4].offset}: ")


def test_one_gzip_for_the_whole_file_is_refused(tmp_path: Path) -> None:
    path = small(tmp_path)
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), mtime=0))
    audit = audit_archive(tmp_path)
    assert any("more than one record in a gzip member" in detail for detail in audit.details)


def rewritten(path: Path, old: bytes, new: bytes) -> None:
    """Change the text of the records, each compressed again: gzip alone would find nothing wrong."""
    data, members = path.read_bytes(), []
    while data:
        unzip = zlib.decompressobj(31)
        members.append(igzip_lib.compress(unzip.decompress(data).replace(old, new), 1, igzip_lib.COMP_GZIP))
        data = unzip.unused_data
    path.write_bytes(b"".join(members))


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (b"<p>1", b"<p>2", "block digest"),
        (b"WARC-Payload-Digest: sha256:", b"WARC-Payload-Digest: sha256:0", "payload digest"),
        (b"Content-Length: 4", b"Content-Length: 9", "shorter than its declared length"),
        (b"WARC-Filename: teia", b"WARC-Filename: other", "warcinfo"),
        (b"WARC-Target-URI", b"WARC-Nothing-URI", "without WARC-Target-URI"),
    ],
)
def test_wrong_contents_are_noticed(tmp_path: Path, old: bytes, new: bytes, complaint: str) -> None:
    path = small(tmp_path)
    rewritten(path, old, new)
    assert any(complaint in detail for detail in audit_archive(tmp_path).details)


def test_a_missing_tail_is_noticed_against_the_committed_position(tmp_path: Path) -> None:
    places, position = archive_of(tmp_path, [page(0), page(1)])
    (path,) = archive_files(tmp_path)
    path.write_bytes(path.read_bytes()[: places[-1].offset])
    assert audit_archive(tmp_path).violations == 0
    audit = audit_archive(tmp_path, position)
    assert "were committed" in audit.details[0]


def test_a_missing_file_is_noticed_against_the_committed_position(tmp_path: Path) -> None:
    _, position = archive_of(tmp_path, [page(0)])
    (tmp_path / position.file).unlink()
    assert audit_archive(tmp_path, position).details == (
        f"{position.file}: {position.offset} bytes were committed, but the file is missing",
    )


def test_an_index_that_does_not_agree_is_noticed(tmp_path: Path) -> None:
    path = small(tmp_path)
    index = write_index(path)
    lines = index.read_bytes().splitlines(keepends=True)
    for wrong in (lines[:-1], [*lines, lines[-1]], lines[::-1], [lines[0].replace(b'"200"', b'"404"'), *lines[1:]]):
        index.write_bytes(b"".join(wrong))
        audit = audit_archive(tmp_path)
        assert audit.violations == 1
        assert index_path(path).name in audit.details[0]


def test_details_are_bounded(tmp_path: Path) -> None:
    archive_of(tmp_path, [page(number, b"x") for number in range(MAX_DETAILS + 20)])
    (path,) = archive_files(tmp_path)
    rewritten(path, b"\r\n\r\nx", b"\r\n\r\ny")
    audit = audit_archive(tmp_path, Position(path.name, path.stat().st_size))
    assert audit.violations >= MAX_DETAILS + 20
    assert len(audit.details) == MAX_DETAILS
