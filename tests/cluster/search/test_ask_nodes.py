"""Search over many nodes: as on one machine; what is missing is named (F8, SEARCH 6)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Event

import msgspec
import pytest

from teia.clock import WallClock
from teia.cluster.search import ask_nodes
from teia.cluster.search.ask_nodes import CellResponders, ClusterSearch, NodeShard, assign_cells
from teia.cluster.search.messages import VERSION, CellOwnership, NodePresence, format_cells
from teia.errors import IndexFailure, StoreError
from teia.index.union import UnionReader
from teia.search.serve.searcher import Searcher, SearchOptions
from teia.search.serve.shards import LocalShard
from teia.search.serve.wire_format import EntriesRequest
from teia.search.show.results import Results
from tests.cluster.conftest import Nats
from tests.cluster.shelves import (
    SOON_S,
    AnsweringNode,
    answering_node,
    gateway,
    make_root,
    search_until,
    wait_for_subscriptions,
)
from tests.index.pages import page
from tests.search.test_cells_alike import CELLS, asked, written

KEPT = {"a": (0, 1, 2), "b": (3, 4), "c": (5, 6, 7)}
QUERIES = 100


def close_to(found: Results, truth: Results) -> bool:
    """Whether the same pages come in the same order; those with equal scores may change places."""
    scores = {hit.url: hit.score for hit in truth.hits}
    last = truth.hits[-1].score if truth.hits else 0.0
    return (
        (found.total, len(found.hits)) == (truth.total, len(truth.hits))
        and all(is_equal(a.score, b.score) for a, b in zip(found.hits, truth.hits, strict=True))
        and all(is_equal(scores.get(hit.url, last), hit.score) for hit in found.hits)
    )


def is_equal(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-6 * max(one, other)


@pytest.fixture(scope="module")
def shelves(
    nats: Nats, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ClusterSearch, Searcher, list[str]]]:
    """The same pages on three nodes and on one machine, and what is asked."""
    folder = tmp_path_factory.mktemp("shelves")
    cells = written()
    with ExitStack() as stack:
        for node, kept in KEPT.items():
            root = make_root(folder / node, "alike", {cell: cells[cell] for cell in kept}, CELLS)
            stack.enter_context(answering_node(nats, root, "alike", node)).keep(1, *kept)
        one = make_root(folder / "one", "alike", dict(enumerate(cells)), CELLS).collection("alike")
        reader = UnionReader({f"cell {cell.number}": cell.index for cell in one.cells()})
        stack.callback(reader.close)
        wait_for_subscriptions()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ask_nodes, "PRESENCE_S", SOON_S)
            search = gateway(nats, "alike", deadline_s=30.0)
        yield (
            stack.enter_context(closing(search)),
            stack.enter_context(Searcher([LocalShard("one", reader)], WallClock(), deadline_s=30.0)),
            asked(cells)[:QUERIES],
        )


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, too, wait until nodes have said that they are there; where all do, nobody waits longer."""
    monkeypatch.setattr(ask_nodes, "PRESENCE_S", SOON_S)


@pytest.mark.usefixtures("patient")
def test_three_nodes_answer_as_one_machine_does(shelves: tuple[ClusterSearch, Searcher, list[str]]) -> None:
    """F8: the same first ten with the same scores, whatever is asked."""
    many, one, queries = shelves
    for query in queries:
        found, truth = (each.search(query, options=SearchOptions(grouped=False)) for each in (many, one))
        assert close_to(found, truth), query
        assert not found.is_partial
        assert found.shards_answered == CELLS


@pytest.mark.usefixtures("patient")
def test_every_query_of_one_machine_is_possible_on_many(
    shelves: tuple[ClusterSearch, Searcher, list[str]],
) -> None:
    many, one, queries = shelves
    word = queries[0].split()[0]
    for text in (
        f'"{queries[3]}"',
        f"{word[:3]}*",
        f"-{word} lang:pt",
        f"{queries[1]} {queries[2]} expand:on",
        f"{word}x",
    ):
        options = SearchOptions(explain=True, facets=True)
        found, truth = (each.search(text, 20, 0, options) for each in (many, one))
        assert (found.total, found.facets, found.missing) == (truth.total, truth.facets, truth.missing), text
        assert [hit.snippet for hit in found.hits][:1] == [hit.snippet for hit in truth.hits][:1]
        assert [len(hit.explanation.components) for hit in found.hits if hit.explanation] == [
            len(hit.explanation.components) for hit in truth.hits if hit.explanation
        ]
    best = one.search(queries[1]).hits[0].url
    assert many.indexed_page(best) == one.indexed_page(best)
    assert {hit.url for hit in many.similar(best, 5).hits} == {hit.url for hit in one.similar(best, 5).hits}
    assert many.pages == sum(map(len, written()))
    assert len(many.some(7)) == 7


# ---- who speaks for what --------------------------------------------------------------------------------------------


def test_of_two_that_speak_for_a_cell_the_higher_epoch_is_believed() -> None:
    old = NodePresence(VERSION, "old", (CellOwnership(0, 10, 90), CellOwnership(1, 11, 91)), 4)
    new = NodePresence(VERSION, "new", (CellOwnership(1, 50, 50),), 4)
    for present in ([old, new], [new, old]):
        assert assign_cells(present) == CellResponders({"new": (1,), "old": (0,)}, (2, 3), 4)


