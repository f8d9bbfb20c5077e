"""Workbench: the queue of lab runs and the one under way.

A run is a child process of low priority, one at a time per server, so that it hardly slows down the crawler and the
searches. Its time is limited to an hour and its memory is bounded. It ends with this server, however that ends; such a
run is `interrupted`. One server of a root holds the workbench (a file lock); other servers can only read the runs.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Condition, Thread
from typing import Any

import teia
from teia.clock import Clock
from teia.durable import disk_errors, file_lock
from teia.errors import StoreError, TeiaError, UsageError
from teia.lib.child_process import ChildProcess
from teia.lib.message import Message, message_of
from teia.store.root import Root
from teia.web import limits
from teia.web.background.lab.findings import digest_of, finding_of
from teia.web.background.lab.forms import RunRequest
from teia.web.background.lab.runs import (
    ACTIVE_STATES,
    FILES_FOLDER,
    FOLDER,
    LabRun,
    StoredRuns,
    estimate_left_s,
    estimate_wait_s,
)

logger = logging.getLogger(__name__)

PROGRAM = (sys.executable, "-m", "teia")
POLL_S = 0.25
MEASURE_S = 1.0
"""Interval between memory checks; reading all processes takes milliseconds."""

GRACE_S = 2.0
NICE = 15
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class FullQueue(TeiaError):
    """Raised if the queue has reached its limit."""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Current state of a run. `share` is the part done (None: unknown); `ahead` runs come first.

    `starts_in_s` and `left_s` are estimated from similar runs; None if no similar run was measured.
    """

    number: int
    state: str
    is_over: bool
    share: float | None = None
    doing: str = ""
    ahead: int = 0
    starts_in_s: float | None = None
    left_s: float | None = None
    seconds: float | None = None


@dataclass(slots=True)
class _RunningProcess:
    """Run under way: its process and its last reported progress."""

    run: LabRun
    process: ChildProcess
    began: float
    share: float | None = None
    doing: str = ""
    ended_by: str = ""
    measured: float = 0.0


