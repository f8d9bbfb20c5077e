"""Snapshots of cells: what they bring back, what a death between two steps leaves, and what NATS may forget."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.cluster.cells.log import CellLost, LogGone, StreamFull
from teia.cluster.cells.snapshot_schedule import StreamSpace
from teia.cluster.cells.snapshots import CannotRestore, Snapshots
from teia.cluster.nats.objects import FileObjects, NatsObjects
from teia.cluster.nats.thread import LoopThread
from teia.frontier.tables.captures import erase_deleted_rows
from tests.cluster.conftest import Nats
from tests.cluster.kept import OwnedCell


@pytest.fixture
def kept(nats: Nats, tmp_path: Path) -> Iterator[OwnedCell]:
    with LoopThread() as thread:
        made = OwnedCell(tmp_path, nats, thread)
        nats.wires.clear()
        yield made
        thread.wait_for(made.wire.end())


def save(kept: OwnedCell, snapshots: Snapshots, log: object, node: str = "a", *, must_make_room: bool = False) -> bool:
    return kept.wait_for(snapshots.save(log, kept.folder_of(node), must_make_room=must_make_room)) is not None  # type: ignore[arg-type]


@pytest.mark.parametrize("place", ["folder", "nats"])
def test_a_new_owner_has_the_same_file_from_snapshot_and_log(kept: OwnedCell, place: str) -> None:
    """Issue 7: take-over from snapshot plus replay; in a folder that never saw the cell."""
    if place == "nats":
        kept.objects = NatsObjects(kept.wire, kept.nats.clock, f"snap_{kept.collection}", kept.nats.count)
    snapshots = kept.snapshots()
    log, _ = kept.become_owner("a", snapshots)
    kept.write(log, "a", 3_000)
    assert save(kept, snapshots, log)
    assert not save(kept, snapshots, log)  # nothing is new
    kept.write(log, "a", 500, begin=3_000)
    _, behind = kept.become_owner("b", kept.snapshots())
    assert behind == 5
    assert kept.dump("b") == kept.dump("a")


def test_the_log_is_purged_below_the_snapshot_before_the_last(kept: OwnedCell) -> None:
    """NATS.md 3.6: the log shrinks, its last record stays, and whoever is too far behind takes the snapshot."""
    snapshots = kept.snapshots()
    log, _ = kept.become_owner("a", snapshots)
    kept.write(log, "a", 1_000)
    kept.become_owner("old", snapshots)  # has a copy of this, and sleeps from now on
    log, _ = kept.become_owner("a", snapshots)
    counts = []
    for begin in range(1_000, 5_000, 1_000):
        kept.write(log, "a", 1_000, begin)
        save(kept, snapshots, log)
        counts.append((kept.messages("log"), kept.messages("snap")))
    assert [snaps for _, snaps in counts] == [1, 1, 1, 1]
    assert max(messages for messages, _ in counts[1:]) <= 25  # two times ten commits, and what goes with them
    head = kept.wait_for(log.head())
    assert head is not None
    assert (head.record.kind, head.seq) == ("snapshot", log.last)
    with pytest.raises(LogGone):
        kept.become_owner("old")
    _, behind = kept.become_owner("old", kept.snapshots())
    assert behind <= 1
    assert kept.dump("old") == kept.dump("a")


def test_a_snapshot_that_replaces_all_leaves_nothing_of_deleted_rows_in_nats(kept: OwnedCell) -> None:
    """Rows that a removal has deleted; a copy from before gets rid of them too."""
    kept.objects = NatsObjects(kept.wire, kept.nats.clock, f"snap_{kept.collection}", kept.nats.count)
    snapshots = kept.snapshots()
    log, _ = kept.become_owner("a", snapshots)
    kept.write(log, "a", 1_000)
    save(kept, snapshots, log)
    kept.become_owner("old", snapshots)
    log, _ = kept.become_owner("a", snapshots)
    with kept.open_cell(log, "a") as cell, cell.transaction():
        cell.set_meta({"bad": "xqslander"})
    save(kept, snapshots, log)
    kept.become_owner("old", snapshots)
    log, _ = kept.become_owner("a", snapshots)
    assert b"xqslander" in kept.folder_of("old").frontier.read_bytes()
    with kept.open_cell(log, "a") as cell:
        erase_deleted_rows(cell)
        with cell.transaction():
            cell.delete_meta(["bad"])
    made = kept.wait_for(snapshots.replace_all(log, kept.folder_of("a")))
    assert kept.names() == sorted(made.objects)
    pointer = kept.wait_for(snapshots.pointer_of(log))
    assert pointer is not None
    assert (pointer.last, pointer.before, kept.messages("snap")) == (made, None, 1)
    assert kept.messages() == 2, "the last record of the snapshot, and the one that names it"
    kept.become_owner("old", kept.snapshots())
    assert b"xqslander" not in kept.folder_of("old").frontier.read_bytes()
    assert sorted(kept.dump("old")) == sorted(kept.dump("a")), "VACUUM puts indexes before triggers"
    log, _ = kept.become_owner("a", snapshots)
    kept.write(log, "a", 100, begin=1_000)
    assert save(kept, snapshots, log)


def test_snapshots_are_incremental_and_the_last_two_share_nothing(kept: OwnedCell) -> None:
    snapshots = kept.snapshots()
    log, _ = kept.become_owner("a", snapshots)
    kept.write(log, "a", 20_000, at_once=2_000)
    stored = []
    for begin in range(20_000, 20_006):
        kept.write(log, "a", 1, begin)
        save(kept, snapshots, log)
        pointer = kept.wait_for(snapshots.pointer_of(log))
        assert pointer is not None
        stored.append(pointer.last.stored)
        assert pointer.before is None or not {*pointer.last.objects} & {*pointer.before.objects}
        named = {*pointer.last.objects, *(pointer.before.objects if pointer.before else ())}
        assert set(kept.names()) == named
    assert max(stored[2:]) < stored[0] / 3
    kept.become_owner("b", kept.snapshots())
    assert kept.dump("b") == kept.dump("a")


class Dies(Exception):
    """The keeper's process ends here."""


