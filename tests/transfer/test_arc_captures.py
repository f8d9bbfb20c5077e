"""ARC files of other people are read as captures, however they are compressed."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from teia.clock import iso_utc
from teia.store.audit import matches
from teia.store.reader import MAX_RECORD_BYTES, Damage
from teia.transfer.arc_captures import arc_records, is_arc
from teia.transfer.warc_captures import check_readable, read_captures

FILEDESC = b"filedesc://x.arc 0.0.0.0 20040101000000 text/plain 9\n1 1 Test\n\n"
ANSWER = b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<title>old</title>"


def record(url: str, block: bytes, date: str = "20040102030405", more: str = "", length: int | None = None) -> bytes:
    head = f"{url} 192.0.2.7 {date} text/html{more} {len(block) if length is None else length}\n"
    return head.encode() + block + b"\n"


def read(path: Path) -> tuple[list[str], list[Damage]]:
    damages: list[Damage] = []
    return [capture.url for capture in read_captures(path, damages.append)], damages


@pytest.mark.parametrize("name", ["example.arc", "example.arc.gz"])
def test_files_of_other_people_are_read(conformance: Path, name: str) -> None:
    path, damages = conformance / "warc" / "warcio" / name, list[Damage]()
    check_readable(path)
    assert is_arc(path)
    (found,) = [record for _, record, _ in arc_records(path, damages.append)]
    assert damages == []
    assert (found.kind, found.url, found.headers["warc-ip-address"]) == (
        "response",
        "http://example.com/",
        "93.184.216.119",
    )
    assert iso_utc(found.time_s) == "2014-02-16T05:02:21.000000Z"
    assert b"<title>Example Domain</title>" in found.block


def test_the_record_made_of_it_is_a_warc_record_for_other_readers(tmp_path: Path) -> None:
    (tmp_path / "x.arc").write_bytes(FILEDESC + record("http://a.test/x y", ANSWER))
    ((_, made, header),) = arc_records(tmp_path / "x.arc", pytest.fail)
    found = next(iter(ArchiveIterator(io.BytesIO(header + made.block + b"\r\n\r\n"), check_digests="raise")))
    assert found.rec_headers.get_header("WARC-Target-URI") == "http://a.test/x%20y"
    assert found.rec_headers.get_header("WARC-Date") == "2004-01-02T03:04:05.000000Z"
    assert found.content_stream().read() == b"<title>old</title>"
    assert matches(made.headers["warc-block-digest"], made.block)


@pytest.mark.parametrize("packing", ["plain", "a member for each record", "one member"])
def test_compression_does_not_matter(tmp_path: Path, packing: str) -> None:
    pieces = [FILEDESC, record("http://a.test/1", ANSWER), record("http://a.test/2", ANSWER, more=" 200 - - 0 x.arc")]
    path = tmp_path / ("x.arc" if packing == "plain" else "x.arc.gz")
    if packing == "plain":
        path.write_bytes(b"".join(pieces))
    elif packing == "one member":
        path.write_bytes(gzip.compress(b"".join(pieces)))
    else:
        path.write_bytes(b"".join(map(gzip.compress, pieces)))
    assert read(path) == (["http://a.test/1", "http://a.test/2"], [])


@pytest.mark.parametrize(
    ("data", "urls", "why"),
    [
        (record("http://a.test/1", ANSWER) + b"no record\n", 1, "not an ARC record"),
        (record("http://a.test/1", ANSWER) + record("http://a.test/2", b"x", length=90), 1, "ends within a record"),
        (record("http://a.test/1", ANSWER, "20049902030405") + record("http://a.test/2", ANSWER), 1, "not a time"),
        (record("http://a.test/1", b"", length=MAX_RECORD_BYTES + 1), 0, "more than"),
    ],
)
def test_damage_is_reported_and_what_can_be_read_is(tmp_path: Path, data: bytes, urls: int, why: str) -> None:
    (tmp_path / "x.arc").write_bytes(FILEDESC + data)
    found, damages = read(tmp_path / "x.arc")
    assert len(found) == urls
    assert why in damages[0].why


def test_a_torn_compressed_file_ends_with_damage(tmp_path: Path) -> None:
    whole = b"".join(
        map(gzip.compress, (FILEDESC, record("http://a.test/1", ANSWER), record("http://a.test/2", ANSWER)))
    )
    (tmp_path / "x.arc.gz").write_bytes(whole[:-20])
    found, damages = read(tmp_path / "x.arc.gz")
    assert found == ["http://a.test/1"]
    assert damages


def test_a_warc_file_that_is_one_gzip_member_is_read(conformance: Path) -> None:
    urls, damages = read(conformance / "warc" / "warcio" / "example-bad-non-chunked.warc.gz")
    assert urls == ["http://example.com/", "http://example.com/"]
    assert damages == []


@pytest.mark.parametrize("version", ["0.17", "0.18", "1.0"])
def test_old_versions_of_warc_are_read(tmp_path: Path, version: str) -> None:
    head = f"WARC/{version}\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.test/\r\n"
    head += "WARC-Date: 2008-04-30T20:48:25Z\r\n"
    head += f"WARC-Record-ID: <urn:uuid:1>\r\nContent-Type: application/http\r\nContent-Length: {len(ANSWER)}\r\n\r\n"
    (tmp_path / "x.warc.gz").write_bytes(gzip.compress(head.encode() + ANSWER + b"\r\n\r\n"))
    assert read(tmp_path / "x.warc.gz") == (["http://a.test/"], [])
