from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from teia.errors import CorruptFile, DiskFull, StoreError
from teia.store.archive import SET_ASIDE, Position, archive_files, serial_of
from teia.store.audit import audit_archive
from teia.store.cdxj import write_index
from teia.store.reader import ArchiveReader
from tests.conftest import ROOT

from .answers import archive_of, page, writer


def urls(folder: Path, end: Position | None = None) -> list[str]:
    return [record.url for record in ArchiveReader(folder, end).records() if record.kind == "response"]


def expected(count: int) -> list[str]:
    return [f"http://a.test/{number}" for number in range(count)]


def only_file(folder: Path) -> Path:
    (path,) = archive_files(folder)
    return path


def gzip_members(data: bytes) -> int:
    """Count members with zlib alone; raises if the last one is torn."""
    count = 0
    while data:
        unzip = zlib.decompressobj(31)
        unzip.decompress(data)
        assert unzip.eof
        data, count = unzip.unused_data, count + 1
    return count


# ---- appending ------------------------------------------------------------------------------------------------------


def test_records_lie_where_append_returned(tmp_path: Path) -> None:
    members = [page(number) for number in range(5)]
    places, position = archive_of(tmp_path, members)
    data = only_file(tmp_path).read_bytes()
    assert b"".join(data[each.offset : each.offset + each.length] for each in places) == b"".join(
        m.data for m in members
    )
    assert position == Position(only_file(tmp_path).name, len(data))
    assert gzip_members(data) == 1 + 3 * 5


def test_file_is_named_after_its_cell_and_begins_with_warcinfo(tmp_path: Path) -> None:
    archive_of(tmp_path, [page(0)])
    assert only_file(tmp_path).name == "teia-main-07-20231114221320-00001.warc.gz"
    first = next(ArchiveReader(tmp_path).records())
    assert first.kind == "warcinfo"
    assert first.headers["warc-filename"] == only_file(tmp_path).name
    assert b"isPartOf: main\r\n" in first.block


def test_position_moves_only_with_a_sync(tmp_path: Path) -> None:
    with writer(tmp_path) as archive:
        before = archive.position
        archive.append(page(0))
        assert archive.position == before
        assert archive.flush_and_sync() == archive.position != before
        assert archive.flush_and_sync() == archive.position


def test_what_was_not_synced_is_gone_after_close(tmp_path: Path) -> None:
    with writer(tmp_path) as archive:
        archive.append(page(0))
        archive.flush_and_sync()
        archive.append(page(1, os.urandom(3 << 20)))  # large enough to have been written already
    assert urls(tmp_path) == expected(1)


def test_closed_writer_refuses(tmp_path: Path) -> None:
    archive = writer(tmp_path)
    archive.close()
    archive.close()
    with pytest.raises(StoreError, match="closed"):
        archive.append(page(0))


def test_files_rotate_by_size_between_groups(tmp_path: Path) -> None:
    _, position = archive_of(tmp_path, [page(number) for number in range(20)], file_bytes=4_000)
    files = archive_files(tmp_path)
    assert len(files) > 3
    assert [serial_of(path.name) for path in files] == list(range(1, len(files) + 1))
    assert all(path.stat().st_size >= 4_000 for path in files[:-1])
    assert position.file == files[-1].name
    assert urls(tmp_path) == expected(20)
    assert audit_archive(tmp_path, position).violations == 0


def test_a_group_lies_in_one_file(tmp_path: Path) -> None:
    with writer(tmp_path, file_bytes=2_000) as archive:
        places = [place for number in range(20) for place in archive.append(page(number))]
        archive.flush_and_sync()
    assert len({place.file for place in places}) == 1


# ---- opening after a crash ------------------------------------------------------------------------------------------


def test_reopened_at_its_position_the_archive_goes_on(tmp_path: Path) -> None:
    _, position = archive_of(tmp_path, [page(0), page(1)])
    with writer(tmp_path, position) as archive:
        archive.append(page(2))
        position = archive.flush_and_sync()
    assert urls(tmp_path) == expected(3)
    assert audit_archive(tmp_path, position).violations == 0


