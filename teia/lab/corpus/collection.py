"""A corpus in the cells of an index, on disk, as the indexer would leave it; made once and used again.

    cell-0, cell-1 …   an index each, with its link file and the lines that its hosts repeat
    ranks.bin          PageRank over all of them
    semantics/         the model of latent semantics, where one was requested
    collection.json    its parameters and cost; written last, so a folder without it is made anew

Pages are put, committed and merged by the product's code, five thousand to a commit, so the segments are like those of
a long crawl. Only the input differs: entries come from the corpus and not from a crawler.
"""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from teia.clock import Clock
from teia.durable import disk_errors, write_atomically
from teia.errors import StoreError
from teia.graph.linkfile import LinkFile
from teia.graph.rankfile import RankFile
from teia.graph.renewal import update_ranks
from teia.index.cell import CellIndex
from teia.index.entry import IndexEntry
from teia.index.position import SCHEMA_VERSION
from teia.index.repeated import FILE as REPEATED_LINES
from teia.index.repeated import RepeatedLinesWriter
from teia.index.union import UnionReader
from teia.indexer.process import COMMIT_PAGES
from teia.lab.corpus.pages import Corpus
from teia.search.rank.semantic import Models, save
from teia.search.rank.train_semantic import train

VERSION = 2
DESCRIPTION = "collection.json"
REPORT_EVERY = 20_000

Progress = Callable[[str], None]


class CorpusRecord(msgspec.Struct, frozen=True):
    """The parameters of a collection, and the cost of making it.

    `seconds` is the wall time of everything, `corpus_s` the part of it that went into generating pages. While a page is
    generated others are indexed, so their difference is not the time of the indexer.
    """

    version: int
    schema: int
    pages: int
    seed: int
    cells: int
    text_bytes: int
    seconds: float
    cpu_s: float
    corpus_s: float
    index_bytes: int
    segments: int
    peak_rss_mb: int
    semantics_s: float | None = None

    @property
    def pages_per_s(self) -> float:
        return self.pages / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class CorpusCollection:
    """A complete collection."""

    folder: Path
    record: CorpusRecord

    def reader(self) -> UnionReader:
        return UnionReader({f"cell {number}": cell_folder(self.folder, number) for number in range(self.record.cells)})

    def ranks(self) -> RankFile:
        return RankFile.open(self.folder / "ranks.bin")

    def models(self) -> Models:
        return Models(self.folder / "semantics")

    def files(self) -> list[Path]:
        """Return every file that a search may read."""
        return [path for path in sorted(self.folder.rglob("*")) if path.is_file()]


def cell_folder(folder: Path, number: int) -> Path:
    return folder / f"cell-{number}"


def open_or_make(
    folder: Path,
    pages: int,
    seed: int,
    clock: Clock,
    *,
    cells: int = 4,
    semantics: bool = False,
    progress: Progress = print,
) -> CorpusCollection:
    """Return the collection in a folder; make it if it is missing or has other parameters or another version."""
    record = _read_record(folder)
    # An index of another schema cannot be read, so the schema is part of the comparison.
    wanted = (VERSION, SCHEMA_VERSION, pages, seed, cells)
    if record is None or (record.version, record.schema, record.pages, record.seed, record.cells) != wanted:
        progress(f"indexing {pages:,} pages of lab text into {folder}")
        record = _make(folder, Corpus(pages, seed, cells=cells), clock, progress)
        _write_record(folder, record)
    found = CorpusCollection(folder, record)
    if semantics and record.semantics_s is None:
        progress("training the semantic model")
        record = msgspec.structs.replace(record, semantics_s=_train(found, clock))
        _write_record(folder, record)
    return CorpusCollection(folder, record)


def open_collection(folder: Path) -> CorpusCollection:
    """Return the collection in a folder; StoreError if there is none."""
    record = _read_record(folder)
    if record is None:
        raise StoreError(f"{folder}: there is no complete collection of lab text here")
    return CorpusCollection(folder, record)


def _read_record(folder: Path) -> CorpusRecord | None:
    try:
        return msgspec.json.decode((folder / DESCRIPTION).read_bytes(), type=CorpusRecord)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _write_record(folder: Path, record: CorpusRecord) -> None:
    write_atomically(folder / DESCRIPTION, msgspec.json.encode(record))


class _Cell:
    """One cell while it is filled."""

    def __init__(self, folder: Path) -> None:
        self.index = CellIndex(folder)
        self.links = LinkFile(folder / "links.bin")
        self.repeated_lines = RepeatedLinesWriter(folder / REPEATED_LINES)
        self.count = 0

    def add(self, entry: IndexEntry, anchors: tuple[str, ...]) -> None:
        self.index.put(entry, anchors)
        self.repeated_lines.add(entry)
        self.links.append(entry.key, [link.key for link in entry.links])
        self.count += 1
        if self.count % COMMIT_PAGES == 0:
            self.commit()

    def commit(self) -> None:
        self.links.flush()
        self.repeated_lines.flush()
        self.index.commit(self.count)

    def close(self) -> None:
        self.index.close()
        self.links.close()
        self.repeated_lines.close()


def _make(folder: Path, corpus: Corpus, clock: Clock, progress: Progress) -> CorpusRecord:
    # 1. Begin with an empty folder: an incomplete collection is not continued.
    with disk_errors(folder, "written"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    started, started_times = clock.ticks_s(), os.times()
    corpus_s, text_bytes = 0.0, 0
    # 2. Index every page in its cell.
    with ExitStack() as stack:
        cells = [stack.enter_context(closing(_Cell(cell_folder(folder, n)))) for n in range(corpus.cells)]
        for number in range(corpus.pages):
            before = clock.ticks_s()
            page = corpus.indexable(number)
            corpus_s += clock.ticks_s() - before
            text_bytes += len(page.entry.text.encode())
            cells[page.cell].add(page.entry, page.anchors)
            if (number + 1) % REPORT_EVERY == 0:
                progress(f"{number + 1:,} pages after {clock.ticks_s() - started:.0f} s")
        for cell in cells:
            cell.commit()
    # 3. Compute PageRank over the links of all cells.
    update_ranks(
        [cell_folder(folder, n) / "links.bin" for n in range(corpus.cells)], folder / "ranks.bin", clock.now_s()
    )
    # 4. Account for the cost; counting segments and bytes is not part of the time.
    seconds, now = clock.ticks_s() - started, os.times()
    with closing(UnionReader({str(n): cell_folder(folder, n) for n in range(corpus.cells)})) as reader:
        segments = reader.searcher().num_segments
    return CorpusRecord(
        version=VERSION,
        schema=SCHEMA_VERSION,
        pages=corpus.pages,
        seed=corpus.seed,
        cells=corpus.cells,
        text_bytes=text_bytes,
        seconds=seconds,
        cpu_s=now.user + now.system - started_times.user - started_times.system,
        corpus_s=corpus_s,
        index_bytes=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        segments=segments,
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    )


def _train(found: CorpusCollection, clock: Clock) -> float:
    """Train and save the semantic model; return the seconds it took."""
    started = clock.ticks_s()
    with closing(found.reader()) as reader:
        # A collection below the product's minimum of pages is trained too, for tests.
        model = train(reader.all_entries, seed=found.record.seed)
    if model is not None:
        save(model, found.folder / "semantics", clock.now_s())
    return clock.ticks_s() - started
