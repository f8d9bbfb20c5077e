"""URLs that settings kept out come back when the settings do, at any time and after any death (A10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.frontier.cell import reconsider as module
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.reconsider import END, ReconsideredUrl, progress, reconsider
from teia.frontier.cell.rows import PageRow
from teia.frontier.cell.schema import LANE_DUE, STATE_DONE, STATE_EXCLUDED, STATE_QUEUED
from tests.frontier.cells import (
    NOW_S,
    add_links,
    assert_counters_are_true,
    assert_queue_and_urls_agree,
    found,
    image,
    items,
    next_urls,
    page,
    row,
    settle,
)

OUT, SPENT = "out_of_scope", "budget"


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[FrontierCell]:
    cell = FrontierCell(tmp_path / "frontier.sqlite")
    yield cell
    cell.close()


def refuse(cell: FrontierCell, *numbers: int, outcome: str = OUT) -> None:
    for item in items(cell):
        if any(item.url == page(number) for number in numbers):
            settle(cell, item, STATE_EXCLUDED, outcome)


def again(
    cell: FrontierCell,
    mark: str,
    is_wanted: Callable[[ReconsideredUrl], bool],
    has_time: Callable[[], bool] = lambda: True,
) -> list[str]:
    with cell.transaction():
        return [host for _, host in reconsider(cell, mark, is_wanted, has_time)]


def test_wanted_urls_come_back_to_the_place_they_had(cell: FrontierCell) -> None:
    add_links(cell, *(found(page(number), depth) for number, depth in ((1, 3), (2, 1), (3, 2))))
    before = image(cell)[:]
    refuse(cell, 2, 3)
    assert next_urls(cell) == [page(1)]
    assert again(cell, "other", lambda refused: True) == ["example.org"]
    assert next_urls(cell) == [page(2), page(3), page(1)]
    assert [line for line in image(cell) if "judged" not in line] == before
    assert_counters_are_true(cell)


def test_what_is_still_unwanted_stays_out(cell: FrontierCell) -> None:
    add_links(cell, found(page(1)), found(page(2)))
    refuse(cell, 1, 2)
    again(cell, "other", lambda refused: refused.url == page(2))
    assert next_urls(cell) == [page(2)]
    assert row(cell, page(1))["outcome"] == OUT
    assert_queue_and_urls_agree(cell)


def test_a_url_is_judged_by_what_is_known_of_it(cell: FrontierCell) -> None:
    add_links(cell, found(page(1), depth=4), found(page(2)))
    with cell.transaction():
        cell.count_requests([(cell.host_id("example.org", NOW_S), 1, "127.0.0.1", 0.1)])
    refuse(cell, 1)
    refuse(cell, 2, outcome=SPENT)
    seen: list[ReconsideredUrl] = []
    again(cell, "other", lambda refused: seen.append(refused) is not None)
    assert {(each.url, each.depth, each.outcome, each.requests) for each in seen} == {
        (page(1), 4, OUT, 1),
        (page(2), 1, SPENT, 1),
    }


def test_only_what_was_refused_is_looked_at(cell: FrontierCell) -> None:
    """robots.txt, a type, a page's own language: none of them is a matter of the collection's rules alone."""
    add_links(cell, *(found(page(number)) for number in (1, 2, 3, 4)))
    of = {item.url: item for item in items(cell)}
    settle(cell, of[page(1)], STATE_EXCLUDED, "robots")
    settle(cell, of[page(2)], STATE_DONE, learnt=PageRow(200, b"d"))
    settle(cell, of[page(3)], STATE_EXCLUDED, OUT, learnt=PageRow(200, b"d", language="pt"))
    assert again(cell, "other", lambda refused: True) == []
    assert next_urls(cell) == [page(4)]


def test_a_blocked_address_is_tried_again_under_other_settings(cell: FrontierCell) -> None:
    add_links(cell, found(page(1)), found(page(2)))
    refuse(cell, 1, outcome="blocked_address")
    assert again(cell, "other networks", lambda refused: True) == ["example.org"]
    assert next_urls(cell) == [page(1), page(2)]
    assert_counters_are_true(cell)


def test_a_page_due_again_comes_back_to_its_time(cell: FrontierCell) -> None:
    add_links(cell, found(page(1)))
    item = items(cell)[0]
    settle(cell, item, STATE_DONE, learnt=PageRow(200, b"d"))
    settle(cell, item, STATE_QUEUED, "503", again_s=NOW_S + 60)
    settle(cell, items(cell, now_s=NOW_S + 61)[0], STATE_EXCLUDED, OUT, time_s=NOW_S + 61)
    again(cell, "other", lambda refused: True)
    assert next_urls(cell, now_s=NOW_S + 59) == []
    assert next_urls(cell, now_s=NOW_S + 61) == [page(1)]
    assert row(cell, page(1))["lane"] == LANE_DUE


def test_what_waits_and_is_no_longer_wanted_goes_without_being_requested(cell: FrontierCell) -> None:
    add_links(cell, *(found(page(number)) for number in (1, 2, 3)))
    before = image(cell)[:]
    assert again(cell, "narrow", lambda judged: judged.url == page(2)) == []
    assert next_urls(cell) == [page(2)]
    assert row(cell, page(1))["outcome"] == OUT
    assert_counters_are_true(cell)
    assert_queue_and_urls_agree(cell)
    again(cell, "wide", lambda judged: True)
    assert [line for line in image(cell) if "judged" not in line] == before


def test_a_host_of_many_urls_is_judged_in_parts(cell: FrontierCell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 7)
    add_links(cell, *(found(page(number)) for number in range(40)))
    rounds = 0
    while progress(cell, "none") < END:
        again(cell, "none", lambda judged: False, lambda: False)
        rounds += 1
    assert cell.queued == 0
    assert rounds > 5
    assert_queue_and_urls_agree(cell)


# ---- marks ----------------------------------------------------------------------------------------------------------


def test_a_cell_is_gone_through_once_for_each_change(cell: FrontierCell) -> None:
    add_links(cell, found(page(1)))
    assert progress(cell, "one") < END
    again(cell, "one", lambda refused: True)
    assert progress(cell, "one") == END
    assert progress(cell, "two") < END
    refuse(cell, 1)
    assert again(cell, "one", lambda refused: True) == [], "the same settings judge alike"
    assert next_urls(cell) == []


@pytest.mark.heavy
@settings(max_examples=30)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(1, 60))
def test_a_judgement_that_is_cut_short_goes_on_where_it_was(pauses: list[int], hosts: int) -> None:
    """Time runs out after any number of slots, and the process may have died in between: nothing is left out."""
    with TemporaryDirectory() as folder, closing(FrontierCell(Path(folder) / "frontier.sqlite")) as cell:
        _judge_in_parts(cell, pauses, hosts)


def _judge_in_parts(cell: FrontierCell, pauses: list[int], hosts: int) -> None:
    add_links(cell, *(found(f"http://host{number}.example{number}.org/") for number in range(hosts)))
    for number in range(hosts):
        host = f"host{number}.example{number}.org"
        settle(cell, items(cell, host=host)[0], STATE_EXCLUDED, OUT)
    assert cell.queued == 0
    for slots in (*pauses, *([1] * hosts)):
        left = iter([True] * slots)
        again(cell, "other", lambda refused: True, lambda left=left: next(left, False))  # type: ignore[misc]
    assert cell.queued == hosts
    assert progress(cell, "other") == END
    cell.close()
