"""Bulk actions on URLs while no crawler is running: the server executes them in a thread (collections/bulk.py).

The thread holds the folder's lock for a fifth of a second at a time, so that a crawl can start in between. While
another process holds the lock, that process executes the actions, or the server retries. Actions left over when a
server ends are continued by the next server or by a crawl.
"""

from __future__ import annotations

import logging
import sqlite3
from threading import Event, Lock, Thread

from teia.clock import Clock
from teia.collections import bulk
from teia.collections.control_file import Inbox, RunBulkAction
from teia.collections.settings import is_clustered
from teia.errors import TeiaError
from teia.store.root import Root

logger = logging.getLogger(__name__)

PAUSE_S = 1.0
CLOSE_S = 5.0


class OfflineBulk:
    """Executor of bulk actions: at most one thread, which exists while there is work."""

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root, self._clock = root, clock
        self._lock, self._stopping = Lock(), Event()
        self._thread: Thread | None = None

    def start_if_needed(self) -> None:
        """Start the thread if there are requested actions."""
        with self._lock:
            if not self._stopping.is_set() and self._thread is None and self._collections():
                self._thread = Thread(target=self._work, name="offline-bulk", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Start nothing more, and wait for the action under way."""
        self._stopping.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_S)

    def _collections(self) -> list[str]:
        """Return the collections with pending actions, without those of a cluster: only its nodes may write."""
        with Inbox(self._root.control) as inbox:
            pending = [name for name in self._root.collections() if inbox.pending(name, RunBulkAction)]
        return [name for name in pending if not is_clustered(self._root.collection(name))]

    def _work(self) -> None:
        try:
            while not self._stopping.is_set():
                for name in self._collections():
                    self._execute(name)
                with self._lock:
                    # Checked again under the lock: `start_if_needed` could otherwise rely on a thread that is ending.
                    if not self._collections():
                        self._thread = None
                        return
                self._stopping.wait(PAUSE_S)
        except (TeiaError, OSError, sqlite3.Error) as error:  # the next call of `start_if_needed` starts anew
            logger.warning("bulk actions failed: %s", error)
            with self._lock:
                self._thread = None

    def _execute(self, name: str) -> None:
        """Execute a part of the pending actions, unless another process holds the folder."""
        if self._root.lock_holder() is not None:
            return
        try:
            bulk.try_to_run_actions(self._root, name, self._clock)
        except TeiaError as error:
            logger.warning("bulk actions on %s failed: %s", name, error)