class Dying(FileObjects):
    """A place whose user dies before some step."""

    def __init__(self, url: str, collection: str, step: str) -> None:
        super().__init__(url, collection)
        self.step = step

    async def put(self, name: str, file: Path) -> None:
        if name.endswith(self.step):
            raise Dies
        await super().put(name, file)

    async def names(self, prefix: str) -> list[str]:
        if self.step == "names":
            raise Dies
        return await super().names(prefix)


@pytest.mark.parametrize("step", [".pack", ".map", "publish_pointer", "purge", "names"])
def test_a_death_between_two_steps_loses_nothing(
    kept: OwnedCell, monkeypatch: pytest.MonkeyPatch, step: str, tmp_path: Path
) -> None:
    """Issue 7: before the upload, between its objects, before the pointer, before the purge, before the sweep."""
    snapshots = kept.snapshots()
    log, _ = kept.become_owner("a", snapshots)
    for begin in (0, 1_000):
        kept.write(log, "a", 1_000, begin)
        save(kept, snapshots, log)
    kept.write(log, "a", 1_000, 2_000)
    dying = Snapshots(Dying(str(tmp_path / "store"), kept.collection, step), kept.nats.clock, "this cluster")

    async def die(*_arguments: object) -> int:
        raise Dies

    with monkeypatch.context() as patch:
        if step in {"publish_pointer", "purge"}:
            patch.setattr(log, step, die)
        with pytest.raises(Dies):
            save(kept, dying, log)
    log, _ = kept.become_owner("b", after := kept.snapshots())
    assert kept.dump("b") == kept.dump("a")
    kept.write(log, "b", 10, 3_000)
    assert save(kept, after, log, "b")
    pointer = kept.wait_for(after.pointer_of(log))
    assert pointer is not None
    assert pointer.before is not None
    assert set(kept.names()) == {*pointer.last.objects, *pointer.before.objects}
    kept.become_owner("c", kept.snapshots())
    assert kept.dump("c") == kept.dump("b")


def damage(kept: OwnedCell, name: str) -> None:
    path = kept.folder / "store" / kept.collection / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_damaged_snapshot_costs_time_and_nothing_else(kept: OwnedCell, caplog: pytest.LogCaptureFixture) -> None:
    """The one before is read instead, it is said loudly, and the next one is made whole."""
    snapshots = kept.snapshots()
    log, _ = kept.become_owner("a", snapshots)
    for begin in (0, 1_000, 2_000):
        kept.write(log, "a", 1_000, begin)
        save(kept, snapshots, log)
    pointer = kept.wait_for(snapshots.pointer_of(log))
    assert pointer is not None
    assert pointer.before is not None
    damage(kept, pointer.last.objects[-1])
    with caplog.at_level(logging.ERROR):
        log, behind = kept.become_owner("b", after := kept.snapshots())
    assert "SNAPSHOT DAMAGED" in caplog.text
    assert behind == 10
    assert kept.dump("b") == kept.dump("a")
    assert after.is_last_damaged(pointer)
    assert save(kept, after, log, "b")
    now = kept.wait_for(after.pointer_of(log))
    assert now is not None
    assert now.before == pointer.before
    assert not {*now.last.objects} & {*pointer.before.objects}
    for name in (now.last.objects[0], now.before.objects[0]):
        damage(kept, name)
    with pytest.raises(CannotRestore, match="no snapshot of cell 7 can be read"):
        kept.become_owner("c", kept.snapshots())


