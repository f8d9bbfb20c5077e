"""Release of pages from the index of a split cell: not before the new cell's index has them.

The new cell's owner fetches entries of pages that it cannot read from the old index (fetch_for_index.py). That takes
its time, and the owner may be down meanwhile. So it reports with its session when its index has passed everything that
the cell started with, and lacks nothing of it. Only when this is reported for all cells that came from an old one does
the old one's owner let its indexer forget the pages (indexer/after_split.py). Until then a page may be found twice.

A page that no node has, because it was committed and not indexed yet at the moment of the split, would be waited for
without end: the wait is limited to a day.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing

import msgspec

from teia.clock import Clock
from teia.cluster.cells.copies import CellCopies
from teia.cluster.cells.owner import CellOwner
from teia.cluster.members.session import NodeSession
from teia.cluster.placing.cell_owners import CircleOrder
from teia.cluster.search.fetch_for_index import missing_keys
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.split import split_cells
from teia.frontier.tables.page_changes import last_captured_change
from teia.index.position import read_position
from teia.indexer.after_split import release
from teia.store.root import CellFolder
from teia.urls import cell_of

POLL_S = 5.0
PATIENCE_S = 86_400.0
_log = logging.getLogger(__name__)


def ancestors(cell: int, starts: Sequence[int], original_cells: int) -> Iterator[int]:
    """Yield the cells that a cell came from, the last first; the first `original_cells` came from none."""
    while original_cells <= cell < len(starts):
        # Before this cell was split off, its slots belonged to that cell.
        cell = cell_of(starts[cell], tuple(starts[:cell]))
        yield cell


class SplitCleanup:
    """One session's part in the release; `run` lives in the cluster's own loop."""

    def __init__(
        self,
        session: NodeSession,
        owner: CellOwner,
        copies: CellCopies,
        order: CircleOrder,
        original_cells: int,
        clock: Clock,
    ) -> None:
        self._session, self._owner, self._copies = session, owner, copies
        self._order, self._original_cells, self._clock = order, original_cells, clock
        self._goals: dict[int, int] = {}
        """By split-off cell: the change that its index has to reach."""
        self._since: dict[int, float] = {}
        """By split-off cell: the time at which its index reached it."""
        self._done: set[int] = set()
        self._released: dict[int, int] = {}

    async def run(self) -> None:
        """Call `check` every few seconds, until cancelled."""
        while True:
            await self._clock.sleep(POLL_S)
            if len(self._order.starts) > self._original_cells:
                try:
                    await self.check()
                except Exception as error:  # noqa: BLE001  # a file may be being replaced; it is tried again
                    _log.info("indexes of split cells not checked: %r", error)

    async def check(self) -> None:
        """Report our new cells that are fully indexed, and let our old cells forget pages that others have."""
        owned = set(self._owner.owned)
        new = {cell for cell in owned if cell >= self._original_cells}
        # A cell that was given up may come back with another index.
        self._done &= new
        self._done |= {cell for cell in new - self._done if await self._is_fully_indexed(cell)}
        if sorted(self._done) != self._session.node.indexed:
            self._session.node = msgspec.structs.replace(self._session.node, indexed=sorted(self._done))
        reported = {cell for node in self._session.alive().values() for cell in node.indexed}
        for cell in owned:
            await self._release_pages(cell, reported)

    async def _is_fully_indexed(self, cell: int) -> bool:
        folder = self._copies.folders[cell]
        # Fixed at the first look: later changes are not in the old index.
        if cell not in self._goals:
            self._goals[cell] = await asyncio.to_thread(_last_change, folder)
        if (await asyncio.to_thread(read_position, folder.index) or 0) < self._goals[cell]:
            return False
        since = self._since.setdefault(cell, self._clock.ticks_s())
        keys, _ = await asyncio.to_thread(missing_keys, folder, None, 1)
        return not keys or self._clock.ticks_s() - since >= PATIENCE_S

    async def _release_pages(self, cell: int, reported: Collection[int]) -> None:
        starts = self._order.starts
        descendants = [
            each
            for each in range(self._original_cells, len(starts))
            if cell in ancestors(each, starts, self._original_cells)
        ]
        folder = self._copies.folders[cell]
        if not descendants or not all(each in reported for each in descendants):
            return
        if self._released.get(cell) != len(descendants) and await asyncio.to_thread(folder.index.exists):
            await asyncio.to_thread(release, folder.index, await asyncio.to_thread(_splits, folder))
            self._released[cell] = len(descendants)


def _last_change(folder: CellFolder) -> int:
    with closing(FrontierCell(folder.frontier, read_only=True)) as frontier:
        return last_captured_change(frontier)


def _splits(folder: CellFolder) -> int:
    with closing(FrontierCell(folder.frontier, read_only=True)) as frontier:
        return len(split_cells(frontier))
