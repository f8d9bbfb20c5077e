"""Upkeep of a server's indexes while no crawl runs: those that lack pages are brought up to date.

A crawl has an indexer beside it (companion.py). Between crawls an index may still lack pages, because its crawl was
killed or a user deleted a cell's folder. A thread looks now and then, and starts an indexer that indexes what is left
and ends. The indexer of a crawl that begins meanwhile is retried until that one has ended.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
from contextlib import suppress
from threading import Event, Thread

from teia.clock import Clock
from teia.collections.index_state import read_index_state
from teia.collections.stored import saved
from teia.errors import TeiaError
from teia.indexer.companion import MODULE
from teia.store.root import Root

POLL_S, FIRST_POLL_S = 30.0, 2.0
LONGEST_WAIT_S = 3_600.0
"""Longest wait before a collection whose indexer failed is tried again; the wait doubles each time."""

logger = logging.getLogger(__name__)


class IndexSupervisor:
    """Supervisor of the indexes of a root between crawls."""

    def __init__(self, root: Root, clock: Clock, *, poll_s: float = POLL_S, first_poll_s: float = FIRST_POLL_S) -> None:
        self._root, self._clock = root, clock
        self._poll_s, self._first_poll_s = poll_s, first_poll_s
        self._ending = Event()
        self._not_before: dict[str, tuple[float, float]] = {}
        """By collection: the time of its next try, and the length of the last wait."""

        self._process: subprocess.Popen[bytes] | None = None
        self._thread = Thread(target=self._watch, name="indexes", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Kill a running indexer, and wait for its end; what it has committed stays."""
        self._ending.set()
        process = self._process  # the thread may let go of it at any moment
        if process is not None:
            process.kill()
        self._thread.join()

    def _watch(self) -> None:
        wait_s = self._first_poll_s
        while not self._ending.wait(wait_s):
            wait_s = self._poll_s
            for name in self._outdated_collections():
                if not self._ending.is_set():
                    self._run_indexer(name)

    def _outdated_collections(self) -> list[str]:
        """Return the collections whose indexes lack pages that no process adds; none while a crawl runs."""
        with suppress(TeiaError, OSError):
            # A running crawl has its own indexer.
            if self._root.lock_holder() is None:
                return [name for name in self._root.collections() if self._may_retry(name) and self._is_outdated(name)]
        return []

    def _may_retry(self, name: str) -> bool:
        retry_at, _ = self._not_before.get(name, (0.0, 0.0))
        return self._clock.ticks_s() >= retry_at

    def _is_outdated(self, name: str) -> bool:
        """Tell whether a collection's index lacks pages that no process adds; postpone one that cannot be read."""
        try:
            if not saved(self._root, name).config.index.enabled:
                return False
            state = read_index_state(self._root.collection(name))
        except TeiaError:  # it waits for its first run, or a user must fix it
            return False
        except (sqlite3.Error, OSError) as error:
            logger.warning("%s: the index cannot be compared with the frontier: %s", name, error)
            self._postpone(name)
            return False
        # `is_being_written`: another process is adding the pages already.
        return state.lag > 0 and not state.is_being_written

    def _postpone(self, name: str) -> None:
        """Postpone the next try of a collection, for twice as long as the last time."""
        _, waited_s = self._not_before.get(name, (0.0, self._poll_s / 2))
        wait_s = min(LONGEST_WAIT_S, 2 * waited_s)
        self._not_before[name] = self._clock.ticks_s() + wait_s, wait_s

    def _run_indexer(self, name: str) -> None:
        logger.warning("%s: crawled pages are missing in the index; adding them", name)
        command = [sys.executable, "-m", MODULE, str(os.getpid()), str(self._root.path), name]
        try:
            with subprocess.Popen(  # noqa: S603  # our own command
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, process_group=0
            ) as self._process:
                assert self._process.stdin is not None
                self._process.stdin.close()  # it indexes what there is, and ends
                # `stop` may have run after the check in `_watch` and before `_process` was set.
                if self._ending.is_set():
                    self._process.kill()
                status = self._process.wait()
        except OSError as error:
            logger.warning("%s: the indexer cannot be started: %s", name, error)
            status = 1
        self._process = None
        if status:
            self._postpone(name)
        else:
            self._not_before.pop(name, None)
