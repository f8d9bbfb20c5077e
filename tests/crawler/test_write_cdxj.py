"""CDXJ beside every closed WARC file, without holding up the crawl."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.crawler.open_cell import Cell
from teia.crawler.write_cdxj import indexing
from teia.frontier.queue.order import breadth
from teia.store.archive import archive_files, index_path
from teia.store.audit import audit_archive
from teia.store.root import open_root
from tests.store.answers import page
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
        async with indexing([cell], WallClock()):
            fill_a_file(cell)
            await until_indexed(cell.folder.archive, 1)

    asyncio.run(crawl())
    closed, still_open = archive_files(cell.folder.archive)
    assert index_path(closed).exists()
    assert not index_path(still_open).exists()
    assert audit_archive(cell.folder.archive).violations == 0


def test_what_a_death_left_without_an_index_is_caught_up_with(cell: Cell) -> None:
    fill_a_file(cell)
    fill_a_file(cell)

    async def next_start() -> None:
        async with indexing([cell], WallClock()):
            await until_indexed(cell.folder.archive, 2)

    asyncio.run(next_start())
    assert audit_archive(cell.folder.archive).violations == 0


def test_an_end_in_the_middle_leaves_nothing_half_done(cell: Cell) -> None:
    fill_a_file(cell)

    async def short() -> None:
        async with indexing([cell], WallClock()):
            await asyncio.sleep(0.05)  # some way into its work, wherever that is

    asyncio.run(short())
    assert audit_archive(cell.folder.archive).violations == 0
