"""CDXJ and a signed entry in the manifest for every closed WARC file, made while the crawl continues.

Both read a whole file. A separate process does that, one file at a time and with low priority, so that neither the loop
nor the commit thread waits for it. Files that a crash or a stop left without an index or an entry are found at the next
start. An index is whole or absent, and an entry is appended by this process when the other one has ended, so the
other one may be ended at any time.

Signed files are compared with the manifest again now and then, in a process of low priority, too. The file of results
says when that is due (store/fixity.py), so it does not matter which process finds it out: this crawler, the next one,
`teia serve` (web/background/fixity.py) or `teia audit manifest --due`.

The open file of a cell is signed up to its committed end once a day, and when a crawl ends, if its last entry is older
than a day; so an archive that is smaller than one file is signed too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path

from teia.clock import Clock
from teia.crawler.open_cell import Cell, committed_position
from teia.errors import TeiaError
from teia.frontier.cell.cell import FrontierCell
from teia.lib.child_process import DEVNULL, PIPE, ChildProcess
from teia.lib.entry_points import command_of
from teia.store import fixity
from teia.store.archive import Position, index_path
from teia.store.cdxj import unindexed_files
from teia.store.closed_file import Description, describe, main
from teia.store.manifest import (
    Statement,
    append,
    damage_of,
    growth_of,
    inode_of,
    name_in,
    pinned,
    read_manifest,
    unsigned_files,
)
from teia.store.root import CellFolder, CollectionFolder

logger = logging.getLogger(__name__)

CHECK_S = 2.0
MAX_S = 3_600.0
DAY_S = 86_400.0
LOW_PRIORITY = 10
FIXITY_CHECK_S = 3_600.0
MAX_FIXITY_S = 6 * 3_600.0
_TROUBLE = (TeiaError, sqlite3.Error, OSError)


@asynccontextmanager
async def finishing(cells: Sequence[Cell], clock: Clock, *, cells_move: bool = False) -> AsyncIterator[None]:
    """Index and sign the WARC files that are closed, and those that will be, until the block ends."""
    task = asyncio.create_task(_watch(cells, clock, cells_move))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
    await asyncio.to_thread(_sign_growth, cells, clock.now_s(), cells_move)


async def _watch(cells: Sequence[Cell], clock: Clock, cells_move: bool) -> None:
    """Watch the name of each cell's open file; a new name means that a file was closed."""
    finished: dict[int, str] = {}
    failed: set[Path] = set()
    signed_s = clock.now_s()
    while True:
        for number, cell in enumerate(cells):
            open_file = cell.archive.position.file
            # A file whose successor is not committed yet would be opened again after a crash, and is signed later.
            if finished.get(number) != open_file and await _finish(cell, open_file, clock, cells_move, failed):
                finished[number] = open_file
        if clock.now_s() - signed_s > DAY_S:
            signed_s = clock.now_s()
            await asyncio.to_thread(_sign_growth, cells, signed_s, cells_move)
        await clock.sleep(CHECK_S)


async def _finish(cell: Cell, open_file: str, clock: Clock, cells_move: bool, failed: set[Path]) -> bool:
    """Index and sign the closed files of a cell; return False while one of them is not certain to be closed.

    A file that cannot be read now, because the disk is full or the file is damaged, is tried again at the next start;
    the audit reports the damage.
    """
    if cell.is_read:
        return False
    collection, cell.is_read = collection_of(cell.folder), True
    try:
        end = await asyncio.to_thread(_committed, cell.folder)
        unindexed = await asyncio.to_thread(unindexed_files, cell.folder.archive, open_file)
        manifest = await asyncio.to_thread(read_manifest, collection)
        unsigned = unsigned_files(collection, cell.folder.archive, end, manifest, cells_move=cells_move).closed
        for path in [*unindexed, *(each for each in unsigned if each not in unindexed)]:
            with pinned(path) as inode:
                found = None if path in failed else await _describe(path)
                if inode_of(path) != inode:
                    # Records were erased meanwhile: the index is that of the old file.
                    index_path(path).unlink(missing_ok=True)
                    return False
                if found is None:
                    failed.add(path)
                elif path in unsigned:
                    said = found.statement(collection, path)
                    damage = await asyncio.to_thread(damage_of, collection, manifest.of(said.file))
                    await asyncio.to_thread(append, collection, [*damage, said], clock.now_s(), {said.file: inode})
    except _TROUBLE as error:
        logger.warning("the closed files of %s were not all signed: %s", cell.folder.archive, error)
        return True
    finally:
        cell.is_read = False
    return end is not None and end.file == open_file


