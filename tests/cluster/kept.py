"""Cells that nodes own, without crawling them: their logs in NATS, their files, written by real transactions."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from teia.cluster.cells.copies import CellCopies
from teia.cluster.cells.log import CellLog
from teia.cluster.cells.publish import LogJournal
from teia.cluster.cells.snapshots import Snapshots
from teia.cluster.nats.objects import FileObjects, Objects
from teia.cluster.nats.thread import LoopThread
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import CLUSTER
from teia.frontier.cell.rows import FoundUrl
from teia.store.root import CellFolder
from teia.urls import key_of

from .conftest import Nats

IDENTITY = "this cluster"
Result = TypeVar("Result")


class OwnedCell:
    """A cell of a collection as several nodes own it, one after another; each has a folder of its own."""

    def __init__(self, folder: Path, nats: Nats, thread: LoopThread, objects: Objects | None = None) -> None:
        self.folder, self.nats, self.thread = folder, nats, thread
        self.wire = self.wait_for(nats.wire())
        self.collection = self.wait_for(nats.stream(self.wire))
        self.objects = objects or FileObjects(str(folder / "store"), self.collection)

    def wait_for(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.thread.wait_for(work)

    def log(self, node: str) -> CellLog:
        return CellLog(self.wire, self.nats.clock, self.collection, 7, node, f"{node}-1")

    def folder_of(self, node: str) -> CellFolder:
        folder = CellFolder(7, self.folder / node)
        if not folder.frontier.exists():
            folder.archive.mkdir(parents=True)
            cell = FrontierCell(folder.frontier, of_cluster=True)
            cell.db.execute("INSERT INTO meta VALUES (?, ?)", (CLUSTER, IDENTITY))
            cell.close()
        return folder

    def snapshots(self) -> Snapshots:
        return Snapshots(self.objects, self.nats.clock, IDENTITY)

    def become_owner(self, node: str, snapshots: Snapshots | None = None) -> tuple[CellLog, int]:
        """Become owner with a file that is up to the log; returns the log and the number of commits it lagged."""
        log = self.log(node)
        self.wait_for(log.take(self.wait_for(log.head())))
        copies = CellCopies([self.folder_of(node)], self.thread, snapshots)
        return log, self.wait_for(copies.open_all({7: log}))[7]

    def write(self, log: CellLog, node: str, urls: int, begin: int = 0, at_once: int = 100) -> None:
        """Commit URLs that were found, as a crawl does."""
        with self.open_cell(log, node) as cell:
            for at in range(begin, begin + urls, at_once):
                with cell.transaction():
                    cell.add_links([found(number) for number in range(at, min(at + at_once, begin + urls))], 1.0)

    @contextmanager
    def open_cell(self, log: CellLog, node: str) -> Iterator[FrontierCell]:
        cell = FrontierCell(self.folder_of(node).frontier, journal=LogJournal(log, self.thread))
        try:
            yield cell
        finally:
            cell.close()

    def dump(self, node: str) -> list[str]:
        """All that a node's file says, but for how far it has read."""
        cell = FrontierCell(self.folder_of(node).frontier, read_only=True)
        try:
            return [line for line in cell.db.iterdump() if "'log_seq'" not in line]
        finally:
            cell.close()

    def messages(self, kind: str = "log") -> int:
        """How many messages of a kind NATS has."""
        mask = f"{self.collection}.{kind}.7"
        info = self.wait_for(self.wire.js.stream_info(f"TEIA_{self.collection}", subjects_filter=mask))
        return (info.state.subjects or {}).get(mask, 0)

    def names(self) -> list[str]:
        return self.wait_for(self.objects.names("7-"))


def found(number: int, hosts: int = 7) -> FoundUrl:
    host = f"h{number % hosts}.site.test"
    return FoundUrl(host, key_of(f"http://{host}/{number}"), f"/{number}", depth=1)
