"""Audits that people ask for: one at a time, each a child process of low priority.

The child is `teia audit`, which keeps what it found (crawl/audits.py). It reads only, so it may end at any time: with
the server, or when it took too long.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock, Thread

from teia.clock import Clock, iso_utc
from teia.crawl.audits import Kind
from teia.errors import TeiaError, UsageError
from teia.store.root import Root
from teia.web import limits

logger = logging.getLogger(__name__)

PROGRAM = (sys.executable, "-m", "teia")
NICE = 15
GRACE_S = 5.0
SAID_CHARS = 500


@dataclass(frozen=True, slots=True)
class Going:
    """An audit that is being made, since when."""

    collection: str
    kind: str
    since: str


class Auditor:
    """Makes the audits of one server."""

    def __init__(self, root: Root, clock: Clock, program: Sequence[str] = PROGRAM) -> None:
        self._root, self._clock, self._program = root, clock, tuple(program)
        self._lock = Lock()
        self._going: Going | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: Thread | None = None
        self._is_closed = False
        self._failed: dict[tuple[str, str], str] = {}

    @property
    def going(self) -> Going | None:
        with self._lock:
            return self._going

    def failure(self, collection: str, kind: Kind) -> str:
        """Why the last audit of a kind that was asked for here came to no end; empty if it did."""
        with self._lock:
            return self._failed.get((collection, kind), "")

    def begin(self, collection: str, kind: Kind) -> None:
        """Begin an audit; UsageError while another one is made."""
        words = ("audit", kind, "--data", str(self._root.path), "--collection", collection, "--json")
        with self._lock:
            if self._going is not None or self._is_closed:
                raise UsageError("an audit is being made already; the next one can begin when it has ended")
            none, pipe = subprocess.DEVNULL, subprocess.PIPE
            command = (*self._program, *words)
            try:
                self._process = subprocess.Popen(command, stdin=none, stdout=none, stderr=pipe)  # noqa: S603  # our own
            except OSError as error:
                raise TeiaError(f"no audit can be begun: {error.strerror}") from error
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._process.pid, NICE)
            self._going = Going(collection, kind, iso_utc(self._clock.now_s()))
            self._failed.pop((collection, kind), None)
            self._thread = Thread(target=self._wait, args=(self._process, collection, kind), name="audit", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End what is being made."""
        with self._lock:
            self._is_closed = True
            process, thread = self._process, self._thread
        if process is not None and process.poll() is None:
            process.terminate()
        if thread is not None:
            thread.join(GRACE_S)

    def _wait(self, process: subprocess.Popen[bytes], collection: str, kind: Kind) -> None:
        said = ""
        try:
            _, told = process.communicate(timeout=limits.AUDIT_S)
            if process.returncode not in (0, 1):  # 1: it found something
                lines = told.decode("utf-8", "replace").strip().splitlines()
                said = lines[0][:SAID_CHARS] if lines else f"it ended with status {process.returncode}"
        except subprocess.TimeoutExpired:
            said = f"stopped after {limits.AUDIT_S / 3600:g} h"
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        with self._lock:
            self._going = self._process = None
            if said:
                self._failed[collection, kind] = said
        if said and not self._is_closed:
            logger.warning("audit of %s, %s: %s", collection, kind, said)
