"""The notifier process beside a crawl or a server: started when there is something to send, and ended with them.

A thread looks now and then whether a root has subscriptions, and starts the notifier. If the notifier dies, the thread
starts it again after a wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import Event, Thread

from teia.clock import Clock
from teia.errors import TeiaError
from teia.lib.child_process import PIPE, BackOff, ChildProcess
from teia.lib.entry_points import command_of
from teia.store.root import Root

POLL_S = 2.0
FIRST_WAIT_S, LONGEST_WAIT_S = 2.0, 300.0
"""Wait before a notifier that died is restarted; it doubles, unless the notifier lived as long as the longest."""

# Longer than LAST_ROUNDS_S of process.py, so that the notifier normally reaches its own limit first.
GRACE_S = 25.0
"""Time to end by itself: a notifier that has to end still posts for a while."""


def run_notifier(arguments: Sequence[str]) -> int:
    """Be the notifier process."""
    from teia.notify.process import main  # the parent does not need it

    return main(arguments)


def is_needed(root: Root) -> bool:
    """Tell whether a root has subscriptions or hubs, the work of a notifier."""
    folders = [root.collection(name) for name in root.collections()]
    return any(folder.subscriptions.exists() or folder.hubs.exists() for folder in folders)


class NotifierSupervisor:
    """Supervisor of a root's notifier: start, restart, end."""

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root = root
        self._process: ChildProcess | None = None
        self._ending = Event()
        self._is_hurried = False
        self._back_off = BackOff(clock.ticks_s, FIRST_WAIT_S, LONGEST_WAIT_S)
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
            if self._process is not None:
                self._process.close_input()
                self._process.end(0.0 if self._is_hurried else GRACE_S)

    def _check(self) -> None:
        if self._process is not None:
            if self._process.status is None:
                return
            self._process.end()
            self._process = None
            self._back_off.fail()
        # A root that cannot be read now is read again at the next look.
        with suppress(TeiaError, OSError):
            if not self._back_off.left_s and is_needed(self._root):
                self._back_off.begin()
                # Closing its input requests the notifier to end, after it has sent what it can.
                self._process = ChildProcess(command_of(run_notifier, str(self._root.path)), stdin=PIPE)
