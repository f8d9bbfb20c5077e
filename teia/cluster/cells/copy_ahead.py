"""Copies of cells that this node is about to own, made and followed before the cells change hands.

Moving a cell must not make its hosts wait for gigabytes. So the node that is to own a cell first makes its copy,
continues to follow its log, and announces that with its session (`ready`). Only then the present owner stops requests
to the cell's hosts, lets those under way end, commits and releases. The new owner sees that within a moment and has a
record or two to apply. If the successor never becomes ready, the owner continues.

A cell that was taken because its owner is dead has to be brought up too. That happens beside the crawl of the open
cells. The shift changes when all cells are up to date.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from teia.clock import Clock
from teia.cluster.cells.copies import CellCopies
from teia.cluster.cells.log import CellLog, CellLost
from teia.cluster.cells.owner import CellOwner
from teia.cluster.cells.snapshots import CannotRestore
from teia.cluster.members.session import NodeSession
from teia.cluster.nats.objects import ObjectsAway
from teia.cluster.nats.wire import NoAnswer
from teia.errors import DiskFull, TeiaError

POLL_S = 0.2
IDLE_POLL_S = 1.0
"""Interval between polls while no cell is upcoming and all are ready; a cell that was taken triggers a poll at once."""

NEAR_COMMITS = 50
"""Number of commits behind its log up to which a copy counts as ready."""

TRY_AGAIN_S = 1.0
UNFIT_S = 30.0
"""Time for which a cell that cannot be restored here is left to other nodes."""

_log = logging.getLogger(__name__)


class Follower:
    """Updater of copies: of cells owned and not yet open, and of cells to come; runs in the cluster's own loop."""

    def __init__(self, owner: CellOwner, session: NodeSession, copies: CellCopies, clock: Clock) -> None:
        self._owner, self._session, self._copies, self._clock = owner, session, copies, clock
        self.ready: set[int] = set()
        """Cells whose copies are up to their logs, or a moment behind."""
        self.failure: TeiaError | None = None
        """An error that only a user can fix; the node ends with it."""
        self._copying: dict[int, asyncio.Task[None]] = {}

    async def follow_for_ever(self) -> None:
        try:
            while not self._session.is_lost:
                try:
                    await self._poll()
                except Exception as error:  # noqa: BLE001  # a node that stops following would never be given a cell
                    _log.warning("upcoming cells not checked: %r", error)
                    await self._clock.sleep(TRY_AGAIN_S)
                is_idle = not self._copying and self.ready == set(self._owner.owned)
                await self._owner.wait_for_taken(within_s=IDLE_POLL_S if is_idle else POLL_S)
        finally:
            for task in self._copying.values():
                task.cancel()

    async def _poll(self) -> None:
        upcoming, owned = self._owner.upcoming_cells(), dict(self._owner.owned)
        # Cells that are to go elsewhere now are forgotten.
        self.ready &= {*upcoming, *owned}
        self._copying = {cell: task for cell, task in self._copying.items() if not task.done()}
        logs = {cell: log for cell, log in owned.items() if cell not in self.ready}
        logs |= {cell: self._owner.log_of(cell) for cell in upcoming if cell not in owned}
        for cell, log in logs.items():
            if cell not in self._copying and cell not in self._copies.open:
                copying = self._copy_owned(cell, log) if cell in owned else self._copy_upcoming(cell, log)
                self._copying[cell] = asyncio.get_running_loop().create_task(self._run_guarded(cell, copying))
        announced = sorted(self.ready & set(upcoming))
        # Only a change is reported, because each report is a write to NATS.
        if announced != self._session.node.ready:
            await self._report_ready(announced)

    async def _report_ready(self, ready: list[int]) -> None:
        try:
            await self._session.report_ready(ready)
        except NoAnswer as error:
            _log.info("ready cells not reported: %s", error)

    async def _copy_owned(self, cell: int, log: CellLog) -> None:
        """Bring up a cell that this node already owns."""
        commits = await self._copies.follow(log, log.last)
        _log.info("cell=%d copied ahead commits=%d", cell, commits)
        self.ready.add(cell)

    async def _copy_upcoming(self, cell: int, log: CellLog) -> None:
        """Bring up a cell that another node still owns, as far as its log goes now."""
        head = await log.head()
        # No node has owned it yet: there is nothing to copy.
        if head is None:
            self.ready.add(cell)
            return
        commits = await self._copies.follow(log, head.seq)
        if commits <= NEAR_COMMITS:
            self.ready.add(cell)
        # Its owner has released it: the node looks at once, not at the next beat.
        if head.record.kind == "release":
            self._session.wake()

    async def _run_guarded(self, cell: int, copying: Coroutine[Any, Any, None]) -> None:
        """Run one action for one cell, so that its failure does not affect other cells."""
        try:
            await copying
        except (NoAnswer, CellLost, ObjectsAway, DiskFull) as error:
            _log.warning("cell=%d not copied ahead, retrying: %s", cell, error)
            await self._clock.sleep(TRY_AGAIN_S)
        except CannotRestore as error:
            await self.leave_to_others(cell, error)
        except TeiaError as error:
            self.failure = error

    async def leave_to_others(self, cell: int, why: CannotRestore) -> None:
        """Give up a cell whose snapshot cannot be read here, for a while; the other cells continue."""
        _log.error("cell=%d skipped, left to other nodes: %s", cell, why)
        self._owner.unfit_until[cell] = self._clock.ticks_s() + UNFIT_S
        self.ready.discard(cell)
        if cell in self._owner.owned:
            await self._owner.release([cell])
