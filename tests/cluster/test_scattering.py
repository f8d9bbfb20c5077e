"""Search over many nodes: as on one machine; what is missing is named (F8, SEARCH 6)."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec
import pytest

from teia.clock import WallClock
from teia.cluster.scattering import ClusterSearch, Speakers, speakers_of
from teia.cluster.searchwire import VERSION, Kept, Presence, numbers
from teia.errors import IndexFailure
from teia.index.union import UnionReader
from teia.search.letters import AskEntries
from teia.search.results import Results
from teia.search.searching import Options, Searcher
from teia.search.shards import LocalShard
from tests.index.pages import page
from tests.search.test_cells_alike import CELLS, asked, written

from .conftest import Nats
from .shelves import Desk, desk, gateway, root_with, settled

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
            root = root_with(folder / node, "alike", {cell: cells[cell] for cell in kept}, CELLS)
            stack.enter_context(desk(nats, root, "alike", node)).keep(1, *kept)
        one = root_with(folder / "one", "alike", dict(enumerate(cells)), CELLS).collection("alike")
        reader = UnionReader({f"cell {cell.number}": cell.index for cell in one.cells()})
        stack.callback(reader.close)
        settled()
        yield (
            stack.enter_context(closing(gateway(nats, "alike", deadline_s=30.0))),
            stack.enter_context(Searcher([LocalShard("one", reader)], WallClock(), deadline_s=30.0)),
            asked(cells)[:QUERIES],
        )


def test_three_nodes_answer_as_one_machine_does(shelves: tuple[ClusterSearch, Searcher, list[str]]) -> None:
    """F8: the same first ten with the same scores, whatever is asked."""
    many, one, queries = shelves
    for query in queries:
        found, truth = (each.search(query, options=Options(grouped=False)) for each in (many, one))
        assert close_to(found, truth), query
        assert not found.is_partial
        assert found.shards_answered == CELLS


def test_everything_that_is_asked_of_one_machine_can_be_asked_of_many(
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
        options = Options(explain=True, facets=True)
        found, truth = (each.search(text, 20, 0, options) for each in (many, one))
        assert (found.total, found.facets, found.missing) == (truth.total, truth.facets, truth.missing), text
        assert [hit.snippet for hit in found.hits][:1] == [hit.snippet for hit in truth.hits][:1]
        assert [len(hit.explanation.components) for hit in found.hits if hit.explanation] == [
            len(hit.explanation.components) for hit in truth.hits if hit.explanation
        ]
    best = one.search(queries[1]).hits[0].url
    assert many.cached(best) == one.cached(best)
    assert {hit.url for hit in many.similar(best, 5).hits} == {hit.url for hit in one.similar(best, 5).hits}
    assert many.pages == sum(map(len, written()))
    assert len(many.some(7)) == 7


# ---- who speaks for what --------------------------------------------------------------------------------------------


def test_of_two_that_speak_for_a_cell_the_higher_epoch_is_believed() -> None:
    old = Presence(VERSION, "old", (Kept(0, 10, 90), Kept(1, 11, 91)), 4)
    new = Presence(VERSION, "new", (Kept(1, 50, 50),), 4)
    for present in ([old, new], [new, old]):
        assert speakers_of(present) == Speakers({"new": (1,), "old": (0,)}, (2, 3), 4)


def test_cells_are_written_in_runs() -> None:
    assert numbers([7, 0, 1, 2]) == "0-2, 7"


@pytest.fixture
def pair(nats: Nats, unique: str, tmp_path: Path) -> Iterator[tuple[str, Desk, Desk]]:
    """Two nodes with a cell each of two."""
    with ExitStack() as stack:
        desks = []
        for node, cell in (("a", 0), ("b", 1)):
            pages = [page(f"http://{node}.test/{n}", f"common words of {node} and {n}") for n in range(5)]
            root = root_with(tmp_path / node, unique, {cell: pages}, 2)
            desks.append(stack.enter_context(desk(nats, root, unique, node)))
            desks[-1].keep(1, cell)
        settled()
        yield unique, desks[0], desks[1]


def test_a_node_that_hangs_costs_one_query_a_second_at_most_and_its_cells_are_named(
    nats: Nats, pair: tuple[str, Desk, Desk]
) -> None:
    """Issue 7: a dead node gives partial results within 1 s."""
    collection, _, hanging = pair
    with closing(gateway(nats, collection)) as search:
        assert search.search("common").total == 10
        hanging.thread.loop.call_soon_threadsafe(time.sleep, 3.0)
        time.sleep(0.05)
        began = time.monotonic()
        results = search.search("common")
        took_s = time.monotonic() - began
        assert took_s < 1.0 + 0.5  # half a second for a busy machine
        assert (results.total, results.is_partial) == (5, True)
        assert (results.shards_asked, results.shards_answered) == (2, 1)
        assert "b (cells 1): did not answer in time" in results.warnings[0]
        assert "did not answer in time" not in "".join(search.search("common").warnings)  # the next one does not wait


def test_a_cell_that_nobody_keeps_is_named_and_found_again(nats: Nats, pair: tuple[str, Desk, Desk]) -> None:
    collection, _, other = pair
    with closing(gateway(nats, collection)) as search:
        assert search.search("common").total == 10
        other.keep(1)
        results = search.search("common")
        assert (results.total, results.is_partial) == (5, True)
        time.sleep(0.4)
        assert "1 of 2 cells answered. Missing: cell 1: no node answers for it" in search.search("common").warnings[0]
        other.keep(9, 1)
        search.look_again()
        time.sleep(0.4)
        assert search.search("common").total == 10


def test_without_nodes_there_is_a_message(nats: Nats, unique: str) -> None:
    with closing(gateway(nats, unique)) as search, pytest.raises(IndexFailure, match="no node of this cluster answers"):
        search.search("anything")


def test_cells_are_not_closed_while_a_thread_searches_them(nats: Nats, tmp_path: Path) -> None:
    """Other sets of cells are asked for meanwhile, more than stay open; what is put away is closed afterwards."""
    pages = [page(f"http://h{cell}.test/", "some words") for cell in range(4)]
    root = root_with(tmp_path, "used", {cell: [each] for cell, each in enumerate(pages)}, 4)
    with desk(nats, root, "used", "a") as node:
        using, question = node.answerer._using, msgspec.msgpack.encode(AskEntries((pages[0].key,)))
        with using(frozenset({0})) as answering:
            whole = answering.answer(question)
            for cell in (1, 2, 3):
                with using(frozenset({cell})):
                    pass
            assert answering.answer(question) == whole
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            answering.answer(question)
        with using(frozenset({0})) as answering:
            assert answering.answer(question) == whole
