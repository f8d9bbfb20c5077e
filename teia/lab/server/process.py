"""A lab in a separate process, for crawls that are measured: the web and the crawler do not share a core.

The process never outlives its owner. It is ended when the block is left, and it holds a pipe (`--lifeline`) whose other
end closes by itself if the owner is killed without cleaning up.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import IO, Any

import msgspec

from teia.errors import LabError

START_S = 120.0
END_S = 10.0


@contextmanager
def lab_process(*flags: str, cores: Sequence[int] = (), start_s: float = START_S) -> Iterator[dict[str, Any]]:
    """Run `teia lab serve` with these flags, on these cores if given, and yield the output of `--ready-json`.

    LabError with the lab's own message if it is not ready within `start_s`.
    """
    command = [sys.executable, "-m", "teia", "lab", "serve", "--ready-json", "--lifeline", *flags]
    with (
        tempfile.TemporaryFile() as stderr,
        subprocess.Popen(  # noqa: S603  # our own program, no shell
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
        ) as process,
    ):
        try:
            if cores:
                os.sched_setaffinity(process.pid, cores)
            yield _wait_until_ready(process, stderr, start_s)
        finally:
            _stop(process)


def _wait_until_ready(process: subprocess.Popen[bytes], stderr: IO[bytes], start_s: float) -> dict[str, Any]:
    assert process.stdout is not None
    # readline has no time limit of its own; it returns when the killed process closes its pipe.
    kill_timer = Timer(start_s, process.kill)
    kill_timer.start()
    try:
        line = process.stdout.readline()
    finally:
        kill_timer.cancel()
    try:
        return msgspec.json.decode(line, type=dict[str, Any])  # Any: a JSON object, see `cli.lab.serve`
    except msgspec.DecodeError as error:
        stderr.seek(0)
        lines = stderr.read().decode(errors="replace").split("\n")
        last = next((text for text in reversed(lines) if text), f"not ready within {start_s:g} s")
        raise LabError(f"the lab did not start: {last.removeprefix('teia: ')}") from error


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
