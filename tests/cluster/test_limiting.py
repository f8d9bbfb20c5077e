"""Limits of a whole collection are shared by nodes that only hear of each other now and then."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.cluster.limiting import TURN_S, Shares, part_of, reached
from teia.cluster.session import NodeState
from teia.config import Config


def node(name: str, stored: dict[str, int], kept: int = 0) -> NodeState:
    return NodeState(name, "x", stored=stored, load={"kept": float(kept)})


def shares(*nodes: NodeState) -> tuple[Shares, dict[str, NodeState]]:
    alive = {each.name: each for each in nodes}
    session: Any = SimpleNamespace(node=nodes[0], said=nodes[0], alive=lambda: alive)
    return Shares(session), alive


@settings(deadline=None)
@given(remaining=st.integers(1, 10_000), nodes=st.integers(1, 30), now=st.floats(0, 1e6))
def test_the_parts_of_all_nodes_are_the_whole(remaining: int, nodes: int, now: float) -> None:
    names = {f"n{number}": NodeState(f"n{number}", "x") for number in range(nodes)}
    assert sum(part_of(remaining, name, names, now) for name in names) == remaining


def test_what_cannot_be_divided_goes_around() -> None:
    """Else a node that has nothing to do would keep the last pages from the others."""
    names = {name: NodeState(name, "x") for name in "abc"}
    turns = [[part_of(1, name, names, turn * TURN_S) for name in "abc"] for turn in range(3)]
    assert sorted(turns) == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]


def test_a_cell_that_nobody_keeps_counts_as_it_last_did() -> None:
    made, alive = shares(node("a", {"0": 10}), node("b", {"1": 30}))
    assert made.look() == 40
    del alive["b"]
    assert made.look() == 40
    alive["a"] = node("a", {"0": 12, "1": 31})
    assert (made.look(), made.claim(50, 0.0), made.claim(43, 0.0), made.claim(0, 0.0)) == (43, 7, 0, 0)


def test_nobody_stores_more_than_it_said_it_would() -> None:
    ours = msgspec.structs.replace(node("a", {"0": 10}), claims=5)
    made, alive = shares(ours, node("b", {"1": 30}))
    assert [made.left({0: stored}) for stored in (10, 12, 15)] == [5, 3, 0]
    assert made.left({0: 10, 2: 99}) == 5  # a cell that was just taken is in nobody's claim
    alive["b"] = msgspec.structs.replace(alive["b"], claims=20)
    assert made.claim(70, 0.0) == 5  # of the ten that are left, for two


def test_pages_that_others_keep_are_counted() -> None:
    made, _ = shares(node("a", {}, 5), node("b", {}, 7), node("c", {}, 8))
    assert made.kept_elsewhere() == 15


def test_a_limit_says_which_it_is() -> None:
    limits = replace(Config().limits, pages=100, seconds=60.0)
    assert reached(limits, 99, 1000.0, 1059.0) == ""
    assert reached(limits, 100, 1000.0, 1059.0).startswith("limits.pages")
    assert reached(limits, 99, 1000.0, 1060.0).startswith("limits.seconds")
    assert reached(Config().limits, 10**9, 1.0, 10**9) == ""
