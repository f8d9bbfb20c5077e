from __future__ import annotations

import json
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]  # it ships no types

from teia.store.archive import archive_files, index_path
from teia.store.cdxj import index_lines, merge_indexes, sorted_lines, unindexed_files, write_index
from teia.store.warc import RevisitOf, digest_of, page_members

from .answers import PAGE, START_S, archive_of, fetched, page


def test_a_line_has_the_fields_pywb_reads(tmp_path: Path) -> None:
    head = b"HTTP/1.1 404 Not Found\r\nContent-Type: Text/HTML; charset=utf-8\r\n\r\n"
    places, _ = archive_of(tmp_path, [page_members(fetched(head, "http://www.a.test/A?b=2&a=1"), PAGE, {})])
    (line,) = index_lines(archive_files(tmp_path)[0])
    key, time, fields = line.decode().split(" ", 2)
    assert (key, time) == ("test,a)/a?a=1&b=2", "20231114221320")
    assert json.loads(fields) == {
        "url": "http://www.a.test/A?b=2&a=1",
        "mime": "text/html",
        "status": "404",
        "digest": digest_of(PAGE),
        "length": str(places[1].length),
        "offset": str(places[1].offset),
        "filename": places[1].file,
    }


def test_a_revisit_is_marked_as_one(tmp_path: Path) -> None:
    earlier = RevisitOf("http://a.test/a", START_S - 1, digest_of(PAGE))
    archive_of(tmp_path, [page_members(fetched(), PAGE, {}, earlier)])
    (line,) = index_lines(archive_files(tmp_path)[0])
    fields = json.loads(line.split(b" ", 2)[2])
    assert (fields["mime"], fields["status"], fields["digest"]) == ("warc/revisit", "-", digest_of(PAGE))


def test_an_answer_without_a_type_is_listed(tmp_path: Path) -> None:
    archive_of(tmp_path, [page_members(fetched(b"HTTP/1.0 200 OK\r\n\r\n"), PAGE, {})])
    (line,) = index_lines(archive_files(tmp_path)[0])
    assert b'"mime": "unk"' in line


def test_offsets_are_those_an_independent_reader_finds(tmp_path: Path) -> None:
    archive_of(tmp_path, [page(number) for number in range(20)])
    (path,) = archive_files(tmp_path)
    listed = {json.loads(line.split(b" ", 2)[2])["offset"] for line in index_lines(path)}
    with path.open("rb") as stream:
        records = ArchiveIterator(stream)
        found = {str(records.get_record_offset()) for record in records if record.rec_type == "response"}
    assert listed == found


@pytest.mark.parametrize("run_lines", [1, 3, 7, 1_000])
def test_lines_are_sorted_however_small_the_memory(tmp_path: Path, run_lines: int) -> None:
    lines = [b"%d\n" % (number * 7_919 % 101) for number in range(50)]
    assert list(sorted_lines(iter(lines), run_lines)) == sorted(lines)


def test_closed_files_without_an_index_are_found(tmp_path: Path) -> None:
    _, position = archive_of(tmp_path, [page(number) for number in range(12)], file_bytes=4_000)
    *closed, opened = archive_files(tmp_path)
    assert unindexed_files(tmp_path, position.file) == closed
    for path in closed:
        assert write_index(path) == index_path(path)
    assert unindexed_files(tmp_path, position.file) == []
    assert opened.name == position.file


def test_a_file_that_was_begun_after_the_open_one_is_not_closed(tmp_path: Path) -> None:
    """A file of others is, whatever its name."""
    archive_of(tmp_path, [page(number) for number in range(12)], file_bytes=4_000)
    first, second, *_ = archive_files(tmp_path)
    foreign = tmp_path / "zz.warc.gz"
    foreign.write_bytes(first.read_bytes())
    assert unindexed_files(tmp_path, second.name) == [foreign, first]


def test_merged_indexes_are_one_sorted_index(tmp_path: Path) -> None:
    archive_of(tmp_path, [page(number) for number in range(30)], file_bytes=4_000)
    indexes = [write_index(path) for path in archive_files(tmp_path)]
    lines = list(merge_indexes([*indexes, indexes[0]]))
    assert lines == sorted(lines)
    assert len(lines) == 30
