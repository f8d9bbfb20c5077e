"""Audits requested in the browser: one at a time, each a child process of low priority.

The child is `teia audit`, which stores its own result (transfer/audits.py). It only reads, so it may be killed at any
time: after a timeout, or when the server ends for any reason.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any

from teia.clock import Clock, iso_utc
from teia.errors import TeiaError, UsageError
from teia.lib.child_process import PIPE, ChildProcess
from teia.lib.message import Message
from teia.store.root import Root
from teia.transfer.audits import AuditKind, AuditResult, last_audit
from teia.web import limits

logger = logging.getLogger(__name__)

PROGRAM = (sys.executable, "-m", "teia")
NICE = 15
GRACE_S = 5.0
MAX_MESSAGE_CHARS = 500


@dataclass(frozen=True, slots=True)
class AuditUnderWay:
    """Audit under way, and its start time."""

    collection: str
    kind: str
    since: str


class Auditor:
    """Runner of the audits of one server."""

    def __init__(self, root: Root, clock: Clock, program: Sequence[str] = PROGRAM) -> None:
        self._root, self._clock, self._program = root, clock, tuple(program)
        self._lock = Lock()
        self._running: AuditUnderWay | None = None
        self._process: ChildProcess | None = None
        self._thread: Thread | None = None
        self._is_closed = False
        self._failed: dict[tuple[str, str], str] = {}

    @property
    def running(self) -> AuditUnderWay | None:
        with self._lock:
            return self._running

    def failure(self, collection: str, kind: AuditKind) -> str:
        """Return the reason why the last audit of a kind started here failed; empty if it succeeded."""
        with self._lock:
            return self._failed.get((collection, kind), "")

    def start(self, collection: str, kind: AuditKind) -> None:
        """Start an audit; raise UsageError while another one is under way."""
        with self._lock:
            if self._running is not None or self._is_closed:
                raise UsageError(Message("an audit is already running; start the next one when it has finished"))
            before = last_audit(self._root.collection(collection), kind)
            process = self._start_process(collection, kind)
            thread = Thread(target=self._wait, args=(process, collection, kind, before), name="audit", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the system allows no more threads
                process.end()
                raise TeiaError(f"the audit cannot be started: {error}") from error
            self._process, self._thread = process, thread
            self._running = AuditUnderWay(collection, kind, iso_utc(self._clock.now_s()))
            self._failed.pop((collection, kind), None)

    def close(self) -> None:
        """Stop the audit under way and refuse new ones."""
        with self._lock:
            self._is_closed = True
            process, thread = self._process, self._thread
        if process is not None and thread is not None:
            # The thread then collects the child, and clears the state.
            process.terminate()
            thread.join(GRACE_S)
            process.kill()
            thread.join(GRACE_S)

    def _start_process(self, collection: str, kind: AuditKind) -> ChildProcess:
        where = ("--data", str(self._root.path), "--collection", collection)
        try:
            command = (*self._program, "audit", kind, *where, "--json")
            return ChildProcess(command, stdout=PIPE, stderr=PIPE, nice=NICE)
        except OSError as error:
            raise TeiaError(f"the audit cannot be started: {error.strerror}") from error

    def _wait(self, process: ChildProcess, collection: str, kind: AuditKind, before: AuditResult | None) -> None:
        failure = "the server failed during the audit"
        try:
            failure = self._wait_for_result(process, collection, kind, before)
        finally:
            process.end()
            with self._lock:
                self._running = self._process = self._thread = None
                if failure:
                    self._failed[collection, kind] = failure
            if failure and not self._is_closed:
                logger.warning("audit of %s, %s: %s", collection, kind, failure)

    def _wait_for_result(
        self, process: ChildProcess, collection: str, kind: AuditKind, before: AuditResult | None
    ) -> str:
        """Wait for the end of an audit; return the reason of a failure, empty if there is a new result."""
        output = process.communicate(timeout_s=limits.AUDIT_S)
        if output is None:
            return f"stopped after {limits.AUDIT_S / 3600:g} h"
        printed, errors = output
        found = _result(printed)
        # The exit status cannot tell a failure: it is 1 for violations found, too.
        if "checked" not in found or "violations" not in found:
            lines = errors.decode("utf-8", "replace").strip().splitlines()
            message = str(found.get("message") or (lines[0] if lines else ""))[:MAX_MESSAGE_CHARS]
            return message or Message("it exited with status {n}", n=process.status)
        folder = self._root.collection(collection)
        # The child prints its result even if it could not store it, for example on a full disk.
        if last_audit(folder, kind) in (None, before):
            counts = f"{found['checked']:,} checked, {found['violations']:,} errors"
            return f"{counts}; the result could not be saved in {folder.audits.name}/{kind}.json"
        return ""


def _result(printed: bytes) -> dict[str, Any]:
    """Parse the JSON object on the last printed line; return an empty one if there is none."""
    with suppress(ValueError, IndexError):
        found = json.loads(printed.decode("utf-8", "replace").strip().splitlines()[-1])
        if isinstance(found, dict):
            return found
    return {}
