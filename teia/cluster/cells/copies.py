"""A node's local copies of cells, kept up to date with their logs, by one task at a time.

If the log still holds the records that a copy lacks, those are applied. A copy that is new, or so old that the records
were purged, is first replaced by the last snapshot. While a cell is open for crawling only the crawler touches its
file.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path

from teia.cluster.cells.log import CellLog, LogGone
from teia.cluster.cells.open_cells import catch_up, size_of
from teia.cluster.cells.publish import LogJournal
from teia.cluster.cells.snapshots import CannotRestore, Snapshots
from teia.cluster.nats.thread import LoopThread
from teia.cluster.nats.wire import NoAnswer
from teia.crawler.open_cell import committed_position
from teia.durable import disk_errors
from teia.errors import CorruptFile
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.page_sums import forget_sums
from teia.frontier.tables.captures import end_of_visits
from teia.store.archive import Position
from teia.store.root import CellFolder

_log = logging.getLogger(__name__)


class CellCopies:
    """The files of one collection's cells on this node; everything here runs in the cluster's own loop."""

    def __init__(self, folders: Iterable[CellFolder], thread: LoopThread, snapshots: Snapshots | None = None) -> None:
        self.folders = {folder.number: folder for folder in folders}
        self.snapshots = snapshots
        self.open: set[int] = set()
        """Cells that are being crawled now."""
        self._thread = thread
        self._locks: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._applied: dict[int, int] = {}
        """Last record applied to each copy, so that a file is not opened only to find nothing new."""

    async def follow(self, log: CellLog, until: int) -> int:
        """Apply the log of a cell that is not crawled here up to a record; return the number of commits applied."""
        async with self._locks[log.cell]:
            if log.cell in self.open or until <= self._applied.get(log.cell, 0):
                return 0
            commits = await self._catch_up(log, until)
            self._applied[log.cell] = until
            return commits

    async def open_all(self, logs: Mapping[int, CellLog]) -> dict[int, int]:
        """Bring the cells of a shift up to the end of their logs and mark them open for the crawler. All or none."""
        commits = {}
        try:
            for cell, log in logs.items():
                async with self._locks[cell]:
                    # Forgotten: from now on the crawler writes the file.
                    self._applied.pop(cell, None)
                    commits[cell] = await self._catch_up(log, None)
                    self.open.add(cell)
        except BaseException as error:
            self.close_all()
            if isinstance(error, CannotRestore):
                error.cell = next(cell for cell in logs if cell not in commits)
            raise
        return commits

    @asynccontextmanager
    async def lock_idle_cell(self, log: CellLog) -> AsyncIterator[CellFolder]:
        """Lock a cell that is owned and not crawled now, brought up to the end of its log."""
        async with self._locks[log.cell]:
            if log.cell in self.open:
                raise NoAnswer(f"cell {log.cell} is being crawled")
            self._applied.pop(log.cell, None)
            await self._catch_up(log, None)
            yield self.folders[log.cell]

    @asynccontextmanager
    async def lock_closed_cell(self, cell: int) -> AsyncIterator[CellFolder]:
        """Lock a cell that is not crawled here, as its copy is."""
        async with self._locks[cell]:
            if cell in self.open:
                raise NoAnswer(f"cell {cell} is being crawled")
            yield self.folders[cell]

    def close_all(self) -> None:
        """Mark all cells as closed, at the end of a shift."""
        self.open.clear()

    async def _catch_up(self, log: CellLog, until: int | None) -> int:
        folder, journal = self.folders[log.cell], LogJournal(log, self._thread)
        if self.snapshots is not None and await self._needs_snapshot(log, folder):
            await self._restore(log, folder)
        try:
            return await catch_up(folder, journal, until)
        except LogGone as error:
            if self.snapshots is None:
                raise
            _log.info("cell=%d %s", log.cell, error)
        await self._restore(log, folder)
        try:
            return await catch_up(folder, journal, until)
        except LogGone as error:  # it was purged up to the last snapshot, to make room, and that snapshot is damaged
            raise CannotRestore(
                f"the newest readable snapshot of cell {log.cell} is older than its log; start a node that has a"
                " copy of the cell"
            ) from error

    async def _needs_snapshot(self, log: CellLog, folder: CellFolder) -> bool:
        """Tell whether a snapshot must be read first: the file is new, or records it lacks were purged."""
        assert self.snapshots is not None
        applied = await asyncio.to_thread(_applied_seq, folder)
        # The file has every record: no pointer need be read.
        if applied >= log.last > 0:
            return False
        pointer = await self.snapshots.pointer_of(log)
        return pointer is not None and (applied < pointer.purged_below or (not applied and pointer.last.log_seq > 0))

    async def _restore(self, log: CellLog, folder: CellFolder) -> None:
        assert self.snapshots is not None
        # Read before the file is replaced: a snapshot may not know the end of this node's archive.
        ours = await asyncio.to_thread(_own_end, folder)
        await self.snapshots.restore(log, folder)
        if ours is not None:
            await asyncio.to_thread(_truncate_unknown, folder, ours)


def _applied_seq(folder: CellFolder) -> int:
    try:
        with closing(FrontierCell(folder.frontier, of_cluster=True)) as frontier:
            return frontier.applied_seq()
    except CorruptFile as error:
        _log.error("%s; it is replaced by a snapshot, if there is one", error)
        _remove(folder.frontier)
        return 0


def _remove(file: Path) -> None:
    with disk_errors(file, "removed"):
        forget_sums(file)
        # The WAL goes first: SQLite would replay it into a new file of the same name.
        for ending in ("-wal", "-shm", ""):
            file.with_name(file.name + ending).unlink(missing_ok=True)


def _own_end(folder: CellFolder) -> Position | None:
    """Return the end of our own archive as of this copy; None if its last file is another node's."""
    with closing(FrontierCell(folder.frontier, of_cluster=True)) as frontier:
        position = committed_position(frontier)
    return position if position is not None and (folder.archive / position.file).exists() else None


def _truncate_unknown(folder: CellFolder, end: Position) -> None:
    """Truncate our last archive file after its committed part, as our old copy and the snapshot know it."""
    with closing(FrontierCell(folder.frontier, of_cluster=True)) as frontier:
        known = end_of_visits(frontier, end.file)
        position = committed_position(frontier)
    # All that any of the three knows as committed stays.
    at = max(end.offset, known, position.offset if position is not None and position.file == end.file else 0)
    path = folder.archive / end.file
    if size_of(path) > at:
        with disk_errors(path, "cut"), path.open("r+b") as file:
            file.truncate(at)
