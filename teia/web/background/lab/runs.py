"""Stored runs: `lab.runs/NUMBER/` in the root, a name that no collection can have.

    run.json      parameters, user, state, times and digest; replaced atomically
    report.json   the command's printed result
    log           the end of the command's stderr
    *.csv *.svg   tables and figures of an experiment, and its REPORT.md; a plan, and the pages it is for

States: queued -> running -> done, failed, cancelled. A run is `interrupted` if its server ended before it did.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from math import log
from pathlib import Path
from threading import Lock
from typing import Any

from teia.clock import Clock
from teia.durable import disk_errors, sync_folder, write_atomically
from teia.errors import UsageError
from teia.lib.message import Message, decoded, encoded
from teia.web import limits

FOLDER = "lab.runs"
FILES_FOLDER = "lab-report"
"""Folder of a run's files, both inputs and outputs."""

ACTIVE_STATES = frozenset({"queued", "running"})
TAIL_BYTES = 64 << 10
FILES = 64
# Plain names: no path, and nothing to escape in a URL or a header.
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\.(csv|svg|md)", re.ASCII)


class UnknownRun(UsageError):
    """Raised for a run that is not stored, or a file that the run does not have."""


@dataclass(frozen=True, slots=True)
class LabRun:
    """One run.

    `like` and `work` are the inputs of the time estimate; `finding` is a summary of the report.
    """

    number: int
    kind: str
    state: str
    asked: dict[str, Any]
    words: list[str]
    command: str
    seed: int
    by: str
    like: str
    work: float
    queued_s: float
    began_s: float | None = None
    ended_s: float | None = None
    message: str = ""
    digest: str = ""
    finding: dict[str, Any] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.state not in ACTIVE_STATES

    @property
    def seconds(self) -> float | None:
        """Duration in seconds; None before its end."""
        return None if self.began_s is None or self.ended_s is None else max(0.0, self.ended_s - self.began_s)


