"""Recorder of the files of teia whose code runs below named entry points, in any process (bench.traces).

A process that finds this module by the `sitecustomize` of bench.traces records; its environment says what:

    TRACE_ENTRIES   entry points, as `crawler/commit.py:Committer.commit`, separated by blanks
    TRACE_EXITS     functions at which an event ends: their own file counts, and nothing that they call
    TRACE_TO        a folder; each process writes a file of its own there when it ends
    TRACE_WHILE     a file; calls of entry points are followed only while it exists

A file runs in a call if one of its functions is called, directly or not, by the entry point in the same thread. Code
that an import runs does not count, and compiled modules are not seen. A file passes the event on if one of its
functions calls one of another file. Calls to and from the ground floor do not count for that, nor do modules between
the two that are not of teia (`contextlib`, pydantic): the nearest caller of teia does.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Collection
from pathlib import Path
from types import CodeType, FrameType

PACKAGE = f"{Path(__file__).resolve().parent.parent / 'teia'}/"
GROUND = ("clock.", "config/", "durable.", "errors.", "lib/", "records.", "sqlite.", "urls.", "version.")
"""Beginnings of the paths of the ground floor (CONTRIBUTING.md)."""

PASSES_ON = " >"
"""Behind the name of a file that passes the event on."""


class _Thread(threading.local):
    """The call of an entry point that this thread is in, the imports and exits inside it, and the files that ran."""

    def __init__(self) -> None:
        self.entry: FrameType | None = None
        self.hidden: list[FrameType] = []
        self.files: set[str] = set()


class TraceRecorder:
    """A profile function (`sys.setprofile`); `calls` counts the calls of each entry point in which a file ran.

    The calls themselves are counted under an empty name.
    """

    def __init__(self, entries: Collection[str], exits: Collection[str], only_while: Path) -> None:
        self.calls: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._entries, self._exits, self._only_while = frozenset(entries), frozenset(exits), only_while
        self._known: dict[CodeType, tuple[str, str]] = {}
        self._thread, self._lock = _Thread(), threading.Lock()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        thread = self._thread
        if event == "call":
            file, name = self._describe(frame.f_code)
            if thread.entry is None and name in self._entries and self._only_while.exists():
                thread.entry, thread.files = frame, set()
            is_import = frame.f_code.co_name == "<module>"
            if thread.entry is not None and file and not is_import and not thread.hidden:
                thread.files.add(file)
                if frame is not thread.entry and not file.startswith(GROUND):
                    caller = self._caller(frame, thread.entry)
                    thread.files |= {caller + PASSES_ON} if caller != file else set()
            if thread.entry is not None and (is_import or name in self._exits):
                thread.hidden.append(frame)
        elif event == "return" and thread.hidden and thread.hidden[-1] is frame:
            thread.hidden.pop()
        elif event == "return" and thread.entry is frame:
            thread.entry = None
            with self._lock:
                self.calls[self._describe(frame.f_code)[1]].update([*thread.files, ""])

    def _caller(self, frame: FrameType, entry: FrameType) -> str:
        """Return the file of the nearest caller above the ground floor; that of the entry point if there is none."""
        caller = frame.f_back
        while caller is not None and caller is not entry:
            file = self._describe(caller.f_code)[0]
            if file and not file.startswith(GROUND):
                return file
            caller = caller.f_back
        return self._describe(entry.f_code)[0]

    def _describe(self, code: CodeType) -> tuple[str, str]:
        """Return a function's file, empty if it is not one of teia, and its name with that file."""
        known = self._known.get(code)
        if known is None:
            file = code.co_filename.removeprefix(PACKAGE) if code.co_filename.startswith(PACKAGE) else ""
            known = self._known[code] = file, f"{file}:{code.co_qualname}"
        return known


def record() -> None:
    """Record in this process from now on, as the environment says."""
    if "TRACE_TO" in os.environ:
        entries, exits = os.environ["TRACE_ENTRIES"].split(), os.environ["TRACE_EXITS"].split()
        recorder = TraceRecorder(entries, exits, Path(os.environ["TRACE_WHILE"]))
        to = Path(os.environ["TRACE_TO"])
        # The id is read at the end: a process that was forked has its own.
        atexit.register(lambda: (to / f"{os.getpid()}.json").write_text(json.dumps(recorder.calls), "utf-8"))
        threading.setprofile(recorder)
        sys.setprofile(recorder)