def test_a_damaged_snapshot_that_the_log_was_purged_for_is_left_to_others(kept: OwnedCell) -> None:
    """Where room was short there is no way back over the one before. It must not end node after node."""
    snapshots = kept.snapshots()
    log, _ = kept.become_owner("a", snapshots)
    for begin, is_short in ((0, False), (1_000, True)):
        kept.write(log, "a", 1_000, begin)
        save(kept, snapshots, log, must_make_room=is_short)
    pointer = kept.wait_for(snapshots.pointer_of(log))
    assert pointer is not None
    damage(kept, pointer.last.objects[-1])
    with pytest.raises(CannotRestore, match="older than its log") as caught:
        kept.become_owner("b", kept.snapshots())
    assert caught.value.cell == 7  # by which the node goes on with its others
    kept.become_owner("a", kept.snapshots())  # it has a copy of its own


def test_a_stale_owners_snapshot_is_refused(kept: OwnedCell) -> None:
    """NATS.md 3.6 step 3: and what it stored is swept by the next one that counts."""
    snapshots = kept.snapshots()
    stale, _ = kept.become_owner("a", snapshots)
    kept.write(stale, "a", 1_000)
    log, _ = kept.become_owner("b")
    with pytest.raises(CellLost, match="b owns it"):
        save(kept, snapshots, stale)
    assert kept.wait_for(snapshots.pointer_of(log)) is None
    assert len(kept.names()) == 2
    kept.write(log, "b", 10, 1_000)
    save(kept, after := kept.snapshots(), log, "b")
    pointer = kept.wait_for(after.pointer_of(log))
    assert pointer is not None
    assert set(kept.names()) == set(pointer.last.objects)


def test_a_snapshot_is_made_while_commits_go_on(kept: OwnedCell) -> None:
    """Both write to one log: they take turns, and no record is lost or read twice."""
    snapshots = kept.snapshots()
    log, _ = kept.become_owner("a", snapshots)
    kept.write(log, "a", 2_000)

    async def save_again_and_again() -> int:
        made = 0
        while made < 5:
            made += await snapshots.save(log, kept.folder_of("a")) is not None
            await asyncio.sleep(0.01)  # commits go on in between
        return made

    saving = asyncio.run_coroutine_threadsafe(save_again_and_again(), kept.thread.loop)
    begin = 2_000
    while not saving.done():
        kept.write(log, "a", 20, begin, at_once=1)
        begin += 20
    assert saving.result() == 5
    kept.become_owner("b", kept.snapshots())
    assert kept.dump("b") == kept.dump("a")


def test_an_almost_full_stream_stops_commits_and_snapshots_make_room(own_nats: Nats, tmp_path: Path) -> None:
    """NATS.md 3.5: `discard=new`. Nothing is lost: what is left of the room is for snapshots, and then it goes on."""
    with LoopThread() as thread:
        kept = OwnedCell(tmp_path, own_nats, thread)
        own_nats.wires.clear()
        config = thread.wait_for(kept.wire.js.stream_info(f"TEIA_{kept.collection}")).config
        thread.wait_for(kept.wire.js.update_stream(config.evolve(max_bytes=100_000)))
        space, snapshots = StreamSpace(kept.wire, own_nats.clock, kept.collection), kept.snapshots()
        log, _ = kept.become_owner("a", snapshots)
        log.has_room = lambda: space.has_room
        urls = 0
        while space.has_room:
            kept.write(log, "a", 100, urls)
            urls += 100
            thread.wait_for(space.refresh())
            space._check_at = 0.0
        with pytest.raises(StreamFull, match="almost full"):
            kept.write(log, "a", 100, urls)
        assert save(kept, snapshots, log, must_make_room=True)
        thread.wait_for(space.refresh())
        kept.write(log, "a", 100, urls)
        log.has_room = lambda: True
        with pytest.raises(StreamFull, match="is full; increase its limit"):
            kept.write(log, "a", 100_000, urls + 100)
        thread.wait_for(kept.wire.js.update_stream(config.evolve(max_bytes=1_000_000)))
        kept.write(log, "a", 100, 2_000_000)
        kept.become_owner("b", kept.snapshots())
        assert kept.dump("b") == kept.dump("a")
        thread.wait_for(kept.wire.end())
