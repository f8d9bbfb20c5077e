"""A lab in a separate process, for crawls that are measured: the web and the crawler do not share a core.

The process never outlives its owner: it is ended when the block is left, and by the kernel if the owner is killed.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import msgspec

from teia.errors import LabError
from teia.lib.child_process import PIPE, ChildProcess, last_line

START_S = 120.0
END_S = 10.0


@contextmanager
def lab_process(*flags: str, cores: Sequence[int] = (), start_s: float = START_S) -> Iterator[dict[str, Any]]:
    """Run `teia lab serve` with these flags, on these cores if given, and yield the output of `--ready-json`.

    LabError with the lab's own message if it is not ready within `start_s`.
    """
    command = [sys.executable, "-m", "teia", "lab", "serve", "--ready-json", *flags]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        process = ChildProcess(command, stdout=PIPE, log=log, on_parent_death=signal.SIGTERM)
        try:
            if cores:
                os.sched_setaffinity(process.pid, cores)
            yield _wait_until_ready(process, log, start_s)
        finally:
            process.terminate()
            process.end(END_S)


def _wait_until_ready(process: ChildProcess, log: Path, start_s: float) -> dict[str, Any]:
    # `read_line` has no time limit of its own; it returns when the killed process closes its pipe.
    kill_timer = Timer(start_s, process.kill)
    kill_timer.start()
    try:
        line = process.read_line()
    finally:
        kill_timer.cancel()
    try:
        return msgspec.json.decode(line, type=dict[str, Any])  # Any: a JSON object, see `cli.lab.serve`
    except msgspec.DecodeError as error:
        last = last_line(log) or f"not ready within {start_s:g} s"
        raise LabError(f"the lab did not start: {last.removeprefix('teia: ')}") from error
