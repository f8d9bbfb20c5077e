"""The bench of faults: a crawl in which one call on a file fails, and the start after it.

A *point* is (which files, which deed, the n-th such call, which error, how). The call fails once (`ONCE`); or it and
all that follow on those files (`STICKY`: the disk has gone bad); or once, and the process dies when the commit that it
was part of has failed (`DEATH`), so that nothing is closed. Then the fault is gone, and a crawl of the same folder must
open it, end, and know exactly what a crawl without any fault knows.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self, TypeVar

from tests.conftest import ROOT, missing

T = TypeVar("T")
HERE = Path(__file__).parent
HARNESSES = 2
"""Crawls at a time: half of the time of one is waiting."""

ONCE, STICKY, DEATH = "once", "sticky", "death"
DEEDS = ("write", "sync", "truncate", "name", "open")
ERRORS = (errno.EIO, errno.ENOSPC)
FILES = {
    "frontier": r"/cells/[0-9]+/(frontier\.sqlite|#|\.$)|/cells/[0-9]+$",
    "archive": r"/archive(/|$)",
    "ledger": r"/ledger\.sqlite",
    "control": r"/control\.sqlite",
    "made": r"/data/(#|\.$|\.?format|lock|main$|main/\.?teia|main/cells$)|/data$",
}
"""Whose calls are counted together, by a pattern over the path. `made`: the folder itself, and unnamed files in it that
become a ledger or a control file."""


@dataclass(frozen=True)
class Point:
    """One fault; `nth` counts the calls of one deed on one kind of file."""

    files: str
    deed: str
    nth: int
    error: int
    how: str = ONCE

    def __str__(self) -> str:
        return f"{self.files}-{self.deed}-{self.nth}-{errno.errorcode[self.error]}-{self.how}"


def compiled(folder: Path) -> Path:
    """Build the library with the system's compiler."""
    compiler, library = shutil.which("cc") or shutil.which("gcc"), folder / "shim.so"
    if compiler is None:
        missing("a C compiler is not installed")
        raise AssertionError
    flags = ["-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", str(library), str(HERE / "shim.c"), "-ldl", "-lpthread"], check=True)
    return library


class Bench:
    """Harnesses that are running, and folders of their own. Several threads may give orders."""

    def __init__(self, folder: Path, library: Path, harnesses: int = HARNESSES) -> None:
        self._folder = folder
        environ = {**os.environ, "LD_PRELOAD": str(library), "OPENBLAS_NUM_THREADS": "1"}
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.faults.harness"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env=environ,
            )
            for _ in range(harnesses)
        ]
        self._idle: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
        for process in self._processes:
            self._idle.put(process)
        self._made = itertools.count(1)
        self.threads = ThreadPoolExecutor(harnesses)
        """One for each harness."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.communicate(timeout=120)

    def order(self, **order: Any) -> dict[str, Any]:
        """Have something done in a child of a harness; returns what it told."""
        process = self._idle.get()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            print(json.dumps(order), file=process.stdin, flush=True)
            return json.loads(process.stdout.readline())
        finally:
            self._idle.put(process)

    @contextmanager
    def data(self, copy_of: Path | None = None) -> Iterator[Path]:
        """A data folder that is gone afterwards."""
        data = self.new_data()
        if copy_of is not None:
            shutil.copytree(copy_of, data)
        try:
            yield data
        finally:
            self.drop(data)

    def new_data(self) -> Path:
        """The place of a data folder, in a folder of its own."""
        place = self._folder / f"{next(self._made)}"
        place.mkdir()
        return place / "data"

    def drop(self, data: Path) -> None:
        shutil.rmtree(data.parent, ignore_errors=True)

    def all_done(self, works: Iterable[Callable[[], T]]) -> Iterator[T]:
        """Do works in threads; yield what each returns, in order. A few are taken ahead."""
        under_way = deque[Future[T]]()
        for work in works:
            under_way.append(self.threads.submit(work))
            if len(under_way) > 2 * len(self._processes):
                yield under_way.popleft().result()
        for each in under_way:
            yield each.result()

    # ---- without faults ---------------------------------------------------------------------------------------------

    def undisturbed(self) -> dict[str, Any]:
        """What a crawl comes to in which nothing fails."""
        with self.data() as data:
            told = self.order(crawl=str(data), look=str(data))
        assert told.get("state") == "finished", told
        assert not told["complaints"], told
        return told

    def half_way(self, data: Path) -> None:
        """Leave a folder as a death in the middle does: a tail in the archive, an outbox, a log that is not in."""
        for nth in self.commit_syncs()[3:]:
            fault = self._fault(Point("frontier", "sync", nth, errno.EIO), data)
            told = self.order(crawl=str(data), fault=fault, dies=True)
            if told["failed"]:
                return
            shutil.rmtree(data)
        raise AssertionError("no commit fails")

    def calls(self, copy_of: Path | None = None) -> list[tuple[str, str]]:
        """Every call of a crawl that could fail, in order: (deed, path)."""
        with self.data(copy_of) as data:
            log = data.parent / "calls"
            everything = {"path": str(data), "deeds": ",".join(DEEDS), "nth": 0, "error": 0, "sticky": 0}
            self.order(crawl=str(data), fault={**everything, "log": str(log)})
            lines = [line.split(" ", 2) for line in log.read_text().splitlines()]
        return [(deed, path) for _, deed, path in lines]

    def counted(self, copy_of: Path | None = None) -> Counter[tuple[str, str]]:
        """How many calls of each deed a crawl makes, by kind of file."""
        return Counter((kind_of(path), deed) for deed, path in self.calls(copy_of))

    def commit_syncs(self) -> list[int]:
        """Which syncs of frontiers end a commit of pages: the first of a cell's log after one of its archive."""
        found, nth, with_pages = list[int](), 0, set[str]()
        for deed, path in self.calls():
            if deed == "sync" and path.endswith(".warc.gz"):
                with_pages.add(path.partition("/archive/")[0])
            elif deed == "sync" and kind_of(path) == "frontier":
                nth += 1
                cell = path.removesuffix("/frontier.sqlite-wal")
                if cell in with_pages:
                    with_pages.remove(cell)
                    found.append(nth)
        return found

    # ---- with one ---------------------------------------------------------------------------------------------------

    def _fault(self, point: Point, data: Path) -> dict[str, Any]:
        return {
            "path": FILES[point.files],
            "deeds": point.deed,
            "nth": point.nth,
            "error": point.error,
            "sticky": int(point.how == STICKY),
            "log": str(data.parent / "calls"),
        }

    def complaints(self, point: Point, calm: dict[str, Any], copy_of: Path | None = None) -> tuple[bool, list[str]]:
        """Whether the fault came, and all that is wrong after it; see the module's text."""
        with self.data(copy_of) as data:
            hurt = self.order(crawl=str(data), fault=self._fault(point, data), dies=point.how == DEATH)
            if not hurt.get("fired") and not hurt["failed"]:
                return False, _crashes(hurt)
            again = self.order(crawl=str(data), look=str(data))
        return True, _crashes(hurt) + after(hurt, again, calm)


