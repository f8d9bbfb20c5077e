"""A removed record leaves nothing of itself, moves nothing else, and takes no space."""

from __future__ import annotations

import gzip
import io
import os
import re
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from teia.clock import VirtualClock
from teia.records import Fetched
from teia.store import erase as erase_module
from teia.store.archive import ArchiveWriter
from teia.store.audit import audit_archive
from teia.store.cdxj import write_index
from teia.store.erase import Erased, _Range, _zeros, erase, is_removed
from teia.store.reader import ArchiveReader, ArchiveRecord, walk_file
from teia.store.warc import GZIP_HEADER, conversion_member, page_members

NOW_S = 1_700_000_000.0
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
PAGES = 6


def archive(folder: Path, body_bytes: int = 300) -> Path:
    """One file with PAGES answers of three records each; bodies cannot be compressed."""
    writer = ArchiveWriter(folder, "main", 0, 1 << 30, VirtualClock(NOW_S), None)
    for number in range(PAGES):
        body = b"secret%d " % number + os.urandom(body_bytes)
        fetched = Fetched(
            f"http://a.test/{number}", "200", 200, NOW_S + number, NOW_S + number, "192.0.2.1",
            b"GET /%d HTTP/1.1\r\nHost: a.test\r\n\r\n" % number, HEAD, body,
        )  # fmt: skip
        writer.append(page_members(fetched, body, {"hopsFromSeed": "0"}))
    writer.flush_and_sync()
    writer.close()
    (path,) = folder.glob("*.warc.gz")
    return path


def records(path: Path) -> list[ArchiveRecord]:
    return list(ArchiveReader(path.parent).records())


def answers(path: Path) -> list[ArchiveRecord]:
    return [record for record in records(path) if record.kind == "response"]


def test_the_records_of_an_answer_go_and_all_others_stay_where_they_are(tmp_path: Path) -> None:
    path = archive(tmp_path)
    before, size = {record.offset: record for record in records(path)}, path.stat().st_size
    gone = [answers(path)[1], answers(path)[2], answers(path)[4]]
    done = erase(path, [record.offset for record in gone], "retention", NOW_S)
    assert (done.records, done.ranges, path.stat().st_size) == (9, 2, size)
    urls = {record.url for record in gone}
    kept = [record for record in before.values() if record.url not in urls]
    after = {record.offset: record for record in records(path)}
    assert all(after[record.offset] == record for record in kept)
    assert len(after) == len(kept) + 2
    octets = gzip.decompress(path.read_bytes())
    for number in (1, 2, 4):
        assert b"secret%d" % number not in octets
        assert b"a.test/%d" % number not in octets
    assert audit_archive(tmp_path).violations == 0
    kinds = [record.rec_type for record in ArchiveIterator(io.BytesIO(path.read_bytes()))]
    assert kinds.count("response") == PAGES - 3


def test_the_document_that_scripts_made_goes_with_its_answer(tmp_path: Path) -> None:
    writer = ArchiveWriter(tmp_path, "main", 0, 1 << 30, VirtualClock(NOW_S), None)
    fetched = Fetched("http://a.test/", "200", 200, NOW_S, NOW_S, "192.0.2.1", b"", HEAD, b"<p>shell")
    members = page_members(fetched, b"<p>shell", {"rendered": "yes"})
    shown = conversion_member("http://a.test/", NOW_S + 1, "text/html", b"<p>secret", members.record_id)
    both = replace(
        members, data=members.data + shown, lengths=(*members.lengths, len(shown)), kinds=(*members.kinds, "conversion")
    )
    writer.append(both)
    writer.flush_and_sync()
    writer.close()
    (path,) = tmp_path.glob("*.warc.gz")
    assert [record.kind for record in records(path)] == ["warcinfo", "response", "metadata", "conversion"]
    assert erase(path, [answers(path)[0].offset], "retention", NOW_S).records == 3
    assert not any(b"secret" in record.block for record in records(path))
    assert audit_archive(tmp_path).violations == 0


def test_a_long_range_becomes_several_records_that_a_reader_can_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erase_module, "MAX_RANGE_BYTES", 3_000)
    path = archive(tmp_path)
    done = erase(path, [record.offset for record in answers(path)], "retention", NOW_S)
    assert done.records == 3 * PAGES
    assert done.ranges > 1
    assert max(record.length for record in records(path)) <= 3_000
    assert audit_archive(tmp_path).violations == 0


def test_a_plain_file_is_left_as_it_is(tmp_path: Path) -> None:
    path = archive(tmp_path)
    plain = tmp_path / "other" / "x.warc"
    plain.parent.mkdir()
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    before = plain.read_bytes()
    assert erase(plain, [record.offset for record in answers(plain)], "retention", NOW_S).records == 0
    assert plain.read_bytes() == before


def test_the_index_beside_the_file_loses_the_same_lines(tmp_path: Path) -> None:
    path = archive(tmp_path)
    before = write_index(path).read_bytes().splitlines()
    erase(path, [answers(path)[3].offset], "retention", NOW_S)
    after = path.with_suffix("").with_suffix(".cdxj").read_bytes().splitlines()
    assert after == [line for line in before if b"a.test/3" not in line]
    assert audit_archive(tmp_path).violations == 0


