"""Split of a cell that has grown too large into two: the request, the steps, and the state after each step.

    1  the balancer or a user writes into the agreement that a cell is to be split. One cell at a time
    2  its owner ends the shift; the next shift crawls its other cells meanwhile
    3  it copies the cell's file, cuts the new cell's part out of the copy (frontier/cell/split.py), and
       stores that as the new cell's first snapshot
    4  one atomic batch: the pointer to that snapshot in `snap.<new>`, a record in `log.<new>` that the new cell has
       no owner yet, and in `log.<old>`, on condition that the one before is still the last, a commit that deletes
       the rows that went. From here on there are two cells
    5  the agreement gets the first slot of the new cell. From then on all nodes know it, and the circle assigns it

Before step 4 there are at most objects without a pointer. An owner that dies there leaves the request, and the next
owner starts over. After step 4 the old cell's own file lists the cells split off it, so its next owner does step 5,
even if the request is gone meanwhile. No node can open the old cell as if it were whole: its file and the agreement
must match first (`Splitter.check`).

The new number is the next one. It cannot be given twice: there is one request at a time, and NATS takes the batch only
if `log.<new>` is new. For the same reason a split is refused only as long as there is no such log. A failure is tried
again. If it persists and nothing was stored, the cell is crawled again and the reason is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import closing

import msgspec

from teia.clock import Clock
from teia.cluster.cells.copies import CellCopies
from teia.cluster.cells.log import MAX_CELLS, CellLog, CellLost, NumberTaken, TooLarge
from teia.cluster.cells.owner import CellOwner
from teia.cluster.cells.publish import LogJournal
from teia.cluster.cells.site_homes import AWAY, DELAY, GUEST
from teia.cluster.members.agreement import Agreement, Split, amend_agreement, nudge
from teia.cluster.members.session import NodeState
from teia.cluster.nats.thread import LoopThread
from teia.cluster.nats.wire import NoAnswer, Wire
from teia.errors import ClusterError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.split import delete_slots, middle_slot, split_cells
from teia.store.root import CellFolder
from teia.urls import cell_range

META_PREFIXES = (DELAY, AWAY, GUEST)
"""Prefixes of the rows of `meta` that belong to a host or a site."""

POLL_S = 0.2
TRY_AGAIN_S = 2.0
TRIES = 30
"""Failures of a split after which it is given up, if it has not happened."""

_log = logging.getLogger(__name__)


class CannotSplit(ClusterError):
    """A cell cannot be divided as it is; the request is withdrawn."""


def request_split(agreement: Agreement, cell: int) -> Agreement:
    """Return the agreement with the request to split a cell; ClusterError if that is impossible now."""
    if not 0 <= cell < len(agreement.starts):
        raise ClusterError(f"unknown cell {cell}; cells are numbered from 0 to {len(agreement.starts) - 1}")
    if agreement.splitting not in {None, cell}:
        raise ClusterError(f"cell {agreement.splitting} is being split; only one at a time")
    if len(agreement.starts) >= MAX_CELLS:
        raise ClusterError(f"the cluster already has the maximum of {MAX_CELLS} cells")
    if not agreement.config.cluster.snapshots:
        raise ClusterError("splitting needs snapshots, and this collection has none (cluster.snapshots)")
    unsplit = {each: why for each, why in agreement.unsplit.items() if each != str(cell)}
    return msgspec.structs.replace(agreement, splitting=cell, unsplit=unsplit)


def record_split(agreement: Agreement, cell: int, number: int, slot: int) -> Agreement:
    """Return the agreement with a cell that was split off another; unchanged if it has it already.

    The request may be gone: the cell was split all the same, because its file says so.
    """
    # The agreement has the new cell already, or another split came first.
    if len(agreement.starts) != number:
        return agreement
    unsplit = {each: why for each, why in agreement.unsplit.items() if each != str(cell)}
    splitting = None if agreement.splitting == cell else agreement.splitting
    splits = [*agreement.splits, Split(cell, slot)]
    return msgspec.structs.replace(agreement, splitting=splitting, splits=splits, unsplit=unsplit)


def refuse_split(agreement: Agreement, cell: int, why: str) -> Agreement:
    """Return the agreement without the request, and with the reason."""
    if agreement.splitting != cell:
        return agreement
    return msgspec.structs.replace(agreement, splitting=None, unsplit={**agreement.unsplit, str(cell): why})


class NotWhole(NoAnswer):
    """A cell's file lists a cell split off it that the agreement, as known here, does not have."""

    def __init__(self, cell: int, number: int, slot: int) -> None:
        super().__init__(f"cell {cell} was split; cell {number} has its slots from {slot} on")
        self.cell, self.number, self.slot = cell, number, slot


