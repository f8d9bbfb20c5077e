"""A cell that has grown too large becomes two: who wants it, who does it, and what holds at every moment.

    1  somebody writes into the agreement that a cell is to be split: the balancer, or a person. One cell at a time
    2  its keeper ends the shift; the next one crawls its other cells meanwhile
    3  it copies the cell's file, makes the copy into the new cell's (frontier/splitting.py), and stores that as the new
       cell's first snapshot
    4  one atomic batch: the pointer to that snapshot in `snap.<new>`, a record in `log.<new>` that says that nobody
       keeps it yet, and in `log.<old>`, on condition that the one before is still the last, a commit that deletes what
       went. From here on there are two cells
    5  the agreement says where the new cell begins; all nodes look after it from then on, the circle says whose it is

Before 4 there are at most objects that nobody names. A keeper that dies there leaves the wish, and the next one begins
anew. After 4 the old cell's own file says what was split off it, so whoever keeps it next does 5, whatever became of
the wish meanwhile. Nobody can open it as if it were whole: what it says and what is agreed on must be the same first
(`Splitter.check`).

The new number is the next one. It cannot be given twice: there is one wish at a time, and NATS takes the batch only if
`log.<new>` is new. For the same reason a split is refused only as long as there is no such log. What goes wrong is
tried again; if it goes wrong for a while and nothing was stored, the cell is crawled again and the reason is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import closing

import msgspec

from teia.clock import Clock
from teia.cluster.agreement import Agreement, Split, amend_agreement, nudge
from teia.cluster.copies import Copies
from teia.cluster.homes import AWAY, GUEST, REST
from teia.cluster.journal import MOST_CELLS, CellLog, CellLost, NumberTaken, TooLarge
from teia.cluster.keeper import Keeper
from teia.cluster.publishing import LogJournal
from teia.cluster.session import NodeState
from teia.cluster.thread import LoopThread
from teia.cluster.wire import NoAnswer, Wire
from teia.errors import ClusterError
from teia.frontier.cell import FrontierCell
from teia.frontier.splitting import give_up, middle, split_off
from teia.store.root import CellFolder
from teia.urls import cell_range

NAMED = (REST, AWAY, GUEST)
"""How the rows of `meta` begin that belong to a host or a site."""

LOOK_S = 0.2
TRY_AGAIN_S = 2.0
TRIES = 30
"""So often something goes wrong with a split before it is given up, if it has not happened."""

_log = logging.getLogger(__name__)


class CannotSplit(ClusterError):
    """A cell cannot be divided as it is; the wish is taken back."""


def wish(agreement: Agreement, cell: int) -> Agreement:
    """What is agreed on, with the wish that a cell be split; ClusterError if that cannot be wished for now."""
    if not 0 <= cell < len(agreement.starts):
        raise ClusterError(f"there is no cell {cell}; they are numbered from 0 to {len(agreement.starts) - 1}")
    if agreement.splitting not in {None, cell}:
        raise ClusterError(f"cell {agreement.splitting} is being split; one at a time")
    if len(agreement.starts) >= MOST_CELLS:
        raise ClusterError(f"a cluster has {MOST_CELLS} cells at the most, and there are as many")
    if not agreement.config.cluster.snapshots:
        raise ClusterError("a cell is split by way of a snapshot, and this collection has none (cluster.snapshots)")
    refused = {each: why for each, why in agreement.unsplit.items() if each != str(cell)}
    return msgspec.structs.replace(agreement, splitting=cell, unsplit=refused)


def fulfilled(agreement: Agreement, cell: int, number: int, slot: int) -> Agreement:
    """What is agreed on, with a cell that was split off another; unchanged if it says so already.

    It was split whether or not that is still wished for: its file says so.
    """
    if len(agreement.starts) != number:
        return agreement
    unsplit = {each: why for each, why in agreement.unsplit.items() if each != str(cell)}
    splitting = None if agreement.splitting == cell else agreement.splitting
    splits = [*agreement.splits, Split(cell, slot)]
    return msgspec.structs.replace(agreement, splitting=splitting, splits=splits, unsplit=unsplit)


def refused(agreement: Agreement, cell: int, why: str) -> Agreement:
    """What is agreed on, without the wish, and why."""
    if agreement.splitting != cell:
        return agreement
    return msgspec.structs.replace(agreement, splitting=None, unsplit={**agreement.unsplit, str(cell): why})


class NotWhole(NoAnswer):
    """A cell's file says that another was split off it, and what is agreed on does not, as far as is known here."""

    def __init__(self, cell: int, number: int, slot: int) -> None:
        super().__init__(f"cell {cell} was split, cell {number} has its slots from {slot} on")
        self.cell, self.number, self.slot = cell, number, slot


def check_whole(folder: CellFolder, starts: tuple[int, ...]) -> None:
    """See to it that what a cell's file says was split off it is known; NotWhole if what is agreed on is behind."""
    with closing(FrontierCell(folder.frontier, read_only=True)) as frontier:
        for number, slot in sorted(split_off(frontier.db).items()):
            if number >= len(starts) or starts[number] != slot:
                raise NotWhole(folder.number, number, slot)