def test_cut_at_every_byte_of_the_last_two_members(tmp_path: Path) -> None:
    """A torn tail never survives, whatever part of it reached the disk, and nothing committed is touched."""
    places, _ = archive_of(tmp_path / "whole", [page(number, b"<p>") for number in range(3)])
    whole = only_file(tmp_path / "whole")
    committed = Position(whole.name, places[-2].offset)
    data = whole.read_bytes()
    folder = tmp_path / "cut"
    folder.mkdir()
    for cut in range(committed.offset, len(data) + 1):
        (folder / whole.name).write_bytes(data[:cut])
        writer(folder, committed).close()
        assert (folder / whole.name).read_bytes() == data[: committed.offset]


def test_garbage_after_the_position_is_cut(tmp_path: Path) -> None:
    _, position = archive_of(tmp_path, [page(0)])
    with only_file(tmp_path).open("ab") as file:
        file.write(b"\0" * 5_000)
    writer(tmp_path, position).close()
    assert only_file(tmp_path).stat().st_size == position.offset


def test_files_begun_after_the_position_are_removed(tmp_path: Path) -> None:
    _, position = archive_of(tmp_path, [page(number) for number in range(12)], file_bytes=3_000)
    files = archive_files(tmp_path)
    committed = Position(files[1].name, files[1].stat().st_size)
    for path in files:
        write_index(path)
    imported = tmp_path / "other.warc.gz"
    imported.write_bytes(files[0].read_bytes())
    writer(tmp_path, committed).close()
    assert archive_files(tmp_path) == [imported, files[0], files[1]]
    assert [path.name for path in sorted(tmp_path.glob("*.cdxj"))] == [files[0].name.replace(".warc.gz", ".cdxj")]
    assert position.file == files[-1].name


def test_nothing_committed_sets_files_aside_and_deletes_none(tmp_path: Path) -> None:
    """A lost frontier database must not cost the archive."""
    archive_of(tmp_path, [page(0)])
    lost = only_file(tmp_path)
    data = lost.read_bytes()
    with writer(tmp_path) as archive:
        archive.append(page(1))
        archive.flush_and_sync()
    assert (tmp_path / (lost.name + SET_ASIDE)).read_bytes() == data
    assert urls(tmp_path) == ["http://a.test/1"]
    assert serial_of(only_file(tmp_path).name) == 2


@pytest.mark.parametrize("damage", ["short", "gone"])
def test_a_file_shorter_than_committed_is_reported_and_left_alone(tmp_path: Path, damage: str) -> None:
    _, position = archive_of(tmp_path, [page(0)])
    path = only_file(tmp_path)
    left = path.read_bytes()[:-10]
    path.write_bytes(left)
    if damage == "gone":
        path.unlink()
    with pytest.raises(CorruptFile, match="were committed") as raised:
        writer(tmp_path, position)
    assert raised.value.path == path
    with writer(tmp_path, position, past_damage=True) as archive:
        archive.append(page(1))
        archive.flush_and_sync()
    assert damage == "gone" or path.read_bytes() == left
    damages: list[object] = []
    found = [record.url for record in ArchiveReader(tmp_path).records(damages.append) if record.kind == "response"]
    assert found[-1] == "http://a.test/1"
    assert len(damages) == (damage == "short")


WRITE_AND_TELL = """
import sys
from pathlib import Path
from teia.store.archive import Position
from tests.store.answers import page, writer
folder, name, offset, first = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
archive = writer(folder, Position(name, offset) if name else None, file_bytes=20_000)
number = first
while True:
    for _ in range(3):
        archive.append(page(number))
        number += 1
    position = archive.flush_and_sync()
    print(position.file, position.offset, number, flush=True)
"""