def check_whole(folder: CellFolder, starts: tuple[int, ...]) -> None:
    """Check that all cells split off a cell, by its file, are known; NotWhole if the agreement is out of date."""
    with closing(FrontierCell(folder.frontier, read_only=True)) as frontier:
        for number, slot in sorted(split_cells(frontier).items()):
            if number >= len(starts) or starts[number] != slot:
                raise NotWhole(folder.number, number, slot)


class Splitter:
    """Executor of splits of cells that this node owns; `run` lives in the cluster's own loop."""

    def __init__(
        self, wire: Wire, clock: Clock, thread: LoopThread, shared: str, owner: CellOwner, copies: CellCopies,
        agreement: Callable[[], Agreement],
    ) -> None:  # fmt: skip
        self._wire, self._clock, self._thread = wire, clock, thread
        self._shared, self._owner, self._copies = shared, owner, copies
        self._agreement = agreement
        self._failed: dict[int, int] = {}
        """By cell: number of failures."""

    def held(self) -> set[int]:
        """Return the cell that is owned here and must not be crawled now, because it is to be split; or none."""
        cell = self._agreement().splitting
        return {cell} & self._owner.owned.keys() if cell is not None else set()

    async def request_split_of_largest(self, nodes: Iterable[NodeState], most_urls: int) -> bool:
        """Request a split of the largest cell, if it knows too many URLs; return whether a split is pending."""
        agreement = self._agreement()
        if agreement.splitting is not None:
            return True
        if not most_urls or self._copies.snapshots is None or len(agreement.starts) >= MAX_CELLS:
            return False
        urls = {int(cell): known for node in nodes for cell, known in node.cells.items()}
        large = {cell: known for cell, known in urls.items() if known > most_urls}
        # A cell that could not be divided is not tried again, unless a user requests it.
        large = {cell: known for cell, known in large.items() if str(cell) not in agreement.unsplit}
        if not large:
            return False
        cell = max(large, key=lambda each: (large[each], -each))
        _log.info("cell=%d will be split urls=%d", cell, large[cell])
        # Only if no cell was split since these sizes were reported.
        await self._amend(lambda now: request_split(now, cell) if now.splits == agreement.splits else now)
        return True

    async def check(self, folder: CellFolder, starts: tuple[int, ...]) -> None:
        """Call `check_whole`; add a split that the agreement lacks to it before raising NotWhole."""
        try:
            await asyncio.to_thread(check_whole, folder, starts)
        except NotWhole as error:
            cell, number, slot = error.cell, error.number, error.slot
            await self._amend(lambda now: record_split(now, cell, number, slot))
            raise

    async def run(self) -> None:
        """Split cells that are to be split, until cancelled."""
        while True:
            held = self.held()
            self._failed = {cell: often for cell, often in self._failed.items() if cell in held}
            # Step 2 is done when the cell is no longer open for the crawler.
            for cell in held - self._copies.open:
                try:
                    await self._try_split(cell)
                except Exception as error:  # noqa: BLE001  # after any error the cell must be crawled again some day
                    _log.warning("cell=%d not split yet: %r", cell, error)
                    await self._clock.sleep(TRY_AGAIN_S)
            await self._clock.sleep(POLL_S)

    async def _try_split(self, cell: int) -> None:
        """Split a cell, or find that it cannot be; raise errors that may be tried again."""
        log = self._owner.owned.get(cell)
        if log is None:
            return
        try:
            await self._split_or_resume(cell, log)
        except (CannotSplit, TooLarge) as error:  # nothing was stored
            await self._refuse(cell, str(error))
        # errors of the session, of NATS or of an old agreement pass by themselves
        except (CellLost, NoAnswer, NumberTaken):
            raise
        except Exception as error:
            self._failed[cell] = self._failed.get(cell, 0) + 1
            # The batch may have been stored though its answer was lost: then the split has happened.
            if self._failed[cell] < TRIES or await log.has_log(len(self._agreement().starts)):
                raise
            await self._refuse(cell, f"failed after {TRIES} attempts: {error}")
            del self._failed[cell]

    async def _split_or_resume(self, cell: int, log: CellLog) -> None:
        """Split a cell that is not open, or find that it was split; then update the agreement."""
        starts = self._agreement().starts
        async with self._copies.lock_idle_cell(log) as folder:
            slot = await asyncio.to_thread(_slot_of, folder, len(starts))
            if slot is None:
                slot = await self._split(folder, log, starts)
        number = len(starts)
        await self._amend(lambda now: record_split(now, cell, number, slot))

    async def _split(self, folder: CellFolder, log: CellLog, starts: tuple[int, ...]) -> int:
        """Do steps 3 and 4 of the module docstring; return the first slot of the new cell."""
        snapshots = self._copies.snapshots
        if snapshots is None:
            raise CannotSplit("no destination for snapshots (cluster.snapshots)")
        first, end = cell_range(folder.number, starts)
        began, number = self._clock.ticks_s(), len(starts)
        if await log.has_log(number):
            raise NumberTaken(f"cell {number} already exists; the agreement is outdated")
        slot = await asyncio.to_thread(_middle_of, folder, first, end)
        seq, pointer = await snapshots.divide(log, folder, number, (slot, end), META_PREFIXES)
        gone = await asyncio.to_thread(self._commit_split, folder, log, (number, pointer, seq), slot, end)
        _log.info(
            "cell=%d split slot=%d new cell=%d urls=%d seconds=%.1f",
            folder.number, slot, number, gone, self._clock.ticks_s() - began,
        )  # fmt: skip
        return slot

    def _commit_split(
        self, folder: CellFolder, log: CellLog, new_cell: tuple[int, bytes, int], slot: int, end: int
    ) -> int:
        """Do step 4, in a thread: it waits for NATS."""
        journal = LogJournal(log, self._thread)
        with closing(FrontierCell(folder.frontier, journal=journal)) as frontier, frontier.transaction():
            # The first records of the new cell go into the batch of this transaction.
            journal.new_cell = new_cell
            return delete_slots(frontier, new_cell[0], slot, end, META_PREFIXES)

    async def _refuse(self, cell: int, why: str) -> None:
        _log.warning("cell=%d was not split: %s", cell, why)
        await self._amend(lambda now: refuse_split(now, cell, why))

    async def _amend(self, change: Callable[[Agreement], Agreement]) -> None:
        await amend_agreement(self._wire, self._clock, self._shared, change, self._agreement().replicas)
        await nudge(self._wire, self._shared)


def _slot_of(folder: CellFolder, number: int) -> int | None:
    """Return the first slot of a new cell, if it was split off this one before."""
    with closing(FrontierCell(folder.frontier, read_only=True)) as frontier:
        return split_cells(frontier).get(number)


def _middle_of(folder: CellFolder, first: int, end: int) -> int:
    with closing(FrontierCell(folder.frontier, read_only=True)) as frontier:
        slot = middle_slot(frontier, first, end)
    if slot is None:
        raise CannotSplit(f"cell {folder.number} cannot be split: all its sites are in one slot")
    return slot