class Splitter:
    """Splits the cells that this node keeps and that are to be split; `run` lives in the cluster's own loop."""

    def __init__(
        self, wire: Wire, clock: Clock, thread: LoopThread, shared: str, keeper: Keeper, copies: Copies,
        agreement: Callable[[], Agreement],
    ) -> None:  # fmt: skip
        self._wire, self._clock, self._thread = wire, clock, thread
        self._shared, self._keeper, self._copies = shared, keeper, copies
        self._agreement = agreement
        self._failed: dict[int, int] = {}
        """By cell: how often something went wrong."""

    def held(self) -> set[int]:
        """The cell that is kept here and must not be crawled now, because it is to be split; or none."""
        cell = self._agreement().splitting
        return {cell} & self._keeper.kept.keys() if cell is not None else set()

    async def wish_for_large(self, nodes: Iterable[NodeState], most_urls: int) -> bool:
        """Wish that the largest cell be split, if it knows more URLs than it may; whether one is being split."""
        agreement = self._agreement()
        if agreement.splitting is not None:
            return True
        if not most_urls or self._copies.snapshots is None or len(agreement.starts) >= MOST_CELLS:
            return False
        urls = {int(cell): known for node in nodes for cell, known in node.cells.items()}
        large = {cell: known for cell, known in urls.items() if known > most_urls}
        large = {cell: known for cell, known in large.items() if str(cell) not in agreement.unsplit}
        if not large:
            return False
        cell = max(large, key=lambda each: (large[each], -each))
        _log.info("cell=%d is to be split urls=%d", cell, large[cell])
        await self._agree(lambda now: wish(now, cell) if now.splits == agreement.splits else now)
        return True

    async def check(self, folder: CellFolder, starts: tuple[int, ...]) -> None:
        """`check_whole`; what a cell's file says and nobody heard of yet is said before NotWhole."""
        try:
            await asyncio.to_thread(check_whole, folder, starts)
        except NotWhole as error:
            cell, number, slot = error.cell, error.number, error.slot
            await self._agree(lambda now: fulfilled(now, cell, number, slot))
            raise

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            held = self.held()
            self._failed = {cell: often for cell, often in self._failed.items() if cell in held}
            for cell in held - self._copies.open:
                try:
                    await self._try(cell)
                except Exception as error:  # noqa: BLE001  # whatever it is: the cell must be crawled again some day
                    _log.warning("cell=%d not split yet: %r", cell, error)
                    await self._clock.sleep(TRY_AGAIN_S)
            await self._clock.sleep(LOOK_S)

    async def _try(self, cell: int) -> None:
        """Split a cell, or find that it cannot be; raises what may be tried again."""
        log = self._keeper.kept.get(cell)
        if log is None:
            return
        try:
            await self._attend(cell, log)
        except (CannotSplit, TooLarge) as error:  # nothing was stored
            await self._refuse(cell, str(error))
        except (CellLost, NoAnswer, NumberTaken):  # of the session, of NATS, of what we know: that comes right
            raise
        except Exception as error:
            self._failed[cell] = self._failed.get(cell, 0) + 1
            if self._failed[cell] < TRIES or await log.has_log(len(self._agreement().starts)):
                raise
            await self._refuse(cell, f"tried {TRIES} times: {error}")
            del self._failed[cell]

    async def _attend(self, cell: int, log: CellLog) -> None:
        """Split a cell that nobody has open, or find that it is; then say so."""
        starts = self._agreement().starts
        async with self._copies.having(log) as folder:
            slot = await asyncio.to_thread(_slot_of, folder, len(starts))
            if slot is None:
                slot = await self._split(folder, log, starts)
        number = len(starts)
        await self._agree(lambda now: fulfilled(now, cell, number, slot))

    async def _split(self, folder: CellFolder, log: CellLog, starts: tuple[int, ...]) -> int:
        """Steps 3 and 4; returns the first slot of the new cell."""
        snapshots = self._copies.snapshots
        if snapshots is None:
            raise CannotSplit("there is no place for snapshots (cluster.snapshots)")
        first, end = cell_range(folder.number, starts)
        began, number = self._clock.ticks_s(), len(starts)
        if await log.has_log(number):
            raise NumberTaken(f"there is a cell {number} already; what is agreed on is behind")
        slot = await asyncio.to_thread(_middle_of, folder, first, end)
        seq, pointer = await snapshots.divide(folder, number, (slot, end), NAMED)
        gone = await asyncio.to_thread(self._give_up, folder, log, (number, pointer, seq), slot, end)
        _log.info(
            "cell=%d split slot=%d new cell=%d urls=%d seconds=%.1f",
            folder.number, slot, number, gone, self._clock.ticks_s() - began,
        )  # fmt: skip
        return slot

    def _give_up(self, folder: CellFolder, log: CellLog, born: tuple[int, bytes, int], slot: int, end: int) -> int:
        """Step 4, in a thread: it waits for NATS."""
        journal = LogJournal(log, self._thread)
        with closing(FrontierCell(folder.frontier, journal=journal)) as frontier, frontier.transaction():
            journal.born = born
            return give_up(frontier, born[0], slot, end, NAMED)

    async def _refuse(self, cell: int, why: str) -> None:
        _log.warning("cell=%d is not split: %s", cell, why)
        await self._agree(lambda now: refused(now, cell, why))

    async def _agree(self, change: Callable[[Agreement], Agreement]) -> None:
        await amend_agreement(self._wire, self._clock, self._shared, change, self._agreement().replicas)
        await nudge(self._wire, self._shared)


def _slot_of(folder: CellFolder, number: int) -> int | None:
    """Where a new cell begins, if it was split off this one before."""
    with closing(FrontierCell(folder.frontier, read_only=True)) as frontier:
        return split_off(frontier.db).get(number)


def _middle_of(folder: CellFolder, first: int, end: int) -> int:
    with closing(FrontierCell(folder.frontier, read_only=True)) as frontier:
        slot = middle(frontier.db, first, end)
    if slot is None:
        raise CannotSplit(f"cell {folder.number} cannot be divided: all its sites are in one slot")
    return slot
