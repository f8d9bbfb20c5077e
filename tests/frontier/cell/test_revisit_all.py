"""All known pages asked for again, once (F2): what waits, in which order, and that a death changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.frontier.cell import revisit_all, revisits
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import PageRow
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
    page,
    row,
    settle,
)

SLOT = slot_of(site_of(HOST))
COPY = PageRow(200, digest=b"d", text_digest=b"t", etag='"1"')
SINCE_S = NOW_S + 1_000
PAGES = 6


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[FrontierCell]:
    """Six pages of a host, all visited, and one that is new."""
    made = FrontierCell(tmp_path / "frontier.sqlite")
    add_links(made, *(found(page(number)) for number in range(PAGES)))
    for item in items(made):
        settle(made, item, STATE_DONE, learnt=COPY)
    add_links(made, found(page(99)))
    yield made
    assert_counters_are_true(made)
    assert_queue_and_urls_agree(made)
    made.close()


def ask(cell: FrontierCell, since_s: float = SINCE_S, *, has_time: bool = True) -> revisit_all.RoundProgress:
    with cell.transaction():
        return revisit_all.requeue_known(cell, since_s, lambda: has_time)[0]


def states(cell: FrontierCell) -> list[int]:
    return [row(cell, page(number))["state"] for number in range(PAGES)]


def test_every_known_page_waits_again_beside_what_is_new(cell: FrontierCell) -> None:
    assert ask(cell) == revisit_all.RoundProgress(SINCE_S, None, known=PAGES)
    assert set(states(cell)) == {STATE_QUEUED}
    assert cell.queued == PAGES + 1
    taken = cell.next_urls(cell.host_id(HOST, NOW_S), HOST, 100, (), SINCE_S)
    assert [item.lane for item in taken] == [LANE_DUE] * PAGES + [0]
    assert all(item.visits == 1 and item.etag == '"1"' for item in taken[:PAGES])


def test_requested_twice_is_requested_once_also_after_pages_were_visited(cell: FrontierCell) -> None:
    ask(cell)
    for item in items(cell)[:3]:
        settle(cell, item, STATE_DONE, learnt=COPY, time_s=SINCE_S + 1)
    before = states(cell)
    ask(cell)
    assert states(cell) == before
    assert before.count(STATE_DONE) == 3


def test_a_round_goes_on_where_it_was(cell: FrontierCell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two URLs at a time, each in a transaction of its own; what was visited meanwhile is not asked for again."""
    monkeypatch.setattr(revisit_all, "AT_ONCE", 2)
    first = ask(cell, has_time=False)
    assert first.position is not None
    visited = next(item for item in items(cell) if item.lane == LANE_DUE)
    settle(cell, visited, STATE_DONE, learnt=COPY, time_s=SINCE_S + 1)
    while ask(cell, has_time=False).position is not None:
        pass
    assert revisit_all.round_progress(cell, SINCE_S).known == PAGES
    assert states(cell).count(STATE_DONE) == 1
    assert cell.queued == PAGES


def test_what_the_last_round_did_not_reach_comes_first_in_the_next(cell: FrontierCell) -> None:
    ask(cell)
    reached = [item for item in items(cell) if item.lane == LANE_DUE][:4]
    for item in reached:
        settle(cell, item, STATE_DONE, learnt=COPY, time_s=SINCE_S + 1)
    next_s = SINCE_S + 500
    assert ask(cell, next_s).known == PAGES
    order = [item.key for item in cell.next_urls(cell.host_id(HOST, NOW_S), HOST, 100, (), next_s)]
    left = {key_of(page(number)) for number in range(PAGES)} - {item.key for item in reached}
    assert set(order[:2]) == left


def test_failures_and_what_robots_forbade_are_tried_again_and_what_was_left_out_is_not(cell: FrontierCell) -> None:
    add_links(cell, *(found(page(number)) for number in (11, 12, 13)))
    waiting = {item.key: item for item in items(cell)}
    for number, state, outcome in (
        (11, STATE_FAILED, Outcome.TIMEOUT),
        (12, STATE_EXCLUDED, Outcome.ROBOTS),
        (13, STATE_EXCLUDED, Outcome.TRAP),
    ):
        settle(cell, waiting[key_of(page(number))], state, outcome=outcome)
    assert ask(cell).known == PAGES
    assert [row(cell, page(number))["state"] for number in (11, 12, 13)] == [STATE_QUEUED, STATE_QUEUED, STATE_EXCLUDED]


def test_pages_that_were_kept_fresh_leave_that_lane(cell: FrontierCell) -> None:
    host_id = cell.host_id(HOST, NOW_S)
    with cell.transaction():
        revisits.set_due(cell, (SLOT, host_id, key_of(page(1))), NOW_S + 9_000)
    ask(cell)
    assert revisits.next_pages(cell, SLOT, host_id, 10, ()) == []
    assert cell.queued == PAGES + 1


def test_visits_are_counted_with_the_round_they_belong_to(cell: FrontierCell) -> None:
    ask(cell)
    with cell.transaction():
        revisit_all.count_visits(cell, SINCE_S, visited=2, new=1, left_out=1)
    assert revisit_all.round_progress(cell, SINCE_S) == revisit_all.RoundProgress(
        SINCE_S, None, known=PAGES - 1, visited=2, new=1
    )
    assert revisit_all.round_progress(cell, SINCE_S + 1) == revisit_all.RoundProgress(SINCE_S + 1)
