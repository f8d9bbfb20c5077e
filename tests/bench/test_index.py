"""`teia bench index` in small: both contenders index every page, and the rates are those of what was done."""

from __future__ import annotations

from pathlib import Path

import pytest
import tantivy

from bench.index import CELLS, CONTENDERS, Waiting, measure, middle, ratio, waiting

pytestmark = pytest.mark.slow
PAGES = 300


@pytest.fixture(scope="module")
def pages() -> list[Waiting]:
    return waiting(PAGES, 1)


@pytest.mark.parametrize("name", CONTENDERS)
def test_every_page_is_indexed(name: str, pages: list[Waiting], tmp_path: Path) -> None:
    row = CONTENDERS[name](pages, tmp_path)
    indexes = [path.parent for path in tmp_path.rglob("meta.json")]
    assert sum(tantivy.Index.open(str(path)).searcher().num_docs for path in indexes) == PAGES
    assert len(indexes) == CELLS
    assert row["n"] == PAGES
    assert row["pages_per_s"] > 0
    assert row["disk_bytes_per_page"] > row["n"]


def test_rows_and_ratios_are_shown() -> None:
    result = measure(PAGES, rounds=1, progress=lambda _: None)
    assert [row["name"] for row in result["rows"]] == ["tantivy alone", "teia"]
    assert result["ratio"] > 0
    assert result["cpu_ratio"] > 0
    assert result["rows"][1]["again"]["pages"] == 0, "pages of one step are indexed with the words on their links"


def test_the_middle_round_is_shown_and_rounds_are_compared_one_by_one() -> None:
    ours = [{"pages_per_s": rate, "seconds": 1 / rate} for rate in (1.0, 4.0, 2.0)]
    theirs = [{"pages_per_s": rate, "seconds": 1 / rate} for rate in (2.0, 4.0, 3.0)]
    assert middle(ours)["pages_per_s"] == 2.0
    assert ratio(ours, theirs, "seconds") == 1.5
