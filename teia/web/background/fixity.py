"""Fixity runs of a server: the archives of all collections, also of those that nobody crawls any more."""

from __future__ import annotations

import logging
from threading import Event, Thread

from teia.clock import Clock
from teia.collections.settings import saved
from teia.crawler.upkeep.closed_files import MAX_FIXITY_S, start_fixity_run
from teia.errors import TeiaError
from teia.store.fixity import due_files
from teia.store.root import Root

logger = logging.getLogger(__name__)

FIRST_S, CHECK_S = 60.0, 3_600.0
POLL_S = 1.0
STOP_S = 10.0


class FixityRunner:
    """Thread that starts a process for each collection with files that are due, one at a time."""

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root, self._clock = root, clock
        self._ending = Event()
        self._thread = Thread(target=self._run, name="fixity", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Kill the run under way; the next server continues it."""
        self._ending.set()
        self._thread.join(STOP_S)

    def _run(self) -> None:
        wait_s = FIRST_S
        while not self._ending.wait(wait_s):
            wait_s = CHECK_S
            try:
                names = self._root.collections()
            except (TeiaError, OSError) as error:  # the next look may succeed
                logger.warning("the fixity of archives cannot be checked: %s", error)
                continue
            for name in names:
                try:
                    self.check(name)
                except (TeiaError, OSError) as error:
                    logger.warning("%s: the fixity of its archive cannot be checked: %s", name, error)

    def check(self, name: str) -> bool:
        """Compare the due files of a collection in a child process; return whether there were any."""
        folder, days = self._root.collection(name).path, saved(self._root, name).config.archive.fixity_days
        if not due_files(folder, days, self._clock.now_s()):
            return False
        process, until = start_fixity_run(folder, days), self._clock.ticks_s() + MAX_FIXITY_S
        while process.wait(POLL_S) is None and self._clock.ticks_s() < until and not self._ending.is_set():
            pass
        process.end()
        return True
