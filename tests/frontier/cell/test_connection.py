"""The open file of a cell, and its rows of `meta`."""

from __future__ import annotations

from pathlib import Path

from teia.frontier.cell.cell import FrontierCell
from tests.frontier.cells import add_links, found, page


def test_rows_of_meta_are_found_by_name_and_by_prefix(tmp_path: Path) -> None:
    cell = FrontierCell(tmp_path / "frontier.sqlite")
    with cell.transaction():
        cell.set_meta({"away a.org": 3, "away b.org": 4, "awayc": 5, "away!": 6})
        cell.delete_meta(["away b.org"])
    assert (cell.meta("away a.org"), cell.meta("away b.org")) == (3, None)
    assert cell.meta_under("away ") == {"a.org": 3}
    cell.close()


def test_a_snapshot_does_not_see_later_commits(tmp_path: Path) -> None:
    path = tmp_path / "frontier.sqlite"
    cell = FrontierCell(path)
    reader = FrontierCell(path, read_only=True)
    reader.begin_snapshot()
    before = reader.data_version()
    add_links(cell, found(page(1)))
    assert reader.find_host("example.org") is None
    reader.end_snapshot()
    assert reader.find_host("example.org") == 1
    assert reader.data_version() != before
    reader.close()
    cell.close()
