"""A cell's journal in a cluster: the changes of a transaction go to the cell's log in NATS before it commits."""

from __future__ import annotations

import time
import zlib

from isal import isal_zlib

from teia.cluster.cells.log import CellLog, CellLost, NewCell
from teia.cluster.nats.thread import LoopThread
from teia.errors import ClusterError

MAX_CHANGES_BYTES = 1 << 30


class LogJournal:
    """Publisher of one cell's changes (`Journal` of journal.py), packed; waits for NATS in the calling thread."""

    def __init__(self, log: CellLog, thread: LoopThread) -> None:
        self.log = log
        self._thread = thread
        self._posted: list[tuple[int, bytes]] = []
        self.new_cell: NewCell | None = None
        """A cell that the next transaction splits off this one."""
        self.must_catch_up = False
        """True if the log may have a record that the file lacks: the file must catch up before anything else."""

    @property
    def format(self) -> int:
        return self.log.changes_format()

    @property
    def has_posts(self) -> bool:
        return bool(self._posted)

    def post(self, to_cell: int, bulk: bytes) -> None:
        self._posted.append((to_cell, bulk))

    def publish(self, changes: bytes) -> int:
        if self.must_catch_up:
            raise CellLost(self.log.cell, "its file is behind its log; it must be reopened")
        posted, self._posted = self._posted, []
        new_cell, self.new_cell = self.new_cell, None
        began_s = time.thread_time()
        body = compress_changes(changes)
        self._thread.packing_s += time.thread_time() - began_s
        try:
            return self._thread.wait_for(self.log.append(body, posted, new_cell))
        except CellLost:  # it is unknown whether the record was stored before that
            self.must_catch_up = True
            raise

    def forget(self, published: int) -> None:
        """Note a rollback, on a full disk: if the record was published, the file must first catch up with the log."""
        self._posted.clear()
        self.new_cell = None
        self.must_catch_up = self.must_catch_up or bool(published)


def compress_changes(changes: bytes) -> bytes:
    return isal_zlib.compress(changes, 1)


def decompress_changes(body: bytes) -> bytes:
    """Return changes as they were before they were packed."""
    try:
        unpacker = zlib.decompressobj()
        changes = unpacker.decompress(body, MAX_CHANGES_BYTES)
    except zlib.error as error:
        raise ClusterError(f"changes of a cell cannot be unpacked: {error}") from error
    if not unpacker.eof:
        raise ClusterError("changes of a cell are truncated, or larger than a gigabyte")
    return changes
