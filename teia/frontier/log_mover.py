"""SQLite's log of a cell is moved into its file beside the commits.

A commit that moves the log waits for it: half a second in a cell of ten million URLs, because the pages of the log lie
all over the file. So a thread with its own connections moves a log of MOVE_FROM_BYTES, as far as it reaches at that
time, while commits append to it. The next commit moves the rest. Then the log begins anew, in the same file: blocks
that are freed and allocated again cost a sixth of the processor time of links.

A reader of an older state holds a log back. It is tried again each time that the log has grown by as much.

Now and then a smaller log is moved the same way (`tidy`), and the file of one that has not changed since is truncated.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread

from teia.frontier.page_sums import MovedFrames, log_reaches, shrink_summed_log
from teia.sqlite import log_bytes

MOVE_FROM_BYTES = 80 << 20
"""Size of the log from which it is moved. With less, pages that change often are moved more often."""

MAX_LOG_BYTES = 125 << 20
"""Size of the log at which a commit waits for the move; its file keeps this size until it is truncated."""


class LogMover:
    """Moves the log of one cell; called by the thread that commits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread: Thread | None = None
        self._last = self._before = MovedFrames()
        """The log after the last move, and after the one before that of the thread."""

    def after_commit(self, db: sqlite3.Connection) -> None:
        """Begin to move a large log; move its rest once the thread has ended, or at MAX_LOG_BYTES."""
        if self._thread is None:
            if log_reaches(self._path, MOVE_FROM_BYTES, self._last) and not self._begin():
                self._move_rest(db)
        elif not self._thread.is_alive() or log_reaches(self._path, MAX_LOG_BYTES, self._before):
            self.wait()
            self._move_rest(db)

    def tidy(self, db: sqlite3.Connection, octets: int) -> None:
        """Begin to move a log of so many octets; truncate its file if it was moved and nothing came since."""
        if self._thread is not None:
            if not self._thread.is_alive():
                self.wait()
                self._move_rest(db)
        elif log_reaches(self._path, octets, self._last):
            if not self._begin():
                self._move_rest(db)
        elif log_bytes(self._path) > octets and not log_reaches(self._path, 0, self._last):
            self.truncate(db)

    def truncate(self, db: sqlite3.Connection, wait_s: float = 0.0) -> None:
        """Move the log and truncate its file, as far as readers and the disk allow."""
        self.wait()
        self._last = shrink_summed_log(db, self._path, wait_s, before=self._last)

    def wait(self) -> None:
        """Wait until the thread has ended."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _begin(self) -> bool:
        """Start the thread; return False if the process may have no more threads."""
        self._before = self._last
        thread = Thread(target=self._move_beside_commits, name="log")
        try:
            thread.start()
        except RuntimeError:
            return False
        self._thread = thread
        return True

    def _move_rest(self, db: sqlite3.Connection) -> None:
        self._last = shrink_summed_log(db, self._path, keeps_file=True, before=self._last)

    def _move_beside_commits(self) -> None:
        """Move the log as of now. What fails is left to the commit that moves the rest."""
        with (
            suppress(sqlite3.Error, OSError),
            closing(sqlite3.connect(self._path, isolation_level=None)) as reader,
            closing(sqlite3.connect(self._path, isolation_level=None)) as mover,
        ):
            # A snapshot: frames that are committed from now on stay in the log (shrink_summed_log).
            reader.execute("BEGIN")
            reader.execute("SELECT 1 FROM meta").fetchone()
            mover.execute("PRAGMA synchronous = FULL")
            self._last = shrink_summed_log(mover, self._path, keeps_file=True, is_partial=True, before=self._before)
