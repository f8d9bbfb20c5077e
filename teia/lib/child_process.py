"""Child processes: start a program, follow it, end it, and decide when it is started again.

A child has a process group of its own. Ctrl-C in the terminal reaches its parent alone, which decides how the child
ends; a kill reaches everything that the child has started.

A child ends with its parent, however that ends: the kernel sends it a signal (launch.py). The kernel ties that to the
thread that started the child, so one thread starts all children, and lives as long as the process.

All methods may be called from any thread. `lines`, `connect_…`, `ended` and `end_async` are for a running loop, and
they alone import asyncio, which takes longer than the rest together.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL
LOG_TAIL_BYTES = 4_096
MAX_LINE_CHARS = 500
POLL_S = 0.02
PROBE_S = 10.0
LAUNCH = str(Path(__file__).with_name("launch.py"))

_starter = ThreadPoolExecutor(1, "child-starter")


class ChildProcess:
    """A child process. OSError if it cannot be started.

    Its output goes to `stdout` and `stderr`, or both to the end of the file `log`, which is emptied before unless
    `keeps_log`. `on_parent_death` is the signal it gets when this process ends; None lets it live on. A child of
    `own_session` is found by its session even if its own children have other groups.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdin: int = DEVNULL,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
        log: Path | None = None,
        keeps_log: bool = False,
        on_parent_death: signal.Signals | None = signal.SIGKILL,
        nice: int = 0,
        memory_bytes: int = 0,
        own_session: bool = False,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        # `launch.py` could not tell anybody.
        if shutil.which(command[0]) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
        if on_parent_death is not None:
            limits = [os.getpid(), on_parent_death.value, nice, memory_bytes]
            command = [sys.executable, "-I", "-S", LAUNCH, *map(str, limits), *command]
        descriptor = None
        if log is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (0 if keeps_log else os.O_TRUNC)
            descriptor = os.open(log, flags, 0o600)
            stdout, stderr = descriptor if stdout is None else stdout, descriptor
        try:
            self._process = _starter.submit(
                lambda: subprocess.Popen(  # noqa: S603  # the caller's own command, no shell
                    command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=env,
                    process_group=None if own_session else 0, start_new_session=own_session,
                )
            ).result()  # fmt: skip
        finally:
            if descriptor is not None:
                os.close(descriptor)
        self._input: asyncio.WriteTransport | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    @property
    def exit_reason(self) -> str:
        """The way it ended, for a message."""
        status = self._process.returncode
        if status >= 0:
            return f"status {status}"
        with suppress(ValueError):
            return signal.Signals(-status).name
        return f"signal {-status}"

    # -- input and output ----------------------------------------------------------------------------------

    def close_input(self) -> None:
        """Close its standard input, which requests some programs to finish."""
        if self._input is not None:
            self._input.close()
        elif self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def communicate(self, request: bytes = b"", timeout_s: float | None = None) -> tuple[bytes, bytes] | None:
        """Give it its input and return all its output and its errors; None after the timeout."""
        try:
            printed, errors = self._process.communicate(request or None, timeout_s)
        except subprocess.TimeoutExpired:
            return None
        return printed or b"", errors or b""

    def read_line(self) -> bytes:
        """Return the next line of its output, with its end; empty if there is none."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    async def lines(self, max_bytes: int) -> AsyncIterator[bytes]:
        """Yield the lines of its output until it closes it."""
        import asyncio

        reader = asyncio.StreamReader(max_bytes)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), self._process.stdout
        )
        try:
            while line := await reader.readline():
                yield line
        finally:
            transport.close()

    async def connect_output(self, protocol: Callable[[], asyncio.Protocol]) -> asyncio.ReadTransport:
        """Give its output to a protocol as it comes."""
        import asyncio

        transport, _ = await asyncio.get_running_loop().connect_read_pipe(protocol, self._process.stdout)
        return transport

    async def connect_input(self) -> asyncio.WriteTransport:
        """Return its standard input as something that never blocks."""
        import asyncio

        self._input, _ = await asyncio.get_running_loop().connect_write_pipe(asyncio.Protocol, self._process.stdin)
        return self._input

    # -- the end -------------------------------------------------------------------------------------------

    def terminate(self) -> None:
        """Request its end, even if it is stopped."""
        for number in (signal.SIGTERM, signal.SIGCONT):
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it and all others of its group."""
        # The kernel gives its number to another process only if no other process of the group is left.
        if self._process.returncode is not None and Path("/proc", str(self.pid)).exists():
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for its end; return its status, or None after the timeout."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s)
        return None

    async def ended(self) -> int:
        """Wait for its end; return its status."""
        import asyncio

        while (status := self.status) is None:  # noqa: ASYNC110  # the kernel sets no event
            await asyncio.sleep(POLL_S)
        return status

    def end(self, patience_s: float = 0.0) -> bool:
        """Wait for its end, kill it after `patience_s`, and close its pipes; return whether it ended by itself."""
        has_ended = self.wait(patience_s) is not None
        self.kill()  # it, or processes that it left behind
        self._process.wait()
        self._close_pipes()
        return has_ended

    async def end_async(self, patience_s: float = 0.0, is_hurried: Callable[[], bool] = lambda: False) -> bool:
        """Do what `end` does, in a loop; the patience ends when `is_hurried` is true."""
        import asyncio

        has_ended = False
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    while self.status is None and not is_hurried():  # noqa: ASYNC110
                        await asyncio.sleep(POLL_S)
            has_ended = self.status is not None
        finally:  # also if the caller is cancelled
            self.kill()
            await self.ended()
            self._close_pipes()
        return has_ended

    def _close_pipes(self) -> None:
        self.close_input()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


class BackOff:
    """Waits between failures and the next try: each twice the last, from `first_s` to `longest_s`.

    `ticks_s` of a clock gives the time. A try that lasted for `stable_s` did not fail at its start: the first wait
    follows it.
    """

    def __init__(
        self, ticks_s: Callable[[], float], first_s: float, longest_s: float, stable_s: float | None = None
    ) -> None:
        self._ticks_s, self._first_s, self._longest_s = ticks_s, first_s, longest_s
        self._stable_s = longest_s if stable_s is None else stable_s
        self._began = self._not_before = 0.0
        self._next_s = first_s

    def begin(self) -> None:
        """Note the start of a try."""
        self._began = self._ticks_s()

    def fail(self) -> float:
        """Note the end of a try; return the wait before the next."""
        now = self._ticks_s()
        wait_s = self._first_s if now - self._began >= self._stable_s else self._next_s
        self._not_before, self._next_s = now + wait_s, min(self._longest_s, 2 * wait_s)
        return wait_s

    def reset(self) -> None:
        """Forget the failures."""
        self._not_before, self._next_s = 0.0, self._first_s

    @property
    def left_s(self) -> float:
        """Seconds until the next try is due."""
        return max(0.0, self._not_before - self._ticks_s())


def last_line(log: Path) -> str:
    """Return the last line of a log that is not empty, shortened; an empty text if there is none."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").split("\n")
        return next((line.strip()[:MAX_LINE_CHARS] for line in reversed(lines) if line.strip()), "")
    return ""


def succeeds(command: tuple[str, ...]) -> bool:
    """Tell whether a program is there and this user may run it so; a probe that takes long has failed."""
    try:
        process = ChildProcess(command, stdout=DEVNULL, stderr=DEVNULL)
    except OSError:
        return False
    return process.end(PROBE_S) and process.status == 0
