"""Supervisor of the root's crawler: the web server starts it when there is work, and restarts it when it dies.

The crawler is a process of its own (`teia crawl --resident`) in its own process group. It holds the root's lock like
any crawl; its parse children and the indexer end with it. It reads its commands from the database
(collections/commands.py), so the crawler and the server share only files. When the server ends, it stops the crawler
and waits for it. When the server is killed, the crawler continues for a while. The next server finds the lock taken and
leaves that crawler alone, as it does with a crawl that a user started in a terminal.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Lock, Thread

from teia.clock import Clock
from teia.collections.resident import CrawlerDemand
from teia.errors import TeiaError
from teia.lib.child_process import PIPE, BackOff, ChildProcess, last_line
from teia.lib.message import Message
from teia.store.root import Root

logger = logging.getLogger(__name__)

POLL_S = 0.5
GRACE_S = 15.0
"""Time to end by itself: requests under way may take five seconds, and fetched pages are committed."""
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
STABLE_S = 60.0
"""A crawler that lived this long did not fail at its start, so the next one is started without a long wait."""


@dataclass(frozen=True, slots=True)
class CrawlerState:
    """State of the root's crawler.

    `state` is `off` (this server has none), `idle` (nothing to do), `running`, `elsewhere` (another process, `pid`,
    crawls the folder) or `failed`. After a failure, `message` is the last line of its log, and the next start is in
    `again_in_s`.
    """

    state: str
    pid: int | None = None
    message: str = ""
    again_in_s: float = 0.0


class Supervisor:
    """Supervisor of the root's crawler, in a thread of its own."""

    def __init__(self, root: Root, clock: Clock, command: Sequence[str] | None = None) -> None:
        self._root, self._clock = root, clock
        self._command = command or [sys.executable, "-m", "teia", "crawl", "--resident", "--data", str(root.path)]
        self._process: ChildProcess | None = None
        self._lock, self._stopping, self._wake_up = Lock(), Event(), Event()
        self._state = CrawlerState("idle")
        # Exponential back-off: a crawler that fails at its start is not restarted in a tight loop.
        self._back_off = BackOff(clock.ticks_s, FIRST_WAIT_S, LONGEST_WAIT_S, STABLE_S)
        self._thread = Thread(target=self._watch, name="supervisor", daemon=True)

    @property
    def state(self) -> CrawlerState:
        with self._lock:
            again_in_s = round(self._back_off.left_s, 1) if self._state.state == "failed" else 0.0
            return replace(self._state, again_in_s=again_in_s)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Check for work at once."""
        self._wake_up.set()

    def stop(self) -> None:
        """End the crawler, if this server started one, and wait for it."""
        self._stopping.set()
        self._wake_up.set()
        if self._thread.is_alive():
            self._thread.join()

    # -- in the thread -------------------------------------------------------------------------------------

    def _watch(self) -> None:
        demand = CrawlerDemand(self._root, self._clock)
        try:
            while not self._stopping.is_set():
                try:
                    self._check(demand)
                except (TeiaError, OSError) as error:
                    logger.warning("supervisor: %s", error)
                self._wake_up.wait(POLL_S)
                self._wake_up.clear()
        finally:
            self._stop_crawler()
            demand.close()

    def _check(self, demand: CrawlerDemand) -> None:
        if self._process is not None:
            if self._process.status is None:
                return
            self._handle_exit(self._process)
            self._process = None
        # While no crawler is needed, the lock is read only to notice the end of a crawl of another process.
        is_needed = demand.is_anything()
        holder = self._root.lock_holder() if is_needed or self._state.state == "elsewhere" else None
        if holder == os.getpid():
            return  # this server itself holds the lock, for a moment
        if holder is not None:
            self._set_state(CrawlerState("elsewhere", holder))
        elif is_needed and not self._back_off.left_s:
            self._start_crawler()
        elif self._state.state != "failed" or not is_needed:
            self._set_state(CrawlerState("idle"))

    def _start_crawler(self) -> None:
        """Start a crawler, which continues if this server is killed. Only the log of the last crawler is kept."""
        self._back_off.begin()
        # A session of its own: the crawler may outlive the terminal of a server that was killed.
        with self._lock:  # nobody sees the former state when the crawler works already
            self._process = ChildProcess(
                self._command, stdin=PIPE, log=self.log, on_parent_death=None, own_session=True
            )
            self._state = CrawlerState("running", self._process.pid)

    def _handle_exit(self, process: ChildProcess) -> None:
        # It ended by itself, because nothing was left to do.
        if process.status == 0:
            self._back_off.reset()
            self._set_state(CrawlerState("idle"))
            return
        process.end()
        self._back_off.fail()
        why = last_line(self.log) or Message("it exited with status {n}", n=process.status)
        logger.warning("the crawler died: %s", why)
        self._set_state(CrawlerState("failed", None, why))

    def _stop_crawler(self) -> None:
        if self._process is None:
            return
        self._process.terminate()  # the crawler commits the pages it has, and ends
        if not self._process.end(GRACE_S):
            logger.warning("the crawler did not stop within %g s and was killed; no committed data is lost", GRACE_S)

    def _set_state(self, state: CrawlerState) -> None:
        with self._lock:
            self._state = state

    @property
    def log(self) -> Path:
        """Path of the log of the last crawler."""
        return self._root.path / "crawler.log"
