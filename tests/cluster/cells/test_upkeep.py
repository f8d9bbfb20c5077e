"""The upkeep of cells goes on whatever goes wrong in one look: nobody would notice that it ended."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from teia.clock import WallClock
from teia.cluster.cells import copy_ahead, snapshot_schedule, upkeep
from teia.cluster.cells.copies import CellCopies
from teia.cluster.cells.copy_ahead import Follower
from teia.cluster.cells.snapshot_schedule import SnapshotScheduler
from teia.cluster.cells.upkeep import Upkeep
from teia.cluster.nats.thread import LoopThread
from teia.config.sections import ClusterSettings
from teia.store.root import CellFolder

LOOKS = 3


class Looks:
    """Counts looks, each of which fails with something that nobody foresaw; the session is over after some."""

    def __init__(self) -> None:
        self.count = 0

    @property
    def is_lost(self) -> bool:
        return self.count >= LOOKS

    def fail(self, *_arguments: object) -> Any:
        self.count += 1
        raise RuntimeError("something that nobody foresaw")

    async def fail_later(self, *arguments: object) -> Any:
        self.fail(*arguments)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (copy_ahead, snapshot_schedule, upkeep):
        monkeypatch.setattr(module, "POLL_S", 0.0)
        monkeypatch.setattr(module, "TRY_AGAIN_S", 0.0)


def run(work: Any) -> None:
    asyncio.run(asyncio.wait_for(work, 30.0))


def test_cells_are_followed_after_a_look_that_failed() -> None:
    looks = Looks()
    owner: Any = SimpleNamespace(upcoming_cells=looks.fail, owned={}, wait_for_taken=lambda within_s: asyncio.sleep(0))
    session: Any = looks
    run(Follower(owner, session, SimpleNamespace(open=set()), WallClock()).follow_for_ever())  # type: ignore[arg-type]
    assert looks.count == LOOKS


def test_snapshots_are_made_after_a_look_for_room_that_failed() -> None:
    looks, nothing = Looks(), SimpleNamespace()
    space, owner = SimpleNamespace(refresh=looks.fail_later, has_room=True), SimpleNamespace(owned={})
    saver = SnapshotScheduler(nothing, ClusterSettings(), owner, nothing, space, WallClock())  # type: ignore[arg-type]
    run(saver.save_for_ever(lambda: looks.is_lost))
    assert looks.count == LOOKS


def test_archives_are_brought_after_one_that_failed(tmp_path: Path) -> None:
    looks = Looks()
    with LoopThread() as thread:
        copies = CellCopies([CellFolder(7, tmp_path)], thread)
        copies.open.add(7)
        owner: Any = SimpleNamespace(owned={7: SimpleNamespace(epoch=1)}, is_leaving=False)
        transfers: Any = SimpleNamespace(download=looks.fail_later)
        kept_up = Upkeep(owner, looks, copies, None, ClusterSettings(), WallClock())  # type: ignore[arg-type]
        run(kept_up._download_archives(transfers))
    assert looks.count == LOOKS
