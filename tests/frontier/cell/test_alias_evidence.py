"""Pairs of names in a cell, and what becomes of an alias' URLs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.errors import CorruptFile
from teia.frontier.cell import alias_evidence
from teia.frontier.cell.alias_evidence import ALIAS, DISTINCT, WATCHED, AliasEvidence, AliasPair
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import PageRow
from teia.frontier.cell.schema import STATE_DONE, STATE_EXCLUDED
from teia.records import Outcome
from tests.frontier.cells import (
    HOST,
    NOW_S,
    add_links,
    assert_counters_are_true,
    assert_queue_and_urls_agree,
    found,
    items,
    next_urls,
    page,
    row,
    settle,
)


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[FrontierCell]:
    made = FrontierCell(tmp_path / "frontier.sqlite")
    yield made
    made.close()


def save(cell: FrontierCell, pair: AliasPair) -> None:
    with cell.transaction():
        alias_evidence.save_pair(cell, pair, NOW_S)


def test_a_pair_is_read_back_as_it_was_written(cell: FrontierCell) -> None:
    evidence = AliasEvidence({1: 2, -3: 1 << 63}, [4], [5], "a", "https://b.test", ["/", "s/x"], -2)
    save(cell, AliasPair(HOST, "other.test", NOW_S, ALIAS, NOW_S + 1, NOW_S + 2, evidence))
    (pair,) = alias_evidence.open_pairs(cell)
    assert (pair.host, pair.other, pair.state) == (HOST, "other.test", ALIAS)
    assert (pair.since_s, pair.checked_s, pair.checking_s) == (NOW_S, NOW_S + 1, NOW_S + 2)
    assert pair.evidence == evidence
    assert alias_evidence.alias_row(cell, HOST) is not None
    assert alias_evidence.alias_row(cell, "other.test") is None


def test_of_distinct_names_only_that_is_kept(cell: FrontierCell) -> None:
    pair = AliasPair(HOST, "other.test", NOW_S, evidence=AliasEvidence({1: 2}))
    save(cell, pair)
    assert alias_evidence.pair_state(cell, HOST, "other.test") == WATCHED
    pair.state = DISTINCT
    save(cell, pair)
    assert list(alias_evidence.open_pairs(cell)) == []
    assert alias_evidence.pair_state(cell, HOST, "other.test") == DISTINCT
    assert alias_evidence.pair_state(cell, "other.test", HOST) is None


def test_evidence_that_cannot_be_read_names_the_file(cell: FrontierCell) -> None:
    save(cell, AliasPair(HOST, "other.test", NOW_S))
    cell.db.execute("UPDATE aliases SET evidence = x'c1'")
    with pytest.raises(CorruptFile, match=HOST):
        list(alias_evidence.open_pairs(cell))


def test_the_first_host_to_show_a_sample_has_it(cell: FrontierCell) -> None:
    with cell.transaction():
        alias_evidence.store_samples(cell, [(7, 42, "first.test")])
        alias_evidence.store_samples(cell, [(7, 42, "second.test"), (8, 42, "third.test")])
    assert alias_evidence.sample_owner(cell, 7, 42) == "first.test"
    assert alias_evidence.sample_owner(cell, 8, 42) == "third.test"
    assert alias_evidence.sample_owner(cell, 7, 43) is None


def test_what_was_seen_of_a_page(cell: FrontierCell) -> None:
    add_links(cell, found(page("")), found(page(1), in_links=3))
    (item,) = [each for each in items(cell) if each.url == page(1)]
    learnt = PageRow(200, b"d", b"t", -1, title="T", canonical="c", redirect_to="")
    settle(cell, item, STATE_DONE, learnt=learnt)
    seen = alias_evidence.last_visit(cell, HOST, "/1")
    assert seen is not None
    assert (seen.url, seen.status, seen.text, seen.simhash, seen.title) == (page(1), 200, b"t", (1 << 64) - 1, "T")
    assert alias_evidence.last_visit(cell, HOST, "/") is None
    assert alias_evidence.last_visit(cell, "unknown.test", "/") is None
    assert alias_evidence.visited_tails(cell, HOST, 9) == ["/1"]
    assert alias_evidence.url_state(cell, HOST, "/1") == STATE_DONE
    assert alias_evidence.url_state(cell, HOST, "/2") is None


def test_a_page_is_visited_again_before_all_others(cell: FrontierCell) -> None:
    add_links(cell, *(found(page(n)) for n in range(3)))
    first = items(cell)[0]
    settle(cell, first, STATE_DONE)
    with cell.transaction():
        assert alias_evidence.requeue_first(cell, HOST, "/0", NOW_S) == first.key
        assert alias_evidence.requeue_first(cell, HOST, "/1", NOW_S) is not None, "it waits anyway"
        assert alias_evidence.requeue_first(cell, HOST, "/unknown", NOW_S) is None
    assert next_urls(cell) == [page(0), page(1), page(2)]
    assert_counters_are_true(cell)
    assert_queue_and_urls_agree(cell)


def test_urls_of_an_alias_go_back_where_they_stood(cell: FrontierCell) -> None:
    add_links(cell, *(found(page(n)) for n in range(10)))
    before = next_urls(cell)
    for item in items(cell)[2:9]:
        settle(cell, item, STATE_EXCLUDED, Outcome.ALIAS)
    assert len(next_urls(cell)) == 3
    brought = []
    while not brought or brought[-1]:
        with cell.transaction():
            brought.append(alias_evidence.requeue_alias_urls(cell, HOST, 3, NOW_S))
    assert brought == [3, 3, 1, 0]
    assert next_urls(cell) == before
    assert row(cell, page(5))["outcome"] == ""
    assert_counters_are_true(cell)
    assert_queue_and_urls_agree(cell)
