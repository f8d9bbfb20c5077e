"""Limits of a whole collection are shared by nodes that only hear of each other now and then."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from types import SimpleNamespace
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from teia.cluster.crawl.limits import REMAINDER_S, UNREPORTED_S, LimitShares, limit_reached, report_kept, share_of
from teia.cluster.members.session import NodeState
from teia.config.sections import Config
from teia.crawler.ownership import KeptElsewhere


def node(name: str, stored: dict[str, int], kept: int = 0) -> NodeState:
    return NodeState(name, "x", stored=stored, load={"kept": float(kept)})


def shares(*nodes: NodeState) -> tuple[LimitShares, dict[str, NodeState]]:
    alive = {each.name: each for each in nodes}
    session: Any = SimpleNamespace(node=nodes[0], reported=nodes[0], alive=lambda: alive)
    return LimitShares(session, lambda: range(2), 0.0), alive


@given(remaining=st.integers(1, 10_000), nodes=st.integers(1, 30), now=st.floats(0, 1e6))
def test_the_parts_of_all_nodes_are_the_whole(remaining: int, nodes: int, now: float) -> None:
    names = {f"n{number}": NodeState(f"n{number}", "x") for number in range(nodes)}
    assert sum(share_of(remaining, name, names, now) for name in names) == remaining


def test_what_cannot_be_divided_goes_around() -> None:
    """Else a node that has nothing to do would keep the last pages from the others."""
    names = {name: NodeState(name, "x") for name in "abc"}
    turns = [[share_of(1, name, names, turn * REMAINDER_S) for name in "abc"] for turn in range(3)]
    assert sorted(turns) == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]


def test_a_cell_that_nobody_keeps_counts_as_it_last_did() -> None:
    made, alive = shares(node("a", {"0": 10}), node("b", {"1": 30}))
    assert made.count_stored() == 40
    del alive["b"]
    assert made.count_stored() == 40
    alive["a"] = node("a", {"0": 12, "1": 31})
    assert (made.count_stored(), *(made.claim(most, 0.0, {}) for most in (50, 43, 0))) == (43, 7, 0, 0)


def test_a_claim_is_of_what_is_left_now() -> None:
    """Pages that were committed since the last word count, for they are told with the claim."""
    made, _ = shares(node("a", {"0": 60, "1": 0}))
    assert made.claim(80, 0.0, {0: 60, 1: 0}) == 20
    assert made.claim(80, 0.0, {0: 75, 1: 0}) == 5
    assert made.claim(80, 0.0, {0: 75, 1: 9}) == 0


def test_pages_under_way_are_claimed_when_others_come() -> None:
    made, alive = shares(node("a", {"0": 60, "1": 0}))
    alive["b"] = node("b", {})
    assert (made.claim(80, 0.0, {0: 60}), made.claim(80, 0.0, {0: 60}, 15)) == (10, 15)


def test_a_new_node_claims_nothing_before_it_knows_the_state_of_every_cell() -> None:
    """Two nodes start again with all pages stored: the first to open its cells does not know of the others."""
    made, alive = shares(node("a", {}), node("b", {}))
    assert made.claim(80, 1.0, {0: 40}) == 0
    assert made.claim(80, UNREPORTED_S, {0: 40}) == 20  # one that nobody can open does not stop the others for ever
    alive["b"] = node("b", {"1": 40})
    assert made.claim(80, 1.0, {0: 40}) == 0
    assert made.claim(90, 1.0, {0: 40}) == 5


def test_no_node_stores_more_than_it_announced() -> None:
    ours = msgspec.structs.replace(node("a", {"0": 10}), claims=5)
    made, alive = shares(ours, node("b", {"1": 30}))
    assert [made.remaining_share({0: stored}) for stored in (10, 12, 15)] == [5, 3, 0]
    assert made.remaining_share({0: 10, 2: 99}) == 5  # a cell that was just taken is in nobody's claim
    alive["b"] = msgspec.structs.replace(alive["b"], claims=20)
    assert made.claim(70, 0.0, {}) == 5  # of the ten that are left, for two


def test_pages_that_others_keep_are_counted() -> None:
    made, _ = shares(node("a", {}, 5), node("b", {}, 7), node("c", {}, 8))
    assert made.kept_elsewhere() == KeptElsewhere(15, inf)


def test_the_least_important_page_is_one_that_another_living_node_reports() -> None:
    refresh: Any = SimpleNamespace(stored_pages=7, least_kept=3.0)
    reports = {name: NodeState(name, "x", load=report_kept(refresh)) for name in "ab"}
    reports["c"] = NodeState("c", "x", load=report_kept(SimpleNamespace(stored_pages=8, least_kept=inf)))  # type: ignore[arg-type]
    made, alive = shares(*reports.values())
    assert made.kept_elsewhere() == KeptElsewhere(15, 3.0)
    # Of two nodes with equally important pages, the first by name drops one: here a, and b knows it.
    as_b, _ = shares(*(reports[name] for name in "bac"))
    assert as_b.kept_elsewhere() == KeptElsewhere(15, 3.0, goes_first=True)
    del alive["b"]
    assert made.kept_elsewhere() == KeptElsewhere(15, inf)
    assert report_kept(None) == {"kept": 0.0}


def test_pages_that_others_keep_count_also_between_two_shifts_and_after_a_death() -> None:
    at_work = {name: msgspec.structs.replace(node(name, {}, 7), cells={str(at): 1}) for at, name in enumerate("ab")}
    made, alive = shares(*at_work.values())
    assert made.kept_elsewhere().pages == 7
    alive["b"] = NodeState("b", "x", load={"idle": 0.0})
    assert made.kept_elsewhere().pages == 7
    del alive["b"]
    assert made.kept_elsewhere().pages == 7
    alive["a"] = msgspec.structs.replace(at_work["a"], cells={"0": 1, "1": 1})
    assert made.kept_elsewhere().pages == 0


def test_nodes_hear_what_others_would_spend_of_the_budget_also_when_these_are_cut_off() -> None:
    """P9: the last report counts for a node that is between two shifts, or gone, until its cells have owners again."""
    at_work = {name: msgspec.structs.replace(node(name, {}), cells={str(at): 1}) for at, name in enumerate("ab")}
    made, alive = shares(*at_work.values())
    assert made.spent_elsewhere().unknown == 1  # it has reported nothing yet
    alive["b"] = msgspec.structs.replace(at_work["b"], spending=[50.0, 100.0, 3.0, 2.0, 1.0])
    found = made.spent_elsewhere()
    assert (found.pages, found.unknown) == (50.0, 0)
    assert found.spending[[0, 100, 101, 102, 200]].tolist() == [3.0, 3.0, 2.0, 1.0, 1.0]
    for gone in (lambda: alive.update(b=NodeState("b", "x")), lambda: alive.pop("b")):
        gone()
        assert made.spent_elsewhere().pages == 50.0
    alive["a"] = msgspec.structs.replace(at_work["a"], cells={"0": 1, "1": 1})
    assert made.spent_elsewhere().pages == 0.0


def test_a_node_without_cells_spends_nothing_of_the_budget() -> None:
    crawling = msgspec.structs.replace(node("a", {}), cells={"0": 1, "1": 1})
    made, _ = shares(crawling, *(NodeState(name, "x") for name in "bcd"))
    assert made.spent_elsewhere().unknown == 0


def test_a_limit_says_which_it_is() -> None:
    limits = replace(Config().limits, pages=100, seconds=60.0)
    assert limit_reached(limits, 99, 1000.0, 1059.0) == ""
    assert limit_reached(limits, 100, 1000.0, 1059.0).startswith("limits.pages")
    assert limit_reached(limits, 99, 1000.0, 1060.0).startswith("limits.seconds")
    assert limit_reached(Config().limits, 10**9, 1.0, 10**9) == ""