def test_killed_at_any_moment_no_committed_record_is_lost(tmp_path: Path) -> None:
    """Kill -9 twenty times; what the writer said was synced is the committed position (figure 1)."""
    seed = 20_240
    chance = random.Random(seed)
    name, offset, count = "", 0, 0
    for _ in range(20):
        command = [sys.executable, "-W", "ignore", "-c", WRITE_AND_TELL, str(tmp_path), name, str(offset), str(count)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as child:
            assert child.stdout is not None
            lines = [child.stdout.readline() for _ in range(chance.randint(1, 30))]
            child.send_signal(signal.SIGKILL)
            lines += child.stdout.readlines()
        last = [line for line in lines if line.endswith(b"\n")][-1].split()
        name, offset, count = last[0].decode(), int(last[1]), int(last[2])
    writer(tmp_path, Position(name, offset)).close()
    audit = audit_archive(tmp_path, Position(name, offset))
    assert audit.violations == 0, (seed, audit.details)
    assert urls(tmp_path) == expected(count), seed
    for path in archive_files(tmp_path):
        assert gzip_members(path.read_bytes()) > 0


# ---- a disk that refuses --------------------------------------------------------------------------------------------


def test_no_room_gives_up_the_group_and_a_later_append_works(tmp_path: Path) -> None:
    """The largest size a file may have stands in for a full disk: part of a write succeeds, then errors come."""
    with writer(tmp_path) as archive:
        archive.append(page(0))
        position = archive.flush_and_sync()
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (position.offset + 700, limits[1]))
        try:
            archive.append(page(1))
            archive.append(page(2, os.urandom(5_000)))
            with pytest.raises(DiskFull, match="no space left"):
                archive.flush_and_sync()
            assert only_file(tmp_path).stat().st_size == position.offset
            with pytest.raises(DiskFull):
                archive.append(page(3, os.urandom(2 << 20)))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert archive.position == position
        archive.append(page(1))
        archive.flush_and_sync()
    assert urls(tmp_path) == expected(2)
    assert audit_archive(tmp_path).violations == 0


def test_no_room_at_every_size_leaves_whole_records_only(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with writer(tmp_path) as archive:
        start = archive.position.offset
        for room in range(1, 2_000, 97):
            resource.setrlimit(resource.RLIMIT_FSIZE, (start + room, limits[1]))
            try:
                archive.append(page(0, os.urandom(3_000)))
                with pytest.raises(DiskFull):
                    archive.flush_and_sync()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            assert only_file(tmp_path).stat().st_size == start == archive.position.offset
    assert gzip_members(only_file(tmp_path).read_bytes()) == 1


def test_no_room_for_a_new_file_leaves_none_behind(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with writer(tmp_path, file_bytes=1_000) as archive:
        archive.append(page(0))
        position = archive.flush_and_sync()
        resource.setrlimit(resource.RLIMIT_FSIZE, (50, limits[1]))
        try:
            with pytest.raises(DiskFull):
                archive.append(page(1))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert [path.name for path in tmp_path.iterdir()] == [position.file]
        archive.append(page(1))
        assert archive.flush_and_sync().file != position.file
    assert urls(tmp_path) == expected(2)


def test_failed_sync_is_never_tried_again_on_the_same_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with writer(tmp_path) as archive:
        before = archive.position
        archive.append(page(0))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", _fail)
            with pytest.raises(StoreError, match="Input/output error"):
                archive.flush_and_sync()
        assert archive.position == before
        assert only_file(tmp_path).stat().st_size == before.offset
        archive.append(page(0))
        archive.flush_and_sync()
    assert urls(tmp_path) == expected(1)


def test_what_could_not_be_cut_is_cut_before_the_next_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with writer(tmp_path) as archive:
        archive.append(page(0, os.urandom(4_000)))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", _fail)
            patch.setattr(os, "ftruncate", _fail)
            with pytest.raises(StoreError):
                archive.flush_and_sync()
        archive.append(page(0, b"x"))
        position = archive.flush_and_sync()
        assert only_file(tmp_path).stat().st_size == position.offset


def _fail(*_arguments: object) -> None:
    raise OSError(5, os.strerror(5))
