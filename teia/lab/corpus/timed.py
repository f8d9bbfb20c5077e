"""Search times, and the part of them that tantivy takes.

The index is searched through a reader whose searcher is watched: every call of tantivy is timed, by the wall clock and
by the processor time of its thread. The rest of a search is our own code: parsing, planning, ranking, reading entries,
snippets. Making the query objects of tantivy counts as our own code too. Processor time is more reliable on a shared
machine.

The total of a search is the processor time of all threads. tantivy works in the thread that calls it, because an index
that is only read has no others. If it used more threads, their time would be counted as ours.

Watching a call takes longer than some calls do, and a search has tens of them. So the cost of watching is measured
first, with calls that do nothing, and subtracted: within a call from tantivy's time, and around it from ours.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import tantivy

from teia.clock import Clock, WallClock
from teia.index.repeated import FILE as REPEATED_LINES
from teia.index.repeated import Lines, RepeatedLinesReader
from teia.index.union import UnionReader
from teia.lab.corpus.collection import CorpusCollection, cell_folder
from teia.lab.corpus.questions import SampleQuery
from teia.search.rank.formula import Ranking
from teia.search.rank.semantic import Model
from teia.search.serve.results_cache import ResultsCache
from teia.search.serve.searcher import Searcher, SearchOptions
from teia.search.serve.shards import LocalShard
from teia.search.show.results import Facts, Results
from teia.urls import cell_starts, host_to_cell

SHOWN = 10
DEADLINE_S = 60.0
"""Time limit of a measured search; the product ends searches after a second."""

_WATCHED = frozenset({"search", "aggregate", "doc", "doc_freq", "terms_with_prefix", "fast_field_values"})


@dataclass(slots=True)
class CallTimer:
    """Calls of tantivy, and the wall and processor seconds spent in each."""

    calls: Counter[str] = field(default_factory=Counter)
    wall_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    cpu_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def reset(self) -> None:
        self.calls.clear()
        self.wall_s.clear()
        self.cpu_s.clear()


class WatchedSearcher:
    """A searcher of tantivy whose calls are timed."""

    def __init__(self, searcher: tantivy.Searcher, watch: CallTimer) -> None:
        self._searcher = searcher
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._searcher, name)
        if name not in _WATCHED:
            return found

        def timed(*args: Any, **options: Any) -> Any:
            watch = self._watch
            wall, cpu = time.perf_counter(), time.thread_time()
            try:
                return found(*args, **options)
            finally:
                # The processor time is measured innermost, so that reading the wall clock is not part of it.
                watch.cpu_s[name] += time.thread_time() - cpu
                watch.wall_s[name] += time.perf_counter() - wall
                watch.calls[name] += 1

        return timed


@dataclass(frozen=True, slots=True)
class WatchCost:
    """Processor seconds that watching one call takes: the part counted within the call, and the total."""

    within_s: float
    whole_s: float

    @classmethod
    def measure(cls, calls: int = 1_000, tries: int = 5) -> WatchCost:
        """Measure the cost several times and return the least, so that never too much is subtracted."""
        idle = cast("tantivy.Searcher", _Idle())
        found = []
        for _ in range(tries):
            watch = CallTimer()
            bare, watched = (_time_calls(each, calls) for each in (idle, WatchedSearcher(idle, watch)))
            found.append((watch.cpu_s["doc"] / calls, (watched - bare) / calls))
        return cls(min(within for within, _ in found), max(0.0, min(whole for _, whole in found)))


class _Idle:
    """A stand-in for tantivy that does nothing."""

    def doc(self, _: object) -> None:
        """Return at once."""


def _time_calls(searcher: Any, calls: int) -> float:
    began = time.thread_time()
    for _ in range(calls):
        searcher.doc(None)
    return time.thread_time() - began


class WatchedReader(UnionReader):
    """Cells as one index, with a watched searcher."""

    def __init__(self, folders: Mapping[str, Path], watch: CallTimer) -> None:
        super().__init__(folders)
        self._watch = watch
        self._watched: tuple[tantivy.Searcher, WatchedSearcher] | None = None

    def searcher(self) -> tantivy.Searcher:
        return self._wrap(super().searcher())

    def last_searcher(self) -> tantivy.Searcher:
        return self._wrap(super().last_searcher())

    def _wrap(self, searcher: tantivy.Searcher) -> tantivy.Searcher:
        """Wrap a searcher; there is one wrapper for each view, as there is one searcher."""
        if self._watched is None or self._watched[0] is not searcher:
            self._watched = searcher, WatchedSearcher(searcher, self._watch)
        return cast("tantivy.Searcher", self._watched[1])


@dataclass(frozen=True, slots=True)
class Timing:
    """One search: wall and processor milliseconds, in total and of tantivy."""

    query: SampleQuery
    ms: float
    cpu_ms: float
    tantivy_ms: float
    tantivy_cpu_ms: float
    total: int
    shown: int
    calls: Mapping[str, float] = field(default_factory=dict)
    """Processor milliseconds of each call of tantivy."""


class TimedSearch:
    """A collection opened for searching as in the product: ranks, repeated lines, its semantic model if requested.

    The product also reads last visits and numbers of links from the frontier for the results shown. They are missing
    here, because the collection was never crawled.
    """

    def __init__(self, collection: CorpusCollection, clock: Clock | None = None, *, semantics: bool = False) -> None:
        self.watch = CallTimer()
        self._cost = WatchCost.measure()
        folders = {f"cell {n}": cell_folder(collection.folder, n) for n in range(collection.record.cells)}
        self.reader = WatchedReader(folders, self.watch)
        self._clock = clock or WallClock()
        self._ranking = Ranking(priors=collection.ranks())
        self._facts = CorpusFacts(list(folders.values()))
        self._model = collection.models().current if semantics else _no_model
        self.searcher = self._searcher()

    def _searcher(self, answers: ResultsCache | None = None) -> Searcher:
        shards = [LocalShard("pages", self.reader)]
        return Searcher(
            shards,
            self._clock,
            ranking=self._ranking,
            facts=self._facts,
            model=self._model,
            deadline_s=DEADLINE_S,
            answers=answers,
        )

    def keep_answers(self, most: int) -> None:
        """Answer repeated searches from a cache from now on, as the product does."""
        self.searcher.close()
        self.searcher = self._searcher(ResultsCache(self._clock, self.reader.state, most))

    def clear_caches(self) -> None:
        """Discard cached counts; the files stay in memory."""
        self.searcher.close()
        self.searcher = self._searcher()

    def measure(self, query: SampleQuery) -> Timing:
        """Search once and measure it."""
        self.watch.reset()
        wall, cpu = time.perf_counter(), time.process_time()
        results = self.answer(query)
        cpu_s, wall_s = time.process_time() - cpu, time.perf_counter() - wall
        watch, cost = self.watch, self._cost
        calls = {name: 1000 * (watch.cpu_s[name] - count * cost.within_s) for name, count in watch.calls.items()}
        return Timing(
            query=query,
            ms=1000 * wall_s,
            cpu_ms=1000 * (cpu_s - watch.calls.total() * cost.whole_s),
            tantivy_ms=1000 * sum(watch.wall_s.values()),
            tantivy_cpu_ms=sum(calls.values()),
            total=results.total,
            shown=len(results.hits),
            calls=calls,
        )

    def answer(self, query: SampleQuery) -> Results:
        """Return the content of a result page: ten hits with snippets."""
        return self.searcher.search(query.text, SHOWN, query.offset, SearchOptions(facets=query.facets))

    def close(self) -> None:
        self.searcher.close()
        self._facts.close()
        self.reader.close()


class CorpusFacts:
    """The lines that hosts repeat; nothing is known of visits."""

    def __init__(self, cells: Sequence[Path]) -> None:
        self._cell_of = host_to_cell(cell_starts(len(cells)))
        self._lines = [RepeatedLinesReader(folder / REPEATED_LINES) for folder in cells]

    def facts(self, _: Mapping[int, str], /) -> dict[int, Facts]:
        return {}

    def repeated_lines(self, hosts: Iterable[str], /) -> dict[str, Lines]:
        return {host: self._lines[self._cell_of(host)].of(host) for host in hosts}

    def close(self) -> None:
        for reader in self._lines:
            reader.close()


def _no_model() -> Model | None:
    return None


@dataclass(frozen=True, slots=True)
class TimingStatistics:
    """Statistics of timings of one kind. `own` is our processor time over tantivy's."""

    searches: int
    p50_ms: float
    p95_ms: float
    max_ms: float
    cpu_p50_ms: float
    cpu_p95_ms: float
    own: float
    total_p50: float


def summarize(timings: Sequence[Timing]) -> TimingStatistics:
    wall, cpu = ([getattr(each, name) for each in timings] for name in ("ms", "cpu_ms"))
    tantivy = sum(each.tantivy_cpu_ms for each in timings)
    return TimingStatistics(
        searches=len(timings),
        p50_ms=float(np.percentile(wall, 50)),
        p95_ms=float(np.percentile(wall, 95)),
        max_ms=max(wall),
        cpu_p50_ms=float(np.percentile(cpu, 50)),
        cpu_p95_ms=float(np.percentile(cpu, 95)),
        own=(sum(cpu) - tantivy) / tantivy if tantivy else 0.0,
        total_p50=float(np.median([each.total for each in timings])),
    )


def time_warm(search: TimedSearch, queries: Sequence[SampleQuery]) -> list[Timing]:
    """Run all queries once to load the files into memory, then once more, with empty caches, and measure them."""
    for query in queries:
        search.answer(query)
    search.clear_caches()
    search.answer(SampleQuery("", "", "warm"))  # counts that are computed once for all queries
    return [search.measure(query) for query in queries]
