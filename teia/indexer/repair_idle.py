"""Upkeep of a server's indexes while no crawl runs: those that lack pages are brought up to date.

A crawl has an indexer beside it (keep_process.py). Between crawls an index may still lack pages, because its crawl was
killed or a user deleted a cell's folder. A thread looks now and then, and starts an indexer that indexes what is left
and ends. The indexer of a crawl that begins meanwhile is retried until that one has ended.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import defaultdict
from contextlib import suppress
from math import inf
from threading import Event, Thread

from teia.clock import Clock
from teia.collections.index_state import read_index_state
from teia.collections.settings import saved
from teia.errors import TeiaError
from teia.indexer.keep_process import run_indexer
from teia.lib.child_process import DEVNULL, PIPE, BackOff, ChildProcess
from teia.lib.entry_points import command_of
from teia.store.root import Root

POLL_S, FIRST_POLL_S = 30.0, 2.0
LONGEST_WAIT_S = 3_600.0
"""Longest wait before a collection whose indexer failed is tried again; the wait doubles each time."""

logger = logging.getLogger(__name__)


class IndexSupervisor:
    """Supervisor of the indexes of a root between crawls."""

    def __init__(self, root: Root, clock: Clock, *, poll_s: float = POLL_S, first_poll_s: float = FIRST_POLL_S) -> None:
        self._root = root
        self._poll_s, self._first_poll_s = poll_s, first_poll_s
        self._ending = Event()
        self._back_offs: defaultdict[str, BackOff] = defaultdict(
            lambda: BackOff(clock.ticks_s, poll_s, LONGEST_WAIT_S, inf)
        )
        self._process: ChildProcess | None = None
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
                return [name for name in self._root.collections() if self._is_outdated(name)]
        return []

    def _is_outdated(self, name: str) -> bool:
        """Tell whether a collection's index lacks pages that no process adds; postpone one that cannot be read."""
        try:
            if self._back_offs[name].left_s or not saved(self._root, name).config.index.enabled:
                return False
            state = read_index_state(self._root.collection(name))
        except TeiaError:  # it waits for its first run, or a user must fix it
            return False
        except (sqlite3.Error, OSError) as error:
            logger.warning("%s: the index cannot be compared with the frontier: %s", name, error)
            self._back_offs[name].fail()
            return False
        # `is_being_written`: another process is adding the pages already.
        return state.lag > 0 and not state.is_being_written

    def _run_indexer(self, name: str) -> None:
        logger.warning("%s: crawled pages are missing in the index; adding them", name)
        status: int | None = 1
        try:
            command = command_of(run_indexer, str(self._root.path), name)
            self._process = ChildProcess(command, stdin=PIPE, stdout=DEVNULL)
            self._process.close_input()  # it indexes what there is, and ends
            # `stop` may have run after the check in `_watch` and before `_process` was set.
            if self._ending.is_set():
                self._process.kill()
            status = self._process.wait()
            self._process.end()
        except OSError as error:
            logger.warning("%s: the indexer cannot be started: %s", name, error)
        self._process = None
        if status:
            self._back_offs[name].fail()
        else:
            self._back_offs[name].reset()
