"""What was decided beside the circle: overrides, drained nodes, and who decides (A5, A14)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from teia.cluster.circle.circle import Circle
from teia.cluster.members.join import join
from teia.cluster.members.session import NodeSession, NodeState
from teia.cluster.placing.balance import OVERLOADED, CellTransfer
from teia.cluster.placing.balancer import Balancer
from teia.cluster.placing.cell_owners import (
    MOVES,
    CircleOrder,
    OwnerOverrides,
    RingDocument,
    read_ring,
    record_moves,
    set_drained,
    why_moved,
)
from teia.config.sections import BalanceSettings
from teia.errors import ClusterError
from teia.urls import cell_starts
from tests.cluster.conftest import PACE, Nats
from tests.waiting import until_async

CELLS = 16
STARTS = cell_starts(CELLS)
ALIVE = {name: NodeState(name, name) for name in "abc"}


def test_an_override_comes_before_the_circle_as_long_as_its_node_lives() -> None:
    by_circle = CircleOrder(STARTS)(3, ALIVE)
    last = by_circle[-1]
    order = CircleOrder(STARTS, lambda: RingDocument(overrides={"3": last}))
    assert order(3, ALIVE) == [last, *by_circle[:-1]]
    assert order(4, ALIVE) == CircleOrder(STARTS)(4, ALIVE)
    without = {name: node for name, node in ALIVE.items() if name != last}
    assert order(3, without) == by_circle[:-1]


def test_a_drained_node_keeps_nothing_unless_nobody_else_is_there() -> None:
    """A5: draining. Cells of the others stay where they are."""
    order = CircleOrder(STARTS, lambda: RingDocument(drained=["b"], overrides={"1": "b"}))
    for cell in range(CELLS):
        before = CircleOrder(STARTS)(cell, ALIVE)
        assert order(cell, ALIVE)[-1] == "b"
        assert order(cell, ALIVE)[0] == next(name for name in before if name != "b")
    assert order(0, {"b": ALIVE["b"]}) == ["b"]
    assert set_drained(RingDocument(drained=["b"]), "b") is None
    assert set_drained(RingDocument(overrides={"1": "b", "2": "c"}), "b") == RingDocument(
        drained=["b"], overrides={"2": "c"}
    )
    assert set_drained(RingDocument(drained=["b"]), "b", undo=True) == RingDocument()


def test_orders_are_found_once_for_the_same_nodes_and_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node asks for all cells several times a second."""
    walks, rings = [], [RingDocument()]
    walk = Circle.order

    def counted(circle: Circle, key: int) -> Iterator[str]:
        walks.append(key)
        return walk(circle, key)

    monkeypatch.setattr(Circle, "order", counted)
    order = CircleOrder(STARTS, lambda: rings[-1])
    first = order(3, dict(ALIVE))
    first.append("not to be remembered")
    assert order(3, dict(ALIVE)) == order.by_circle(3, ALIVE) == first[:-1]
    assert len(walks) == 1
    rings.append(RingDocument(drained=[first[0]]))
    assert order(3, ALIVE) == [*first[1:-1], first[0]]
    assert len(walks) == 1
    heavy = ALIVE | {"d": NodeState("d", "d", capacity=3.0)}
    assert sorted(order(3, heavy)) == ["a", "b", "c", "d"]
    assert len(walks) == 2


def test_a_cell_that_goes_back_to_the_circle_needs_no_override() -> None:
    circle = dict.fromkeys(range(CELLS), "a").__getitem__
    ring = record_moves(
        RingDocument(), [CellTransfer(1, "a", "b", "overloaded"), CellTransfer(2, "a", "c", "asked")], circle, 10.0
    )
    assert ring.overrides == {"1": "b", "2": "c"}
    assert why_moved(ring, 1, "a") == "overloaded"
    assert why_moved(ring, 3, "a") == ""
    ring = record_moves(ring, [CellTransfer(1, "b", "a", "overloaded")], circle, 20.0)
    assert ring.overrides == {"2": "c"}
    for number in range(MOVES):
        ring = record_moves(ring, [CellTransfer(3, "a", "b", "asked")], circle, float(number))
    assert len(ring.moves) == MOVES


def test_of_two_who_decide_at_once_none_is_lost(nats: Nats, unique: str) -> None:
    """Compare-and-set: whoever comes second decides anew on what the first wrote."""

    async def work() -> None:
        assert await read_ring(await nats.wire(), unique) == RingDocument()
        both = [OwnerOverrides(await nats.wire(), nats.clock, unique, 1) for _ in range(2)]

        async def drain_some(overrides: OwnerOverrides, names: str) -> None:
            for name in names:
                await overrides.change(lambda ring: set_drained(ring, name))  # noqa: B023

        await asyncio.gather(drain_some(both[0], "abcdef"), drain_some(both[1], "ghijkl"))
        assert set((await read_ring(await nats.wire(), unique)).drained) == set("abcdefghijkl")

    nats.run(work())


def test_what_another_teia_decided_is_refused(nats: Nats, unique: str) -> None:
    async def work() -> None:
        wire = await nats.wire()
        await OwnerOverrides(wire, nats.clock, unique, 1).change(lambda ring: msgspec.structs.replace(ring, version=99))
        with pytest.raises(ClusterError, match="another version of teia"):
            await read_ring(wire, unique)

    nats.run(work())


async def joined(nats: Nats, name: str, collection: str) -> NodeSession:
    wire = await nats.wire(name)
    return await join(wire, nats.clock, name, lambda why: None, pace=PACE, replicas=nats.count, collection=collection)


def test_one_node_decides_for_all_and_only_when_nothing_is_on_its_way(nats: Nats, unique: str) -> None:
    """A5, A14: the first by name; work goes from the overloaded to the idle, and the document says so."""

    async def work() -> None:
        names = [f"{unique}a", f"{unique}b"]
        sessions = [await joined(nats, name, unique) for name in names]
        first, second = sessions
        overrides = OwnerOverrides(await nats.wire(), nats.clock, unique, 1)
        order = CircleOrder(STARTS, lambda: overrides.ring)
        rules = BalanceSettings(every_s=0.1)
        deciders = [Balancer(each, overrides, order, rules, "hash", nats.clock) for each in sessions]
        await until_async(
            lambda: len(first.alive()) == len(second.alive()) == 2 and first.has_watched and second.has_watched
        )

        def tell() -> None:
            owners = {cell: order(cell, first.alive())[0] for cell in range(CELLS)}
            for session in sessions:
                cells = {str(cell): 9 for cell, name in owners.items() if name == session.node.name}
                queued = dict.fromkeys(cells, 500 if session is first else 1)
                session.set_report({}, cells, queued, OVERLOADED if session is first else "idle")

        tell()
        await until_async(lambda: all(each.alive()[name].queued for each in sessions for name in names))
        assert await deciders[1].balance_once() == []
        moves = await deciders[0].balance_once()
        assert moves
        assert {(move.giver, move.taker, move.why) for move in moves} == {(names[0], names[1], "overloaded")}
        ring = await read_ring(await nats.wire(), unique)
        assert {int(cell) for cell in ring.overrides} == {move.cell for move in moves}
        await asyncio.sleep(0.2)  # twice `every_s`: the time to decide anew has come
        assert await deciders[0].balance_once() == []  # the cells are not there yet

    nats.run(work())
