"""From the links of all cells to the scores that search and the frontier read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from teia.graph.linkfile import LinkFile
from teia.graph.rankfile import RankFile
from teia.graph.renewal import update_ranks

from .webs import dense_pagerank, simple_edges

NOW_S = 1_700_000_000.0
WEB = {1: [2, 3, 9], 2: [3], 3: [1, 8], 4: [3, 8, 9], 5: [4]}


@pytest.fixture
def cells(tmp_path: Path) -> list[Path]:
    """The web above, in two cells; a third has never been indexed."""
    paths = [tmp_path / f"{number}.bin" for number in range(3)]
    for number in range(2):
        with LinkFile(paths[number]) as links:
            for page in sorted(WEB)[number::2]:
                links.append(page, WEB[page])
    return paths


def test_scores_are_those_of_all_cells_together(tmp_path: Path, cells: list[Path]) -> None:
    update_ranks(cells, tmp_path / "ranks.bin", NOW_S)
    nodes = sorted({*WEB, 8, 9})
    even = [1.0] * len(nodes)
    solved = dense_pagerank(simple_edges(WEB), nodes, 0.85, even, even)
    file = RankFile.open(tmp_path / "ranks.bin")
    assert np.allclose(file.scores(np.array(nodes)), solved, atol=1e-5)
    assert file.in_links(np.array(nodes)).tolist() == [1, 1, 3, 1, 0, 2, 2]
    assert file.made_s == NOW_S


def test_a_page_that_changed_or_went_is_counted_as_it_is_now(tmp_path: Path, cells: list[Path]) -> None:
    with LinkFile(cells[0]) as links:
        links.append(1, [2])
        links.append(3, [])
    ranks = update_ranks(cells, tmp_path / "ranks.bin", NOW_S)
    in_links = dict(zip(ranks.keys.tolist(), ranks.in_links.tolist(), strict=True))
    assert in_links == {1: 0, 2: 1, 3: 2, 4: 1, 5: 0, 8: 1, 9: 1}


def test_the_last_scores_are_where_the_next_ones_begin(tmp_path: Path, cells: list[Path]) -> None:
    first = update_ranks(cells, tmp_path / "ranks.bin", NOW_S)
    second = update_ranks(cells, tmp_path / "ranks.bin", NOW_S + 300)
    assert second.iterations < first.iterations / 2
    assert np.abs(first.scores - second.scores).sum() < 1e-5


def test_a_damaged_rank_file_is_replaced(tmp_path: Path, cells: list[Path]) -> None:
    (tmp_path / "ranks.bin").write_bytes(b"not scores")
    ranks = update_ranks(cells, tmp_path / "ranks.bin", NOW_S)
    assert len(RankFile.open(tmp_path / "ranks.bin")) == len(ranks.keys) == 7


def test_a_collection_without_links_has_an_empty_rank_file(tmp_path: Path) -> None:
    update_ranks([tmp_path / "none.bin"], tmp_path / "ranks.bin", NOW_S)
    assert len(RankFile.open(tmp_path / "ranks.bin")) == 0
