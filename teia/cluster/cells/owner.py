"""Ownership of cells: this node takes cells without an owner, and gives up those that belong to another node.

The last record of each cell's log decides. A cell is *free* when it has no record, when the last one is a `release`, or
when the session that wrote it is over: declared dead, left, or followed by another of the same name (instances.py). Of
the live nodes the first in the cell's order takes a free cell at once. Each next node waits a while longer, in case the
ones before it cannot. Cells are taken in parallel: a node that dies may leave hundreds.
If two nodes take a cell at the same time, NATS accepts one and refuses the other. A cell that never had an owner is
left for a moment, so that nodes which are started together share the cells out before they begin.

An owner checks its session before every request that it sends to the web (`may_fetch`). Work that it had not committed
when it lost a cell is dropped. Only the requests under way at that moment are ever repeated by another node.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from teia.clock import Clock
from teia.cluster.cells.log import CellLog, CellLost, LogEntry, StreamFull
from teia.cluster.members.session import NodeSession, NodeState
from teia.cluster.nats.wire import NoAnswer, Wire

RANK_WAIT_S = 2.0
"""Additional wait for a free cell of each node after the one before it in the cell's order."""

FIRST_WAIT_S = 2.0
"""Wait for a cell that never had an owner, counted from the last arrival of a node."""

FIRST_MOST_S = 5.0
"""Longest wait for a cell that never had an owner, and the additional wait for each node before this one.

A node before this one in the cell's order may have started a moment ago: handing a cell over costs more than waiting.
"""

FREE_POLL_S = 0.5
"""Interval at which a cell is checked again that is free and not yet ours to take, or that NATS did not report."""

AT_ONCE = 16
"""Cells that are checked in parallel."""

Order = Callable[[int, Mapping[str, NodeState]], Sequence[str]]
"""Function that orders the nodes that may own a cell, best first, given the live nodes."""

_log = logging.getLogger(__name__)


