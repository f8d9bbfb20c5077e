"""Look-ups over fingers find the successor in about half of log2(n) hops."""

from __future__ import annotations

from math import ceil, log2
from random import Random
from statistics import mean

from hypothesis import given
from hypothesis import strategies as st

from teia.cluster.circle.circle import BITS, SIZE, Circle
from teia.cluster.circle.fingers import Fingers


@given(st.sets(st.text("abcxyz", min_size=1, max_size=5), min_size=1, max_size=20), st.integers(1, 4), st.data())
def test_every_look_up_from_every_node_finds_the_owner(names: set[str], points: int, data: st.DataObject) -> None:
    circle = Circle(dict.fromkeys(names, 1.0), points)
    fingers = Fingers(circle)
    near = st.sampled_from(circle.ids).flatmap(lambda at: st.integers(-2, 2).map(lambda off: (at + off) % SIZE))
    key = data.draw(st.integers(0, SIZE - 1) | near)
    for node in names:
        hops = fingers.route(node, key)
        assert (hops[-1].end.node if hops else node) == circle.owner(key)
        assert len({hop.end for hop in hops}) == len(hops), "nobody is asked twice"
        assert len(hops) <= ceil(log2(len(circle))) + 2


@given(st.sets(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=12))
def test_a_table_says_what_the_definition_says(names: set[str]) -> None:
    circle = Circle(dict.fromkeys(names, 1.0), points=2)
    point = circle.point(0)
    lines = Fingers(circle).table(point)
    by_exponent = {line.exponent: line.to for line in lines}
    told = None
    for exponent in range(BITS):
        told = by_exponent.get(exponent, told)
        assert told == circle.successor(point.id + 2**exponent)


def test_ten_thousand_nodes_are_built_and_looked_up() -> None:
    """A2: O(log N) look-ups; one step for who knows all nodes."""
    circle = Circle({f"node-{n}": 1.0 for n in range(10_000)}, points=1)
    fingers, chance = Fingers(circle), Random(7)
    names = list(circle.nodes)
    hops = []
    for _ in range(2_000):
        key = chance.getrandbits(BITS)
        way = fingers.route(chance.choice(names), key)
        assert not way or way[-1].end == circle.successor(key)
        hops.append(len(way))
    assert mean(hops) <= log2(10_000) / 2 + 1.5
    assert max(hops) <= log2(10_000) + 4


def test_a_table_is_as_long_as_the_logarithm() -> None:
    circle = Circle({f"node-{n}": 1.0 for n in range(1_000)}, points=1)
    fingers = Fingers(circle)
    assert mean(len(fingers.table(point)) for point in circle.points()) <= log2(1_000) + 2


def test_a_node_alone_needs_no_hop() -> None:
    fingers = Fingers(Circle({"alone": 1.0}))
    assert fingers.route("alone", 5) == []
    assert {line.to.node for line in fingers.table(fingers.circle.point(0))} == {"alone"}
