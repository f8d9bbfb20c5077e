"""Background work of a node for its cells: copies brought up, snapshots made, archives downloaded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from teia.clock import Clock
from teia.cluster.cells.copies import CellCopies
from teia.cluster.cells.copy_ahead import Follower
from teia.cluster.cells.log import MAX_CELLS, CellLog
from teia.cluster.cells.owner import CellOwner
from teia.cluster.cells.ship_archive import ArchiveTransfers
from teia.cluster.cells.snapshot_schedule import SnapshotScheduler, StreamSpace
from teia.cluster.cells.snapshots import CannotRestore
from teia.cluster.members.session import NodeSession
from teia.cluster.nats.objects import Objects
from teia.config.sections import ClusterSettings

GATHER_S = 5.0
"""Time that ready cells wait for others that are not, between two shifts."""

HAND_OVER_S = 20.0
"""Time that cells ready for hand-over wait for others that are to go too: each change of shift costs seconds."""

SETTLE_S = 0.3
"""Time without changes after which a shift begins: cells are taken one after another."""

POLL_S = 1.0
TRY_AGAIN_S = 30.0
_log = logging.getLogger(__name__)


class Upkeep:
    """The upkeep of one session's cells; `run` lives in the cluster's own loop, the rest is safe from any loop."""

    def __init__(
        self,
        owner: CellOwner,
        session: NodeSession,
        copies: CellCopies,
        objects: Objects | None,
        settings: ClusterSettings,
        clock: Clock,
    ) -> None:
        self.copies = copies
        self._follower = Follower(owner, session, copies, clock)
        self._owner, self._session, self._clock = owner, session, clock
        self._saver: SnapshotScheduler | None = None
        self.transfers = ArchiveTransfers(objects) if objects is not None and settings.ship_archive else None
        self._waiting_since: float | None = None
        self._handing_since: float | None = None
        self._owned: set[int] = set()
        self._settled_at = 0.0
        self.held: Callable[[], set[int]] = set
        """Cells that are owned and must not be crawled now."""
        self.original_cells = MAX_CELLS
        """Number of cells that were not split off others."""
        if copies.snapshots is not None:
            space = StreamSpace(session.wire, clock, owner.collection)
            owner.has_room = lambda: space.has_room
            self._saver = SnapshotScheduler(copies.snapshots, settings, owner, copies, space, clock, self.transfers)

    async def run(self) -> None:
        """Work until the session is lost, or cancelled."""
        tasks: list[Awaitable[None]] = [self._follower.follow_for_ever()]
        if self._saver is not None:
            tasks.append(self._saver.save_for_ever(self._is_over))
        if self.transfers is not None:
            tasks.append(self._download_archives(self.transfers))
        await asyncio.gather(*tasks)

    def _is_over(self) -> bool:
        return self._session.is_lost or self._owner.is_leaving

    # -- for the node ----------------------------------------------------------------------------------------

    def next_shift(self) -> dict[int, CellLog]:
        """Return the cells that a shift would open now; none while it waits for cells that are almost ready."""
        if self._follower.failure is not None:
            raise self._follower.failure
        held = self.held()
        owned = {cell: log for cell, log in list(self._owner.owned.items()) if cell not in held}
        ready = {cell: log for cell, log in owned.items() if cell in self._follower.ready}
        now = self._clock.ticks_s()
        if not self._are_settled(set(owned)):
            return {}
        if len(ready) == len(owned):
            self._waiting_since = None
            return ready
        if self._waiting_since is None:
            self._waiting_since = now
        return ready if now - self._waiting_since >= GATHER_S else {}

    async def leave_to_others(self, error: CannotRestore) -> None:
        """Continue without a cell that could not be opened for a shift. In the cluster's own loop."""
        assert error.cell is not None
        await self._follower.leave_to_others(error.cell, error)

    def needs_new_shift(self, opened: set[int]) -> bool:
        """Tell whether a shift should end: a cell was lost, some can be handed over, or all cells taken are ready."""
        owned = set(self._owner.owned) - self.held()
        new = owned - opened
        are_new_ready = new <= self._follower.ready and self._are_settled(owned)
        return bool(
            self._follower.failure is not None or opened - owned or (new and are_new_ready) or self._can_hand_over()
        )

    def _are_settled(self, owned: set[int]) -> bool:
        now = self._clock.ticks_s()
        if owned != self._owned:
            self._owned, self._settled_at = owned, now + SETTLE_S
        return now >= self._settled_at

    def _can_hand_over(self) -> bool:
        """Tell whether the new owners of all cells to hand over are ready; or of some, if the others take too long."""
        held, now = self.held(), self._clock.ticks_s()
        ready = self._owner.cells_to_hand_over().keys() - held
        if not ready:
            self._handing_since = None
            return False
        if self._handing_since is None:
            self._handing_since = now
        if len(ready) < len(self._owner.misplaced_cells().keys() - held) and now - self._handing_since < HAND_OVER_S:
            return False
        self._handing_since = None
        return True

    # -- archives --------------------------------------------------------------------------------------------

    async def _download_archives(self, transfers: ArchiveTransfers) -> None:
        """Download the archives of cells that were taken, one after another, while they are crawled."""
        done: dict[int, int] = {}
        not_before: dict[int, float] = {}
        while not self._is_over():
            for cell, log in list(self._owner.owned.items()):
                is_new = done.get(cell) != log.epoch and self._clock.ticks_s() >= not_before.get(cell, 0.0)
                if cell not in self.copies.open or not is_new:
                    continue
                try:
                    downloaded = await transfers.download(self.copies.folders[cell])
                    if cell >= self.original_cells:
                        downloaded += await transfers.download_parents(self.copies.folders[cell], self._owner.owned)
                    done[cell] = log.epoch
                    _log.info("cell=%d archive files fetched=%d", cell, downloaded)
                # after any error it is tried again, and other cells continue
                except Exception as error:  # noqa: BLE001
                    not_before[cell] = self._clock.ticks_s() + TRY_AGAIN_S
                    _log.warning("cell=%d archive files not fetched: %r", cell, error)
            await self._clock.sleep(POLL_S)