def _crashes(hurt: dict[str, Any]) -> list[str]:
    """What is no answer to a fault: an exception that no person can act on, or no end."""
    return [f"the crawl crashed: {hurt['crash']}"] if "crash" in hurt else []


def after(hurt: dict[str, Any], again: dict[str, Any], calm: dict[str, Any]) -> list[str]:
    wrong = [f"{key}: {again[key]}" for key in ("error", "crash", "failed") if again.get(key)]
    if wrong or again.get("state") != "finished":
        return [f"the next start fails: {wrong or again.get('state')}"]
    if again["complaints"]:
        wrong.append(f"audits: {again['complaints']}")
    if again["urls"] != calm["urls"]:
        wrong += [
            f"{url}: {again['urls'].get(url)}, without a fault {calm['urls'].get(url)}"
            for url in sorted(again["urls"].keys() | calm["urls"].keys())
            if again["urls"].get(url) != calm["urls"].get(url)
        ]
    if again["copies"] != calm["copies"]:
        wrong.append(f"copies: {again['copies']}")
    if again["records"] != calm["records"]:
        wrong.append(f"{again['records']} records are counted, without a fault {calm['records']}")
    acknowledged = {url for url, _, purpose in hurt["acknowledged"] if purpose == "page"}
    if lost := acknowledged & set(again.get("asked", ())):
        wrong.append(f"asked for again though committed: {sorted(lost)}")
    return wrong


def kind_of(path: str) -> str:
    """Which kind of file a path is; `other` ones can be made again."""
    return next((kind for kind, pattern in FILES.items() if re.search(pattern, path)), "other")


def points(calls: Counter[tuple[str, str]], how: Sequence[str] = (ONCE,)) -> list[Point]:
    """Every call of every deed on every kind of file that counts, with each error."""
    return [
        Point(files, deed, nth, error, each)
        for (files, deed), number in sorted(calls.items())
        if files in FILES
        for nth in range(1, number + 1)
        for error in ERRORS
        for each in how
    ]


def sample(chance: random.Random, all_points: Sequence[Point], number: int) -> list[Point]:
    """Some points of each deed on each kind of file, as evenly as there are any."""
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in all_points:
        groups.setdefault((point.files, point.deed), []).append(point)
    for group in groups.values():
        chance.shuffle(group)
    chosen: list[Point] = []
    while len(chosen) < number and any(groups.values()):
        chosen += [group.pop() for group in groups.values() if group]
    return chosen[:number]
