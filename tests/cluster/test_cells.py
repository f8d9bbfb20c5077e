"""A cell's files brought up to its log, and its archive cut where the log says it ends."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from teia.cluster.cells import KeptCell, KeptCells, OwnTail, _in_thread, prepare
from teia.cluster.crawling import NodeCommitter
from teia.cluster.journal import CellLost
from teia.cluster.publishing import LogJournal
from teia.crawl.cells import note_position
from teia.crawl.commit import Committed
from teia.errors import ClusterError, DiskFull
from teia.frontier.cell import FrontierCell
from teia.store.archive import Position
from teia.store.root import CellFolder, open_root


def test_the_archive_is_cut_at_the_last_position_on_our_own_disk(tmp_path: Path) -> None:
    """What others wrote after us is not here, and what of ours is in the log stays, to the byte."""
    folder = CellFolder(0, tmp_path)
    folder.archive.mkdir()
    frontier = FrontierCell(folder.frontier)
    (folder.archive / "ours-1").write_bytes(bytes(900))
    (folder.archive / "ours-2").write_bytes(bytes(700))
    tail = OwnTail(frontier, folder)
    tail.cut()  # nothing is known yet: nothing is cut
    for file, offset in (("ours-1", 900), ("ours-2", 300), ("ours-2", 500), ("theirs-1", 40), ("theirs-1", 4_000)):
        with frontier.transaction():
            note_position(frontier, Position(file, offset))
        tail.look()
    tail.cut()
    sizes = {path.name: path.stat().st_size for path in folder.archive.iterdir()}
    assert sizes == {"ours-1": 900, "ours-2": 500}
    frontier.close()


def test_kept_cells_are_found_by_their_number() -> None:
    cells = KeptCells({5: "five", 2: "two"})  # type: ignore[dict-item]  # any object will do
    assert list(cells) == ["five", "two"]
    assert (cells[5], len(cells), cells.keeps(2), cells.keeps(0)) == ("five", 2, True, False)
    with pytest.raises(KeyError):
        cells[0]
    for _ in cells:
        cells.drop(5)
    assert list(cells) == ["two"]


def test_what_belongs_to_a_cluster_is_not_written_by_one_machine(tmp_path: Path) -> None:
    """A change behind the log's back would be in no other node's copy."""
    folder = open_root(tmp_path / "data", create=True).collection("main")
    prepare(folder, 2, "this cluster")
    path = folder.cells()[0].frontier
    with pytest.raises(ClusterError, match="belongs to a cluster; only `teia node` may change it"):
        FrontierCell(path)
    FrontierCell(path, read_only=True).close()
    prepare(folder, 2, "this cluster")
    with pytest.raises(ClusterError, match="another cluster"):
        prepare(folder, 2, "that cluster")


class Failing:
    """A log that stores a record and then cannot say so, or cannot store it."""

    def __init__(self, problem: Exception) -> None:
        self.cell, self._problem = 0, problem

    async def append(self, body: bytes, links: object = ()) -> int:
        raise self._problem


class AtOnce:
    packing_s = 0.0

    def wait_for(self, what: Coroutine[Any, Any, int]) -> int:
        return asyncio.run(what)


@pytest.mark.parametrize(
    ("problem", "is_behind"), [(CellLost(0, "the session is over"), True), (ClusterError("it is too large"), False)]
)
def test_what_the_log_may_name_is_not_cut_off_the_archive(tmp_path: Path, problem: Exception, is_behind: bool) -> None:
    journal = LogJournal(Failing(problem), AtOnce())  # type: ignore[arg-type]
    with pytest.raises(type(problem)):
        journal.publish(b"changes")
    assert journal.is_behind is is_behind
    cell = KeptCell.__new__(KeptCell)
    reopened = []
    cell.frontier = SimpleNamespace(journal=journal)  # type: ignore[assignment]
    cell.archive = SimpleNamespace(close=lambda: reopened.append(1))  # type: ignore[assignment]
    cell._open_archive = lambda: cell.archive  # type: ignore[method-assign]
    cell.rewind()
    assert bool(reopened) is not is_behind


def test_links_that_could_not_be_merged_are_merged_by_the_next_commit() -> None:
    """A full disk in one cell must not cost it, or the cells after it, what they have heard."""
    committer = NodeCommitter.__new__(NodeCommitter)
    committer.cells, committer.hearing, committer.heard = KeptCells({1: "one", 2: "two"}), {}, {}  # type: ignore[dict-item]
    bulk = msgspec.msgpack.encode([])
    committer.inbox = deque([(1, 10, bulk), (2, 11, bulk), (3, 12, bulk), (1, 13, bulk)])
    taken: list[tuple[object, list[int]]] = []
    full = [True]

    def take(cell: object, bulks: Any, done: object) -> None:
        if cell == "one" and full:
            raise DiskFull(full.pop())  # type: ignore[arg-type]
        taken.append((cell, [seq for _, seq, _ in bulks]))

    committer._take = take  # type: ignore[method-assign]
    with pytest.raises(DiskFull):
        committer._hear(Committed())
    assert (taken, committer.heard) == ([], {})
    committer.inbox.append((2, 14, bulk))
    committer._hear(Committed())
    assert taken == [("one", [10, 13]), ("two", [11])]
    assert committer.heard == {1: 13, 2: 11}
    committer._hear(Committed())
    assert committer.heard == {1: 13, 2: 14}


def test_a_file_is_not_closed_while_a_thread_still_writes_it() -> None:
    """A node that leaves while it catches up: the thread goes on, so whoever closes the file waits for it."""
    done: list[bool] = []

    def write() -> None:
        time.sleep(0.3)
        done.append(True)

    async def main() -> None:
        task = asyncio.create_task(_in_thread(write))
        await asyncio.sleep(0.05)
        for each in asyncio.all_tasks() - {asyncio.current_task()}:  # as a node's loop does when it ends
            each.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done

    asyncio.run(main())
