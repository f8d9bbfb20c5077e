"""CDXJ and a signature for every closed WARC file, without holding up the crawl."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.clock import VirtualClock, WallClock
from teia.crawler.open_cell import Cell, note_position
from teia.crawler.upkeep import closed_files
from teia.crawler.upkeep.closed_files import DAY_S, collection_of, finishing, running_fixity, sign_all
from teia.frontier.queue.order import breadth
from teia.store.archive import Position, archive_files, index_path
from teia.store.audit import audit_archive
from teia.store.cdxj import write_index
from teia.store.fixity import read_fixity
from teia.store.manifest import Manifest, mismatch, name_in, read_manifest
from teia.store.reader import walk_file
from teia.store.root import CellFolder, CollectionFolder, open_root
from tests.store.answers import page
from tests.store.signed_archives import change_byte, signed_archive
from tests.waiting import until_async

FILE_BYTES = 1 << 20


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[Cell]:
    root = open_root(tmp_path / "data", create=True)
    folder = root.create_collection("main", "", 1).cells()[0]
    cell = Cell(folder, "main", breadth, FILE_BYTES, WallClock())
    yield cell
    cell.close()


def fill_a_file(cell: Cell) -> None:
    """Append answers until the file is full, and one more, which opens the next."""
    before = cell.archive.position.file
    for number in range(10_000):
        cell.archive.append(page(number, random.Random(number).randbytes(100_000)))
        cell.archive.flush_and_sync()
        if cell.archive.position.file != before:
            return
    pytest.fail("the file never filled")


async def until_indexed(folder: Path, number: int) -> None:
    await until_async(lambda: sum(index_path(path).exists() for path in archive_files(folder)) >= number)


def test_a_file_is_indexed_when_it_is_closed_and_the_open_one_is_not(cell: Cell) -> None:
    async def crawl() -> None:
        async with finishing([cell], WallClock()):
            fill_a_file(cell)
            await until_indexed(cell.folder.archive, 1)

    asyncio.run(crawl())
    closed, still_open = archive_files(cell.folder.archive)
    assert index_path(closed).exists()
    assert not index_path(still_open).exists()
    assert audit_archive(cell.folder.archive).violations == 0


def test_a_file_that_is_begun_while_closed_ones_are_looked_for_is_indexed_at_its_end(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had another name than the file that was open a moment ago, and its index stayed without most of its pages."""
    looked: list[CellFolder] = []

    def begin_another(folder: CellFolder) -> Position | None:
        looked.append(folder)
        if len(looked) == 1:
            fill_a_file(cell)
        return committed(folder)

    committed = closed_files._committed
    monkeypatch.setattr(closed_files, "_committed", begin_another)
    monkeypatch.setattr(closed_files, "CHECK_S", 0.05)

    async def crawl() -> None:
        async with finishing([cell], WallClock()):
            await until_async(lambda: len(looked) > 1)
            fill_a_file(cell)
            await until_indexed(cell.folder.archive, 2)

    asyncio.run(crawl())
    audit = audit_archive(cell.folder.archive)
    assert audit.violations == 0, audit.details


def test_what_a_death_left_without_an_index_is_caught_up_with(cell: Cell) -> None:
    fill_a_file(cell)
    fill_a_file(cell)

    async def next_start() -> None:
        async with finishing([cell], WallClock()):
            await until_indexed(cell.folder.archive, 2)

    asyncio.run(next_start())
    assert audit_archive(cell.folder.archive).violations == 0


def test_an_end_in_the_middle_leaves_nothing_half_done(cell: Cell) -> None:
    fill_a_file(cell)

    async def short() -> None:
        async with finishing([cell], WallClock()):
            await asyncio.sleep(0.05)  # some way into its work, wherever that is

    asyncio.run(short())
    assert audit_archive(cell.folder.archive).violations == 0


def commit(cell: Cell) -> None:
    with cell.frontier.transaction():
        note_position(cell.frontier, cell.archive.position)


def events(cell: Cell) -> list[str]:
    return [entry.said.event for file in manifest_of(cell).files.values() for entry in file.parts]


def manifest_of(cell: Cell) -> Manifest:
    return read_manifest(collection_of(cell.folder), must_verify=True)


