"""A cell is handed over to a node that has a copy of it, and to no other."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from teia.cluster.cells import open_cells
from teia.cluster.cells.copies import CellCopies
from teia.cluster.cells.copy_ahead import Follower
from teia.cluster.cells.log import CellLog
from teia.cluster.cells.owner import CellOwner
from teia.cluster.cells.publish import LogJournal
from teia.cluster.cells.snapshots import CannotRestore, Snapshots
from teia.cluster.members.session import NodeState, Pace
from teia.cluster.nats.objects import FileObjects
from teia.cluster.nats.thread import LoopThread
from teia.errors import DiskFull
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import CLUSTER
from teia.frontier.cell.journal import applied_seq
from teia.store.root import CellFolder
from tests.cluster.conftest import Nats
from tests.cluster.kept import IDENTITY, OwnedCell, found
from tests.waiting import until_async

PATIENT = Pace(silence_s=20.0, beat_s=4.0, margin_s=4.0)
"""A pace at which nobody would see a release for seconds without following."""


def the_last(cell: int, alive: Mapping[str, NodeState]) -> Sequence[str]:
    return sorted(alive, reverse=True)


def copies_of(folder: Path, thread: LoopThread, snapshots: Snapshots | None = None) -> CellCopies:
    made = CellFolder(0, folder)
    made.archive.mkdir(parents=True)
    cell = FrontierCell(made.frontier, of_cluster=True)
    cell.db.execute("INSERT INTO meta VALUES (?, ?)", (CLUSTER, IDENTITY))
    cell.close()
    return CellCopies([made], thread, snapshots)


async def grow(log: CellLog, folder: CellFolder, thread: LoopThread, commits: int) -> None:
    def work() -> None:
        cell = FrontierCell(folder.frontier, journal=LogJournal(log, thread))
        for at in range(commits):
            with cell.transaction():
                cell.add_links([found(number) for number in range(at * 10, at * 10 + 10)], 1.0)
        cell.close()

    await asyncio.to_thread(work)


def test_the_next_owner_has_a_copy_before_it_gets_the_cell(own_nats: Nats, tmp_path: Path) -> None:
    """NATS.md 3.3: it restores and follows first; then the release is seen at once."""
    with LoopThread() as thread:

        async def main() -> None:
            a = await own_nats.node("a", pace=PATIENT)
            name = await own_nats.stream(a.wire)
            giver = CellOwner(a.wire, own_nats.clock, a, name, [0], the_last, rank_wait_s=4.0)
            here, there = copies_of(tmp_path / "a", thread), copies_of(tmp_path / "b", thread)
            await until_async(lambda: a.has_watched)
            assert await giver.take_free_cells() == [0]
            await here.open_all(giver.owned)
            await grow(giver.owned[0], here.folders[0], thread, 200)
            b = await own_nats.node("b", pace=PATIENT)
            await until_async(lambda: giver.misplaced_cells() == {0: "b"})
            assert giver.cells_to_hand_over() == {}  # it has no copy
            taker = CellOwner(b.wire, own_nats.clock, b, name, [0], the_last, rank_wait_s=4.0)
            follower = Follower(taker, b, there, own_nats.clock)
            tasks = [asyncio.create_task(each) for each in (taker.run(lambda _: None), follower.follow_for_ever())]
            await until_async(lambda: giver.cells_to_hand_over() == {0: "b"})
            began = own_nats.clock.ticks_s()
            await giver.release([0], {0: "b"})
            await until_async(lambda: 0 in taker.owned)
            assert own_nats.clock.ticks_s() - began < PATIENT.beat_s
            await until_async(lambda: 0 in follower.ready)
            for task in tasks:
                task.cancel()
            assert await there.open_all(taker.owned) == {0: 0}
            for session in (a, b):
                await session.leave()

        async def whole() -> None:
            try:
                await main()
            finally:
                for wire in own_nats.wires:
                    await wire.end()
                own_nats.wires.clear()

        thread.wait_for(whole())


def test_a_cell_that_cannot_be_restored_here_is_left_to_others(own_nats: Nats, tmp_path: Path) -> None:
    """One broken snapshot must not end node after node."""

    class Broken(Snapshots):
        async def restore(self, log: CellLog, folder: CellFolder) -> object:  # type: ignore[override]
            raise CannotRestore("no snapshot can be read")

    with LoopThread() as thread:
        kept = OwnedCell(tmp_path, own_nats, thread)
        snapshots = kept.snapshots()
        log, _ = kept.become_owner("old", snapshots)
        kept.write(log, "old", 100)
        kept.wait_for(snapshots.save(log, kept.folder_of("old")))
        kept.wait_for(log.release())

        async def main() -> None:
            session = await own_nats.node("a")
            await until_async(lambda: session.has_watched)
            owner = CellOwner(session.wire, own_nats.clock, session, kept.collection, [7], the_last)
            broken = Broken(FileObjects(str(tmp_path / "store"), kept.collection), own_nats.clock, IDENTITY)
            follower = Follower(owner, session, CellCopies([kept.folder_of("a")], thread, broken), own_nats.clock)
            following = asyncio.create_task(follower.follow_for_ever())
            assert await owner.take_free_cells() == [7]
            await until_async(lambda: 7 not in owner.owned)
            assert owner.unfit_until
            assert await owner.take_free_cells() == []
            assert follower.failure is None
            following.cancel()
            await session.leave()
            for wire in own_nats.wires:
                await wire.end()
            own_nats.wires.clear()

        thread.wait_for(main())


def test_a_broken_file_is_replaced_by_the_snapshot(nats: Nats, tmp_path: Path) -> None:
    with LoopThread() as thread:
        kept = OwnedCell(tmp_path, nats, thread)
        nats.wires.clear()
        snapshots = kept.snapshots()
        log, _ = kept.become_owner("a", snapshots)
        kept.write(log, "a", 1_000)
        kept.wait_for(snapshots.save(log, kept.folder_of("a")))
        before = kept.dump("a")
        path = kept.folder_of("a").frontier
        path.write_bytes(os.urandom(path.stat().st_size))
        log, _ = kept.become_owner("a", kept.snapshots())
        assert kept.dump("a") == before
        with kept.open_cell(log, "a") as cell:
            assert applied_seq(cell.db) == log.last
        thread.wait_for(kept.wire.end())


def test_a_disk_that_is_full_while_a_copy_is_brought_up_is_reported_and_waited_for(
    nats: Nats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DiskFull makes the follower and the node pause; when there is room the copy is brought up as if nothing was."""

    class Full(FrontierCell):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            (pages,) = self.db.execute("PRAGMA page_count").fetchone()
            self.db.execute(f"PRAGMA max_page_count = {pages + 1}")

    with LoopThread() as thread:
        kept = OwnedCell(tmp_path, nats, thread)
        nats.wires.clear()
        log, _ = kept.become_owner("old")
        kept.write(log, "old", 1_000)
        with monkeypatch.context() as patch:
            patch.setattr(open_cells, "FrontierCell", Full)
            with pytest.raises(DiskFull, match="no space left on the disk"):
                kept.become_owner("a")
        _, behind = kept.become_owner("a")
        assert behind == 10
        assert kept.dump("a") == kept.dump("old")
        thread.wait_for(kept.wire.end())
