"""The cells that a node owns, opened after their files are brought up to their logs.

A file is always a prefix of its cell's log. So a new owner applies the records that its own copy lacks. The copy may be
an empty file, yesterday's, or one a single record behind because of a crash between the log and the file. If those
records were purged, a snapshot replaces the file first (copies.py).

Bodies do not travel with the log: they lie in the archive of the node that fetched them. A node that takes a cell over
begins a new archive file. If its own last file holds more than the log knows, the rest is cut off.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from teia.clock import Clock
from teia.cluster.cells.log import CellLog, LogEntry
from teia.cluster.cells.publish import LogJournal, decompress_changes
from teia.cluster.nats.thread import LoopThread
from teia.config.sections import Config
from teia.crawler.fetch_rows import ROLL_OUT_AT_END, roll_out
from teia.crawler.open_cell import Cell, committed_position
from teia.crawler.start import open_cell
from teia.durable import disk_errors
from teia.errors import ClusterError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import CLUSTER
from teia.frontier.tables.captures import erase_deleted_rows
from teia.sqlite import sqlite_errors
from teia.store.archive import Position
from teia.store.root import CellFolder, CollectionFolder

BATCH_BYTES = 8 << 20


def is_elsewhere(file: Path, size: int) -> bool:
    """Tell whether an archive file is another node's: shorter here than the log says, or read-only."""
    return size_of(file) < size or is_downloaded(file)


def size_of(file: Path) -> int:
    """Return the size of a file; -1 if there is none."""
    return file.stat().st_size if file.exists() else -1


def is_downloaded(file: Path) -> bool:
    """Tell whether an archive file came from another node (ship_archive.py): it may be read here, not written."""
    return file.exists() and not file.stat().st_mode & 0o200


def prepare_cells(folder: CollectionFolder, count: int, cluster: str) -> None:
    """Create the files of all cells, and refuse those of another cluster or of a crawl on one machine."""
    for each in folder.create_cells(count):
        frontier = FrontierCell(each.frontier, of_cluster=True)
        try:
            owner = frontier.meta(CLUSTER)
            if owner is None and frontier.known:
                raise ClusterError(
                    f"{folder.path} was crawled on one machine; export its URLs and import them into a new collection"
                )
            if owner is not None and owner != cluster:
                raise ClusterError(f"{folder.path} belongs to another cluster; choose another folder with --data")
            if owner is None:
                frontier.set_meta({CLUSTER: cluster})
        finally:
            frontier.close()


async def catch_up(folder: CellFolder, journal: LogJournal, until: int | None = None) -> int:
    """Apply a cell's log to its file, up to `until` or our own last record; return the number of commits.

    With `until` another node may still own the cell. `LogGone` if a snapshot is needed.
    """
    # Opening and closing may checkpoint SQLite's WAL into a large file: not in the loop that renews sessions.
    frontier = await asyncio.to_thread(FrontierCell, folder.frontier, journal=journal)
    try:
        with sqlite_errors(folder.frontier):  # the node waits while the disk is full
            return await _catch_up(frontier, folder, journal.log, until)
    finally:
        await asyncio.to_thread(frontier.close)


async def _catch_up(frontier: FrontierCell, folder: CellFolder, log: CellLog, until: int | None) -> int:
    end = log.last if until is None else until
    applied = frontier.applied_seq()
    if until is not None and applied >= end:
        return 0
    if applied > end:
        raise ClusterError(
            f"{folder.frontier} contains record {applied}, but the log of cell {folder.number} ends at {log.last}: the"
            " log was lost or restarted; nothing was changed"
        )
    erase_deleted_rows(frontier)  # of pages that were removed (removal.py)
    records, ours = 0, OwnTail(frontier, folder)
    if applied < end:
        async for batch in _batches(log.replay(applied, end)):
            await _in_thread(frontier.replay, batch, ours.note_position)
            records += len(batch)
    # Records that are no commits move the number too.
    await _in_thread(frontier.note_seq, end)
    await _in_thread(ours.truncate)
    return records


async def _in_thread(function: Callable[..., None], *arguments: object) -> None:
    """Run a function in a thread and wait for its end, also when cancelled: its file must not be closed meanwhile.

    The work is awaited as a future, not a task: `LoopThread` cancels all tasks of its loop, which would end the waiting
    and not the work.
    """
    work = asyncio.get_running_loop().run_in_executor(None, function, *arguments)
    try:
        await asyncio.shield(work)
    finally:
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({work})


async def _batches(entries: AsyncIterator[LogEntry]) -> AsyncIterator[list[tuple[int, bytes]]]:
    """Yield the changes of commits, many at a time: a transaction for each would wait for the disk each time."""
    batch: list[tuple[int, bytes]] = []
    size = 0
    async for entry in entries:
        if entry.record.kind == "commit":
            batch.append((entry.seq, decompress_changes(entry.body)))
            size += len(batch[-1][1])
            if size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch


class OwnTail:
    """The end of our own part of a cell's archive by the log; a dead owner may have written more than it recorded.

    The files of other owners are not on this disk, so the last position in a file on this disk counts.
    """

    def __init__(self, frontier: FrontierCell, folder: CellFolder) -> None:
        self._frontier, self._folder = frontier, folder
        self._end: Position | None = None
        self.note_position()

    def note_position(self) -> None:
        position = committed_position(self._frontier)
        if position is not None and (self._folder.archive / position.file).exists():
            self._end = position

    def truncate(self) -> None:
        if self._end is None:
            return
        path = self._folder.archive / self._end.file
        with disk_errors(path, "cut"):
            if path.stat().st_size > self._end.offset:
                os.truncate(path, self._end.offset)


@contextmanager
def opened_cell(
    folder: CellFolder, collection: str, config: Config, clock: Clock, log: CellLog, thread: LoopThread
) -> Iterator[Cell]:
    """Open a cell that this node owns for writing."""
    journal = LogJournal(log, thread)
    cell = open_cell(
        folder, collection, config, clock, journal=journal, is_elsewhere=is_elsewhere,
        # If the log may have a newer record, the archive is kept until the file has caught up.
        may_cut=lambda: not journal.must_catch_up,
    )  # fmt: skip
    try:
        yield cell
        with suppress(ClusterError):  # this node may have lost it
            roll_out(cell.frontier, cell.folder.log, at_least=ROLL_OUT_AT_END)
    finally:
        cell.close()
