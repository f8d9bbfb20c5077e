"""One command run to its end, and its cost with all the processes it started.

The command gets a session of its own, so its processes are found in /proc by their session. Processor time is what the
kernel charged to the command and the children it waited for. Children that no process waited for are in no such sum, so
it is compared with the samples, and the larger counts. Memory is the largest sum of resident sets in the samples; pages
that processes share count for each of them. Python programs find their modules compiled, as after any first run, even
if the environment says otherwise (PYTHONDONTWRITEBYTECODE).
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from teia.errors import LabError

SAMPLE_S = 0.1
ENVIRON = {"PYTHONDONTWRITEBYTECODE": ""}
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a command: time from start to end, processor time, largest memory; and its last output."""

    seconds: float
    cpu_s: float
    peak_rss_bytes: int
    output_tail: str = ""


def measure(
    command: Sequence[str],
    environ: Mapping[str, str],
    folder: Path,
    limit_s: float,
    exits: Collection[int] = (0,),
    on_sample: Callable[[float, int], None] | None = None,
) -> Cost:
    """Run a command in a folder; raise an error with its last output if it fails or takes too long.

    `on_sample` gets the seconds since the start and the memory, some times a second.
    """
    with tempfile.TemporaryFile() as output:
        began = time.monotonic()
        process = subprocess.Popen(
            command,
            env={**os.environ, **ENVIRON, **environ},
            cwd=folder,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            cost, status = _watch(process.pid, began, limit_s, on_sample)
        finally:
            _kill_session(process.pid)
        process.returncode = status  # reaped by _watch
        output.seek(max(0, output.seek(0, os.SEEK_END) - 4_000))
        output_tail = output.read().decode("utf-8", "replace")
        if status not in exits:
            raise LabError(f"{' '.join(command[:3])}: exit status {status}: {output_tail}")
        return replace(cost, output_tail=output_tail)


def _watch(pid: int, began: float, limit_s: float, on_sample: Callable[[float, int], None] | None) -> tuple[Cost, int]:
    cpu_s_of: dict[int, float] = {}
    peak_rss_bytes = 0
    # Its end is an event: a look once a sample would count up to a tenth of a second too much.
    end, descriptor = select.poll(), os.pidfd_open(pid)
    end.register(descriptor, select.POLLIN)
    try:
        while True:
            processes = _session(pid)
            rss_bytes = sum(each for _, each in processes.values())
            peak_rss_bytes = max(peak_rss_bytes, rss_bytes)
            if on_sample is not None:
                on_sample(time.monotonic() - began, rss_bytes)
            cpu_s_of.update({member: cpu_s for member, (cpu_s, _) in processes.items()})
            if end.poll(1_000 * SAMPLE_S):
                break
            if time.monotonic() > began + limit_s:
                _kill_session(pid)
        seconds = time.monotonic() - began
    finally:
        os.close(descriptor)
    _, status, usage = os.wait4(pid, 0)
    cpu_s = max(usage.ru_utime + usage.ru_stime, sum(cpu_s_of.values()))
    return Cost(seconds, cpu_s, peak_rss_bytes), os.waitstatus_to_exitcode(status)


def _session(leader: int) -> dict[int, tuple[float, int]]:
    """Return processor time and resident set of every process of a session."""
    found: dict[int, tuple[float, int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name, in parentheses, may hold anything; the fields after it are numbered from 3 in proc(5).
            fields = (entry / "stat").read_text("latin-1").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader:
            found[int(entry.name)] = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S, int(fields[21]) * _PAGE_BYTES
    return found


def _kill_session(leader: int) -> None:
    """End the remaining processes of the session."""
    for pid in _session(leader):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
