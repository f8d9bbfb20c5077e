"""Duration of searches: every kind of query of F11's table 26 and further kinds, at any size.

    python -m bench.search [--pages 20000] [--seed 1] [--each 20] [--cold 1] [--no-semantics] [--make-only]
        [--write results/search.json]

The collection is lab text (teia/lab/corpus), indexed by the product's code into four cells; it stays in
`.cache/search-PAGES-SEED` and is used again (`--make-only` measures nothing). Every search produces a result page as
the product does by default: the semantic model, the second look at the first results, corrections, ten results with
snippets without repeated lines.

    warm    all files are in memory and every query is new to the searcher: no counts of an earlier search of the same
            words are kept. Then once more: `again`, F11's second column.
    cold    a process for each search, none of the index's files in memory; `open_ms` is opening the index, `ms` the
            search after it, `read_mb` the disk reads of both

`own` is teia's processor time over tantivy's; `f11` has it over all searches of the paper's kinds. Milliseconds are
wall time; `cpu` is processor time, which says more on a shared machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from teia.clock import WallClock
from teia.lab.corpus.collection import CorpusCollection, open_collection, open_or_make
from teia.lab.corpus.pages import Corpus
from teia.lab.corpus.questions import PUBLISHED, QuerySampler, SampleQuery, list_kinds
from teia.lab.corpus.timed import TimedSearch, Timing, summarize, time_warm

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache"
RESULTS = ROOT / "bench" / "results" / "search.json"
CELLS = 4
PAGES, SEED, EACH, COLD = 20_000, 1, 20, 1
F11_KINDS = frozenset({"one word", *(each.kind for each in PUBLISHED)})
"""Kinds of queries in F11's table 26, and a single word."""

Progress = Callable[[str], None]


def cached_collection(
    pages: int, seed: int, *, semantics: bool = False, progress: Progress = print, cache: Path = CACHE
) -> CorpusCollection:
    """Return the collection of so many pages, from the cache or newly made."""
    folder = cache / f"search-{pages}-{seed}"
    return open_or_make(folder, pages, seed, WallClock(), cells=CELLS, semantics=semantics, progress=progress)


def measure(
    pages: int = PAGES,
    seed: int = SEED,
    *,
    each: int = EACH,
    cold: int = COLD,
    semantics: bool = True,
    progress: Progress = print,
    cache: Path = CACHE,
) -> dict[str, Any]:
    """Measure everything; return the result, ready for JSON."""
    found = cached_collection(pages, seed, semantics=semantics, progress=progress, cache=cache)
    queries = QuerySampler(Corpus(pages, seed, cells=CELLS)).sample(each)
    of_paper = [SampleQuery(each.kind, "F11", each.text) for each in PUBLISHED]
    progress("cold searches")
    cold_rows = [cold_search(found, query, semantics) for query in some_of_each(queries, cold)] if cold else []
    cold_paper = [cold_search(found, query, semantics) for query in of_paper] if cold else []
    progress(f"{len(queries)} warm searches")
    load = os.getloadavg()[0]
    search = TimedSearch(found, semantics=semantics)
    try:
        began, cpu = time.perf_counter(), time.process_time()
        timings = time_warm(search, queries)
        used = (time.process_time() - cpu) / (time.perf_counter() - began)
        threads = sum(1 for _ in Path("/proc/self/task").iterdir())
        paper = [(search.measure(query), search.measure(query)) for query in of_paper]
    finally:
        search.close()
    return {
        "command": f"python -m bench.search --pages {pages} --seed {seed} --each {each} --cold {cold}",
        "n": pages,
        "cores": os.cpu_count(),
        "load_average": round(load, 1),
        "semantics": semantics,
        "collection": rounded(collection_facts(found)),
        "all": rounded(asdict(summarize(timings))) | {"cores_used": round(used, 2), "threads": threads},
        "f11": rounded(asdict(summarize([each for each in timings if each.query.kind in F11_KINDS]))),
        "rows": kind_rows(timings, cold_rows, pages),
        "table_26": [
            paper_row(*pair, published, cold_paper[index] if cold else None)
            for index, (pair, published) in enumerate(zip(paper, PUBLISHED, strict=True))
        ],
        "tantivy_ms": call_times(timings),
        "slowest": [
            {"kind": t.query.kind, "query": t.query.text[:80], "ms": round(t.ms, 1), "cpu_ms": round(t.cpu_ms, 1)}
            for t in sorted(timings, key=lambda each: -each.cpu_ms)[:5]
        ],
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def collection_facts(found: CorpusCollection) -> dict[str, Any]:
    record = found.record
    return {
        "pages": record.pages,
        "cells": record.cells,
        "segments": record.segments,
        "text_bytes_a_page": record.text_bytes / record.pages,
        "index_bytes_a_page": record.index_bytes / record.pages,
        "index_mb": record.index_bytes / 1e6,
        "seconds": record.seconds,
        "cpu_s": record.cpu_s,
        "invented_s": record.corpus_s,
        "pages_per_s": record.pages_per_s,
        "peak_rss_mb": record.peak_rss_mb,
        "semantics_s": record.semantics_s,
    }


def rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 2) if isinstance(value, float) else value for name, value in values.items()}


