"""The notifier process beside a crawl or a server: started when there is something to send, and ended with them.

A thread looks now and then whether a root has subscriptions. It starts the notifier itself, because the notifier dies
with the thread that started it. If the notifier dies, the thread starts it again after a wait.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from threading import Event, Thread

from teia.clock import Clock
from teia.errors import TeiaError
from teia.store.root import Root

MODULE = "teia.notify.process"
POLL_S = 2.0
FIRST_WAIT_S, LONGEST_WAIT_S = 2.0, 300.0
"""Wait before a notifier that died is restarted; it doubles, unless the notifier lived as long as the longest."""

# Longer than LAST_ROUNDS_S of process.py, so that the notifier normally reaches its own limit first.
GRACE_S = 25.0
"""Time to end by itself: a notifier that has to end still posts for a while."""


def is_needed(root: Root) -> bool:
    """Tell whether a root has subscriptions or hubs, the work of a notifier."""
    folders = [root.collection(name) for name in root.collections()]
    return any(folder.subscriptions.exists() or folder.hubs.exists() for folder in folders)


class NotifierSupervisor:
    """Supervisor of a root's notifier: start, restart, end."""

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root, self._clock = root, clock
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = Event()
        self._is_hurried = False
        self._wait_s, self._not_before, self._began = FIRST_WAIT_S, 0.0, 0.0
        self._thread = Thread(target=self._watch, name="notifier", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, is_hurried: bool = False) -> None:
        """End the notifier and wait for that; unless `is_hurried` it first sends what it can."""
        self._is_hurried = is_hurried
        self._ending.set()
        self._thread.join()

    def _watch(self) -> None:
        try:
            while not self._ending.is_set():
                self._check()
                self._ending.wait(POLL_S)
            if not self._is_hurried:
                self._check()  # a short crawl, too, sends its notices
        finally:
            self._end()

    def _check(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                return
            self._forget()
            # It lived long, so it did not fail at its start: the back-off begins anew.
            if self._clock.ticks_s() - self._began >= LONGEST_WAIT_S:
                self._wait_s = FIRST_WAIT_S
            self._not_before = self._clock.ticks_s() + self._wait_s
            self._wait_s = min(LONGEST_WAIT_S, 2 * self._wait_s)
        # A root that cannot be read now is read again at the next look.
        with suppress(TeiaError, OSError):
            if self._clock.ticks_s() >= self._not_before and is_needed(self._root):
                self._began = self._clock.ticks_s()
                self._process = subprocess.Popen(  # noqa: S603  # our own command
                    [sys.executable, "-m", MODULE, str(os.getpid()), str(self._root.path)],
                    # Closing this pipe requests the notifier to end. If this process crashes, the kernel kills it.
                    stdin=subprocess.PIPE,
                    # Ctrl-C in the terminal must not reach the notifier: it still has notices to send.
                    process_group=0,
                )

    def _end(self) -> None:
        process = self._process
        if process is None:
            return
        if self._is_hurried:
            process.kill()
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._process = None

    def _forget(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None
