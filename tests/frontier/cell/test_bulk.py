"""Deeds on many URLs at once (UX 2.8): each URL once, whatever dies in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.errors import UsageError
from teia.frontier.cell import bulk
from teia.frontier.cell.bulk import END, BulkAction, BulkSelection, continue_action, matching_urls, progress
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import PageRow
from teia.frontier.cell.schema import LANE_DUE, STATE_DONE, STATE_EXCLUDED, STATE_FAILED, STATE_QUEUED
from tests.frontier.cells import (
    HOST,
    NOW_S,
    add_links,
    assert_counters_are_true,
    assert_queue_and_urls_agree,
    found,
    given_up,
    items,
    next_urls,
    page,
    page_row,
    row,
    settle,
)

LATER_S = NOW_S + 100.0


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[FrontierCell]:
    """Twenty URLs of a host that wait, half of them of a calendar, and five of another host."""
    cell = FrontierCell(tmp_path / "frontier.sqlite")
    links = [found(page(f"{'agenda' if number % 2 else 'lei'}/{number}"), depth=1 + number % 3) for number in range(20)]
    add_links(cell, *links, *(found(f"http://other.test/agenda/{number}") for number in range(5)))
    yield cell
    cell.close()


def do(cell: FrontierCell, chosen: BulkSelection, mark: str = "m", now_s: float = LATER_S) -> int:
    with cell.transaction():
        continue_action(cell, chosen, mark, now_s, lambda: True)
    place, number = progress(cell, mark)
    assert place == END
    assert_counters_are_true(cell)
    assert_queue_and_urls_agree(cell)
    return number


@pytest.mark.parametrize(
    ("chosen", "number"),
    [
        (BulkSelection(BulkAction.DROP), 25),
        (BulkSelection(BulkAction.DROP, contains="/agenda/"), 15),
        (BulkSelection(BulkAction.DROP, host=HOST, contains="/agenda/"), 10),
        (BulkSelection(BulkAction.DROP, host="other.test"), 5),
        (BulkSelection(BulkAction.DROP, host="nobody.test"), 0),
        (BulkSelection(BulkAction.DROP, depth=2), 7),
        (BulkSelection(BulkAction.DROP, source="retry"), 0),
        (BulkSelection(BulkAction.FIRST, contains="http://other.test/"), 5),
        (BulkSelection(BulkAction.RETRY), 0),
    ],
)
def test_what_is_counted_is_what_is_done(cell: FrontierCell, chosen: BulkSelection, number: int) -> None:
    queued = cell.queued
    assert sum(1 for _ in matching_urls(cell, chosen, LATER_S)) == number
    assert do(cell, chosen) == number
    assert cell.queued == queued - (number if chosen.action is BulkAction.DROP else 0)


def test_what_was_dropped_stays_dropped_until_it_is_tried_again(cell: FrontierCell) -> None:
    before = next_urls(cell)
    do(cell, BulkSelection(BulkAction.DROP, contains="/agenda/"))
    assert row(cell, page("agenda/1"))["outcome"] == "dropped"
    add_links(cell, found(page("agenda/1"), depth=0))
    assert row(cell, page("agenda/1"))["state"] == STATE_EXCLUDED, "a link to it does not bring it back"
    assert do(cell, BulkSelection(BulkAction.RETRY, host=HOST, outcome="dropped"), "back") == 10
    assert next_urls(cell) == before, "each waits where it did"


def test_a_url_whose_address_was_blocked_is_tried_again(cell: FrontierCell) -> None:
    blocked = items(cell)[0]
    settle(cell, blocked, STATE_EXCLUDED, "blocked_address")
    assert do(cell, BulkSelection(BulkAction.RETRY)) == 1
    assert next_urls(cell, now_s=LATER_S)[0] == blocked.url


def test_first_goes_before_the_others_of_its_host(cell: FrontierCell) -> None:
    do(cell, BulkSelection(BulkAction.FIRST, contains="/agenda/"))
    urls = next_urls(cell, now_s=LATER_S)
    assert all("/agenda/" in url for url in urls[:10])
    assert not any("/agenda/" in url for url in urls[10:])
    assert do(cell, BulkSelection(BulkAction.FIRST, contains="/agenda/"), "again") == 0, "they are first already"


def test_given_up_urls_are_tried_again_with_all_their_tries(cell: FrontierCell) -> None:
    lost, late, *_ = items(cell)
    settle(cell, lost, STATE_FAILED, "timeout")
    settle(cell, late, STATE_QUEUED, "503", again_s=LATER_S + 1_000)
    assert do(cell, BulkSelection(BulkAction.RETRY, outcome="timeout")) == 1
    assert do(cell, BulkSelection(BulkAction.RETRY), "all") == 1
    for item in (lost, late):
        known = row(cell, item.url)
        assert (known["state"], known["lane"], known["failures"]) == (STATE_QUEUED, LANE_DUE, 0)
    assert set(next_urls(cell, now_s=LATER_S)[:2]) == {lost.url, late.url}


def test_a_page_with_a_copy_is_dropped_from_the_queue_and_not_from_the_index(cell: FrontierCell) -> None:
    item = items(cell)[0]
    settle(cell, item, STATE_DONE, learnt=PageRow(200, b"d" * 32))
    change = page_row(cell, item.url)["change"]
    with cell.transaction():
        place = (row(cell, item.url)["slot"], row(cell, item.url)["host_id"], item.key)
        cell.requeue(*place, lane=LANE_DUE, rank=0)  # type: ignore[arg-type]  # numbers
        cell.db.execute("UPDATE urls SET lane = ?, rank = 0 WHERE key = ?", (LANE_DUE, item.key))
    do(cell, BulkSelection(BulkAction.DROP, host=HOST))
    assert (row(cell, item.url)["state"], row(cell, item.url)["outcome"]) == (STATE_DONE, "200")
    assert (page_row(cell, item.url)["is_gone"], page_row(cell, item.url)["change"]) == (0, change)


def test_an_action_goes_on_where_it_was(cell: FrontierCell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some rows a transaction, one of two of them lost: no URL is forgotten and none counted twice."""
    monkeypatch.setattr(bulk, "ROWS", 3)
    chosen, turns = BulkSelection(BulkAction.DROP, contains="/agenda/"), 0
    while progress(cell, "m")[0] != END:
        with given_up(cell):
            continue_action(cell, chosen, "m", LATER_S, lambda: False)
        with cell.transaction():
            continue_action(cell, chosen, "m", LATER_S, lambda: False)
        turns += 1
    assert turns > 5
    assert progress(cell, "m") == (END, 15)
    assert cell.queued == 10
    assert_counters_are_true(cell)


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(UsageError, match="kept fresh"):
        BulkSelection(BulkAction.DROP, source="refresh")
    with pytest.raises(UsageError, match="source"):
        BulkSelection(BulkAction.DROP, source="nowhere")
    with pytest.raises(UsageError, match="500"):
        BulkSelection(BulkAction.DROP, contains="x" * 501)
