"""What a cell keeps of a host's probe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.frontier.cell import soft404
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import PageRow, ProbeResult
from teia.frontier.cell.schema import STATE_DONE
from teia.frontier.cell.soft404 import SuspectPage
from tests.frontier.cells import HOST, NOW_S, add_links, found, items, page, page_row, row, settle


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[FrontierCell]:
    made = FrontierCell(tmp_path / "frontier.sqlite")
    yield made
    made.close()


def test_the_last_answer_to_a_probe_is_kept(cell: FrontierCell) -> None:
    host_id = cell.host_id(HOST, NOW_S)
    assert soft404.load_probe(cell, host_id, HOST) is None
    first = ProbeResult("http://example.org/x", NOW_S, "404")
    second = ProbeResult("http://example.org/x", NOW_S + 1, "200", b"text", (1 << 64) - 5, "sorry")
    for each in (first, second):
        with cell.transaction():
            soft404.save_probe(cell, host_id, HOST, each)
        assert soft404.load_probe(cell, host_id, HOST) == each
    assert (first.is_soft, second.is_soft) == (False, True)


def test_pages_are_marked_after_the_fact(cell: FrontierCell) -> None:
    add_links(cell, *(found(page(n)) for n in range(3)))
    for item, status in zip(items(cell), (200, 200, 404), strict=True):
        settle(cell, item, STATE_DONE, str(status), learnt=PageRow(status, b"d", b"t", -1, title="T"))
    host_id = cell.host_id(HOST, NOW_S)
    suspects = soft404.suspect_pages(cell, host_id, HOST)
    assert {each.tail for each in suspects} == {"/0", "/1"}
    chosen = next(each for each in suspects if each.tail == "/0")
    assert chosen == SuspectPage(chosen.key, "/0", b"t", (1 << 64) - 1, "T")
    with cell.transaction():
        soft404.mark_soft404s(cell, host_id, HOST, [chosen.key])
    assert (row(cell, page(0))["outcome"], page_row(cell, page(0))["noindex"]) == ("soft_404", 1)
    assert (row(cell, page(1))["outcome"], page_row(cell, page(1))["noindex"]) == ("200", 0)
