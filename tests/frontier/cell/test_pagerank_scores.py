"""Scores from outside, taken into a cell bit by bit (the order `pagerank` of A6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.frontier.cell import pagerank_scores
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.change_order import reorder_queue
from teia.frontier.cell.pagerank_scores import apply_scores, is_ranked_by, use_link_worth
from teia.frontier.cell.schema import STATE_DONE, STATE_EXCLUDED, STATE_QUEUED
from teia.frontier.queue.order import LEVELS_A_DOUBLING, SCORED_BIT, breadth, pagerank
from teia.urls import key_of
from tests.frontier.cells import (
    NOW_S,
    add_links,
    assert_counters_are_true,
    assert_queue_and_urls_agree,
    found,
    given_up,
    image,
    items,
    next_urls,
    page,
    row,
    settle,
)


@dataclass(frozen=True)
class Scores:
    """Scores by the number of a page, as a rank file would tell them."""

    by_page: Mapping[int | str, float]
    stamp: int = 1
    alone: float = 1.0
    per_link: float = 1.0

    def scores(self, keys: Any) -> Any:
        known = {key_of(page(number)): score for number, score in self.by_page.items()}
        return np.array([known.get(int(key), 0.0) for key in keys], np.float32)


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[FrontierCell]:
    opened = FrontierCell(tmp_path / "frontier.sqlite", pagerank)
    reorder_queue(opened)
    yield opened
    opened.close()


def always() -> bool:
    return True


def take(cell: FrontierCell, scores: Scores) -> list[tuple[int, str]]:
    """All of it, as Authority does."""
    use_link_worth(cell, scores)
    with cell.transaction():
        return apply_scores(cell, scores, always)


def pages(*numbers: int | str) -> list[str]:
    return [page(number) for number in numbers]


# ---- what comes first -----------------------------------------------------------------------------------------------


def test_urls_are_taken_by_their_links_until_there_are_scores(cell: FrontierCell) -> None:
    add_links(cell, found(page(1)), found(page(2), in_links=9), found(page(3), in_links=4))
    assert next_urls(cell) == pages(2, 3, 1)
    take(cell, Scores({1: 8.0, 2: 2.0, 3: 30.0}))
    assert next_urls(cell) == pages(3, 1, 2)
    assert_queue_and_urls_agree(cell)


def test_new_scores_raise_and_lower(cell: FrontierCell) -> None:
    add_links(cell, *(found(page(number)) for number in range(1, 4)))
    take(cell, Scores({1: 8.0, 2: 4.0, 3: 2.0}))
    take(cell, Scores({1: 2.0, 2: 4.0, 3: 8.0}, stamp=2))
    assert next_urls(cell) == pages(3, 2, 1)
    assert_counters_are_true(cell)
    assert_queue_and_urls_agree(cell)


def test_equals_are_taken_as_they_were_found(cell: FrontierCell) -> None:
    add_links(cell, *(found(page(number)) for number in (4, 2, 9, 7)))
    take(cell, Scores(dict.fromkeys((4, 2, 9, 7), 5.0)))
    take(cell, Scores(dict.fromkeys((4, 2, 9, 7), 11.0), stamp=2))
    assert next_urls(cell) == pages(4, 2, 9, 7)


def test_links_do_not_change_what_was_given_until_there_are_new_scores(cell: FrontierCell) -> None:
    """A page that thousands of worthless pages link to would otherwise come back to the front with each of them."""
    add_links(cell, found(page("spam"), in_links=3), found(page("good")))
    take(cell, Scores({"spam": 1.1, "good": 9.0}))
    add_links(cell, found(page("spam"), in_links=5_000))
    assert next_urls(cell) == pages("good", "spam")
    assert row(cell, page("spam"))["in_links"] == 5_003


def test_what_is_found_later_is_ranked_as_one_with_so_many_links_is_on_average(cell: FrontierCell) -> None:
    add_links(cell, found(page("known")), found(page("lower")))
    take(cell, Scores({"known": 3.0, "lower": 1.2}, per_link=0.5))
    add_links(cell, found(page("few"), in_links=2), found(page("many"), in_links=20))
    assert next_urls(cell) == pages("many", "known", "few", "lower")
    add_links(cell, found(page("few"), in_links=8))
    assert next_urls(cell) == pages("many", "few", "known", "lower"), "an estimate grows with its links"


def test_estimates_follow_what_a_link_is_worth(cell: FrontierCell) -> None:
    add_links(cell, found(page("known")), found(page("new"), in_links=6))
    take(cell, Scores({"known": 4.0}, per_link=1.0))
    assert next_urls(cell) == pages("new", "known")
    take(cell, Scores({"known": 4.0}, per_link=0.1, stamp=2))
    assert next_urls(cell) == pages("known", "new")


@given(scores=st.dictionaries(st.integers(0, 30), st.floats(1, 1e9), min_size=1))
def test_no_page_is_taken_before_one_of_clearly_higher_rank(
    tmp_path_factory: pytest.TempPathFactory, scores: dict[int, float]
) -> None:
    cell = FrontierCell(tmp_path_factory.mktemp("cell") / "frontier.sqlite", pagerank)
    add_links(cell, *(found(page(number)) for number in scores))
    take(cell, Scores(scores))
    by_url = {page(number): score for number, score in scores.items()}
    taken = [by_url[url] for url in next_urls(cell)]
    a_step = 2 ** (1 / LEVELS_A_DOUBLING)
    assert len(taken) == len(scores)
    assert all(score >= max(taken[at:]) / a_step / 1.001 for at, score in enumerate(taken))
    cell.close()


# ---- what is moved --------------------------------------------------------------------------------------------------


def test_only_urls_whose_level_changed_are_written(cell: FrontierCell) -> None:
    add_links(cell, *(found(page(number)) for number in range(50)))
    take(cell, Scores({number: 10.0 + number for number in range(50)}))
    changes = cell.db.total_changes
    nearly = {number: (10.0 + number) * 1.0001 for number in range(50)}
    take(cell, Scores(nearly | {7: 500.0}, stamp=2))
    moved = cell.db.total_changes - changes
    assert moved < 12, "one URL twice (urls and queue), perhaps some at the edge of a level, counters and the mark"
    assert next_urls(cell)[0] == page(7)


def test_hosts_whose_queue_changed_are_named(cell: FrontierCell) -> None:
    add_links(cell, found("http://a.test/1"), found("http://b.test/1"), found(page(1)))
    touched = take(cell, Scores({1: 50.0}))
    assert [name for _, name in touched] == ["example.org"]
    assert take(cell, Scores({1: 50.0}, stamp=2)) == []


def test_what_is_due_or_done_stays_where_it_is_and_what_was_refused_comes_back_in_its_place(cell: FrontierCell) -> None:
    add_links(cell, *(found(page(number)) for number in range(4)))
    done, again, refused, _ = items(cell)
    settle(cell, done, STATE_DONE)
    settle(cell, again, STATE_QUEUED, "503", again_s=NOW_S)
    settle(cell, refused, STATE_EXCLUDED, "out_of_scope")
    before = {name: row(cell, name) for name in (done.url, again.url)}
    take(cell, Scores(dict.fromkeys(range(4), 90.0)))
    assert {name: row(cell, name) for name in before} == before
    ranks = [row(cell, page(number))["rank"] for number in (2, 3)]
    assert all(isinstance(rank, int) and rank & SCORED_BIT for rank in ranks)
    assert_queue_and_urls_agree(cell)


# ---- bit by bit -----------------------------------------------------------------------------------------------------


def hundred(cell: FrontierCell) -> Scores:
    add_links(cell, *(found(f"http://h{number % 7}.test/{number}") for number in range(60)))
    add_links(cell, *(found(page(number)) for number in range(40)))
    return Scores({number: 1.2 ** (5 + number) for number in range(40)})


def test_a_cell_is_ranked_bit_by_bit_and_knows_how_far_it_came(
    cell: FrontierCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagerank_scores, "AT_ONCE", 16)
    scores, steps = hundred(cell), 0
    while not is_ranked_by(cell, scores):
        with cell.transaction():
            apply_scores(cell, scores, lambda: False)
        steps += 1
        cell.close()
        cell = FrontierCell(tmp_path / "frontier.sqlite", pagerank)  # a death between any two steps
        assert_queue_and_urls_agree(cell)
    assert steps == 7
    assert next_urls(cell) == pages(*range(39, -1, -1))
    cell.close()


def test_a_step_that_fails_leaves_everything_as_it_was(cell: FrontierCell) -> None:
    scores = hundred(cell)
    before = image(cell)
    with given_up(cell):
        apply_scores(cell, scores, always)
    assert image(cell) == before
    assert not is_ranked_by(cell, scores)


def test_newer_scores_begin_from_the_first_url(cell: FrontierCell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagerank_scores, "AT_ONCE", 16)
    scores = hundred(cell)
    with cell.transaction():
        apply_scores(cell, scores, lambda: False)
    newer = Scores({number: 1.2 ** (99 - number) for number in range(40)}, stamp=2)
    take(cell, newer)
    assert is_ranked_by(cell, newer)
    assert not is_ranked_by(cell, scores)
    assert next_urls(cell) == pages(*range(40))


def test_scores_are_taken_again_after_another_order(cell: FrontierCell, tmp_path: Path) -> None:
    scores = hundred(cell)
    take(cell, scores)
    for order in (breadth, pagerank):
        cell.close()
        cell = FrontierCell(tmp_path / "frontier.sqlite", order)
        reorder_queue(cell)
    assert not is_ranked_by(cell, scores)
    take(cell, scores)
    assert next_urls(cell) == pages(*range(39, -1, -1))
    cell.close()


def test_an_empty_cell_is_ranked_by_anything(cell: FrontierCell) -> None:
    assert take(cell, Scores({})) == []
    assert is_ranked_by(cell, Scores({}))