def test_zeros_take_no_space_and_stay_holes_when_more_is_removed(tmp_path: Path) -> None:
    path = archive(tmp_path, 200_000)
    full = path.stat().st_blocks
    erase(path, [record.offset for record in answers(path)[:3]], "retention", NOW_S)
    assert path.stat().st_blocks < 0.62 * full
    erase(path, [answers(path)[0].offset], "retention", NOW_S)
    assert path.stat().st_blocks < 0.45 * full
    assert audit_archive(tmp_path).violations == 0


def test_a_second_removal_of_the_same_does_nothing(tmp_path: Path) -> None:
    path = archive(tmp_path)
    places = [record.offset for record in answers(path)[:2]]
    erase(path, places, "retention", NOW_S)
    octets, inode = path.read_bytes(), path.stat().st_ino
    assert erase(path, places, "retention", NOW_S + 1).records == 0
    assert (path.read_bytes(), path.stat().st_ino) == (octets, inode)


def test_offsets_at_which_no_record_begins_and_the_first_record_remove_nothing(tmp_path: Path) -> None:
    path = archive(tmp_path)
    within = [record.offset + 1 for record in records(path)]
    assert erase(path, [*within, 0, 10**9], "retention", NOW_S).records == 0


@pytest.mark.parametrize("length", [300, 65_535, 65_540, 65_558, 65_559, 131_098, 131_103, 131_118, 1_000_000])
def test_a_record_of_zeros_has_exactly_the_length_of_what_it_replaces(tmp_path: Path, length: int) -> None:
    pieces = _zeros(_Range(0, length), "reason\r\nX: y", NOW_S)
    octets = b"".join(bytes(piece) if isinstance(piece, int) else piece for piece in pieces)
    assert len(octets) == length
    (tmp_path / "x.warc.gz").write_bytes(octets)
    (member,) = walk_file(tmp_path / "x.warc.gz")
    assert is_removed(member.data)
    promised = re.search(rb"Content-Length: (\d+)\r\n\r\n", member.data)
    assert promised is not None
    assert int(promised[1]) == len(member.data) - promised.end() - 4
    assert b"WARC-Removed: reason X: y\r\n" in member.data


def test_a_short_foreign_record_is_removed_as_well(tmp_path: Path) -> None:
    """Imported records are stored as they came; one that could not be replaced would stop every start of the crawl."""
    path = archive(tmp_path)
    header = (
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://b.test/{0}\r\nWARC-Date: 2020-01-02T03:04:05Z\r\n"
        "WARC-Record-ID: <urn:uuid:f9472db1-8db1-4f8e-9d61-2a1d6a0fb9{0:02d}>\r\n"
        "Content-Type: application/http; msgtype=response\r\nContent-Length: {1}\r\n\r\n"
    )
    offsets = []
    with path.open("ab") as file:
        for number in range(40):
            block = b"HTTP/1.0 200 OK\r\n\r\nshort" + b"x" * number
            member = gzip.compress(header.format(number, len(block)).encode() + block + b"\r\n\r\n", mtime=0)
            offsets.append(file.tell())
            file.write(GZIP_HEADER + member[10:])
    size, before = path.stat().st_size, len(records(path))
    assert min(b - a for a, b in pairwise(offsets)) < 260, "shorter than a record of zeros that is not compressed"
    done = erase(path, offsets[::2], "retention", NOW_S)
    assert (done.records, done.ranges, path.stat().st_size) == (20, 20, size)
    assert audit_archive(path.parent).violations == 0
    assert [record.url for record in records(path) if "b.test" in record.url] == [
        f"http://b.test/{number}" for number in range(1, 40, 2)
    ]
    assert len(records(path)) == before
    assert erase(path, offsets[::2], "retention", NOW_S).records == 0


def test_a_record_that_nothing_can_stand_for_stays(tmp_path: Path) -> None:
    path = archive(tmp_path)
    at = path.stat().st_size
    tiny = (
        b"WARC/1.0\r\nWARC-Type: resource\r\nWARC-Record-ID: <urn:x:1>\r\nWARC-Date: 2020-01-02T03:04:05Z\r\n"
        b"Content-Length: 0\r\n\r\n\r\n\r\n"
    )
    with path.open("ab") as file:
        file.write(gzip.compress(tiny, mtime=0))
    assert erase(path, [at], "retention", NOW_S) == Erased()


def test_a_stop_in_the_middle_of_a_file_leaves_it_as_it_was(tmp_path: Path) -> None:
    """A removal from a file of a gigabyte would take longer than a stop may wait."""
    path = archive(tmp_path, 4 << 20)
    before, gone, calls = path.read_bytes(), [answers(path)[0].offset], count()

    class Stop(Exception): ...

    def check(at: int) -> None:
        if next(calls) == at:
            raise Stop

    for at in (5, PAGES * 3 + 10):  # while records are read, and while the file is copied
        calls = count()
        with pytest.raises(Stop):
            erase(path, gone, "retention", NOW_S, lambda at=at: check(at))
        assert path.read_bytes() == before
        assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert erase(path, gone, "retention", NOW_S).records == 3
