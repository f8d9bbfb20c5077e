"""Locations of captures, and what is forgotten of lost ones."""

from __future__ import annotations

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.schema import LANE_DUE
from teia.frontier.tables import captures
from tests.frontier.cells import NOW_S, assert_counters_are_true, page, page_row, row


def test_files_and_their_ends_are_those_that_pages_and_visits_name(cell: FrontierCell) -> None:
    assert captures.archive_files(cell) == ["a.warc.gz"]
    assert captures.end_of_visits(cell, "a.warc.gz") == 20
    assert captures.end_of_visits(cell, "b.warc.gz") == 0


def test_a_lost_capture_is_forgotten_and_its_page_is_due(cell: FrontierCell) -> None:
    with cell.transaction():
        assert captures.forget_lost(cell, lambda file, offset, length: offset < 15, NOW_S) == (1, 1)
    assert (page_row(cell, page(1))["file"], page_row(cell, page(1))["etag"]) == ("", "")
    assert row(cell, page(1))["lane"] == LANE_DUE
    assert captures.archive_files(cell) == ["a.warc.gz"]
    assert_counters_are_true(cell)
