"""Cost of indexing: the indexer's work for a page beside that of tantivy alone for the same documents.

    python -m bench.index [--pages 10000] [--seed 1] [--rounds 3] [--write results/index.json]

    tantivy alone   finished documents, their stems known, added to an index per cell and committed; same schema, same
                    memory
    teia            the work of the indexer: it reads entries as the crawler leaves them, replaces existing pages,
                    writes links to the link files and anchor texts to the pages they lead to, and stores every page
                    once more, compressed
    again           pages with new words by anchor texts, indexed once more; a crawl does this at its end

The pages are lab text (teia/lab/corpus), generated before the clock starts. Each contender runs in a process of its
own, in turns. `ratio` is the median over the rounds of teia's seconds over tantivy's, `cpu_ratio` the same for
processor time. There is a thread for each cell, so wall time is shorter than processor time on many cores.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tantivy import Document

from teia.index.anchors import AnchorTexts
from teia.index.cell import CellIndex, anchor_words, make_document
from teia.index.entry import IndexEntry, PackedEntry, encode_entry, open_encoded
from teia.index.page_texts import shared_texts
from teia.indexer.cell_indexer import CellIndexer
from teia.indexer.indexer import REFRESH_AT_ONCE, STEP_CHANGES
from teia.indexer.process import COMMIT_PAGES
from teia.lab.corpus.pages import Corpus
from teia.store.root import CellFolder
from teia.urls import cell_of, cell_starts, site_of, slot_of

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results" / "index.json"
CELLS = 4
PAGES, SEED, ROUNDS = 10_000, 1, 3

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Waiting:
    """A page as the crawler leaves it for the indexer, and its cell."""

    data: bytes
    cell: int
    anchors: tuple[str, ...]
    text_bytes: int


def waiting(pages: int, seed: int) -> list[Waiting]:
    corpus = Corpus(pages, seed, cells=CELLS)
    return [
        Waiting(encode_entry(page.entry), page.cell, page.anchors, len(page.entry.text.encode()))
        for page in corpus.indexables()
    ]


def _page(page: Waiting) -> PackedEntry:
    packed = open_encoded(page.data)
    assert packed is not None
    return packed


def _document(page: Waiting) -> Document:
    packed = _page(page)
    return make_document(packed, shared_texts().of(packed.entry), anchor_words(page.anchors))


# ---- contenders -----------------------------------------------------------------------------------------------------


def tantivy_alone(pages: Sequence[Waiting], folder: Path) -> dict[str, Any]:
    documents = [(page.cell, _document(page)) for page in pages]
    with ExitStack() as stack:
        cells = [stack.enter_context(closing(CellIndex(folder / str(number)))) for number in range(CELLS)]
        for cell in cells:
            _ = cell.writer  # starts its threads
        with Spent() as spent:
            for number, (cell_number, document) in enumerate(documents, start=1):
                cells[cell_number].writer.add_document(document)
                if number % COMMIT_PAGES == 0:
                    _commit(cells, number)
            _commit(cells, len(documents))
    return spent.row("tantivy alone", pages, folder)


def _commit(cells: Sequence[CellIndex], position: int) -> None:
    for cell in cells:
        cell.commit(position)


def teia(pages: Sequence[Waiting], folder: Path) -> dict[str, Any]:
    folders = [CellFolder(number, folder / str(number)) for number in range(CELLS)]
    with ExitStack() as stack:
        cells = [stack.enter_context(closing(CellIndexer(each))) for each in folders]
        for cell in cells:
            _ = cell.index.writer
        with Spent() as first:
            for start in range(0, len(pages), STEP_CHANGES):
                step(cells, pages[start : start + STEP_CHANGES])
                if (start + STEP_CHANGES) % COMMIT_PAGES == 0:
                    commit(cells)
            commit(cells)
    row = first.row("teia", pages, folder)
    with ExitStack() as stack:
        cells = [stack.enter_context(closing(CellIndexer(each))) for each in folders]
        with Spent() as spent:
            refreshed = sum(refresh(cell) for cell in cells)
    return row | {"again": {"pages": refreshed, "s": round(spent.s, 2), "cpu_s": round(spent.cpu_s, 2)}}


def step(cells: Sequence[CellIndexer], pages: Sequence[Waiting]) -> None:
    """Do what `CollectionIndexer` does with the pages it finds waiting."""
    taken: dict[int, list[PackedEntry]] = defaultdict(list)
    for page in pages:
        taken[page.cell].append(_page(page))
    spread_anchors([cell.anchors for cell in cells], [page.entry for each in taken.values() for page in each])
    for number, entries in taken.items():
        cells[number].put(entries)
        cells[number].position += len(entries)


def spread_anchors(anchors: Sequence[AnchorTexts], entries: Sequence[IndexEntry]) -> None:
    starts = cell_starts(len(anchors))
    cells: dict[str, int] = {}
    by_source: dict[tuple[int, str], list[tuple[int, str]]] = defaultdict(list)
    for entry in entries:
        for link in entry.links:
            if link.host not in cells:
                cells[link.host] = cell_of(slot_of(site_of(link.host)), starts)
            by_source[cells[link.host], entry.host].append((link.key, link.text))
    for (number, host), texts in by_source.items():
        anchors[number].add(host, texts)


def commit(cells: Sequence[CellIndexer]) -> None:
    for cell in cells:
        if cell.uncommitted:
            cell.commit()


def refresh(cell: CellIndexer) -> int:
    """Index all pages with new words by anchor texts again; return their number."""
    number = 0
    while True:
        due, indexed = cell.refresh(REFRESH_AT_ONCE, everything=True)
        number += indexed
        if not due:
            return number


CONTENDERS = {"tantivy alone": tantivy_alone, "teia": teia}


# ---- measuring ------------------------------------------------------------------------------------------------------


class Spent:
    """Wall and processor seconds of a block, all threads together."""

    def __enter__(self) -> Self:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        self._rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        return self

    def __exit__(self, *_: object) -> None:
        self.s, self.cpu_s = time.perf_counter() - self._wall, time.process_time() - self._cpu

    def row(self, name: str, pages: Sequence[Waiting], folder: Path) -> dict[str, Any]:
        text_bytes = sum(page.text_bytes for page in pages)
        disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        return {
            "name": name,
            "n": len(pages),
            "pages_per_s": round(len(pages) / self.s, 1),
            "text_mb_per_s": round(text_bytes / self.s / 1e6, 2),
            "cpu_ms_per_page": round(1000 * self.cpu_s / len(pages), 3),
            "disk_bytes_per_page": round(disk / len(pages)),
            "rss_growth_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 - self._rss_mb,
            "seconds": round(self.s, 2),
            "cpu_s": round(self.cpu_s, 2),
        }


def in_a_process(name: str, pages: Sequence[Waiting]) -> dict[str, Any]:
    """Run a contender in a child that already has the pages, into a folder that is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="teia-bench-index-"))
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=lambda: theirs.send(CONTENDERS[name](pages, folder)))
    try:
        child.start()
        theirs.close()
        row: dict[str, Any] = ours.recv()
        child.join()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return row