def test_cells_are_written_in_runs() -> None:
    assert format_cells([7, 0, 1, 2]) == "0-2, 7"


@pytest.fixture
def pair(nats: Nats, unique: str, tmp_path: Path) -> Iterator[tuple[str, AnsweringNode, AnsweringNode]]:
    """Two nodes with a cell each of two."""
    with ExitStack() as stack:
        desks = []
        for node, cell in (("a", 0), ("b", 1)):
            pages = [page(f"http://{node}.test/{n}", f"common words of {node} and {n}") for n in range(5)]
            root = make_root(tmp_path / node, unique, {cell: pages}, 2)
            desks.append(stack.enter_context(answering_node(nats, root, unique, node)))
            desks[-1].keep(1, cell)
        wait_for_subscriptions()
        yield unique, desks[0], desks[1]


@contextmanager
def hung(node: AnsweringNode) -> Iterator[None]:
    """Have a node do nothing, as if it were stopped; it is when the block begins."""
    begun, over = Event(), Event()

    def hang() -> None:
        begun.set()
        over.wait(2 * SOON_S)

    node.thread.loop.call_soon_threadsafe(hang)
    assert begun.wait(SOON_S)
    try:
        yield
    finally:
        over.set()


def test_a_node_that_hangs_is_left_out_its_cells_are_named_and_the_next_query_skips_it(
    nats: Nats, pair: tuple[str, AnsweringNode, AnsweringNode]
) -> None:
    """Issue 7: a dead node gives partial results within 1 s."""
    collection, _, hanging = pair
    with closing(gateway(nats, collection)) as search:
        search_until(search, "common", lambda results: results.total == 10)
        with hung(hanging):
            began = time.monotonic()
            results = search.search("common")
            assert time.monotonic() - began < 1.0 + 0.5  # half a second for a busy machine
            assert (results.total, results.is_partial) == (5, True)
            assert (results.shards_queried, results.shards_answered) == (2, 1)
            assert "b (cells 1): no response in time" in results.warnings[0]
            said = "cell 1: no node answers for it"
            later = search_until(search, "common", lambda results: said in "".join(results.warnings))
            assert said in later.warnings[0], "nobody waits for it any more"
        assert search_until(search, "common", lambda results: results.total == 10).total == 10, "it is there again"


def shard_of(search: ClusterSearch, node: str) -> NodeShard:
    search_until(search, "common", lambda results: results.total == 10)
    (found,) = [shard for shard in search._current() if isinstance(shard, NodeShard) and shard.node == node]
    return found


def test_a_node_that_was_hardly_waited_for_is_not_called_silent(
    nats: Nats, pair: tuple[str, AnsweringNode, AnsweringNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others have left of a query's time may be too short for it: the next query asks it all the same."""
    collection, _, _ = pair
    with closing(gateway(nats, collection, deadline_s=30.0)) as search:
        shard = shard_of(search, "b")
        monkeypatch.setattr(search, "refresh_directory", lambda: None)
        shard.transport(b"").cancel()
        assert "b" in search._directory.responders.cells
        search.note_abandoned("b", 29.0)
        assert "b" not in search._directory.responders.cells


def test_what_is_given_up_while_a_search_is_closed_begins_nothing(
    nats: Nats, pair: tuple[str, AnsweringNode, AnsweringNode]
) -> None:
    collection, _, hanging = pair
    search = gateway(nats, collection, deadline_s=30.0)
    shard = shard_of(search, "b")
    with hung(hanging):
        under_way = shard.transport(b"")
        search.close()
    assert under_way.cancelled()
    search.note_silent("b")
    assert not search._is_refreshing


def test_a_cell_that_nobody_keeps_is_named_and_found_again(
    nats: Nats, pair: tuple[str, AnsweringNode, AnsweringNode]
) -> None:
    collection, _, other = pair
    with closing(gateway(nats, collection)) as search:
        assert search_until(search, "common", lambda results: results.total == 10).total == 10
        other.keep(1)
        said = "1 of 2 cells responded. Missing: cell 1: no node answers for it"
        results = search_until(search, "common", lambda results: said in "".join(results.warnings) and results.total)
        assert (results.total, results.is_partial) == (5, True)
        assert said in results.warnings[0]
        other.keep(9, 1)
        assert search_until(search, "common", lambda results: results.total == 10).total == 10


def test_without_nodes_there_is_a_message(nats: Nats, unique: str) -> None:
    with closing(gateway(nats, unique)) as search, pytest.raises(IndexFailure, match="no node of this cluster answers"):
        search.search("anything")


def test_cells_are_not_closed_while_a_thread_searches_them(nats: Nats, tmp_path: Path) -> None:
    """Other sets of cells are asked for meanwhile, more than stay open; what is put away is closed afterwards."""
    pages = [page(f"http://h{cell}.test/", "some words") for cell in range(4)]
    root = make_root(tmp_path, "used", {cell: [each] for cell, each in enumerate(pages)}, 4)
    with answering_node(nats, root, "used", "a") as node:
        using, question = node.answerer._using, msgspec.msgpack.encode(EntriesRequest((pages[0].key,)))
        with using(frozenset({0})) as answering:
            whole = answering.answer(question)
            for cell in (1, 2, 3):
                with using(frozenset({cell})):
                    pass
            assert answering.answer(question) == whole
        with pytest.raises(StoreError, match="closed"):
            answering.answer(question)
        with using(frozenset({0})) as answering:
            assert answering.answer(question) == whole