async def _describe(path: Path) -> Description | None:
    """Run the process that reads one file; it is killed when the crawler stops."""
    process = ChildProcess(command_of(main, str(path)), stdout=PIPE, stderr=DEVNULL, nice=LOW_PRIORITY)
    try:
        # In a thread: while a transport of uvloop read the pipe, the manifest once met a bad file descriptor.
        output = await asyncio.to_thread(process.communicate, b"", MAX_S)
        return None if output is None else Description(**json.loads(output[0]))
    except (ValueError, TypeError):
        return None
    finally:
        # It has said all that it had to say, or it takes too long, or the crawler stops.
        process.kill()
        await process.end_async(MAX_S)


def _sign_growth(cells: Sequence[Cell], now_s: float, cells_move: bool) -> None:
    """Sign the open files of cells whose last entries are older than a day."""
    for collection in dict.fromkeys(collection_of(cell.folder) for cell in cells):
        folders = [cell.folder for cell in cells if collection_of(cell.folder) == collection]
        try:
            with ExitStack() as stack:
                statements, inodes = _growth(collection, folders, now_s, cells_move, stack)
                append(collection, statements, now_s, inodes)
        except _TROUBLE as error:
            logger.warning("%s: the archive was not signed: %s", collection, error)


def _growth(
    collection: Path, folders: Sequence[CellFolder], now_s: float, cells_move: bool, stack: ExitStack
) -> tuple[list[Statement], dict[str, int]]:
    """Return what is to be said of the open files, and their inodes, which are pinned until the stack is closed."""
    manifest, statements, inodes = read_manifest(collection), list[Statement](), dict[str, int]()
    for folder in folders:
        files = unsigned_files(collection, folder.archive, _committed(folder), manifest, cells_move=cells_move)
        if files.open_file and manifest.of(name_in(collection, files.open_file)).signed_s <= now_s - DAY_S:
            inodes[name_in(collection, files.open_file)] = stack.enter_context(pinned(files.open_file))
            statements += growth_of(collection, files, manifest)
    return statements, inodes


def sign_all(folder: CollectionFolder, clock: Clock, *, cells_move: bool = False) -> int:
    """Sign all that is committed, here and now; return the number of new entries. The caller holds the root's lock."""
    manifest, entries = read_manifest(folder.path), 0
    for cell in folder.cells():
        files = unsigned_files(folder.path, cell.archive, _committed(cell), manifest, cells_move=cells_move)
        for path in files.closed:
            damage = damage_of(folder.path, manifest.of(name_in(folder.path, path)))
            append(folder.path, [*damage, describe(path).statement(folder.path, path)], clock.now_s())
        growth = growth_of(folder.path, files, manifest)
        append(folder.path, growth, clock.now_s())
        entries += len(files.closed) + len(growth)
    return entries


# ---- fixity ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def running_fixity(days: Mapping[Path, float], clock: Clock) -> AsyncIterator[None]:
    """Compare the due files of collections until the block ends; `days` are their settings, by folder."""
    task = asyncio.create_task(_compare_due(days, clock))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _compare_due(days: Mapping[Path, float], clock: Clock) -> None:
    while True:
        for collection, each in days.items():
            try:
                if await asyncio.to_thread(fixity.due_files, collection, each, clock.now_s()):
                    await start_fixity_run(collection, each).end_async(MAX_FIXITY_S)
            except _TROUBLE as error:
                logger.warning("%s: the fixity of its archive cannot be checked: %s", collection, error)
        await clock.sleep(FIXITY_CHECK_S)


def start_fixity_run(collection: Path, days: float) -> ChildProcess:
    """Start the process that compares the due files of one collection; it may be killed at any time."""
    command = command_of(fixity.main, str(collection), str(days))
    return ChildProcess(command, stdout=DEVNULL, stderr=DEVNULL, nice=LOW_PRIORITY)


# ---- files and folders ----------------------------------------------------------------------------------------------


def collection_of(folder: CellFolder) -> Path:
    """Return the folder of the collection that a cell belongs to."""
    return folder.path.parent.parent


def _committed(folder: CellFolder) -> Position | None:
    with closing(FrontierCell(folder.frontier, read_only=True)) as frontier:
        return committed_position(frontier)
