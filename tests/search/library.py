"""Indexes for tests of search: pages in one cell or several, searched as one or as shards that know nothing of each
other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from teia.clock import VirtualClock
from teia.index.entry import IndexEntry
from teia.index.reader import CellReader
from teia.index.union import UnionReader
from teia.search.serve.searcher import Searcher, SearchOptions
from teia.search.serve.shards import LocalShard
from teia.search.show.results import Results
from tests.index.pages import VISITED_S, indexed

NOW_S = float(VISITED_S + 86_400)


def cells_of(
    folder: Path, cells: Sequence[Sequence[IndexEntry]], anchors: Mapping[str, list[str]] | None = None
) -> None:
    for number, pages in enumerate(cells):
        indexed(folder / str(number), pages, anchors)


def as_one(folder: Path, cells: int) -> list[LocalShard]:
    return [LocalShard("all", UnionReader({f"cell {number}": folder / str(number) for number in range(cells)}))]


def as_shards(folder: Path, cells: int) -> list[LocalShard]:
    return [LocalShard(f"cell {number}", CellReader(folder / str(number))) for number in range(cells)]


def searcher_over(
    folder: Path, *pages: IndexEntry, anchors: Mapping[str, list[str]] | None = None, **how: Any
) -> Searcher:
    """A searcher over pages in one cell."""
    cells_of(folder, [pages], anchors)
    return Searcher(as_one(folder, 1), VirtualClock(NOW_S), **how)


def urls(results: Results) -> list[str]:
    return [hit.url for hit in results.hits]


def found(searcher: Searcher, text: str, n: int = 10, **how: Any) -> list[str]:
    """The paths of what is found, best first: tests name pages by them."""
    return [
        url.partition("://")[2].partition("/")[2]
        for url in urls(searcher.search(text, n, options=SearchOptions(**how)))
    ]
