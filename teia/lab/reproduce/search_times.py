"""F11: the search times of the FURB system (its table 26), beside ours.

The paper's eight queries are run word for word on a collection of lab text in which these words are as frequent as they
are in Portuguese (teia/lab/corpus). Its collection had 609,212 pages. Ours has fewer, because making so many takes a
quarter of an hour: `teia bench search --pages 600000` does. The index stays in the folder of the report and is reused;
it may be deleted.
"""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import closing

from teia.clock import WallClock
from teia.lab.corpus.collection import CorpusCollection, open_or_make
from teia.lab.corpus.pages import Corpus
from teia.lab.corpus.questions import PUBLISHED, QuerySampler, SampleQuery, list_kinds
from teia.lab.corpus.timed import TimedSearch, Timing, summarize, time_warm
from teia.lab.reproduce.registry import ExperimentInput, ResultRow, Results, Table, experiment
from teia.lab.reproduce.types import HTML_PAGES as THEIR_PAGES
from teia.lab.reproduce.types import INDEX_S, INSERT_S, SELECT_S, SORTER_DATA_BYTES, SORTER_INDEX_BYTES

PAGES, QUICK_PAGES = 100_000, 1_000
EACH, QUICK_EACH = 20, 2
CELLS = 4


@experiment(
    "F11",
    title="FURB's search times",
    paper="the distributed incremental crawler and search system (FURB), section 3.4.7, tables 24 and 26",
)
def search_times(run: ExperimentInput) -> Results:
    """Index lab text and run the paper's queries on it, then many of each kind."""
    pages, each = (QUICK_PAGES, QUICK_EACH) if run.quick else (PAGES, EACH)
    folder = run.out / "F11-collection"
    found = open_or_make(folder, pages, run.seed, WallClock(), cells=CELLS, progress=run.progress)
    queries = QuerySampler(Corpus(pages, run.seed, cells=CELLS)).sample(each)
    of_paper = [SampleQuery(published.kind, "", published.text) for published in PUBLISHED]
    with closing(TimedSearch(found)) as search:
        run.progress(f"F11: {len(queries)} searches")
        timings = time_warm(search, queries)
        first = time_warm(search, of_paper)
        search.keep_answers(len(of_paper))
        for query in of_paper:
            search.measure(query)
        again = [search.measure(query) for query in of_paper]
    yield first_table(first, pages)
    yield again_table(again)
    yield found_table(first, pages)
    yield kind_table(timings, pages)
    yield cost_table(found)


def first_table(timings: list[Timing], pages: int) -> Table:
    """Return table 26, first column."""
    rows = tuple(
        ResultRow((published.kind, _cell(published.text)), timing.ms / 1000, published.first_s)
        for published, timing in zip(PUBLISHED, timings, strict=True)
    )
    note = (
        f"Ours: {pages:,} pages, each search new to a process that has the index in memory, ten results with snippets,"
        f" on this machine ({os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}). Theirs: {THEIR_PAGES:,} pages in"
        ' MySQL\'s full-text search, on machines of 2006. Their `"quero café"` is two frequent words that hardly ever'
        " follow each other; here the pages that have both are found first, and only of those it is read where they"
        " stand."
    )
    return Table("times", "Search times, in seconds (table 26)", ("kind", "query"), rows, note=note, varies=True)


def again_table(timings: list[Timing]) -> Table:
    """Return table 26, second column: the same search repeated at once."""
    rows = tuple(
        ResultRow((published.kind, _cell(published.text)), timing.ms / 1000, published.again_s)
        for published, timing in zip(PUBLISHED, timings, strict=True)
    )
    note = (
        "MySQL answers a repeated query from its cache, and so do we (`index.cached_answers`), until the index changes:"
        " what was committed a moment ago is found."
    )
    columns = ("kind", "query")
    return Table("again", "The same search again, in seconds (table 26)", columns, rows, note=note, varies=True)


def found_table(timings: list[Timing], pages: int) -> Table:
    """Report the number of matching pages, which the paper does not give."""
    rows = tuple(ResultRow((_cell(timing.query.text),), timing.total) for timing in timings)
    note = f"Of {pages:,}. The paper does not say how many its searches found."
    return Table("found", "Pages that match", ("query",), rows, note=note)


def kind_table(timings: list[Timing], pages: int) -> Table:
    """Report the time of every kind of query: the 95th percentile."""
    by_kind: dict[tuple[str, str], list[Timing]] = defaultdict(list)
    for timing in timings:
        by_kind[timing.query.kind, timing.query.words].append(timing)
    rows = []
    for kind in list_kinds([timing.query for timing in timings]):
        statistics = summarize(by_kind[kind])
        labels = (*kind, f"{statistics.total_p50:.0f}", f"{statistics.p50_ms:.1f}", f"{statistics.cpu_p95_ms:.1f}")
        rows.append(ResultRow(labels, statistics.p95_ms))
    whole = summarize(timings)
    note = (
        f"{len(timings)} searches of {pages:,} pages, in a random order; the 95th percentile of all is"
        f" {whole.p95_ms:.0f} ms. The column `ours` is that of each kind. Words are of high, medium or low frequency:"
        " about one page in twelve, in two hundred and in five thousand has them. `found` is the median."
        f" Our own code takes {100 * whole.own:.0f}% of tantivy's processor time on top of it."
    )
    columns = ("kind", "words", "found", "median ms", "processor ms, 95%")
    return Table("kinds", "Every kind of query, 95th percentile in ms", columns, tuple(rows), note=note, varies=True)


def cost_table(found: CorpusCollection) -> Table:
    """Compare the cost of the index with the paper's sorter and indexer (table 24 and the times before it)."""
    record = found.record
    rows = (
        ResultRow(
            ("seconds to index 1,000 pages", "SELECT, INSERT and index: 6,333.98 s"),
            1000 * record.seconds / record.pages,
            1000 * (SELECT_S + INSERT_S + INDEX_S) / THEIR_PAGES,
        ),
        ResultRow(
            ("bytes a page, text kept and index", "data and indexes: 2,053 and 1,377 MB"),
            record.index_bytes / record.pages,
            (SORTER_DATA_BYTES + SORTER_INDEX_BYTES) / THEIR_PAGES,
        ),
        ResultRow(
            ("bytes of text a page", "data: 2,053 MB"),
            record.text_bytes / record.pages,
            SORTER_DATA_BYTES / THEIR_PAGES,
        ),
    )
    note = (
        f"Ours: {record.pages:,} pages in {record.seconds:.0f} s, of which {record.corpus_s:.0f} s invented them;"
        f" {record.segments} segments in {record.cells} cells, {record.peak_rss_mb} MB of memory at most."
    )
    return Table("costs", "What the index costs", ("measure", "theirs is"), rows, note=note, varies=True)


def _cell(text: str) -> str:
    """Format a query for a cell of a table."""
    return f"`{text}`"