class Workbench:
    """Lab of one server; a thread, started with the first run, executes the runs."""

    def __init__(self, root: Root, clock: Clock, program: Sequence[str] = PROGRAM) -> None:
        self.stored = StoredRuns(root.path / FOLDER, clock)
        self._clock, self._program = clock, tuple(program)
        self._changed = Condition()
        self._queue: list[LabRun] = []
        self._running: _RunningProcess | None = None
        self._current: LabRun | None = None
        self._end_reason = ""
        self._thread: Thread | None = None
        self._lock: ExitStack | None = None
        self._is_closed = False

    # ---- for requests -----------------------------------------------------------------------------------------------

    def runs(self) -> list[LabRun]:
        """Return all stored runs, newest first."""
        self._acquire_lock()
        return self.stored.all()

    def run(self, number: int) -> LabRun:
        self._acquire_lock()
        return self.stored.get(number)

    def submit(self, request: RunRequest, by: str) -> LabRun:
        """Add a run to the queue."""
        with disk_errors(self.stored.path, "created"):
            self.stored.path.mkdir(exist_ok=True)
        self._acquire_lock()
        with self._changed:
            if self._lock is None or self._is_closed:
                raise UsageError(Message("another server of this folder runs the lab; use that one"))
            if len(self._queue) >= limits.LAB_QUEUE:
                raise FullQueue(
                    Message("{n} runs are already queued; cancel one, or try again later", n=len(self._queue))
                )
            self.stored.prune()
            run = self.stored.add(
                kind=request.kind,
                asked=request.parameters,
                words=list(request.arguments),
                command=request.command,
                seed=request.seed,
                by=by,
                like=request.like,
                work=request.work,
            )
            try:
                self.stored.write_inputs(run.number, request.files)
            except BaseException:
                # Without its input files the run cannot start.
                self.stored.drop(run.number)
                raise
            self._queue.append(run)
            if self._thread is None:
                self._thread = Thread(target=self._work, name="lab", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return run

    def cancel(self, number: int) -> LabRun:
        """Stop a run under way, or remove a waiting one from the queue; leave an ended one as it is."""
        with self._changed:
            waiting = next((run for run in self._queue if run.number == number), None)
            if waiting is not None:
                self._queue.remove(waiting)
                return self._finish(waiting, "cancelled", files=self._files(waiting))
            if self._is_current(number):
                self._end_reason = "cancelled"
                self._changed.notify_all()
                # Give the thread time to end the process, so that the caller sees the final state.
                self._changed.wait_for(lambda: not self._is_current(number), 2 * GRACE_S)
        return self.run(number)

    def progress(self, number: int) -> RunProgress:
        """Return the current state of a run."""
        run, known = self.run(number), self.stored.all()
        with self._changed:
            current, running, queue = self._current, self._running, list(self._queue)
        if run.is_over:
            return RunProgress(number, run.state, is_over=True, seconds=run.seconds)
        left = self._estimate_left_s(current, running, known)
        if current is not None and current.number == number:
            if running is None:
                return RunProgress(number, "running", False, left_s=left)
            elapsed_s = self._clock.ticks_s() - running.began
            return RunProgress(number, "running", False, running.share, running.doing, left_s=left, seconds=elapsed_s)
        ahead = [each for each in queue if each.number < number]
        count = len(ahead) + (current is not None)
        return RunProgress(number, run.state, False, ahead=count, starts_in_s=estimate_wait_s(left, ahead, known))

    def estimate_wait(self) -> tuple[int, float | None]:
        """Return the number of runs ahead of a new one, and their estimated time together, None if unknown."""
        with self._changed:
            current, running, queue = self._current, self._running, list(self._queue)
        known = self.stored.all() if current is not None or queue else []
        return len(queue) + (current is not None), estimate_wait_s(
            self._estimate_left_s(current, running, known), queue, known
        )

    def _estimate_left_s(
        self, current: LabRun | None, running: _RunningProcess | None, known: Sequence[LabRun]
    ) -> float | None:
        """Estimate the remaining seconds of the current run."""
        if current is None:
            return 0.0
        if running is None:
            return estimate_left_s(current, None, 0.0, known)
        return estimate_left_s(current, running.share, self._clock.ticks_s() - running.began, known)

    def _is_current(self, number: int) -> bool:
        return self._current is not None and self._current.number == number

    def close(self) -> None:
        """Stop the current run and cancel the waiting ones."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        with self._changed:
            for run in self._queue:
                self._finish(
                    run, "interrupted", Message("the server stopped before the run started"), files=self._files(run)
                )
            self._queue.clear()
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    def _acquire_lock(self) -> None:
        """Take the workbench's lock if it is free, and mark runs of an ended server as interrupted."""
        with self._changed:
            if self._lock is not None or self._is_closed or not self.stored.path.is_dir():
                return
            with ExitStack() as stack, suppress(StoreError):  # the folder may be read-only
                if stack.enter_context(file_lock(self.stored.path / "lock")):
                    self._lock = stack.pop_all()
            if self._lock is None:
                return
            # The lock was free, so no server works on these runs any more.
            for run in self.stored.all():
                if run.state in ACTIVE_STATES:
                    self._finish(
                        run,
                        "interrupted",
                        Message("the server stopped before the run finished"),
                        files=self._files(run),
                    )
            self.stored.prune()

    def _files(self, run: LabRun) -> list[str]:
        """Move the files of an ended run, inputs and outputs, to its folder; return their names."""
        return self.stored.collect_files(run.number, self.stored.folder(run.number) / FILES_FOLDER)

    def _finish(self, run: LabRun, state: str, message: str = "", **more: Any) -> LabRun:
        return self.stored.save(replace(run, state=state, message=message, ended_s=self._clock.now_s(), **more))

    # ---- in the thread ----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (run := self._next()) is not None:
            try:
                self._execute(run)
            except (TeiaError, OSError) as error:
                logger.warning("run %d of the lab: %s", run.number, error)
                with suppress(TeiaError, OSError):
                    self._finish(run, "failed", message_of(error))
            with self._changed:
                self._current, self._end_reason = None, ""
                self._changed.notify_all()

    def _next(self) -> LabRun | None:
        """Wait for the next run; return None when the workbench closes."""
        with self._changed:
            while not self._queue and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return None
            self._current = self._queue.pop(0)
            return self._current

    def _execute(self, run: LabRun) -> None:
        folder = self.stored.folder(run.number)
        run = self.stored.save(replace(run, state="running", began_s=self._clock.now_s()))
        printed = folder / "printed"
        with (
            printed.open("wb") as out,
            (folder / "log").open("wb") as log,
            self._start_process(run, out, log) as running,
        ):
            while running.process.status is None and not running.ended_by:
                with self._changed:
                    self._changed.wait(POLL_S)
                self._check(running)
        result = _result(printed)
        printed.unlink(missing_ok=True)
        files = self._files(run)
        state, message = _final_state(running, result, self.stored.tail(run.number))
        if state != "done" or result is None:
            self._finish(run, state, message, files=files)
            return
        # Before the state is saved: a run that is `done` always has its report.
        self.stored.save_report(run.number, result)
        more: dict[str, Any] = {
            "digest": digest_of(run.kind, result),
            "finding": finding_of(run.kind, result),
            "files": files,
        }
        self._finish(run, "done", "", **more)

    @contextmanager
    def _start_process(self, run: LabRun, out: Any, log: Any) -> Iterator[_RunningProcess]:
        """Start the process of a run; kill its whole process group at the end."""
        process = ChildProcess(
            [*self._program, *run.words, "--supervised"],
            stdout=out,
            stderr=log,
            cwd=self.stored.folder(run.number),
            env=_environment(),
            nice=NICE,
            memory_bytes=limits.LAB_MEMORY_BYTES,
            own_session=True,  # `_memory_bytes` counts all processes of the session
        )
        running = _RunningProcess(run, process, self._clock.ticks_s())
        try:
            with self._changed:
                self._running = running
            yield running
        finally:
            process.terminate()
            process.end(GRACE_S)
            with self._changed:
                self._running = None

    def _check(self, running: _RunningProcess) -> None:
        """Read a run's progress; end it if it was cancelled, or exceeds its time, memory or output limit."""
        now = self._clock.ticks_s()
        if self._is_closed or self._end_reason:
            running.ended_by = self._end_reason or "interrupted"
        elif now - running.began > limits.LAB_S:
            running.ended_by = Message("stopped after {n:g} minutes", n=limits.LAB_S / 60)
        elif now - running.measured > MEASURE_S:
            running.measured = now
            running.ended_by = (
                _too_much_memory() if _memory_bytes(running.process.pid) > limits.LAB_MEMORY_BYTES else ""
            )
        elif _written_bytes(self.stored.folder(running.run.number)) > 2 * limits.LAB_REPORT_BYTES:
            running.ended_by = Message("its output is larger than a report can be")
        progress = _last_progress(self.stored.tail(running.run.number))
        if progress is not None:
            running.share, running.doing = progress


def _environment() -> dict[str, str]:
    """Return this process's environment, with this installation of teia first and one thread for arithmetic."""
    ours = str(Path(teia.__file__).parents[1])
    before = os.environ.get("PYTHONPATH")
    return {**os.environ, **ONE_THREAD, "PYTHONPATH": f"{ours}{os.pathsep}{before}" if before else ours}


def _last_progress(tail: str) -> tuple[float | None, str] | None:
    """Return the last progress line of a log: the share done, and a description."""
    # The piece after the last line end may be half a line.
    for line in reversed(tail.split("\n")[:-1]):
        if line.startswith('{"share"'):
            with suppress(ValueError):
                progress = json.loads(line)
                share = progress.get("share")
                return (share if isinstance(share, float) else None), str(progress.get("doing", ""))[:300]
    return None


def _result(printed: Path) -> dict[str, Any] | None:
    """Parse the JSON object on the last printed line; return None if there is none."""
    with suppress(OSError, ValueError):
        if printed.stat().st_size <= limits.LAB_REPORT_BYTES:
            # The result is the last line; the command may print others before it.
            lines = printed.read_bytes().rstrip(b"\n").rsplit(b"\n", 1)
            found = json.loads(lines[-1])
            return found if isinstance(found, dict) else None
    return None


def _final_state(running: _RunningProcess, result: dict[str, Any] | None, tail: str) -> tuple[str, str]:
    """Return the final state of a run, and its message."""
    if running.ended_by in {"cancelled", "interrupted"}:
        return running.ended_by, "" if running.ended_by == "cancelled" else Message(
            "the server stopped before the run finished"
        )
    if running.ended_by:
        return "failed", running.ended_by
    if running.process.status == 0 and result is not None and "error" not in result:
        return "done", ""
    message = str((result or {}).get("message", "")) or _last_message(tail)
    if "MemoryError" in message:
        message = _too_much_memory()
    if not message:
        return "failed", Message("it exited with status {n} without a message", n=running.process.status)
    return "failed", message if isinstance(message, Message) else message[:1_000]


def _last_message(tail: str) -> str:
    lines = [line.strip() for line in tail.split("\n")]
    return next((line for line in reversed(lines) if line and not line.startswith('{"share"')), "")


def _too_much_memory() -> str:
    return Message(
        "it needed more memory than the {n:g} GiB of a run; choose a smaller size",
        n=limits.LAB_MEMORY_BYTES / (1 << 30),
    )


def _memory_bytes(session: int) -> int:
    """Return the resident memory of all processes of a session."""
    pages = 0
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                # proc(5): the name in parentheses may hold blanks. After it, [3] is the session, [21] resident pages.
                stat = (process / "stat").read_bytes().rpartition(b")")[2].split()
                if int(stat[3]) == session:
                    pages += int(stat[21])
    return pages * PAGE_BYTES


def _written_bytes(folder: Path) -> int:
    with suppress(OSError):
        return sum((folder / name).stat().st_size for name in ("printed", "log"))
    return 0
