"""Schedule of snapshots: every ten minutes or 256 MB of log, one cell after another, and when the stream runs full.

A cell whose file has nothing new is left alone. Copying takes at most a twentieth of the time: a snapshot that took a
minute is not repeated for twenty. A failed snapshot is tried again after a while; the log holds the data meanwhile.

A stream that is full would take no pointer either, and nothing could ever be purged. So commits stop at nine tenths of
its room (`has_room`), snapshots are made at once, and the crawl continues when they have made room.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from teia.clock import Clock
from teia.cluster.cells.copies import CellCopies
from teia.cluster.cells.log import CellLog, CellLost, stream_name
from teia.cluster.cells.owner import CellOwner
from teia.cluster.cells.ship_archive import ArchiveTransfers
from teia.cluster.cells.snapshots import Snapshots
from teia.cluster.nats.wire import Wire
from teia.config.sections import ClusterSettings
from teia.errors import TeiaError

POLL_S = 1.0
TRY_AGAIN_S = 30.0
SHARE = 20
ALMOST_FULL = 0.9
SPACE_POLL_S = 2.0
_log = logging.getLogger(__name__)


class StreamSpace:
    """The room of a collection's stream for more commits, as of a moment ago."""

    def __init__(self, wire: Wire, clock: Clock, collection: str) -> None:
        self.has_room = True
        self._wire, self._clock, self._stream = wire, clock, stream_name(collection)
        self._check_at = 0.0

    async def refresh(self) -> None:
        if self._clock.ticks_s() < self._check_at:
            return
        self._check_at = self._clock.ticks_s() + SPACE_POLL_S
        info = await self._wire.request(self._wire.js.stream_info(self._stream))
        most = info.config.max_bytes or -1
        had_room, self.has_room = self.has_room, most <= 0 or info.state.bytes < ALMOST_FULL * most
        # Only a change is logged.
        if had_room and not self.has_room:
            _log.warning("stream %s is almost full bytes=%d of=%d: commits wait", self._stream, info.state.bytes, most)
        elif self.has_room and not had_room:
            _log.warning("stream %s has room again bytes=%d of=%d", self._stream, info.state.bytes, most)


@dataclass(slots=True)
class SnapshotScheduler:
    """Scheduler of snapshots of the cells that a node owns; runs in the cluster's own loop."""

    snapshots: Snapshots
    settings: ClusterSettings
    owner: CellOwner
    copies: CellCopies
    space: StreamSpace
    clock: Clock
    transfers: ArchiveTransfers | None = None
    _due: dict[int, tuple[int, float]] = field(default_factory=dict)
    """By cell: an epoch, and the time at which a snapshot is due in it."""
    _not_before: dict[int, float] = field(default_factory=dict)
    _idle_until: dict[int, float] = field(default_factory=dict)
    """By cell: the time until which a cell without news is not checked again, even if room is short."""

    async def save_for_ever(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            try:
                await self.space.refresh()
            except Exception as error:  # noqa: BLE001  # after any error of NATS it is tried again
                _log.info("free space not checked: %s", error)
            for cell, log in list(self.owner.owned.items()):
                if cell in self.copies.open and not is_over():
                    await self._save_if_due(cell, log)
            await self.clock.sleep(POLL_S)

    async def _save_if_due(self, cell: int, log: CellLog) -> None:
        """Make a snapshot of a cell if one is due."""
        began = self.clock.ticks_s()
        if began < self._not_before.get(cell, 0.0):
            return
        try:
            if not await self._is_due(cell, log, began):
                return
            # The archive first: captures that the snapshot names are stored before it.
            if self.transfers is not None:
                await self.transfers.upload(self.copies.folders[cell])
            is_short = not self.space.has_room
            made = await self.snapshots.save(log, self.copies.folders[cell], must_make_room=is_short)
        except CellLost as error:
            _log.info("snapshot rejected: %s", error)
        except TeiaError as error:
            self._not_before[cell] = self.clock.ticks_s() + TRY_AGAIN_S
            _log.warning("cell=%d no snapshot: %s", cell, error)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  # after any error the log still has the data, and it is tried again
            self._not_before[cell] = self.clock.ticks_s() + TRY_AGAIN_S
            _log.warning("cell=%d no snapshot: %r", cell, error)
        else:
            now = self.clock.ticks_s()
            if made is None:
                self._idle_until[cell] = now + TRY_AGAIN_S
            self._due[cell] = (log.epoch, now + max(self.settings.snapshot_s, SHARE * (now - began)))

    async def _is_due(self, cell: int, log: CellLog, now: float) -> bool:
        epoch, due_at = self._due.get(cell, (0, 0.0))
        # A new epoch: the age of the last owner's snapshot counts.
        if epoch != log.epoch:
            pointer = await self.snapshots.pointer_of(log)
            age_s = 0.0 if pointer is None else max(0.0, self.clock.now_s() - pointer.last.time_s)
            due_at = now + max(0.0, self.settings.snapshot_s - age_s)
            if pointer is not None and self.snapshots.is_last_damaged(pointer):
                due_at = now
            self._due[cell] = (log.epoch, due_at)
        if not self.space.has_room:  # a new owner has written nothing, but earlier records may be in no snapshot
            return bool(log.unsaved_bytes) or now >= self._idle_until.get(cell, 0.0)
        is_large = log.unsaved_bytes >= self.settings.snapshot_log_bytes
        return bool(log.unsaved_bytes) and (now >= due_at or is_large)
