"""Pages in the order of their changes, and those that belong in the index."""

from __future__ import annotations

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.tables import page_changes
from tests.frontier.cells import NOW_S, page
from tests.frontier.tables.conftest import OTHER


def test_changes_come_in_order_from_one_to_another(cell: FrontierCell) -> None:
    changed = page_changes.changed_pages(cell, 0, 10)
    assert [each.url for each in changed] == [page(1), page(2), OTHER]
    assert [each.is_indexable for each in changed] == [True, False, False]
    assert page_changes.changed_pages(cell, changed[0].change, 1) == changed[1:2]
    assert page_changes.changed_pages(cell, 0, 10, upto=changed[1].change) == changed[:2]
    assert [change for change, *_ in page_changes.changed_captures(cell, 0)] == [changed[0].change, changed[2].change]
    assert page_changes.last_captured_change(cell) == changed[2].change
    assert page_changes.last_change_s(cell) == NOW_S + 2


def test_the_pages_for_the_index_are_counted_as_they_are_listed(cell: FrontierCell) -> None:
    belonging = [url for url, _, _, belongs, _ in page_changes.pages_for_index(cell) if belongs]
    assert belonging == [page(1)]
    assert page_changes.count_indexable(cell, -1) == 1
    assert page_changes.count_indexable(cell, -1, upto=0) == 0
