"""A cell's journal in a cluster: the changes of a transaction go to the cell's log in NATS before it commits."""

from __future__ import annotations

import time
import zlib

from isal import isal_zlib

from teia.cluster.cells.log import Born, CellLog, CellLost
from teia.cluster.nats.thread import LoopThread
from teia.errors import ClusterError

MAX_CHANGES_BYTES = 1 << 30


class LogJournal:
    """Publisher of one cell's changes (`Journal` of journal.py), packed; waits for NATS in the calling thread."""

    def __init__(self, log: CellLog, thread: LoopThread) -> None:
        self.log = log
        self._thread = thread
        self._posted: list[tuple[int, bytes]] = []
        self.born: Born | None = None
        """A cell that the next transaction splits off this one."""
        self.is_behind = False
        """True if the log may have a record that the file lacks: the file must catch up before anything else."""

    def post(self, to_cell: int, bulk: bytes) -> None:
        self._posted.append((to_cell, bulk))

    def publish(self, changes: bytes) -> int:
        if self.is_behind:
            raise CellLost(self.log.cell, "its file is behind its log; it must be reopened")
        posted, self._posted = self._posted, []
        born, self.born = self.born, None
        began_s = time.thread_time()
        body = packed(changes)
        self._thread.packing_s += time.thread_time() - began_s
        try:
            return self._thread.wait_for(self.log.append(body, posted, born))
        except CellLost:  # it is unknown whether the record was stored before that
            self.is_behind = True
            raise

    def forget(self, published: int) -> None:
        """Note a rollback, on a full disk: if the record was published, the file must first catch up with the log."""
        self._posted.clear()
        self.born = None
        self.is_behind = self.is_behind or bool(published)


def packed(changes: bytes) -> bytes:
    return isal_zlib.compress(changes, 1)


def unpacked(body: bytes) -> bytes:
    """Return changes as they were before they were packed."""
    try:
        unpacker = zlib.decompressobj()
        changes = unpacker.decompress(body, MAX_CHANGES_BYTES)
    except zlib.error as error:
        raise ClusterError(f"changes of a cell cannot be unpacked: {error}") from error
    if not unpacker.eof:
        raise ClusterError("changes of a cell are truncated, or larger than a gigabyte")
    return changes
