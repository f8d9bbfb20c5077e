"""Pages that turned out to lie nearer (T1): what asking for them costs, and which are remembered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.frontier.cell import shorter_paths
from teia.frontier.cell.cell import FrontierCell, PageRow
from teia.frontier.cell.schema import STATE_DONE
from tests.frontier.cells import NOW_S, add_links, found, items, page, settle


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[FrontierCell]:
    opened = FrontierCell(tmp_path / "frontier.sqlite")
    yield opened
    opened.close()


def test_the_query_for_shorter_paths_does_not_scan_all_urls(cell: FrontierCell) -> None:
    """It is asked at every commit; SQLite alone would begin with the largest table."""
    statements: list[str] = []
    cell.db.set_trace_callback(statements.append)
    shorter_paths.pending(cell, 9)
    cell.db.set_trace_callback(None)
    plan = [row[3] for row in cell.db.execute(f"EXPLAIN QUERY PLAN {statements[0]}")]
    assert [step for step in plan if step.startswith("SCAN")] == ["SCAN n"]


def test_what_has_no_copy_is_not_remembered(cell: FrontierCell) -> None:
    add_links(cell, found(page(1), depth=5))
    settle(cell, items(cell)[0], STATE_DONE, "redirect")
    add_links(cell, found(page(1), depth=2))
    assert cell.db.execute("SELECT count(*) FROM shorter_paths").fetchone() == (0,)


def test_a_cell_without_such_pages_is_asked_once(cell: FrontierCell) -> None:
    assert cell.has_shorter_paths, "not known yet"
    assert shorter_paths.pending(cell, 9) == []
    statements: list[str] = []
    cell.db.set_trace_callback(statements.append)
    assert shorter_paths.pending(cell, 9) == []
    assert not statements
    add_links(cell, found(page(1), depth=5))
    settle(cell, items(cell)[0], STATE_DONE, learnt=PageRow(200, b"digest", b"text"))
    add_links(cell, found(page(1), depth=2))
    assert [each.depth for each in shorter_paths.pending(cell, 9)] == [2]
    with cell.transaction():
        shorter_paths.remove(cell, shorter_paths.pending(cell, 9))
    assert shorter_paths.pending(cell, 9) == []
    assert not cell.has_shorter_paths


def test_a_page_that_waits_for_another_visit_is_not_forgotten(cell: FrontierCell) -> None:
    add_links(cell, found(page(1), depth=5))
    settle(cell, items(cell)[0], STATE_DONE, learnt=PageRow(200, b"digest", b"text"))
    add_links(cell, found(page(1), depth=2))
    with cell.transaction():
        (waiting,) = shorter_paths.pending(cell, 9)
        assert cell.visit_again((waiting.slot, waiting.host_id, waiting.key), NOW_S)
    assert shorter_paths.pending(cell, 9) == []
    settle(cell, items(cell)[0], STATE_DONE, learnt=PageRow(200, b"digest", b"text"))
    assert shorter_paths.pending(cell, 9) == [waiting]