class StoredRuns:
    """Stored runs of a root; any process may read them, one process writes."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        self._lock = Lock()
        self._cache: dict[int, tuple[tuple[int, int], LabRun]] = {}

    def all(self) -> list[LabRun]:
        """Return all stored runs, newest first."""
        with self._lock:
            found = [run for number in sorted(self._numbers(), reverse=True) if (run := self._load(number)) is not None]
            self._cache = {run.number: self._cache[run.number] for run in found}
        return found

    def get(self, number: int) -> LabRun:
        with self._lock:
            run = self._load(number)
        if run is None:
            raise UnknownRun(
                Message(
                    "there is no run {n} of the lab; only the newest {most} are stored",
                    n=number,
                    most=limits.LAB_MAX_RUNS,
                )
            )
        return run

    def add(self, **values: Any) -> LabRun:
        """Store a new run under the next number."""
        with self._lock, disk_errors(self.path, "written"):
            number = max(self._numbers(), default=0) + 1
            self.folder(number).mkdir(parents=True)
            sync_folder(self.path)
        return self.save(LabRun(number=number, state="queued", queued_s=self._clock.now_s(), **values))

    def save(self, run: LabRun) -> LabRun:
        values = asdict(run) | {"message": encoded(run.message)}
        write_atomically(self.folder(run.number) / "run.json", json.dumps(values).encode())
        return run

    def write_inputs(self, number: int, files: Mapping[str, str]) -> None:
        """Write the input files of a run to its folder."""
        if files:
            made = self.folder(number) / FILES_FOLDER
            with disk_errors(made, "written"):
                made.mkdir(exist_ok=True)
            for name, text in files.items():
                write_atomically(made / name, text.encode())

    def prune(self) -> None:
        """Delete runs that are too many or too old; keep the newest, so that numbers continue from it."""
        oldest_s = self._clock.now_s() - limits.LAB_MAX_AGE_S
        for at, run in enumerate(self.all()):
            if at and run.is_over and (at >= limits.LAB_MAX_RUNS or (run.ended_s or run.queued_s) < oldest_s):
                shutil.rmtree(self.folder(run.number), ignore_errors=True)

    def drop(self, number: int) -> None:
        """Delete a run that never started."""
        shutil.rmtree(self.folder(number), ignore_errors=True)

    def folder(self, number: int) -> Path:
        return self.path / f"{number:06d}"

    def _numbers(self) -> Iterator[int]:
        with suppress(FileNotFoundError):
            names = [path.name for path in self.path.iterdir()]
            yield from (int(name) for name in names if name.isascii() and name.isdigit())

    def _load(self, number: int) -> LabRun | None:
        """Read a run from its file; return None if it is missing or unreadable."""
        path = self.folder(number) / "run.json"
        try:
            found = path.stat()
            # The file is replaced as a whole, so another inode or time means other contents.
            stamp = (found.st_mtime_ns, found.st_ino)
            known = self._cache.get(number)
            if known is None or known[0] != stamp:
                values = json.loads(path.read_bytes())
                values["message"] = decoded(values.get("message", ""))
                # A newer teia may have stored fields that are unknown here.
                names = {each.name for each in fields(LabRun)}
                known = self._cache[number] = (stamp, LabRun(**{k: v for k, v in values.items() if k in names}))
        except (OSError, ValueError, TypeError, AttributeError):
            return None
        return known[1]

    # ---- outputs of a run -------------------------------------------------------------------------------------------

    def report(self, number: int) -> dict[str, Any] | None:
        """Return the command's result; None if it has not ended or the file is damaged."""
        try:
            found = json.loads((self.folder(number) / "report.json").read_bytes())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def tail(self, number: int) -> str:
        """Return the end of the run's log."""
        with suppress(OSError), (self.folder(number) / "log").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            return file.read(TAIL_BYTES).decode("utf-8", "replace")
        return ""

    def file(self, number: int, name: str) -> bytes:
        """Return the contents of one of a run's files."""
        # Only listed names are opened: a request cannot name another path.
        if name not in self.get(number).files:
            raise UnknownRun(Message("run {n} has no file {name!r}", n=number, name=name[:100]))
        with disk_errors(self.folder(number) / name, "read"):
            return (self.folder(number) / name).read_bytes()

    def save_report(self, number: int, report: dict[str, Any]) -> None:
        write_atomically(self.folder(number) / "report.json", json.dumps(report).encode())

    def collect_files(self, number: int, made: Path | None) -> list[str]:
        """Move tables and figures out of the folder that an experiment made, and delete the folder.

        Return the names of the files. Cut the log to its end.
        """
        folder, names = self.folder(number), []
        if made is not None and made.is_dir():
            found = [path for path in sorted(made.iterdir()) if _FILE.fullmatch(path.name) and path.is_file()]
            for path in [each for each in found if each.stat().st_size <= limits.LAB_REPORT_BYTES][:FILES]:
                path.replace(folder / path.name)
                names.append(path.name)
            shutil.rmtree(made, ignore_errors=True)
        tail = self.tail(number)
        write_atomically(folder / "log", tail.encode())
        return names


# ---- estimated duration, from similar runs on this machine -----------------------------------------------------------

LEAST, MOST = 0.2, 100.0
"""Bounds of the factor by which a measured time is scaled; beyond them the estimate means little."""

SURE_SHARE = 0.02
"""Above this share of its work, a run's own progress is the best estimate."""


def estimate_seconds(like: str, work: float, known: Iterable[LabRun]) -> float | None:
    """Scale the time of the similar run that is nearest in work; None if no similar run is stored."""
    alike = [run for run in known if run.like == like and run.state == "done" and run.seconds and run.work > 0]
    if not alike or work <= 0:
        return None
    # Nearest on a logarithmic scale; of equally near runs the newest.
    nearest = min(alike, key=lambda run: (abs(log(work / run.work)), -run.number))
    return (nearest.seconds or 0.0) * min(max(work / nearest.work, LEAST), MOST)


def estimate_left_s(run: LabRun, share: float | None, elapsed_s: float, known: Iterable[LabRun]) -> float | None:
    """Estimate the remaining seconds of a run under way; None if unknown."""
    if share is not None and share >= SURE_SHARE:
        return elapsed_s * (1.0 - share) / share
    whole_s = estimate_seconds(run.like, run.work, known)
    return None if whole_s is None else max(0.0, whole_s - elapsed_s)


def estimate_wait_s(left: float | None, ahead: Sequence[LabRun], known: Sequence[LabRun]) -> float | None:
    """Estimate the seconds until all earlier runs are done; None if no run like one of them was measured."""
    parts = [left, *(estimate_seconds(run.like, run.work, known) for run in ahead)]
    return None if any(part is None for part in parts) else sum(part for part in parts if part is not None)
