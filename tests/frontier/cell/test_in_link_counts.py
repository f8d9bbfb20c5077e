"""What is kept of a page's links, and counts that go up and down with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.errors import CorruptFile
from teia.frontier.cell import in_link_counts
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import FoundUrl, PageRow, SettledVisit
from teia.frontier.cell.schema import STATE_DONE, STATE_QUEUED
from teia.frontier.queue.order import backlinks
from teia.urls import key_of
from tests.frontier.cells import HOST, NOW_S, add_links, found, items, next_urls, page, row, settle

PLACE = (1, 1, 7)
KEYS = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[FrontierCell]:
    made = FrontierCell(tmp_path / "frontier.sqlite")
    yield made
    made.close()


def back(url: str) -> FoundUrl:
    return in_link_counts.removed_link(HOST, key_of(url))


@given(targets=st.dictionaries(st.sampled_from(["a.test", "b.test", "ação.test"]), st.lists(KEYS, min_size=1)))
def test_targets_are_read_as_they_were_kept(targets: dict[str, list[int]]) -> None:
    of_key = {key: host for host, keys in sorted(targets.items()) for key in keys}
    assert in_link_counts.unpack(None, in_link_counts.pack(targets)) == of_key  # type: ignore[arg-type]  # names a broken file


def test_only_changed_links_are_returned(cell: FrontierCell) -> None:
    with cell.transaction():
        assert in_link_counts.replace(cell, PLACE, {"a.test": [1, 2], "b.test": [3]}) == ({1, 2, 3}, [])
        assert in_link_counts.replace(cell, PLACE, {"b.test": [3], "a.test": [2, 1, 1]}) == (set(), [])
        assert in_link_counts.replace(cell, PLACE, {"a.test": [2], "c.test": [4]}) == (
            {4},
            [("a.test", 1), ("b.test", 3)],
        )
        assert in_link_counts.add(cell, PLACE, {"a.test": [2, 5]}) == {5}
        assert sorted(in_link_counts.replace(cell, PLACE, {}).gone) == [("a.test", 2), ("a.test", 5), ("c.test", 4)]
        assert in_link_counts.replace(cell, PLACE, {}) == (set(), [])
        assert in_link_counts.load(cell, PLACE) is None


def test_first_links_are_stored_with_the_transaction_and_seen_within_it(cell: FrontierCell) -> None:
    other = (1, 1, 5)
    with cell.transaction():
        in_link_counts.store_first(cell, PLACE, {"a.test": [2, 1]})
        in_link_counts.store_first(cell, other, {})
        assert in_link_counts.replace(cell, PLACE, {"a.test": [2]}) == (set(), [("a.test", 1)])
        in_link_counts.store_first(cell, other, {"b.test": [3]})
    assert in_link_counts.load(cell, other) == in_link_counts.pack({"b.test": [3]})


def test_a_row_of_a_page_that_was_never_stored_does_not_stop_its_first_visit(cell: FrontierCell) -> None:
    """An earlier version left such rows, and the insert of the first visit then failed again and again."""
    with cell.transaction():
        in_link_counts.store(cell, PLACE, {"a.test": [9]})
    with cell.transaction():
        in_link_counts.store_first(cell, PLACE, {"a.test": [1]})
    assert in_link_counts.load(cell, PLACE) == in_link_counts.pack({"a.test": [1]})


def test_first_links_of_a_transaction_that_failed_are_forgotten(cell: FrontierCell) -> None:
    with suppress(KeyError), cell.transaction():
        in_link_counts.store_first(cell, PLACE, {"a.test": [1]})
        raise KeyError
    with cell.transaction():
        pass
    assert in_link_counts.load(cell, PLACE) is None


def test_settling_tells_the_first_answer_of_a_page_from_later_ones_and_from_pages_not_kept(cell: FrontierCell) -> None:
    add_links(cell, found(page(1)))
    (item,) = items(cell)
    with cell.transaction():
        visit = SettledVisit(1, item, "200", STATE_DONE, NOW_S, page=PageRow(200, bytes(32)))
        assert [cell.settle(visit, HOST), cell.settle(visit, HOST)] == [True, False]
        assert cell.settle(replace(visit, queued=replace(item, key=1)), HOST) is None


def test_a_page_whose_first_try_failed_counts_in_a_folder_of_an_older_version(cell: FrontierCell) -> None:
    """A failed try is a visit, but nothing was counted for it."""
    url = f"http://{HOST}/a"
    add_links(cell, found(url))
    cell.knows_links = False
    for status, state in ((503, STATE_QUEUED), (200, STATE_DONE)):
        (item,) = items(cell)
        settle(cell, item, state, str(status), time_s=NOW_S + status, learnt=PageRow(status, bytes(32)))
    place = cell.db.execute("SELECT slot, host_id, key FROM urls").fetchone()
    with cell.transaction():
        assert in_link_counts.replace(cell, place, {"a.test": [1]}) == ({1}, [])


def test_what_cannot_be_read_names_the_file(cell: FrontierCell) -> None:
    with cell.transaction():
        in_link_counts.replace(cell, PLACE, {"a.test": [1]})
        cell.db.execute("UPDATE outlinks SET targets = x'c1'")
        with pytest.raises(CorruptFile, match=r"frontier\.sqlite"):
            in_link_counts.replace(cell, PLACE, {"a.test": [2]})


def test_a_link_taken_back_lowers_the_count_and_tells_nothing_else(cell: FrontierCell) -> None:
    add_links(cell, found(page(1), depth=3, in_links=2))
    before = row(cell, page(1))
    add_links(cell, back(page(1)))
    assert row(cell, page(1)) == {**before, "in_links": 1}
    add_links(cell, back(page(1)), back(page(1)), back(page(1)))
    assert row(cell, page(1))["in_links"] == 0


def test_a_link_to_what_is_not_known_is_taken_back_in_vain(cell: FrontierCell) -> None:
    add_links(cell, back(page(9)))
    assert (cell.known, cell.queued) == (0, 0)


@pytest.mark.parametrize("first", [True, False])
def test_one_page_adds_a_link_while_another_takes_it_back(cell: FrontierCell, *, first: bool) -> None:
    both = [found(page(2), depth=2), back(page(2))]
    add_links(cell, *(both if first else both[::-1]))
    assert (row(cell, page(2))["in_links"], row(cell, page(2))["tail"], row(cell, page(2))["depth"]) == (0, "/2", 2)


def test_order_by_links_goes_by_the_lower_count(tmp_path: Path) -> None:
    cell = FrontierCell(tmp_path / "frontier.sqlite", backlinks)
    add_links(cell, found(page(1), in_links=3), found(page(2), in_links=2))
    assert next_urls(cell) == [page(1), page(2)]
    add_links(cell, back(page(1)), back(page(1)))
    assert next_urls(cell) == [page(2), page(1)]
    assert cell.db.execute("SELECT count(*) FROM queue").fetchone() == (2,)
    cell.close()


def test_cells_of_before_get_the_table_and_know_that_they_lack_rows(tmp_path: Path) -> None:
    path = tmp_path / "frontier.sqlite"
    made = FrontierCell(path)
    assert made.knows_links
    made.db.execute("DROP TABLE outlinks")
    made.db.execute("DELETE FROM meta WHERE name = 'outlinks'")
    made.close()
    reading = FrontierCell(path, read_only=True)
    assert not in_link_counts.has_table(reading)
    reading.close()
    opened = FrontierCell(path)
    assert in_link_counts.has_table(opened)
    assert not opened.knows_links
    opened.close()
