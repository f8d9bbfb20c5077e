"""Links as a matrix: every page and every target is a node, every link counts once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.graph import matrix
from teia.graph.matrix import build_graph

from .webs import chunk_of, edges_of, graph, random_web, simple_edges, split_web

WEBS = st.dictionaries(st.integers(-4, 8), st.lists(st.integers(-4, 12), min_size=1, max_size=6), max_size=10)


@given(web=WEBS, parts=st.integers(1, 4))
def test_every_link_is_there_once_however_the_pages_are_spread_over_cells(
    web: dict[int, list[int]], parts: int
) -> None:
    one = build_graph([[chunk_of(part)] for part in split_web(web, parts) if part])
    assert edges_of(one) == simple_edges(web)
    assert len(one.columns) == len(simple_edges(web))
    assert one.keys.tolist() == sorted({*web, *(target for targets in web.values() for target in targets)})


def test_pages_that_link_come_before_those_that_only_take() -> None:
    one = graph({5: [1, 9], 1: [5]})
    assert one.pages == 2
    assert dict(zip(one.keys.tolist(), one.rows.tolist(), strict=True)) == {1: 0, 5: 1, 9: 2}
    assert one.in_links.tolist() == [1, 1, 1]


def test_links_are_the_same_whether_numbered_at_once_or_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    web = random_web(300, 200, 7, seed=3)
    chunks = [chunk_of(part) for part in split_web(web, 20)]
    whole = build_graph([chunks])
    monkeypatch.setattr(matrix, "LINKS_AT_ONCE", 50)
    bit_by_bit = build_graph([chunks[:7], chunks[7:]])
    assert (whole.keys == bit_by_bit.keys).all()
    assert edges_of(whole) == edges_of(bit_by_bit) == simple_edges(web)


@pytest.mark.parametrize("at_once", [1, 7, 10_000])
def test_pages_receive_the_same_whether_summed_at_once_or_bit_by_bit(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some rows have no links, and one has more links than are summed at once."""
    web = random_web(40, 200, 6, seed=3)
    most = next(iter(web))
    one = graph(web | {key: [*targets, most] for key, targets in web.items()})
    monkeypatch.setattr(matrix, "LINKS_AT_ONCE", at_once)
    given = np.random.default_rng(1).random(one.pages)
    for first, last in ((0, len(one.keys)), (one.pages, len(one.keys)), (3, 3)):
        literal = [given[one.columns[one.pointers[row] : one.pointers[row + 1]]].sum() for row in range(first, last)]
        assert np.allclose(one.received(given, first, last), literal, rtol=1e-12)


def test_nothing_is_a_graph_without_nodes() -> None:
    assert len(graph({}).keys) == 0
    assert graph({}).pages == 0


def test_a_collection_that_cannot_be_numbered_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "MAX_NODES", 3)
    with pytest.raises(ValueError, match="4 nodes exceed the maximum"):
        graph({1: [2, 3, 4]})


def test_keys_of_both_signs_keep_their_order() -> None:
    one = graph({-(2**63): [2**63 - 1, 0], 2**63 - 1: [-1]})
    assert one.keys.tolist() == [-(2**63), -1, 0, 2**63 - 1]
    assert one.keys.dtype == np.int64
