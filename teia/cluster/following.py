"""Cells that are about to be this node's: their copies are made and kept up before the cells change hands.

Moving a cell must not make its hosts wait for gigabytes. So the node that is to have a cell makes its copy first, goes
on following its log, and says so with its session (`ready`). Only then its keeper stops asking the cell's hosts, lets
what is under way end, commits and releases; the new keeper sees that within a moment and has a record or two to do. A
keeper whose successor never gets ready goes on.

A cell that was taken because its keeper is dead has to be brought up too. That is done beside the crawl of the cells
that are open, and the shift changes when all are there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from teia.clock import Clock
from teia.cluster.copies import Copies
from teia.cluster.journal import CellLog, CellLost
from teia.cluster.keeper import Keeper
from teia.cluster.objects import ObjectsAway
from teia.cluster.session import Session
from teia.cluster.snapshots import CannotRestore
from teia.cluster.wire import NoAnswer
from teia.errors import DiskFull, TeiaError

LOOK_S = 0.2
IDLE_LOOK_S = 1.0
"""How often is looked where nothing is to come and everything is ready; at once when a cell was taken."""

NEAR_COMMITS = 50
"""A copy that was so few commits behind is ready."""

TRY_AGAIN_S = 1.0
UNFIT_S = 30.0
"""How long a cell that cannot be restored here is left to others."""

_log = logging.getLogger(__name__)


class Follower:
    """Brings up what is kept and not yet open, and follows what is to come; runs in the cluster's own loop."""

    def __init__(self, keeper: Keeper, session: Session, copies: Copies, clock: Clock) -> None:
        self._keeper, self._session, self._copies, self._clock = keeper, session, copies, clock
        self.ready: set[int] = set()
        """Cells whose copies are up to their logs, or a moment behind."""
        self.failure: TeiaError | None = None
        """What nobody but a person can mend; the node ends with it."""
        self._under_way: dict[int, asyncio.Task[None]] = {}

    async def follow_for_ever(self) -> None:
        try:
            while not self._session.is_lost:
                try:
                    await self._look()
                except Exception as error:  # noqa: BLE001  # a node that follows no more would never be given a cell
                    _log.warning("cells to come not looked after: %r", error)
                    await self._clock.sleep(TRY_AGAIN_S)
                is_idle = not self._under_way and self.ready == set(self._keeper.kept)
                await self._keeper.news(within_s=IDLE_LOOK_S if is_idle else LOOK_S)
        finally:
            for task in self._under_way.values():
                task.cancel()

    async def _look(self) -> None:
        coming, kept = self._keeper.coming(), dict(self._keeper.kept)
        self.ready &= {*coming, *kept}
        self._under_way = {cell: task for cell, task in self._under_way.items() if not task.done()}
        logs = {cell: log for cell, log in kept.items() if cell not in self.ready}
        logs |= {cell: self._keeper.log_of(cell) for cell in coming if cell not in kept}
        for cell, log in logs.items():
            if cell not in self._under_way and cell not in self._copies.open:
                deed = self._bring(cell, log) if cell in kept else self._follow(cell, log)
                self._under_way[cell] = asyncio.get_running_loop().create_task(self._guarded(cell, deed))
        says = sorted(self.ready & set(coming))
        if says != self._session.node.ready:
            await self._say(says)

    async def _say(self, ready: list[int]) -> None:
        try:
            await self._session.tell_ready(ready)
        except NoAnswer as error:
            _log.info("ready cells not told: %s", error)

    async def _bring(self, cell: int, log: CellLog) -> None:
        """Bring up a cell that is ours already."""
        behind = await self._copies.follow(log, log.last)
        _log.info("cell=%d brought up commits=%d", cell, behind)
        self.ready.add(cell)

    async def _follow(self, cell: int, log: CellLog) -> None:
        """Bring up a cell that is another's still, as far as its log goes now."""
        head = await log.head()
        if head is None:
            self.ready.add(cell)
            return
        behind = await self._copies.follow(log, head.seq)
        if behind <= NEAR_COMMITS:
            self.ready.add(cell)
        if head.record.kind == "release":
            self._session.wake()

    async def _guarded(self, cell: int, deed: Coroutine[Any, Any, None]) -> None:
        """Do one thing for one cell; what goes wrong with it is no other cell's trouble."""
        try:
            await deed
        except (NoAnswer, CellLost, ObjectsAway, DiskFull) as error:
            _log.warning("cell=%d not brought up, tried again: %s", cell, error)
            await self._clock.sleep(TRY_AGAIN_S)
        except CannotRestore as error:
            await self.leave_to_others(cell, error)
        except TeiaError as error:
            self.failure = error

    async def leave_to_others(self, cell: int, why: CannotRestore) -> None:
        """Give up a cell whose snapshot cannot be read here, for a while; the other cells go on."""
        _log.error("cell=%d left to others: %s", cell, why)
        self._keeper.unfit[cell] = self._clock.ticks_s() + UNFIT_S
        self.ready.discard(cell)
        if cell in self._keeper.kept:
            await self._keeper.release([cell])
