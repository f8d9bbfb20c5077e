"""A collection whose order is changed between two runs (A6, T1)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.change_order import reorder_queue
from teia.frontier.cell.schema import BY_SEED, STATE_DONE, STATE_QUEUED
from teia.frontier.queue.order import ORDERS, Hint, Order, backlinks, breadth, depth_first, focused
from tests.frontier.cells import (
    NOW_S,
    add_links,
    assert_counters_are_true,
    assert_queue_and_urls_agree,
    found,
    items,
    next_urls,
    page,
    settle,
)


def opened(folder: Path, order: Order) -> FrontierCell:
    cell = FrontierCell(folder / "frontier.sqlite", order)
    reorder_queue(cell)
    return cell


def fill(cell: FrontierCell) -> None:
    add_links(cell, found(page(1), depth=3), found(page(2), depth=1), found(page(3), depth=2, in_links=5))
    add_links(cell, found(page(4), depth=2), found(page(5), depth=1), found(page(6), depth=9, in_links=7))


@pytest.mark.parametrize(("first", "second"), list(product((breadth, depth_first, backlinks), repeat=2)))
def test_a_changed_order_holds_for_what_waits_as_if_it_had_been_so_from_the_start(
    tmp_path: Path, first: Order, second: Order
) -> None:
    (tmp_path / "straight").mkdir()
    straight = opened(tmp_path / "straight", second)
    fill(straight)
    cell = opened(tmp_path, first)
    fill(cell)
    cell.close()
    cell = opened(tmp_path, second)
    assert next_urls(cell) == next_urls(straight)
    assert_counters_are_true(cell)
    assert_queue_and_urls_agree(cell)
    for each in (cell, straight):
        each.close()


def test_nothing_moves_while_the_order_stays(tmp_path: Path) -> None:
    cell = opened(tmp_path, breadth)
    fill(cell)
    cell.close()
    again = FrontierCell(tmp_path / "frontier.sqlite", breadth)
    assert reorder_queue(again) == 0
    again.close()


def test_retries_and_finished_pages_stay_where_they_are(tmp_path: Path) -> None:
    cell = opened(tmp_path, breadth)
    fill(cell)
    settle(cell, items(cell)[0], STATE_DONE)
    settle(cell, items(cell)[0], STATE_QUEUED, "503", again_s=NOW_S)
    (retry,) = [item for item in items(cell) if item.failures]
    cell.close()
    cell = opened(tmp_path, depth_first)
    assert items(cell)[0] == retry
    assert len(items(cell)) == 5
    assert_queue_and_urls_agree(cell)
    cell.close()


def test_a_focused_crawl_puts_what_it_never_judged_between_good_and_bad(tmp_path: Path) -> None:
    cell = opened(tmp_path, breadth)
    add_links(cell, found(page("old"), 0), replace(found(page("seed"), 5), by=BY_SEED))
    cell.close()
    cell = opened(tmp_path, focused)
    good, bad = (replace(found(page(name)), hint=Hint(score, 0, 0)) for name, score in (("good", 90), ("bad", 10)))
    add_links(cell, bad, good)
    assert next_urls(cell) == [page(name) for name in ("seed", "good", "old", "bad")]
    cell.close()


def test_no_way_from_order_to_order_loses_a_url(tmp_path: Path) -> None:
    names = list(ORDERS)
    for name, following in pairwise([*names, *names[::-1]]):
        cell = opened(tmp_path, ORDERS[name])
        fill(cell)
        cell.close()
        cell = opened(tmp_path, ORDERS[following])
        assert set(next_urls(cell)) == {page(number) for number in range(1, 7)}
        assert_queue_and_urls_agree(cell)
        cell.close()