def test_a_file_is_signed_when_the_next_one_is_committed_and_not_before(cell: Cell) -> None:
    async def crawl() -> None:
        async with finishing([cell], WallClock()):
            fill_a_file(cell)
            await until_indexed(cell.folder.archive, 1)
            assert events(cell) == []
            commit(cell)
            await until_async(lambda: events(cell) == ["closed"])

    asyncio.run(crawl())
    assert events(cell) == ["closed", "grew"], "the open file is signed at the end"
    closed, _ = archive_files(cell.folder.archive)
    signed = manifest_of(cell).files[name_in(collection_of(cell.folder), closed)]
    assert signed.parts[0].said.records == len(list(walk_file(closed)))
    assert all(mismatch(collection_of(cell.folder), each) == "" for each in manifest_of(cell).files.values())
    assert manifest_of(cell).complaints == []


def test_what_a_death_left_unsigned_is_signed_at_the_next_start(cell: Cell) -> None:
    fill_a_file(cell)
    fill_a_file(cell)
    commit(cell)
    write_index(archive_files(cell.folder.archive)[0])  # died between the index and the signature

    async def next_start() -> None:
        async with finishing([cell], WallClock()):
            await until_async(lambda: events(cell) == ["closed", "closed"])

    asyncio.run(next_start())
    assert manifest_of(cell).complaints == []


@pytest.mark.parametrize("by", ["crawl", "command"])
def test_the_end_of_a_file_does_not_hide_that_its_signed_part_was_changed(cell: Cell, by: str) -> None:
    """Signed anew as a whole, a changed file would pass every later audit."""
    folder = CollectionFolder("main", collection_of(cell.folder))
    cell.archive.append(page(1))
    cell.archive.flush_and_sync()
    commit(cell)
    assert sign_all(folder, WallClock()) == 1
    (path,) = archive_files(cell.folder.archive)
    change_byte(path, 100)
    fill_a_file(cell)
    commit(cell)

    async def next_start() -> None:
        async with finishing([cell], WallClock()):
            await until_async(lambda: "closed" in events(cell))

    if by == "crawl":
        asyncio.run(next_start())
    else:
        sign_all(folder, WallClock())
    assert manifest_of(cell).files[name_in(folder.path, path)].damaged_s is not None
    assert manifest_of(cell).complaints == []


def test_the_open_file_is_signed_once_a_day(cell: Cell) -> None:
    clock = VirtualClock(WallClock().now_s())

    async def crawl() -> None:
        async with finishing([cell], clock):
            pass

    for number, days in enumerate((0.0, 0.5, 1.1)):
        asyncio.run(clock.advance(days * DAY_S))
        cell.archive.append(page(number))
        cell.archive.flush_and_sync()
        commit(cell)
        asyncio.run(crawl())
    assert events(cell) == ["grew", "grew"]


def test_a_manifest_that_cannot_be_written_stops_no_crawl(cell: Cell, caplog: pytest.LogCaptureFixture) -> None:
    (collection_of(cell.folder).parent / "signing.key").write_text("no key\n")
    commit(cell)

    async def crawl() -> None:
        async with finishing([cell], WallClock()):
            pass

    asyncio.run(crawl())
    assert "is not an Ed25519 key" in caplog.text


def test_copies_of_other_nodes_are_not_signed(cell: Cell) -> None:
    fill_a_file(cell)
    commit(cell)
    archive_files(cell.folder.archive)[0].chmod(0o444)
    folder = CollectionFolder("main", collection_of(cell.folder))
    assert sign_all(folder, WallClock(), cells_move=True) == 1
    assert events(cell) == ["grew"]
    assert sign_all(folder, WallClock()) == 1, "on one machine a user may have protected it"


def test_due_files_are_compared_while_a_crawl_runs(tmp_path: Path) -> None:
    collection = signed_archive(tmp_path).collection  # in 2023

    async def crawl() -> None:
        async with running_fixity({tmp_path / "missing": 90.0, collection: 90.0}, WallClock()):
            await until_async(lambda: read_fixity(collection).run_s > 0)

    asyncio.run(crawl())
    assert [each.why for each in read_fixity(collection).files.values()] == [""]
