"""When snapshots are made: by time, by size, at once when one was damaged or room is short; not when nothing is new."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from teia.clock import VirtualClock
from teia.cluster.cells.copies import CellCopies
from teia.cluster.cells.site_homes import DELAY, long_delays
from teia.cluster.cells.snapshot_schedule import SHARE, TRY_AGAIN_S, SnapshotScheduler
from teia.cluster.cells.snapshots import Snapshots
from teia.cluster.nats.thread import LoopThread
from teia.config.sections import ClusterSettings
from tests.cluster.conftest import Nats
from tests.cluster.kept import IDENTITY, OwnedCell


class Watched:
    """A saver of one cell on a virtual clock."""

    def __init__(self, kept: OwnedCell, settings: ClusterSettings) -> None:
        self.kept, self.clock = kept, VirtualClock(1_000_000.0)
        self.snapshots = Snapshots(kept.objects, self.clock, IDENTITY)
        self.log, _ = kept.become_owner("a", self.snapshots)
        self.space = SimpleNamespace(has_room=True)
        copies = CellCopies([kept.folder_of("a")], kept.thread, self.snapshots)
        owner = SimpleNamespace(owned={7: self.log})
        self.saver = SnapshotScheduler(self.snapshots, settings, owner, copies, self.space, self.clock)  # type: ignore[arg-type]
        self._urls = 0

    def write(self, urls: int = 10) -> None:
        self.kept.write(self.log, "a", urls, self._urls)
        self._urls += urls

    def wait(self, seconds: float) -> None:
        self.kept.wait_for(self.clock.advance(seconds))

    def look(self) -> bool:
        """Look once; whether a snapshot was made."""
        before = self.kept.wait_for(self.log.pointer())
        self.kept.wait_for(self.saver._save_if_due(7, self.log))
        return self.kept.wait_for(self.log.pointer()) != before


@pytest.fixture
def kept(nats: Nats, tmp_path: Path) -> Iterator[OwnedCell]:
    with LoopThread() as thread:
        made = OwnedCell(tmp_path, nats, thread)
        nats.wires.clear()
        yield made
        thread.wait_for(made.wire.end())


def test_a_cell_that_changed_is_copied_after_a_while(kept: OwnedCell) -> None:
    watched = Watched(kept, ClusterSettings(snapshot_s=600.0))
    watched.write()
    assert not watched.look()
    watched.wait(601.0)
    assert watched.look()
    watched.wait(100 * 601.0)
    assert not watched.look()  # nothing is new
    watched.write()
    assert watched.look()
    watched.write()
    watched.wait(599.0)
    assert not watched.look()


def test_a_log_that_grows_fast_or_has_no_room_is_copied_at_once(kept: OwnedCell) -> None:
    watched = Watched(kept, ClusterSettings(snapshot_s=1e6, snapshot_log_bytes=64 * 1024))
    watched.write(100)
    assert not watched.look()
    watched.write(8_000)
    assert watched.look()
    watched.write()
    assert not watched.look()
    watched.space.has_room = False
    assert watched.look()


def test_an_owner_that_wrote_nothing_makes_room_too(kept: OwnedCell, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart nothing can be written while room is short: what made it short is of the keeper before."""
    settings = ClusterSettings(snapshot_s=1e6)
    Watched(kept, settings).write(1_000)
    watched, saves = Watched(kept, settings), []
    save = watched.snapshots.save

    async def counted(*arguments: object, **options: object) -> object:
        saves.append(options)
        return await save(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(watched.snapshots, "save", counted)
    assert watched.log.unsaved_bytes == 0
    assert not watched.look()
    watched.space.has_room = False
    before = kept.messages()
    assert watched.look()
    assert kept.messages() < before
    for _ in range(5):
        assert not watched.look()
        watched.wait(1.0)
    assert saves == [{"must_make_room": True}] * 2  # one that made something, one that found nothing new
    watched.wait(TRY_AGAIN_S)
    watched.look()
    assert len(saves) == 3


def test_a_cell_can_be_opened_while_room_is_short(kept: OwnedCell) -> None:
    """Rests that are over are forgotten when there is room for it, and a cell without any writes nothing at all."""
    log, _ = kept.become_owner("a")
    with kept.open_cell(log, "a") as frontier:
        with frontier.transaction():
            rows = [(DELAY + "over.test", 10.0), (DELAY + "rests.test", 90.0)]
            frontier.db.executemany("INSERT INTO meta VALUES (?, ?)", rows)
        log.has_room = lambda: False
        records = kept.messages()
        assert long_delays(frontier, 50.0) == {"rests.test": 90.0}
        log.has_room = lambda: True
        assert kept.messages() == records
        for _ in range(2):
            assert long_delays(frontier, 50.0) == {"rests.test": 90.0}
            assert kept.messages() == records + 1
        (delays,) = frontier.db.execute("SELECT count(*) FROM meta WHERE name LIKE ?", (DELAY + "%",)).fetchone()
        assert delays == 1


def test_what_took_long_is_not_done_again_for_long(kept: OwnedCell, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(kept, ClusterSettings(snapshot_s=10.0))
    save = watched.snapshots.save

    async def slow(*arguments: object, **options: object) -> object:
        await watched.clock.advance(60.0)
        return await save(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(watched.snapshots, "save", slow)
    watched.write()
    assert not watched.look()
    watched.wait(11.0)
    assert watched.look()
    watched.write()
    watched.wait(SHARE * 60.0 - 1.0)
    assert not watched.look()
    watched.wait(2.0)
    assert watched.look()


def test_a_place_that_is_away_is_tried_again(kept: OwnedCell, tmp_path: Path) -> None:
    """The log is there meanwhile: nothing depends on it."""
    (tmp_path / "store").write_text("in the way")
    watched = Watched(kept, ClusterSettings(snapshot_s=1.0))
    watched.write()
    watched.look()
    watched.wait(2.0)
    assert not watched.look()
    (tmp_path / "store").unlink()
    assert not watched.look()
    watched.wait(TRY_AGAIN_S + 1.0)
    assert watched.look()
