"""Deeds on many URLs where no crawl runs: the server carries them out itself, beside the requests (crawl/bulk.py).

The folder is held for a fifth of a second at a time, so that a crawl can begin in between. While somebody else has it,
they do it, or it is tried again. What a server leaves undone when it ends, the next one goes on with, or a crawl.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from threading import Event, Lock, Thread

from teia.clock import Clock
from teia.crawl import bulk
from teia.crawl.control import Control
from teia.errors import TeiaError
from teia.store.root import Root

logger = logging.getLogger(__name__)

REST_S = 1.0
CLOSE_S = 5.0


class Hands:
    """At most one thread, which is there while something is to be done."""

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root, self._clock = root, clock
        self._lock, self._ending = Lock(), Event()
        self._thread: Thread | None = None

    def look(self) -> None:
        """See to it that what was asked for is done."""
        with self._lock:
            if not self._ending.is_set() and self._thread is None and self._collections():
                self._thread = Thread(target=self._work, name="hands", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Begin nothing more, and wait for what is being done."""
        self._ending.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_S)

    def _collections(self) -> list[str]:
        """Those with something to do that no crawl does."""
        with closing(Control(self._root.path / "control.sqlite")) as control:
            return [name for name in self._root.collections() if control.deeds(name)]

    def _work(self) -> None:
        try:
            while not self._ending.is_set():
                for name in self._collections():
                    self._carry_out(name)
                with self._lock:
                    if not self._collections():
                        self._thread = None
                        return
                self._ending.wait(REST_S)
        except (TeiaError, OSError, sqlite3.Error) as error:  # the next look begins anew
            logger.warning("deeds could not be carried out: %s", error)
            with self._lock:
                self._thread = None

    def _carry_out(self, name: str) -> None:
        """Do some of it, unless somebody else holds the folder."""
        if self._root.holder() is not None:
            return
        try:
            bulk.try_to_carry_out(self._root, name, self._clock)
        except TeiaError as error:
            logger.warning("deeds on %s could not be carried out now: %s", name, error)