def kind_rows(timings: Sequence[Timing], cold_rows: Sequence[dict[str, Any]], pages: int) -> list[dict[str, Any]]:
    """Return a row for each kind of query and frequency of words."""
    by_kind: dict[tuple[str, str], list[Timing]] = defaultdict(list)
    for timing in timings:
        by_kind[timing.query.kind, timing.query.words].append(timing)
    cold: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in cold_rows:
        cold[row["kind"], row["words"]].append(row)
    return [
        {"kind": kind, "words": words, "n": pages}
        | rounded(asdict(summarize(by_kind[kind, words])))
        | {
            f"cold_{name}": max((row[name] for row in cold[kind, words]), default=None)
            for name in ("ms", "open_ms", "read_mb")
        }
        for kind, words in list_kinds([timing.query for timing in timings])
    ]


def paper_row(first: Timing, again: Timing, published: Any, cold_row: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "kind": published.kind,
        "query": published.text,
        "published_s": published.first_s,
        "published_again_s": published.again_s,
        "s": round(first.ms / 1000, 4),
        "again_s": round(again.ms / 1000, 4),
        "cold_s": round(cold_row["ms"] / 1000, 4) if cold_row else None,
        "found": first.total,
    }


def call_times(timings: Sequence[Timing]) -> dict[str, float]:
    """Return processor milliseconds of a search by call of tantivy, on average; `ours` is the rest."""
    spent: Counter[str] = Counter()
    for timing in timings:
        spent.update(timing.calls)
        spent["ours"] += timing.cpu_ms - timing.tantivy_cpu_ms
    return {name: round(ms / len(timings), 2) for name, ms in spent.most_common()}


# ---- cold -----------------------------------------------------------------------------------------------------------


def some_of_each(queries: Sequence[SampleQuery], number: int) -> list[SampleQuery]:
    taken: Counter[tuple[str, str]] = Counter()
    found = []
    for query in queries:
        taken[query.kind, query.words] += 1
        if taken[query.kind, query.words] <= number:
            found.append(query)
    return found


def cold_search(found: CorpusCollection, query: SampleQuery, semantics: bool) -> dict[str, Any]:
    """Search in a process of its own after its files were dropped from memory."""
    drop_from_memory(found)
    message = json.dumps({"folder": str(found.folder), "query": asdict(query), "semantics": semantics})
    command = [sys.executable, "-m", "bench.search", "--one", message]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=300)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {"kind": query.kind, "words": query.words, "query": query.text[:80]} | answer


def drop_from_memory(found: CorpusCollection) -> None:
    """Let the kernel drop the files from memory; it keeps mapped files, so no process may have the index open."""
    for path in found.files():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def one_search(message: str) -> dict[str, Any]:
    """Run the search of a cold process."""
    wanted = json.loads(message)
    query = SampleQuery(**wanted["query"])
    before = read_bytes()
    began = time.perf_counter()
    search = TimedSearch(open_collection(Path(wanted["folder"])), semantics=wanted["semantics"])
    search.reader.searcher()
    is_open = time.perf_counter()
    timing = search.measure(query)
    search.close()
    return {
        "open_ms": round(1000 * (is_open - began), 1),
        "ms": round(timing.ms, 1),
        "read_mb": round((read_bytes() - before) / 1e6, 1),
        "found": timing.total,
    }


def read_bytes() -> int:
    """Return the bytes that the disk delivered to this process."""
    lines = Path("/proc/self/io").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


# ---- command --------------------------------------------------------------------------------------------------------


def write(result: dict[str, Any], path: Path = RESULTS) -> None:
    """Store a result beside those of other sizes."""
    runs = json.loads(path.read_text("utf-8")) if path.exists() else {}
    runs[str(result["n"])] = result
    ordered = {size: runs[size] for size in sorted(runs, key=int)}
    path.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--each", type=int, default=EACH, help="queries of each kind")
    parser.add_argument("--cold", type=int, default=COLD, help="cold searches of each kind; 0: none")
    parser.add_argument("--semantics", action=argparse.BooleanOptionalAction, default=True, help="use a semantic model")
    parser.add_argument("--make-only", action="store_true", help="make the collection and measure nothing")
    parser.add_argument("--write", type=Path, default=None, help="write the result to a file, beside other sizes")
    parser.add_argument("--one", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(one_search(options.one)))
        return

    def progress(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    if options.make_only:
        cached_collection(options.pages, options.seed, semantics=options.semantics, progress=progress)
        return
    result = measure(
        options.pages,
        options.seed,
        each=options.each,
        cold=options.cold,
        semantics=options.semantics,
        progress=progress,
    )
    print(json.dumps(result, indent=1, ensure_ascii=False))
    if options.write is not None:
        write(result, options.write)


if __name__ == "__main__":
    main()
