"""Instances of nodes: which are over, and what becomes of one that nobody knows."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from teia.clock import VirtualClock
from teia.cluster.cells.log import VERSION, LogEntry, LogRecord
from teia.cluster.cells.owner import CellOwner
from teia.cluster.members.instances import Instances
from teia.cluster.members.session import BUCKET, NodeSession, NodeState, Pace
from tests.cluster.conftest import Nats
from tests.waiting import until_async

T = 15.0


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "unknown instance" in record.getMessage()]


def test_one_that_is_known_lives_or_is_over_as_its_key_says() -> None:
    known = Instances()
    known.note(NodeState("b", "1"))
    assert not known.is_over("b", "1", 0.0, T)
    known.note(NodeState("b", "1", state="dead"))
    assert known.is_over("b", "1", 0.0, T)
    known.note(NodeState("c", "5", state="left"))
    assert known.is_over("c", "5", 0.0, T)
    assert not known.unknown


def test_an_instance_whose_name_another_has_is_over_at_once() -> None:
    saw_both, came_later = Instances(), Instances()
    saw_both.note(NodeState("b", "1"))
    for known in (saw_both, came_later):
        known.note(NodeState("b", "2", follows="1"))
        assert known.is_over("b", "1", 0.0, T)
        assert not known.is_over("b", "2", 0.0, T)
        assert not known.unknown
    saw_both.note(NodeState("b", "3", follows="2"))
    assert saw_both.is_over("b", "1", 0.0, T)


def test_an_unknown_instance_is_reported_once_and_is_over_after_a_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    known = Instances()
    known.note(NodeState("b", "1", state="left"))
    with caplog.at_level(logging.WARNING):
        assert not known.is_over("b", "2", 0.0, T)  # whoever there is may not have come yet
        assert not known.unknown
        known.own_key_at = 0.0
        for instance, name in (("2", "b"), ("9", "z")):  # of a name that is known, and of one that is not
            assert not known.is_over(name, instance, 100.0, T)
            known.own_key_at = 100.0 + T - 0.1
            assert not known.is_over(name, instance, 200.0, T)  # the watch is silent: it may be there all the same
            known.own_key_at = 100.0 + T
            assert known.is_over(name, instance, 200.0, T)
            known.own_key_at = 0.0
    assert known.unknown == 2
    assert len(warnings_in(caplog)) == 2
    known.note(NodeState("b", "2"))
    assert not known.is_over("b", "2", 200.0, T)  # it lives after all


def session_at(clock: VirtualClock) -> NodeSession:
    """A session that has heard of nobody, without NATS."""
    nothing: Any = None
    return NodeSession(nothing, clock, Pace.for_silence(T), nothing, NodeState("a", "1"), print)


def test_a_cell_is_not_taken_from_a_node_that_came_back_unnoticed() -> None:
    """It was declared dead, came back and took its cell; its key comes to us a moment after the cell's record."""

    async def main() -> None:
        clock = VirtualClock()
        session = session_at(clock)
        owner = CellOwner(session.wire, clock, session, "c", [0], lambda cell, alive: ["a"])
        record = LogRecord(VERSION, "epoch", "b", "2", "x", 5, 5)
        assert not owner._may_take(0, LogEntry(5, record, b""))  # at a start, before anything was heard of anybody
        session.note_state("b", NodeState("b", "2", state="dead"), 7)
        session.note_state("a", session.node, 1)
        assert not session.instances.unknown
        assert owner._may_take(0, LogEntry(5, record, b""))
        again = msgspec.structs.replace(record, instance="3")
        assert not owner._may_take(0, LogEntry(9, again, b""))
        await clock.advance(1.0)
        session.note_state("b", NodeState("b", "3", follows="2"), 8)
        await clock.advance(10 * T)
        session.note_state("a", session.node, 9)
        assert not owner._may_take(0, LogEntry(9, again, b""))
        assert owner._may_take(0, LogEntry(5, record, b""))
        assert session.is_over("a", "0")  # of our own name there is no other
        assert not session.is_over("a", "1")

    asyncio.run(main())


