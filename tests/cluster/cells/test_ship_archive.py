"""Archive files that travel: in stretches, to whoever keeps the cell now."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.cluster.cells.open_cells import is_downloaded, is_elsewhere
from teia.cluster.cells.ship_archive import ArchiveTransfers
from teia.cluster.nats.objects import FileObjects
from teia.cluster.nats.thread import LoopThread
from teia.crawler.open_cell import Cell, committed_position, note_position
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.queue.order import breadth
from teia.store.archive import Position, archive_path, serial_of
from teia.store.root import CellFolder

FILE = "teia-main-07-20261116000000-{:05d}.warc.gz"


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    with LoopThread() as made:
        yield made


def folder_of(path: Path) -> CellFolder:
    folder = CellFolder(7, path)
    folder.archive.mkdir(parents=True, exist_ok=True)
    return folder


def commit(folder: CellFolder, serial: int, data: bytes, uncommitted: bytes = b"") -> None:
    """Append to an archive file and commit where it ends; what follows has no commit yet."""
    path = folder.archive / FILE.format(serial)
    with path.open("ab") as file:
        file.write(data)
        end = file.tell()
        file.write(uncommitted)
    frontier = FrontierCell(folder.frontier)
    with frontier.transaction():
        note_position(frontier, Position(path.name, end))
    frontier.close()


def test_erased_records_leave_the_stored_stretches_too(thread: LoopThread, tmp_path: Path) -> None:
    objects, do = FileObjects(str(tmp_path / "store"), "main"), thread.wait_for
    giver, taker = folder_of(tmp_path / "a"), folder_of(tmp_path / "b")
    transfers = ArchiveTransfers(objects)
    commit(giver, 1, b"bad" * 1_000)
    do(transfers.upload(giver))
    commit(giver, 1, b"good" * 1_000)
    do(transfers.upload(giver))
    assert do(transfers.replace_changed(giver)) == 0
    do(ArchiveTransfers(objects).download(taker))
    path = taker.archive / FILE.format(1)
    octets = bytes(3_000) + b"good" * 1_000
    # As an erasure does it, which keeps the file read-only.
    path.chmod(0o644)
    path.write_bytes(octets)
    path.chmod(0o444)
    others = ArchiveTransfers(objects)
    assert (do(others.replace_changed(taker)), do(others.replace_changed(taker))) == (1, 0)
    assert not [each for each in (tmp_path / "store").rglob("*") if each.is_file() and b"bad" in each.read_bytes()]
    third = folder_of(tmp_path / "c")
    assert do(ArchiveTransfers(objects).download(third)) == 1
    assert (third.archive / FILE.format(1)).read_bytes() == octets


def test_what_is_committed_of_an_archive_is_where_the_cell_goes(thread: LoopThread, tmp_path: Path) -> None:
    objects, do = FileObjects(str(tmp_path / "store"), "main"), thread.wait_for
    giver, taker = folder_of(tmp_path / "a"), folder_of(tmp_path / "b")
    first, more, second = (os.urandom(size) for size in (5_000, 3_000, 700))
    transfers = ArchiveTransfers(objects)
    commit(giver, 1, first)
    assert do(transfers.upload(giver)) == 5_000
    commit(giver, 1, more)
    commit(giver, 2, second, uncommitted=b"no commit came")
    assert do(ArchiveTransfers(objects).upload(giver)) == 3_700  # another process goes on where this one was
    assert do(transfers.upload(giver)) == 3_700  # and of two that ship the same, the file is the same
    assert do(ArchiveTransfers(objects).download(taker)) == 2
    downloaded = [(taker.archive / FILE.format(serial)) for serial in (1, 2)]
    assert [path.read_bytes() for path in downloaded] == [first + more, second]
    assert all(is_downloaded(path) for path in downloaded)
    assert do(ArchiveTransfers(objects).download(taker)) == 0
    assert do(ArchiveTransfers(objects).download(giver)) == 0
    assert (giver.archive / FILE.format(2)).read_bytes() == second + b"no commit came"


def test_nobody_appends_to_a_file_that_was_brought(thread: LoopThread, tmp_path: Path) -> None:
    """The node that wrote it may come back with more in it; ours comes after it, whatever is in our folder."""
    folder = folder_of(tmp_path / "b")
    commit(folder, 4, b"from another node")
    path = folder.archive / FILE.format(4)
    path.chmod(0o444)
    for _ in range(2):
        cell = Cell(folder, "main", breadth, 1 << 20, WallClock(), is_elsewhere=is_elsewhere)
        position = committed_position(cell.frontier)
        cell.close()
        assert position is not None
        assert serial_of(position.file) == 5
    assert path.read_bytes() == b"from another node"


def test_files_of_a_cell_are_numbered_on_from_another_nodes_last(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "b")
    commit(folder, 9, b"from another node")
    (folder.archive / FILE.format(9)).unlink()
    cell = Cell(folder, "main", breadth, 1 << 20, WallClock(), is_elsewhere=is_elsewhere)
    assert serial_of(cell.archive.position.file) == 10
    cell.close()


def test_a_cell_that_was_split_off_has_the_bodies_that_were_fetched_before(thread: LoopThread, tmp_path: Path) -> None:
    """They lie in files of the other cell, where whoever reads them looks; files that it does not name stay."""
    objects, do, body = FileObjects(str(tmp_path / "store"), "main"), thread.wait_for, os.urandom(5_000)
    giver, taker = folder_of(tmp_path / "a" / "07"), folder_of(tmp_path / "b" / "07")
    commit(giver, 1, body)
    commit(giver, 2, b"of pages that stayed")
    do(ArchiveTransfers(objects).upload(giver))
    new = CellFolder(64, tmp_path / "b" / "64")
    new.archive.mkdir(parents=True)
    with closing(FrontierCell(new.frontier)) as frontier:
        columns = [row[1:3] for row in frontier.db.execute("PRAGMA table_info(pages)")]
        values = [FILE.format(1) if name == "file" else b"" if kind == "BLOB" else 0 for name, kind in columns]
        frontier.db.execute(f"INSERT INTO pages VALUES ({', '.join('?' * len(values))})", values)
    assert do(ArchiveTransfers(objects).download_parents(new, {7, 64})) == 0  # that one is brought as its own
    assert do(ArchiveTransfers(objects).download_parents(new, {64})) == 1
    assert archive_path(new.archive, FILE.format(1)).read_bytes() == body
    assert [path.name for path in taker.archive.iterdir()] == [FILE.format(1)]