def measure(
    pages: int = PAGES, seed: int = SEED, *, rounds: int = ROUNDS, progress: Progress = print
) -> dict[str, Any]:
    """Measure everything; return the result, ready for JSON."""
    progress(f"making {pages:,} pages of lab text")
    ready = waiting(pages, seed)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTENDERS}
    load = os.getloadavg()[0]
    for number in range(rounds):
        for name in CONTENDERS:
            row = in_a_process(name, ready)
            progress(f"round {number + 1}: {name}: {row['pages_per_s']:,.0f} pages/s")
            found[name].append(row)
    return {
        "command": f"python -m bench.index --pages {pages} --seed {seed} --rounds {rounds}",
        "n": pages,
        "cores": os.cpu_count(),
        "load_average": round(load, 1),
        "text_bytes_a_page": round(sum(page.text_bytes for page in ready) / pages),
        "rows": [middle(rows) for rows in found.values()],
        "ratio": ratio(found["teia"], found["tantivy alone"], "seconds"),
        "cpu_ratio": ratio(found["teia"], found["tantivy alone"], "cpu_s"),
    }


def middle(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the round with the median rate."""
    return sorted(rows, key=lambda row: row["pages_per_s"])[len(rows) // 2]


def ratio(ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]], of: str) -> float:
    return round(statistics.median(one[of] / other[of] for one, other in zip(ours, theirs, strict=True)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--write", type=Path, default=None, help="write the result to a file")
    options = parser.parse_args()

    def progress(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    result = measure(options.pages, options.seed, rounds=options.rounds, progress=progress)
    text = json.dumps(result, indent=1)
    print(text)
    if options.write is not None:
        options.write.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