def test_an_unreadable_key_is_skipped_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    session = session_at(VirtualClock())
    with caplog.at_level(logging.WARNING):
        session.note_state("b", None, 3)
        session.note_state("b", NodeState("c", "1"), 4)
    assert len([each for each in caplog.records if "node=b cannot be read" in each.getMessage()]) == 2
    assert list(session.nodes()) == ["a"]


def test_one_whose_key_is_gone_is_unknown_unless_it_was_over_before() -> None:
    known = Instances()
    known.note(NodeState("b", "1"))
    known.note(NodeState("c", "5", state="left"))
    for name in "bcd":
        known.note_deleted(name)
    known.own_key_at = 100.0
    assert not known.is_over("b", "1", 100.0, T)  # it may work on until it notices
    known.own_key_at = 100.0 + T
    assert known.is_over("b", "1", 100.0 + T, T)
    assert known.is_over("c", "5", 100.0, T)
    assert known.unknown == 1


@pytest.mark.parametrize("leaves_a_marker", [True, False])
def test_a_cell_of_a_node_whose_key_is_deleted_is_taken_by_one_that_had_seen_it(
    own_nats: Nats, unique: str, leaves_a_marker: bool
) -> None:
    """As by an operator's cleaning up; its node may come again, and its name is free after a silence."""

    async def main() -> None:
        one, lost = await own_nats.node(f"{unique}a"), await own_nats.node(f"{unique}b")
        name = await own_nats.stream(lost.wire)
        order = lambda cell, alive: sorted(alive, reverse=True)  # noqa: E731
        before = CellOwner(lost.wire, own_nats.clock, lost, name, [0], order)
        assert await before.take_free_cells() == [0]
        await until_async(lambda: lost.node.name in one.alive())
        await lost.abandon()
        if leaves_a_marker:
            await lost.bucket.delete(lost.node.name)
        else:
            await lost.wire.js.purge_stream(f"KV_{BUCKET}", subject=f"$KV.{BUCKET}.{lost.node.name}")
        began = own_nats.clock.ticks_s()
        owner = CellOwner(one.wire, own_nats.clock, one, name, [0], order)
        tending = asyncio.get_running_loop().create_task(owner.run(lambda cell: None))
        await until_async(lambda: lost.node.name not in one.nodes())
        await until_async(lambda: 0 in owner.owned)
        assert own_nats.clock.ticks_s() - began >= one.pace.silence_s
        tending.cancel()
        again = await own_nats.node(lost.node.name)
        await until_async(lambda: again.node.name in one.alive())
        await again.leave()
        await one.leave()

    own_nats.run(main())


def test_a_cell_of_an_instance_that_nobody_knows_is_taken_after_a_silence(own_nats: Nats, unique: str) -> None:
    """Its node's key is gone, as after an operator's cleaning up: without this nobody would ever keep the cell."""

    async def main() -> None:
        lost = await own_nats.node(f"{unique}b")
        name = await own_nats.stream(lost.wire)
        order = lambda cell, alive: sorted(alive)  # noqa: E731
        before = CellOwner(lost.wire, own_nats.clock, lost, name, [0], order)
        assert await before.take_free_cells() == [0]
        await lost.abandon()
        await lost.bucket.purge(lost.node.name)
        one = await own_nats.node(f"{unique}a")
        began = own_nats.clock.ticks_s()
        owner = CellOwner(one.wire, own_nats.clock, one, name, [0], order)
        tending = asyncio.get_running_loop().create_task(owner.run(lambda cell: None))
        await until_async(lambda: 0 in owner.owned)
        assert own_nats.clock.ticks_s() - began >= one.pace.silence_s
        assert one.instances.unknown == 1
        tending.cancel()
        await one.leave()

    own_nats.run(main())
