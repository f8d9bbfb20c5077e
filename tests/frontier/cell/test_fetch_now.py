"""A user's request to fetch a URL now moves it in the queue, and changes nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.frontier.cell.cell import FrontierCell, PageRow
from teia.frontier.cell.fetch_now import visit_soon
from teia.frontier.cell.revisits import set_due
from teia.frontier.cell.schema import LANE_DUE, STATE_DONE, STATE_EXCLUDED, STATE_FAILED, STATE_QUEUED
from teia.records import Outcome
from teia.urls import key_of, site_of, slot_of
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
    page_row,
    row,
    settle,
)

LATER_S = NOW_S + 100.0
COPY = PageRow(200, b"digest", b"text")


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[FrontierCell]:
    """Three pages of a host that were fetched."""
    opened = FrontierCell(tmp_path / "frontier.sqlite")
    add_links(opened, *(found(page(number)) for number in range(3)))
    for item in items(opened):
        settle(opened, item, STATE_DONE, learnt=COPY)
    yield opened
    opened.close()


def ask(cell: FrontierCell, url: str) -> bool:
    with cell.transaction():
        is_queued = visit_soon(cell, url, LATER_S) is not None
    assert_counters_are_true(cell)
    assert_queue_and_urls_agree(cell)
    return is_queued


def test_a_page_that_waits_for_a_retry_stays_in_the_index_until_its_visit(cell: FrontierCell) -> None:
    """It was excluded and let in again on its way to the front, which took it out of the index."""
    assert ask(cell, page(1))
    (item,) = items(cell, now_s=LATER_S)
    settle(cell, item, STATE_QUEUED, Outcome.TIMEOUT, time_s=LATER_S, again_s=LATER_S + 900)
    before = page_row(cell, page(1))
    assert ask(cell, page(1))
    assert page_row(cell, page(1)) == before
    assert before["is_gone"] == 0
    assert next_urls(cell, now_s=LATER_S) == [page(1)]
    assert (row(cell, page(1))["outcome"], row(cell, page(1))["failures"]) == (Outcome.TIMEOUT, 1)


def test_a_settled_page_is_fetched_again_and_stays_in_the_index(cell: FrontierCell) -> None:
    with cell.transaction():
        host_id = cell.host_id(HOST, NOW_S)
        assert set_due(cell, (slot_of(site_of(HOST)), host_id, key_of(page(2))), LATER_S + 5_000)
    assert ask(cell, page(2)), "one that was scheduled for much later"
    assert ask(cell, page(1))
    assert sorted(next_urls(cell, now_s=LATER_S)) == [page(1), page(2)]
    assert [page_row(cell, page(number))["is_gone"] for number in range(3)] == [0, 0, 0]


def test_a_page_that_was_given_up_stays_out_of_the_index_until_its_visit(cell: FrontierCell) -> None:
    assert ask(cell, page(1))
    (item,) = items(cell, now_s=LATER_S)
    settle(cell, item, STATE_FAILED, "404", time_s=LATER_S)
    assert ask(cell, page(1))
    assert page_row(cell, page(1))["is_gone"] == 1


def test_a_new_url_moves_ahead_of_others_and_an_excluded_one_stays_out(cell: FrontierCell) -> None:
    add_links(cell, found(page(10)), found(page(11)), found(page(12)))
    (excluded,) = (item for item in items(cell) if item.url == page(12))
    settle(cell, excluded, STATE_EXCLUDED, Outcome.OUT_OF_SCOPE)
    assert ask(cell, page(11))
    assert row(cell, page(11))["lane"] == LANE_DUE
    assert next_urls(cell, now_s=LATER_S) == [page(11), page(10)]
    assert ask(cell, page(11)), "asked for twice it is where it was"
    assert not ask(cell, page(12))
    assert not ask(cell, page("unknown"))