class CellOwner:
    """The cells of one collection that one node owns; see the module."""

    def __init__(
        self,
        wire: Wire,
        clock: Clock,
        session: NodeSession,
        collection: str,
        cells: Iterable[int],
        order: Order,
        rank_wait_s: float = RANK_WAIT_S,
        first_wait_s: float = 0.0,
    ) -> None:
        self.owned: dict[int, CellLog] = {}
        self.collection = collection
        self.cells = tuple(cells)
        self.is_leaving = False
        self.unfit_until: dict[int, float] = {}
        """Cells that could not be brought up here, and the times until which they are left to other nodes."""
        self.has_room: Callable[[], bool] = lambda: True
        """True if the stream has room for commits."""
        self._wire = wire
        self._clock = clock
        self._session = session
        self._order = order
        self._rank_wait_s = rank_wait_s
        self._first_wait_s = first_wait_s
        self._free_since: dict[int, float] = {}
        self._releasing: set[int] = set()
        self._taken = asyncio.Event()

    def may_fetch(self, cell: int) -> bool:
        """Tell whether a request to a host of this cell may be sent now."""
        log = self.owned.get(cell)
        # A log that an earlier session of this node took proves nothing.
        return log is not None and log.instance == self._session.instance and self._session.may_work

    def drop_all(self) -> None:
        """Give up all cells without a release; called when the session is lost."""
        self.owned.clear()
        self._free_since.clear()

    def log_of(self, cell: int) -> CellLog:
        """Return the log of a cell as this node's session would write it."""
        session, instance = self._session, self._session.instance
        log = CellLog(
            self._wire, self._clock, self.collection, cell, session.node.name, instance,
            # Bound to the present session in NATS: in a later one the node takes its cells anew.
            is_over=lambda: session.is_lost or session.instance != instance,
        )  # fmt: skip
        log.has_room = lambda: self.has_room()
        log.changes_format = session.common_format
        return log

    async def take_free_cells(self, on_taken: Callable[[int], None] = lambda _: None) -> list[int]:
        """Check every cell once, take those that are free and ours to take, and return them.

        `on_taken` is called for each cell before it is in `owned`, and so before a request to its hosts is allowed.
        NoAnswer while NATS is away.
        """
        others, limit = self._owned_by_others(), asyncio.Semaphore(AT_ONCE)
        for cell in others:
            self._free_since.pop(cell, None)

        async def take_limited(cell: int) -> bool:
            async with limit:
                return await self._try_take(cell, on_taken)

        cells = [cell for cell in self.cells if cell not in others]
        # Wait for all, even if one fails: the client may swallow a cancellation.
        done = await asyncio.gather(*map(take_limited, cells), return_exceptions=True)
        for each in done:
            if isinstance(each, BaseException):
                raise each
        return [cell for cell, is_taken in zip(cells, done, strict=True) if is_taken]

    async def _try_take(self, cell: int, on_taken: Callable[[int], None]) -> bool:
        """Take a cell if it is free and ours to take; return whether it was taken."""
        if cell in self.owned or cell in self._releasing or self.is_leaving or not self._session.may_work:
            return False
        if self.unfit_until.get(cell, 0.0) > self._clock.ticks_s():
            return False
        log = self.log_of(cell)
        head = await log.head()
        if not self._may_take(cell, head):
            return False
        try:
            await log.take(head)
        except CellLost:
            self._free_since.pop(cell, None)  # another node was faster
            return False
        self._free_since.pop(cell, None)
        on_taken(cell)
        self.owned[cell] = log
        self._taken.set()
        _log.info("cell=%d taken epoch=%d", cell, log.epoch)
        return True

    async def wait_for_taken(self, within_s: float) -> None:
        """Return when a cell was taken, or after a while; for one waiting task."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._taken.wait()
        self._taken.clear()

    def _owned_by_others(self) -> set[int]:
        """Return cells that other nodes report as theirs and that are not to be ours next.

        Their logs need not be read.
        """
        alive, name = self._session.alive(), self._session.node.name
        reported = {int(cell) for node in alive.values() if node.name != name for cell in node.cells}
        return {cell for cell in reported if next(iter(self._order(cell, alive)), "") != name}

    def _may_take(self, cell: int, head: LogEntry | None) -> bool:
        """Tell whether a cell is free and this node has waited long enough to take it."""
        now = self._clock.ticks_s()
        if not self._is_free(head):
            self._free_since.pop(cell, None)
            return False
        since = self._free_since.setdefault(cell, now)
        order = list(self._order(cell, self._session.alive()))
        # The last owner named its successor, which does not wait for its rank.
        if head is not None and head.record.kind == "release" and head.record.to in order:
            order.remove(head.record.to)
            order.insert(0, head.record.to)
        name, wait_s, rank_wait_s = self._session.node.name, 0.0, self._rank_wait_s
        if head is None and self._first_wait_s:
            wait_s, rank_wait_s = self._first_wait_s, FIRST_MOST_S
            # Nodes that keep arriving delay the first owner, but not for ever.
            since = max(since, min(self._session.last_join_at, since + FIRST_MOST_S - wait_s))
        return name in order and now - since >= wait_s + order.index(name) * rank_wait_s

    def _is_free(self, head: LogEntry | None) -> bool:
        if head is None or head.record.kind == "release":
            return True
        if head.record.instance == self._session.instance:
            return True  # it was dropped here because its file fell behind, and no other node has it
        return self._session.is_over(head.record.node, head.record.instance)

    def misplaced_cells(self) -> dict[int, str]:
        """Return the cells owned here that another node should own, and that node."""
        alive = self._session.alive()
        first = {cell: next(iter(self._order(cell, alive)), "") for cell in list(self.owned)}
        return {cell: node for cell, node in first.items() if node and node != self._session.node.name}

    def cells_to_hand_over(self) -> dict[int, str]:
        """Return those of `misplaced_cells` whose next owner has a copy and is ready."""
        alive = self._session.alive()
        return {
            cell: node for cell, node in self.misplaced_cells().items() if node in alive and cell in alive[node].ready
        }

    def upcoming_cells(self) -> list[int]:
        """Return the cells that should be ours and are not owned here yet."""
        alive, name, now = self._session.alive(), self._session.node.name, self._clock.ticks_s()
        if not self._session.has_watched or self.is_leaving:
            return []
        return [
            cell for cell in self.cells
            if cell not in self.owned and self.unfit_until.get(cell, 0.0) <= now
            and next(iter(self._order(cell, alive)), "") == name
        ]  # fmt: skip

    async def release(self, cells: Collection[int], to: Mapping[int, str] | None = None) -> None:
        """Give cells up cleanly; all writes to them must have finished."""
        self._releasing.update(cells)
        try:
            for cell in cells:
                # Out of `owned` first: no request is sent once the release is being written.
                log = self.owned.pop(cell, None)
                if log is not None:
                    await self._release(log, (to or {}).get(cell, ""))
        finally:
            self._releasing.difference_update(cells)

    @staticmethod
    async def _release(log: CellLog, to: str) -> None:
        try:
            await log.release(to)
        except (CellLost, NoAnswer, StreamFull) as error:
            _log.info("cell=%d not released: %s", log.cell, error)

    async def run(self, on_taken: Callable[[int], None]) -> None:
        """Take free cells whenever a node comes or goes, and every beat, until cancelled or the session is lost."""
        while not self._session.is_lost:
            is_well = True
            try:
                await self.take_free_cells(on_taken)
            except Exception as error:  # noqa: BLE001  # after any error of NATS it is tried again
                _log.info("cells not checked: %s", error)
                is_well = False
            soon_s = 60.0 if is_well and not self._free_since else FREE_POLL_S
            wait_s = min(self._session.pace.beat_s, self._rank_wait_s, soon_s)
            await self._session.wait_for_change(within_s=wait_s)
            await asyncio.sleep(0)
