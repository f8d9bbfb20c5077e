from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from teia.errors import CorruptFile, StoreError
from teia.store.archive import Position, archive_files
from teia.store.reader import ArchiveReader, Damage, answer_of
from teia.store.warc import RevisitOf, digest_of, page_members

from .answers import PAGE, START_S, archive_of, fetched, gzipped, page, writer


def responses(folder: Path, damages: list[Damage] | None = None) -> list[str]:
    report = None if damages is None else damages.append
    return [record.url for record in ArchiveReader(folder).records(report) if record.kind == "response"]


def test_a_record_is_read_from_its_place(tmp_path: Path) -> None:
    places, _ = archive_of(tmp_path, [page(number) for number in range(4)])
    reader = ArchiveReader(tmp_path)
    for number in range(4):
        place = places[3 * number + 1]
        record = reader.read(place.file, place.offset)
        assert (record.kind, record.url) == ("response", f"http://a.test/{number}")
        assert (record.offset, record.length) == (place.offset, place.length)
        assert record.time_s == pytest.approx(START_S + number, abs=1e-6)


def test_an_answer_comes_back_as_it_was_received(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Encoding: gzip\r\n\r\n"
    places, _ = archive_of(tmp_path, [page_members(fetched(head), gzipped(PAGE), {})])
    reader, place = ArchiveReader(tmp_path), places[1]
    answer = reader.answer(place.file, place.offset)
    assert (answer.status, answer.head, answer.payload, answer.is_decoded) == (200, head, PAGE, True)
    assert (answer.url, answer.media_type) == ("http://a.test/a", "text/html")
    raw = reader.answer(place.file, place.offset, decoded=False)
    assert (raw.payload, raw.is_decoded, raw.digest) == (gzipped(PAGE), False, digest_of(gzipped(PAGE)))


@pytest.mark.parametrize("body", [b"not gzip at all", gzipped(PAGE) + b"junk"], ids=["no gzip", "junk after"])
def test_a_lying_content_encoding_gives_the_raw_body(tmp_path: Path, body: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"
    places, _ = archive_of(tmp_path, [page_members(fetched(head), body, {})])
    answer = ArchiveReader(tmp_path).answer(places[1].file, places[1].offset)
    assert (answer.payload, answer.is_decoded) == (body, False)


def test_a_bomb_is_cut_at_the_limit(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"
    places, _ = archive_of(tmp_path, [page_members(fetched(head), gzipped(b"0" * 8_000_000), {})])
    reader = ArchiveReader(tmp_path, max_record_bytes=100_000)
    answer = reader.answer(places[1].file, places[1].offset)
    assert (len(answer.payload), answer.truncated) == (100_000, "length")


def test_a_revisit_names_where_its_payload_is(tmp_path: Path) -> None:
    earlier = RevisitOf("http://a.test/old", START_S - 60, digest_of(PAGE))
    places, _ = archive_of(tmp_path, [page_members(fetched(), PAGE, {}, earlier)])
    answer = ArchiveReader(tmp_path).answer(places[1].file, places[1].offset)
    assert (answer.payload, answer.status) == (b"", 200)
    assert answer.refers_to == ("http://a.test/old", START_S - 60)


def test_truncation_is_reported(tmp_path: Path) -> None:
    places, _ = archive_of(tmp_path, [page_members(replace(fetched(), truncated="disconnect"), PAGE, {})])
    assert ArchiveReader(tmp_path).answer(places[1].file, places[1].offset).truncated == "disconnect"


def test_a_request_is_no_answer(tmp_path: Path) -> None:
    places, _ = archive_of(tmp_path, [page(0)])
    reader = ArchiveReader(tmp_path)
    with pytest.raises(StoreError, match="not a response"):
        answer_of(reader.read(places[0].file, places[0].offset))


@pytest.mark.parametrize("name", ["../secret.warc.gz", "none.warc.gz", "", ".", "/etc/passwd"])
def test_only_files_of_the_folder_are_opened(tmp_path: Path, name: str) -> None:
    archive_of(tmp_path / "archive", [page(0)])
    (tmp_path / "secret.warc.gz").write_bytes(b"")
    with pytest.raises(StoreError, match="file not found in"):
        ArchiveReader(tmp_path / "archive").read(name, 0)


@pytest.mark.parametrize("offset", [1, 10_000_000])
def test_a_wrong_offset_is_an_error_that_names_file_and_offset(tmp_path: Path, offset: int) -> None:
    places, _ = archive_of(tmp_path, [page(0)])
    with pytest.raises(CorruptFile, match=rf"{places[0].file}: offset {offset}:"):
        ArchiveReader(tmp_path).read(places[0].file, offset)


def test_reading_stops_at_the_committed_position(tmp_path: Path) -> None:
    with writer(tmp_path) as archive:
        archive.append(page(0))
        committed = archive.flush_and_sync()
        archive.append(page(1))
        archive.flush_and_sync()
        found = [record.url for record in ArchiveReader(tmp_path, committed).records() if record.kind == "response"]
    assert found == ["http://a.test/0"]


def test_a_file_begun_after_the_committed_position_is_not_read(tmp_path: Path) -> None:
    with writer(tmp_path, file_bytes=500) as archive:
        archive.append(page(0))
        committed = archive.flush_and_sync()
        archive.append(page(1))
        assert archive.flush_and_sync().file != committed.file
        found = [record.url for record in ArchiveReader(tmp_path, committed).records() if record.kind == "response"]
    assert found == ["http://a.test/0"]


# ---- damage (entry 49) ----------------------------------------------------------------------------------------------


def damaged(folder: Path, offset: int, data: bytes) -> None:
    (path,) = archive_files(folder)
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.mark.parametrize("junk", [b"\xff", b"\0" * 40, b"\x1f\x8b\x08\x00" * 8], ids=["byte", "zeros", "false magic"])
def test_damage_costs_one_record_and_names_its_place(tmp_path: Path, junk: bytes) -> None:
    places, position = archive_of(tmp_path, [page(number) for number in range(6)])
    hit = places[3 * 2 + 1]
    damaged(tmp_path, hit.offset + hit.length // 2, junk)
    damages: list[Damage] = []
    assert responses(tmp_path, damages) == [f"http://a.test/{number}" for number in (0, 1, 3, 4, 5)]
    assert [(each.path.name, each.offset) for each in damages] == [(hit.file, hit.offset)]
    with pytest.raises(CorruptFile, match=f"offset {hit.offset}"):
        responses(tmp_path)
    with pytest.raises(CorruptFile, match=f"offset {hit.offset}"):
        ArchiveReader(tmp_path).read(hit.file, hit.offset)
    assert position.file == hit.file


def test_a_torn_tail_is_damage_and_no_endless_loop(tmp_path: Path) -> None:
    places, _ = archive_of(tmp_path, [page(0), page(1)])
    (path,) = archive_files(tmp_path)
    path.write_bytes(path.read_bytes()[: places[-2].offset + 20])
    damages: list[Damage] = []
    assert responses(tmp_path, damages) == ["http://a.test/0"]
    assert len(damages) == 1


def test_a_huge_record_is_passed_over_within_bounds(tmp_path: Path) -> None:
    places, _ = archive_of(tmp_path, [page(0), page(1, b"0" * 3_000_000), page(2)])
    damages: list[Damage] = []
    reader = ArchiveReader(tmp_path, max_record_bytes=1 << 20)
    found = [record.url for record in reader.records(damages.append) if record.kind == "response"]
    assert found == ["http://a.test/0", "http://a.test/2"]
    assert [each.offset for each in damages] == [places[4].offset]


def test_an_unwritten_folder_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        list(ArchiveReader(tmp_path / "none", Position("x", 0)).records())
