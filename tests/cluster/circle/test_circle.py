"""The circle (A2): a key belongs to its successor, and who comes or goes moves only what it must."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.cluster.circle.circle import SIZE, Circle, circle_id, distance, is_between, is_within, node_points

NAMES = st.text("abcdefgh-.0123456789", min_size=1, max_size=12)
KEYS = NAMES.map(circle_id) | st.integers(0, SIZE - 1)
"""Numbers alone are mostly small: they would lie before the first point of a circle."""
NODES = st.sets(NAMES, min_size=1, max_size=12)


def circle_of(names: set[str], points: int = 4) -> Circle:
    return Circle(dict.fromkeys(names, 1.0), points)


def test_a_node_stands_at_the_sha_1_of_its_name() -> None:
    assert circle_id("node-a") == int(hashlib.sha1(b"node-a").hexdigest(), 16)
    assert node_points("node-a")[0] == circle_id("node-a")
    assert len(node_points("node-a", 2.0, 8)) == len(set(node_points("node-a", 2.0, 8))) == 16
    assert node_points("node-a", 1.0, 8) == node_points("node-a", 2.0, 8)[:8], "more capacity only adds points"


@given(KEYS, KEYS, KEYS)
def test_a_key_is_on_one_side_of_a_point_or_at_it(key: int, one: int, other: int) -> None:
    if one != other:
        assert is_within(key, one, other) != is_within(key, other, one)
        assert is_within(key, one, other) == (is_between(key, one, other) or key == other)
        assert (distance(one, key) + distance(key, other)) % SIZE == distance(one, other)
    else:
        assert is_within(key, one, one)
        assert is_between(key, one, one) == (key != one)


@given(NODES, KEYS)
def test_the_successor_is_the_first_at_or_after_the_key(names: set[str], key: int) -> None:
    circle = circle_of(names)
    found = circle.successor(key)
    assert distance(key, found.id) == min(distance(key, each.id) for each in circle.points())
    assert circle.predecessor(found.id).id == circle.point(circle.index(key) - 1).id
    assert circle.owner(found.id) == found.node


@given(NODES, NAMES, st.lists(KEYS, max_size=50))
def test_a_node_that_joins_takes_only_what_becomes_its_own(names: set[str], new: str, keys: list[int]) -> None:
    """A2: no key moves between two nodes that were there before; leaving is the same the other way round."""
    before = circle_of(names - {new} or {"other"})
    after = Circle({**before.nodes, new: 1.0}, before.points_per_capacity)
    for key in keys:
        assert after.owner(key) in {before.owner(key), new}
        assert next(node for node in after.order(key) if node != new) == before.owner(key)


@given(NODES, KEYS, st.data())
def test_the_order_of_takers_is_that_of_the_circles_without_the_dead(
    names: set[str], key: int, data: st.DataObject
) -> None:
    """Whoever takes a dead node's key is its owner on the circle of the living, and keeps it."""
    circle = circle_of(names)
    order = list(circle.order(key))
    assert sorted(order) == sorted(names)
    dead = data.draw(st.sets(st.sampled_from(sorted(names))))
    alive_in_all_collections = names - dead
    assert [node for node in order if node in alive_in_all_collections] == (
        list(circle_of(alive_in_all_collections).order(key)) if alive_in_all_collections else []
    )
    assert circle.live_owner(key, alive_in_all_collections) == (
        circle_of(alive_in_all_collections).owner(key) if alive_in_all_collections else None
    )


@settings(max_examples=20)
@given(st.integers(2, 12), st.sampled_from([0.5, 2.0, 3.0]))
def test_shares_follow_capacity(nodes: int, capacity: float) -> None:
    """A14: a node of twice the capacity has about twice the circle."""
    sizes = {f"node-{n}": 1.0 for n in range(nodes)} | {"big": capacity}
    shares = Circle(sizes, points=256).shares()
    assert sum(shares.values()) == pytest.approx(1.0)
    for node, size in sizes.items():
        assert shares[node] / (size / sum(sizes.values())) == pytest.approx(1.0, abs=0.35), node


def test_everybody_sees_the_same_circle() -> None:
    one = Circle({"a": 1.0, "b": 2.0, "c": 1.0})
    other = Circle({"c": 1.0, "b": 2.0, "a": 1.0})
    assert list(one.points()) == list(other.points())
    assert all(a.id < b.id for a, b in pairwise(one.points()))


def test_an_empty_circle_is_reported() -> None:
    empty = Circle({})
    with pytest.raises(ValueError, match="no nodes"):
        empty.owner(0)


@pytest.mark.parametrize(
    ("name", "capacity"),
    [("", 1.0), ("x" * 256, 1.0), ("a\nb", 1.0), ("a", 0.0), ("a", -1.0), ("a", float("nan")), ("a", 1e9)],
)
def test_what_cannot_be_a_node_is_refused(name: str, capacity: float) -> None:
    with pytest.raises(ValueError, match=r"name|capacity"):
        Circle({name: capacity})
