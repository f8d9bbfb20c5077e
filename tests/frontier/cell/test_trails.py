"""What a focused crawl remembers of the ways to a URL (A6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from teia.frontier.cell import trails
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import FoundUrl, PageRow, QueuedUrl
from teia.frontier.cell.schema import STATE_DONE
from teia.frontier.cell.trails import HEAD_START_S, ReadingResult
from teia.frontier.queue.order import NO_HINT, NO_KIND, Hint, breadth, focused
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
    settle,
)


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[FrontierCell]:
    opened = FrontierCell(tmp_path / "frontier.sqlite", focused)
    yield opened
    opened.close()


def link(number: int | str, score: int, off_topic: int = 0, via: int = 0, depth: int = 1) -> FoundUrl:
    return replace(found(page(number), depth), hint=Hint(score, off_topic, via))


def item_of(cell: FrontierCell, number: int | str) -> QueuedUrl:
    return next(each for each in items(cell) if each.url == page(number))


def read(cell: FrontierCell, item: QueuedUrl, *, depends: bool) -> bool:
    """Settle a page and note what it was; returns whether it is visited again."""
    settle(cell, item, STATE_DONE, learnt=PageRow(200, b"d", b"t", etag='"1"', last_modified="then"))
    with cell.transaction():
        return cell.note_read(cell.host_id(HOST, NOW_S), HOST, item, ReadingResult(10, 1, depends), NOW_S)


def test_the_most_promising_is_next_and_a_better_promise_moves_a_url_up(cell: FrontierCell) -> None:
    add_links(cell, link(1, 20), link(2, 90), link(3, 50))
    assert next_urls(cell) == [page(2), page(3), page(1)]
    assert add_links(cell, link(1, 95)) == [(1, HOST)], "a host is looked at again when one of its URLs moved up"
    assert next_urls(cell) == [page(1), page(2), page(3)]
    add_links(cell, link(1, 5))
    assert next_urls(cell)[0] == page(1), "the best promise counts"


def test_links_found_twice_in_a_batch_merge_to_the_best(cell: FrontierCell) -> None:
    add_links(cell, link(1, 20, off_topic=0, via=3), link(1, 60, off_topic=2, via=4))
    assert item_of(cell, 1).hint == Hint(60, 0, 4)


def test_a_hint_survives_closing(cell: FrontierCell) -> None:
    add_links(cell, link(1, 40, 2, 1), link(2, 60, 1, 0), found(page("seed"), 0))
    before = items(cell)
    cell.close()
    again = FrontierCell(cell.path, focused)
    assert items(again) == before
    assert {each.url: each.hint for each in before} == {
        page("seed"): NO_HINT,
        page(2): Hint(60, 1, 0),
        page(1): Hint(40, 2, 1),
    }
    again.close()


def test_what_promises_more_counts_as_having_waited_longer(cell: FrontierCell) -> None:
    add_links(cell, link(1, 0), link(2, 50))
    waited = {each.url: each.since_s for each in items(cell)}
    assert waited[page(1)] - waited[page(2)] == HEAD_START_S / 2


def test_a_page_whose_links_depend_on_it_is_fetched_whole_when_a_shorter_way_appears(cell: FrontierCell) -> None:
    add_links(cell, link(1, 40, off_topic=2))
    assert not read(cell, item_of(cell, 1), depends=True)
    assert add_links(cell, link(1, 40, off_topic=2)) == [], "the same distance changes nothing"
    assert add_links(cell, link(1, 10, off_topic=1)) == [(1, HOST)]
    item = item_of(cell, 1)
    assert (item.etag, item.last_modified, item.visits) == ("", "", 1), "a 304 would have no links"
    assert item.hint == Hint(40, 1, 0)
    assert_counters_are_true(cell)
    assert_queue_and_urls_agree(cell)
    assert not read(cell, item, depends=False)
    assert items(cell) == []
    assert add_links(cell, link(1, 10, off_topic=0)) == [], "its links are known by now"


def test_a_shorter_way_that_appears_while_the_page_is_under_way_counts_too(cell: FrontierCell) -> None:
    add_links(cell, link(1, 40, off_topic=2))
    under_way = item_of(cell, 1)
    add_links(cell, link(1, 40, off_topic=0))
    assert read(cell, under_way, depends=True)
    assert item_of(cell, 1).hint == Hint(40, 0, 0)
    assert_counters_are_true(cell)
    assert_queue_and_urls_agree(cell)


def test_rules_are_counted_and_forgotten_when_kinds_change(cell: FrontierCell) -> None:
    with cell.transaction():
        trails.reset_changed_kinds(cell, ["topic", "shops"])
        for via, kind in ((1, 0), (1, 0), (1, 2)):
            trails.count_rule(cell, via, kind)
    assert sorted(trails.all_rules(cell)) == [(1, 0, 2), (1, 2, 1)]
    add_links(cell, link(1, 40, via=1))
    with cell.transaction():
        trails.reset_changed_kinds(cell, ["topic", "shops"])
    assert len(trails.all_rules(cell)) == 2
    with cell.transaction():
        trails.reset_changed_kinds(cell, ["topic", "schools", "shops"])
    assert trails.all_rules(cell) == []
    hint = item_of(cell, 1).hint
    assert hint is not None
    assert hint.via == NO_KIND


def test_other_orders_write_no_trails(tmp_path: Path) -> None:
    plain = FrontierCell(tmp_path / "plain.sqlite", breadth)
    add_links(plain, found(page(1)), found(page(2)))
    assert plain.db.execute("SELECT count(*) FROM trails").fetchone() == (0,)
    assert [item.hint for item in items(plain)] == [None, None]
    plain.close()
