"""Known pages in the lane of those that are kept fresh (A13)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.frontier.cell import revisits
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.revisits import DueTimeChange
from teia.frontier.cell.rows import PageRow
from teia.frontier.cell.schema import (
    LANE_DUE,
    LANE_REFRESH,
    STATE_DONE,
    STATE_EXCLUDED,
    STATE_FAILED,
    STATE_NAMES,
    STATE_QUEUED,
)
from teia.frontier.cell.take import read_refresh_page
from teia.urls import key_of, site_of, slot_of
from tests.frontier.cells import HOST, NOW_S, add_links, found, items, page, row, settle

DAY_S = 86_400.0
SLOT = slot_of(site_of(HOST))
COPY = PageRow(200, digest=b"d", text_digest=b"t", etag='"1"')


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[FrontierCell]:
    """Two pages of a host, both visited."""
    made = FrontierCell(tmp_path / "frontier.sqlite")
    add_links(made, found(page(1)), found(page(2)))
    for item in items(made):
        settle(made, item, STATE_DONE, learnt=COPY)
    yield made
    made.close()


def place(cell: FrontierCell, number: int) -> tuple[int, int, int]:
    return SLOT, cell.host_id(HOST, NOW_S), key_of(page(number))


def appoint(cell: FrontierCell, number: int, due_s: float) -> bool:
    with cell.transaction():
        return revisits.set_due(cell, place(cell, number), due_s)


def lane(cell: FrontierCell) -> list[tuple[int, float]]:
    host_id = cell.host_id(HOST, NOW_S)
    return [(each.key, each.due_s) for each in revisits.next_pages(cell, SLOT, host_id, 10, ())]


def test_pages_come_in_the_order_in_which_they_are_due(cell: FrontierCell) -> None:
    appoint(cell, 1, NOW_S + 2 * DAY_S)
    appoint(cell, 2, NOW_S + DAY_S)
    assert lane(cell) == [(key_of(page(2)), NOW_S + DAY_S), (key_of(page(1)), NOW_S + 2 * DAY_S)]
    assert revisits.next_pages(cell, *place(cell, 1)[:2], 10, {key_of(page(2))})[0].key == key_of(page(1))


def test_a_page_that_is_kept_fresh_is_done_and_not_queued(cell: FrontierCell) -> None:
    """It stays in the index, counts as done, and brings its validators along when its time comes."""
    appoint(cell, 1, NOW_S + DAY_S)
    assert STATE_NAMES[row(cell, page(1))["state"]] == "done"
    assert cell.queued == 0
    item = read_refresh_page(cell, HOST, *place(cell, 1))
    assert item is not None
    assert (item.url, item.visits, item.etag, item.lane) == (page(1), 1, '"1"', LANE_REFRESH)
    assert read_refresh_page(cell, HOST, *place(cell, 2)) is None


def test_a_crawl_that_keeps_nothing_fresh_does_not_see_the_lane(cell: FrontierCell) -> None:
    appoint(cell, 1, NOW_S - DAY_S)
    assert items(cell) == []
    assert list(cell.hosts_with_work()) == []
    assert cell.next_due_s(cell.host_id(HOST, NOW_S), HOST) is None


def test_due_times_are_there_after_a_restart(cell: FrontierCell, tmp_path: Path) -> None:
    appoint(cell, 1, NOW_S + DAY_S)
    cell.close()
    again = FrontierCell(tmp_path / "frontier.sqlite")
    assert lane(again) == [(key_of(page(1)), NOW_S + DAY_S)]
    again.close()


@pytest.mark.parametrize("state", [STATE_DONE, STATE_FAILED, STATE_EXCLUDED, STATE_QUEUED])
def test_a_visit_takes_the_page_out_of_the_lane(cell: FrontierCell, state: int) -> None:
    """Whatever comes of it; one that has to be tried again waits with the retries."""
    appoint(cell, 1, NOW_S)
    item = read_refresh_page(cell, HOST, *place(cell, 1))
    assert item is not None
    settle(cell, item, state, again_s=NOW_S + 60)
    assert lane(cell) == []
    assert row(cell, page(1))["lane"] == LANE_DUE
    assert cell.queued == (state == STATE_QUEUED)
    assert cell.db.execute("SELECT count(*) FROM queue").fetchone()[0] == cell.queued
    assert appoint(cell, 1, NOW_S + DAY_S) == (state in {STATE_DONE, STATE_FAILED})


def test_appointing_twice_moves_the_page(cell: FrontierCell) -> None:
    appoint(cell, 1, NOW_S + DAY_S)
    appoint(cell, 1, NOW_S + 2 * DAY_S)
    assert lane(cell) == [(key_of(page(1)), NOW_S + 2 * DAY_S)]
    assert cell.db.execute("SELECT count(*) FROM queue").fetchone()[0] == 1


def test_a_plan_moves_only_pages_that_are_where_they_were(cell: FrontierCell) -> None:
    """Page 1 was visited again while the plan was made; page 2 was not in the lane yet."""
    appoint(cell, 1, NOW_S + DAY_S)
    host_id = cell.host_id(HOST, NOW_S)
    before = {held.key: held for held in revisits.captured_pages(cell, SLOT, host_id, -(1 << 63), 10)}
    moves = [DueTimeChange(key, held.lane, held.rank, NOW_S + 9 * DAY_S) for key, held in before.items()]
    appoint(cell, 1, NOW_S + 3 * DAY_S)
    with cell.transaction():
        assert revisits.move_due_times(cell, SLOT, host_id, moves) == 1
    assert lane(cell) == [(key_of(page(1)), NOW_S + 3 * DAY_S), (key_of(page(2)), NOW_S + 9 * DAY_S)]


def test_a_page_without_a_copy_is_not_held(cell: FrontierCell) -> None:
    add_links(cell, found(page(3)))
    (item,) = items(cell)
    settle(cell, item, STATE_FAILED, "timeout")
    assert revisits.count_captured(cell, *place(cell, 1)[:2]) == 2
    assert revisits.captured_pages_at(cell, [place(cell, 3)]) == [None]


def test_the_least_important_page_gives_way_to_a_url_that_waits(cell: FrontierCell) -> None:
    """F2: the page leaves the index, the URL is asked for though no other new one is."""
    appoint(cell, 1, NOW_S + DAY_S)
    add_links(cell, found(page(3)))
    with cell.transaction():
        assert [each for _, each in revisits.most_linked_new(cell, 9)] == revisits.queued_urls(
            cell, *place(cell, 3)[:2], 9
        )
        assert revisits.is_new(cell, place(cell, 3))
        assert revisits.drop_page(cell, place(cell, 1))
        assert not revisits.drop_page(cell, place(cell, 1))
        assert revisits.request_new(cell, place(cell, 3), NOW_S)
        assert not revisits.request_new(cell, place(cell, 3), NOW_S)
        assert not revisits.is_new(cell, place(cell, 3))
    assert row(cell, page(1))["state"] == STATE_EXCLUDED
    assert cell.db.execute("SELECT count(*) FROM pages WHERE is_gone").fetchone()[0] == 1
    taken = cell.next_urls(cell.host_id(HOST, NOW_S), HOST, 10, (), NOW_S, (LANE_DUE,))
    assert [item.url for item in taken] == [page(3)]
    assert cell.queued == 1
    assert lane(cell) == []
