"""Deeds on many URLs where no crawl runs: the server carries them out itself, beside the requests (crawl/bulk.py).

The folder is held for a second at a time, so that a crawl can begin in between. While somebody else holds it, they do
it, or it is tried again. What a server leaves undone when it ends, the next one goes on with, or a crawl.
"""

from __future__ import annotations

import logging
from contextlib import closing, suppress
from threading import Event, Lock, Thread

from teia.clock import Clock
from teia.crawl import bulk
from teia.crawl.control import Control
from teia.errors import TeiaError
from teia.store.root import Root

logger = logging.getLogger(__name__)

LOOK_S = 1.0
REST_S = 0.05
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
        while not self._ending.is_set():
            done = [self._carry_out(name) for name in self._collections()]
            with self._lock:
                if not self._collections():
                    self._thread = None
                    return
            self._ending.wait(REST_S if any(done) else LOOK_S)

    def _carry_out(self, name: str) -> bool:
        """Do some of it, unless somebody else holds the folder; returns whether anything was done."""
        if self._root.holder() is not None:
            return False
        with suppress(TeiaError):
            bulk.try_to_carry_out(self._root, name, self._clock)
            return True
        logger.warning("deeds on %s could not be carried out now", name)
        return False
