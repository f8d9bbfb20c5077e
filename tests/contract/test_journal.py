"""One suite for the ways a cell commits: its own transaction alone, or a log in NATS before it, , in any format."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest

from teia.cluster.cells.log import CellLog, CellLost
from teia.cluster.cells.open_cells import catch_up
from teia.cluster.cells.publish import LogJournal
from teia.cluster.nats.thread import LoopThread
from teia.cluster.nats.wire import Wire
from teia.errors import StoreError
from teia.frontier.cell import mail
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.journal import RecordingConnection
from teia.frontier.cell.rows import FoundUrl
from teia.store.root import CellFolder
from teia.urls import key_of
from tests.cluster.conftest import Nats, run_servers

CELLS = 3


class Commits(Protocol):
    """Cells that commit, one way or the other."""

    def open(self, number: int) -> FrontierCell: ...
    def deliver(self) -> None: ...


class Alone:
    """One machine: outboxes, delivered from file to file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.cells: dict[int, FrontierCell] = {}

    def open(self, number: int) -> FrontierCell:
        if number in self.cells:
            self.cells.pop(number).close()
        self.cells[number] = FrontierCell(self._folder / f"{number}.sqlite")
        return self.cells[number]

    def deliver(self) -> None:
        for number, sender in self.cells.items():
            for seq, to_cell, found in list(mail.pending(sender)):
                take(self.cells[to_cell], number, seq, found)


class Clustered:
    """Cells with their logs in NATS; links travel with the records."""

    def __init__(self, folder: Path, nats: Nats, thread: LoopThread, changes_format: int) -> None:
        self._folder, self._nats, self._thread = folder, nats, thread
        self._format = changes_format
        self.wire: Wire = thread.wait_for(nats.wire())
        self.collection = thread.wait_for(nats.stream(self.wire))
        self.cells: dict[int, FrontierCell] = {}

    def log(self, number: int, node: str = "a") -> CellLog:
        log = CellLog(self.wire, self._nats.clock, self.collection, number, node, f"{node}-1")
        log.changes_format = lambda: self._format
        return log

    def folder_of(self, number: int, node: str = "a") -> CellFolder:
        folder = CellFolder(number, self._folder / f"{node}{number}")
        folder.archive.mkdir(parents=True, exist_ok=True)
        return folder

    def open(self, number: int, node: str = "a") -> FrontierCell:
        """Become keeper and open the cell as its log says it is."""
        if node == "a" and number in self.cells:
            self.cells.pop(number).close()
        log = self.log(number, node)
        journal = LogJournal(log, self._thread)
        self._thread.wait_for(log.take(self._thread.wait_for(log.head())))
        self._thread.wait_for(catch_up(self.folder_of(number, node), journal))
        cell = FrontierCell(self.folder_of(number, node).frontier, journal=journal)
        if node == "a":
            self.cells[number] = cell
        return cell

    def deliver(self) -> None:
        for number, cell in self.cells.items():
            for seq, bulk in self._thread.wait_for(self._waiting(number)):
                take(cell, mail.THE_STREAM, seq, mail.decode_links(bulk))

    async def _waiting(self, number: int) -> list[tuple[int, bytes]]:
        subject = f"{self.collection}.links.{number}"
        info = await self.wire.js.stream_info(f"TEIA_{self.collection}", subjects_filter=subject)
        wanted = (info.state.subjects or {}).get(subject, 0)
        found: list[tuple[int, bytes]] = []
        if wanted:
            async for bulk in self.log(number).links(0):
                found.append((bulk.seq, bulk.data))
                if len(found) == wanted:
                    break
        return found


def take(cell: FrontierCell, sender: int, seq: int, found: list[FoundUrl]) -> None:
    """What the committer does with links that arrive."""
    with cell.transaction():
        if found and seq > mail.last_received(cell, sender):
            cell.add_links(found, 5.0)
            mail.note_received(cell, sender, seq)


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    yield from run_servers(tmp_path_factory.mktemp("nats"), 1)


@pytest.fixture(params=[1, 2, 3])
def clustered(request: pytest.FixtureRequest, tmp_path: Path, nats: Nats) -> Iterator[Clustered]:
    yield from run_clustered(tmp_path, nats, request.param)


def run_clustered(tmp_path: Path, nats: Nats, changes_format: int) -> Iterator[Clustered]:
    with LoopThread() as thread:
        made = Clustered(tmp_path, nats, thread, changes_format)
        for number in range(CELLS):
            made.open(number)
        yield made
        for cell in made.cells.values():
            cell.close()
        thread.wait_for(made.wire.end())


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Alone]:
    made = Alone(tmp_path)
    for number in range(CELLS):
        made.open(number)
    yield made
    for cell in made.cells.values():
        cell.close()


