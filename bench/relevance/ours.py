"""teia's own search on the judged pages, as a user would use it: with the text of the query and nothing else.

The pages are indexed by the product's code, in four cells of different subjects. A page's language is that found by
teia's parser, not that of the set. Anchors and PageRank come from the links between the pages, as in a crawl.
Everything is in a temporary folder that is removed with the process.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.relevance.corpus import Document
from teia.clock import WallClock
from teia.crawler.child.index_entry import entry_of
from teia.graph.linkfile import LinkFile
from teia.graph.rankfile import RankFile
from teia.graph.renewal import update_ranks
from teia.index.anchors import AnchorTexts
from teia.index.cell import CellIndex
from teia.index.entry import IndexEntry
from teia.index.union import UnionReader
from teia.indexer.semantic_model import MIN_PAGES
from teia.search.rank.formula import Ranking, Weights
from teia.search.rank.semantic import Model
from teia.search.rank.train_semantic import train
from teia.search.serve.searcher import Searcher, SearchOptions
from teia.search.serve.shards import LocalShard

CELLS = 4
VISITED_S = 1_700_000_000.0
SEED = 1


@dataclass(frozen=True, slots=True)
class Setup:
    """A configuration to measure: weights, options of a search, and whether there is a semantic model."""

    weights: Weights = field(default_factory=Weights)
    options: SearchOptions = field(default_factory=SearchOptions)
    semantics: bool = True
    cells: int = CELLS


class Ours:
    """The index of the pages; `search` returns document ids."""

    def __init__(self, documents: Sequence[Document], setup: Setup | None = None) -> None:
        self._setup = setup or Setup()
        self._ids = {document.page.url: document.id for document in documents}
        folder = Path(tempfile.mkdtemp(prefix="teia-relevance-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        entries = {document.id: entry_of(document.page, VISITED_S, obeys=True) for document in documents}
        cells = self._cells({name: entry for name, entry in entries.items() if entry is not None})
        ranks = _ranked([entry for entry in entries.values() if entry is not None], folder)
        reader = _indexed(cells, folder)
        model = self._model(reader)
        self.searcher = Searcher(
            [LocalShard("pages", reader)],
            WallClock(),
            ranking=Ranking(self._setup.weights, ranks),
            model=lambda: model,
            deadline_s=60.0,
        )

    def _cells(self, entries: dict[str, IndexEntry]) -> list[list[IndexEntry]]:
        """Put each book into one cell, so that cells differ in their subjects."""
        books = list(dict.fromkeys(name.partition("/")[0] for name in entries))
        cells: list[list[IndexEntry]] = [[] for _ in range(self._setup.cells)]
        for name, entry in entries.items():
            cells[books.index(name.partition("/")[0]) % self._setup.cells].append(entry)
        return cells

    def _model(self, reader: UnionReader) -> Model | None:
        return train(reader.all_entries, seed=SEED, min_pages=MIN_PAGES) if self._setup.semantics else None

    def search(self, query: str, n: int) -> list[str]:
        results = self.searcher.search(query, n, options=self._setup.options)
        return [self._ids[hit.url] for hit in results.hits]


def _indexed(cells: Sequence[Sequence[IndexEntry]], folder: Path) -> UnionReader:
    anchors = AnchorTexts(folder / "anchors.sqlite")
    texts_by_host = defaultdict(list)
    for entry in (entry for cell in cells for entry in cell):
        texts_by_host[entry.host] += [(link.key, link.text) for link in entry.links]
    for host, texts in texts_by_host.items():
        anchors.add(host, texts)
    for number, cell in enumerate(cells):
        index = CellIndex(folder / str(number))
        for entry in cell:
            index.put(entry, anchors.texts_of([entry.key])[entry.key])
        index.commit(len(cell))
        index.close()
    anchors.close()
    return UnionReader({f"cell {number}": folder / str(number) for number in range(len(cells))})


def _ranked(entries: Sequence[IndexEntry], folder: Path) -> RankFile:
    with LinkFile(folder / "links.bin") as links:
        for entry in entries:
            links.append(entry.key, [link.key for link in entry.links])
    update_ranks([folder / "links.bin"], folder / "ranks.bin", VISITED_S)
    return RankFile.open(folder / "ranks.bin")