@pytest.fixture(params=["alone", *(pytest.param(number, marks=pytest.mark.heavy) for number in (1, 3))])
def commits(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Commits]:
    """One machine, and a cluster whose log has the oldest or the newest format of changes."""
    if request.param == "alone":
        yield request.getfixturevalue("alone")
    else:
        yield from run_clustered(tmp_path, request.getfixturevalue("nats"), request.param)


def found(path: str, host: str = "a.test") -> FoundUrl:
    return FoundUrl(host, key_of(f"http://{host}{path}"), path, 1)


def urls(cell: FrontierCell) -> list[tuple[str, int]]:
    return cell.db.execute("SELECT tail, in_links FROM urls ORDER BY tail").fetchall()


def test_what_was_committed_is_there_when_the_cell_is_opened_again(commits: Commits) -> None:
    cell = commits.open(0)
    for n in range(10):
        with cell.transaction():
            cell.add_links([found(f"/{n}"), found("/same")], 1.0)
    before = urls(cell)
    cell = commits.open(0)
    assert urls(cell) == before
    assert (cell.known, cell.queued) == (11, 11)


def test_a_transaction_that_fails_leaves_no_trace(commits: Commits) -> None:
    cell, other = commits.open(0), commits.open(1)
    with cell.transaction():
        cell.add_links([found("/kept")], 1.0)
    with suppress(ValueError), cell.transaction():
        cell.add_links([found("/lost")], 1.0)
        mail.post(cell, 1, [found("/astray", "b.test")])
        raise ValueError
    commits.deliver()
    assert urls(other) == []
    cell = commits.open(0)
    assert urls(cell) == [("/kept", 1)]
    assert cell.known == 1


def test_links_reach_the_other_cell_once_however_often_they_are_delivered(commits: Commits) -> None:
    """A3: Bulk and Take; counts stay exact."""
    cell, other = commits.open(0), commits.open(1)
    for n in range(3):
        with cell.transaction():
            cell.add_links([found(f"/page{n}")], 1.0)
            mail.post(cell, 1, [found("/there", "b.test"), found(f"/{n}", "b.test")])
    for _ in range(3):
        commits.deliver()
    assert urls(other) == [("/0", 1), ("/1", 1), ("/2", 1), ("/there", 3)]
    other = commits.open(1)
    commits.deliver()
    assert urls(other) == [("/0", 1), ("/1", 1), ("/2", 1), ("/there", 3)]


@pytest.mark.parametrize("fails_at", ["note_seq", "commit"])
def test_a_file_that_fell_behind_its_log_takes_nothing_until_it_has_caught_up(
    clustered: Clustered, monkeypatch: pytest.MonkeyPatch, fails_at: str
) -> None:
    """NATS.md 4: the log has it, the disk was full before the file had it."""

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    cell = clustered.open(0)
    with monkeypatch.context() as patch:
        if fails_at == "note_seq":
            patch.setattr("teia.frontier.cell.journal.note_seq", full)
        else:
            execute = RecordingConnection.execute
            patch.setattr(
                RecordingConnection,
                "execute",
                lambda db, sql, *more: (full if sql == "COMMIT" else execute)(db, sql, *more),
            )
        with pytest.raises(StoreError), cell.transaction():
            cell.add_links([found("/recorded")], 1.0)
    assert urls(cell) == []
    with pytest.raises(CellLost, match="must be reopened"), cell.transaction():
        cell.add_links([found("/too soon")], 1.0)
    cell = clustered.open(0)
    assert urls(cell) == [("/recorded", 1)]
    with cell.transaction():
        cell.add_links([found("/next")], 1.0)
    assert urls(clustered.open(0)) == [("/next", 1), ("/recorded", 1)]


def test_another_node_takes_over_what_was_committed_and_the_first_is_refused(clustered: Clustered) -> None:
    """Only a cluster can: the same cell from its log alone, on another disk."""
    cell = clustered.open(0)
    for n in range(20):
        with cell.transaction():
            cell.add_links([found(f"/{n}"), found("/same")], 1.0)
    taken = clustered.open(0, node="b")
    assert urls(taken) == urls(cell)
    with pytest.raises(CellLost), cell.transaction():
        cell.add_links([found("/stale")], 1.0)
    assert urls(taken) == urls(cell)
    with taken.transaction():
        taken.add_links([found("/fresh")], 1.0)
    taken.close()
    assert ("/fresh", 1) in urls(clustered.open(0))
