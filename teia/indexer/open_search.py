"""A collection opened for search, also while it is being crawled: nothing is written, and no lock is taken.

The cells of a collection, or of several, are searched as one index. Authority comes from the rank file. The last visit
and the number of links to a page come from the frontier. Semantic similarity comes from the collection's model, where
one was trained.

Example queries are made from the titles of some pages, or from their texts where titles give no words. Each one finds
at least one page.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from teia.clock import Clock, WallClock
from teia.collections.index_state import IndexState, compare_index
from teia.collections.stored_settings import choose, saved, search_settings
from teia.crawler.page_summaries import PageSummaries, PageSummary
from teia.errors import CorruptFile, IndexFailure, UsageError
from teia.frontier.cell.connection import CellConnection
from teia.frontier.tables.page_summaries import open_summaries
from teia.graph.rankfile import RankFile
from teia.index.entry import IndexEntry
from teia.index.position import has_index
from teia.index.repeated import FILE as REPEATED_LINES
from teia.index.repeated import Lines, RepeatedLinesReader
from teia.index.union import UnionReader
from teia.lib.closing import Closing
from teia.lib.message import Message
from teia.search.query.analysis import stem_of
from teia.search.query.words import WORD
from teia.search.rank.formula import Keys, Ranking
from teia.search.rank.semantic import Models
from teia.search.serve.results_cache import ResultsCache
from teia.search.serve.searcher import Searcher, SearchOptions
from teia.search.serve.shards import LocalShard
from teia.search.show.results import Facts, Hit, Results
from teia.store.root import CollectionFolder, Root, open_root

if TYPE_CHECKING:
    from teia.frontier.cell.cell import FrontierCell

logger = logging.getLogger(__name__)


class CollectionSearch(Closing):
    """One or several collections, searched as one; threads may share it."""

    def __init__(self, root: Root, names: Sequence[str], clock: Clock) -> None:
        if not names:
            raise UsageError(Message("{path} contains no collection yet", path=root.path))
        folders = [root.collection(name) for name in names]
        for folder in folders:
            check_index(root, folder)
        with ExitStack() as stack:
            lookups = [stack.enter_context(PageSummaries(root, name, open_summaries)) for name in names]
            reader = stack.enter_context(contextlib.closing(open_reader(folders)))
            configs = [search_settings(root, name) for name in names]
            # Two collections have two models, and their scores cannot be compared with each other.
            has_model = len(folders) == 1 and configs[0].semantics
            facts = FrontierFacts(lookups, clock)
            stack.callback(facts.close)
            most = min(config.cached_answers for config in configs)
            self._searcher = stack.enter_context(
                Searcher(
                    [LocalShard(" and ".join(names), reader)],
                    clock,
                    ranking=Ranking(priors=CollectionRanks([folder.ranks for folder in folders])),
                    facts=facts,
                    model=Models(folders[0].semantic).current if has_model else lambda: None,
                    answers=ResultsCache(clock, reader.state, most) if most else None,
                )
            )
            self._reader, self._facts = reader, facts
            # Last: an error above closes everything that was opened.
            self._stack = stack.pop_all()

    @property
    def pages(self) -> int:
        """Number of searchable pages."""
        return int(self._reader.searcher().num_docs)

    def some(self, n: int) -> list[IndexEntry]:
        """Return up to `n` arbitrary pages of the index."""
        return self._reader.some_entries(n)

    def search(self, text: str, n: int = 10, offset: int = 0, options: SearchOptions | None = None) -> Results:
        """Answer a query (`Searcher`), with a note if the index is partial."""
        results = self._searcher.search(text, n, offset, options)
        index_notes = self._facts.index_notes()
        return replace(results, notes=(*results.notes, *index_notes), is_partial=True) if index_notes else results

    def search_among(self, text: str, keys: Sequence[int]) -> list[Hit] | None:
        """Return those of some pages that a query finds; None if not all of them could be looked at in time."""
        return self._searcher.search_among(text, keys)

    def similar(self, url: str, n: int = 10) -> Results:
        """Return pages on the same subject as a page."""
        return self._searcher.similar(url, n)

    def indexed_page(self, url: str) -> IndexEntry | None:
        """Return a page as the index has it, with its text; None if it is not there."""
        return self._searcher.indexed_page(url)

    def close(self) -> None:
        self._stack.close()


def search_collection(
    text: str,
    n: int = 10,
    offset: int = 0,
    *,
    data: Path | str,
    collection: str | None = None,
    explain: bool = False,
    facets: bool = False,
    language: str | None = None,
    expand: bool | None = None,
    correct: bool = True,
) -> Results:
    """Search a collection once: `teia.search`. For many searches open a `Collection` and call its `search`."""
    root = open_root(Path(data))
    with CollectionSearch(root, [choose(root, collection)], WallClock()) as opened:
        return opened.search(text, n, offset, SearchOptions(explain, facets, language, expand, correct=correct))


def open_reader(folders: Sequence[CollectionFolder]) -> UnionReader:
    """Open the cells of all these collections as one index."""
    return UnionReader(
        {f"{folder.name} cell {cell.number:02d}": cell.index for folder in folders for cell in folder.cells()}
    )


def check_index(root: Root, folder: CollectionFolder) -> None:
    """Raise IndexFailure, with the remedy, if a collection has never been indexed."""
    if any(has_index(cell.index) for cell in folder.cells()):
        return
    remedy = f"build one from the archive with `teia rebuild index --data {root.path}`"
    if not saved(root, folder.name).config.index.enabled:
        raise IndexFailure(Message("{name} was crawled without an index; {hint}", name=folder.name, hint=remedy))
    raise IndexFailure(
        Message("{name} has no index yet; crawl some pages first, or {hint}", name=folder.name, hint=remedy)
    )


# ---- facts from outside the index -----------------------------------------------------------------------------------


class CollectionRanks:
    """The ranks of some collections, as they are on disk at the moment; of a page in several, the highest."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._files: dict[Path, RankFile | None] = dict.fromkeys(paths)

    def percentiles(self, keys: Keys, /) -> NDArray[Any]:
        found = np.zeros(len(keys))
        for path in self._files:
            file = self._current(path)
            if file is not None:
                found = np.maximum(found, file.percentiles(keys))
        return found

    def _current(self, path: Path) -> RankFile | None:
        """Return the rank file as it is on disk now, or None: a search works without it."""
        file = self._files[path]
        try:
            if file is None:
                file = self._files[path] = RankFile.open(path)
            else:
                # One stat for each search; the file is mapped again only when the indexer replaced it.
                file.reload()
        except CorruptFile as error:
            logger.warning("ranks are not used: %s", error)
            self._files[path] = None
            return None
        return file


STATE_CACHE_S = 2.0
MAX_WITH_FRESHNESS = 20
"""Results of a search that get a probability of being current."""


class FrontierFacts:
    """Facts from frontiers: last visit, number of links to a page, probability that our capture is current.

    The lines that hosts repeat lie beside the indexes.
    """

    def __init__(self, lookups: Sequence[PageSummaries[CellConnection]], clock: Clock) -> None:
        self._lookups = lookups
        self._clock = clock
        self._lock = Lock()
        self._index_notes: tuple[Message, ...] = ()
        self._compare_at = 0.0
        self._lines: dict[Path, RepeatedLinesReader] = {}
        self._stack = ExitStack()
        self._opened: dict[str, list[FrontierCell]] = {}
        for lookup in lookups:
            lookup.cell_number("localhost")  # reads the public suffix list, which the first search would wait for

    def facts(self, urls: Mapping[int, str], /) -> dict[int, Facts]:
        # A probability takes a look at the page's host, so only the first results get one.
        with_freshness = set(list(urls)[:MAX_WITH_FRESHNESS])
        with self._lock:
            return {
                key: fact
                for key, url in urls.items()
                if (fact := self._fact(url, key, key in with_freshness)) is not None
            }

    def repeated_lines(self, hosts: Iterable[str], /) -> dict[str, Lines]:
        with self._lock:
            return {host: lines for host in hosts if (lines := self._lines_of(host))}

    def _lines_of(self, host: str) -> Lines:
        """Return the repeated lines of a host, from the first collection that has some."""
        for lookup in self._lookups:
            path = lookup.folders[lookup.cell_of_host(host)].index / REPEATED_LINES
            if path not in self._lines:
                self._lines[path] = RepeatedLinesReader(path)
            if lines := self._lines[path].of(host):
                return lines
        return frozenset()

    def close(self) -> None:
        for reader in self._lines.values():
            reader.close()
        self._stack.close()

    def index_notes(self) -> tuple[Message, ...]:
        """Return notes on crawled pages that cannot be found yet; compared again every two seconds."""
        now = self._clock.ticks_s()
        with self._lock:
            if now >= self._compare_at:
                states = [self._state(lookup) for lookup in self._lookups]
                self._index_notes = tuple(message for state in states for message in _index_messages(state))
                self._compare_at = now + STATE_CACHE_S
            return self._index_notes

    @staticmethod
    def _state(lookup: PageSummaries[CellConnection]) -> IndexState:
        folder = lookup.root.collection(lookup.name)
        return compare_index(folder, zip(lookup.folders, lookup.cells, strict=True))

    def _fact(self, url: str, key: int, wants_freshness: bool) -> Facts | None:
        for lookup in self._lookups:
            seen = lookup.page_summary(url, key)
            if seen is not None:
                fresh = self._fresh(lookup, seen, key) if wants_freshness and seen.visits > 1 else None
                return Facts(seen.last_visit_s, seen.in_links, fresh)
        return None

    def _fresh(self, lookup: PageSummaries[CellConnection], seen: PageSummary, key: int) -> float | None:
        from teia.crawler.keep_fresh.estimate import (
            freshness_of,  # imports scipy, only for collections whose pages are revisited
        )

        found = freshness_of(self._frontiers(lookup), seen.cell, seen.host, seen.host_id, key, self._clock.now_s())
        return None if found is None else found.fresh_probability

    def _frontiers(self, lookup: PageSummaries[CellConnection]) -> Sequence[FrontierCell]:
        """Return the cells of a collection with all their verbs, opened when they are first needed."""
        from teia.frontier.cell.cell import FrontierCell

        if lookup.name not in self._opened:
            self._opened[lookup.name] = [
                self._stack.enter_context(contextlib.closing(FrontierCell(folder.frontier, read_only=True)))
                for folder in lookup.folders
            ]
        return self._opened[lookup.name]


def _index_messages(state: IndexState) -> Iterator[Message]:
    if not state.is_partial:
        return
    if state.lag:
        yield (
            Message(
                "{pages:,} crawled pages are not indexed yet and cannot be found; they are being added", pages=state.lag
            )
            if state.is_being_written
            else Message(
                "{pages:,} crawled pages are not indexed and cannot be found; the next crawl adds them, or"
                " `teia rebuild index`",
                pages=state.lag,
            )
        )
    if state.unreadable:
        yield Message("{pages:,} pages cannot be found because their captures cannot be read", pages=state.unreadable)


# ---- example queries -------------------------------------------------------------------------------------------------


PAGES = 200
MAX_EXAMPLES = 3
MIN_WORD_CHARS, MAX_WORD_CHARS = 4, 20


class Searchable(Protocol):
    """Source of example queries: a collection on this machine, or one of a cluster."""

    def some(self, n: int) -> list[IndexEntry]:
        """Return up to `n` arbitrary pages."""

    def search(self, text: str, n: int) -> Results:
        """Answer a query."""


def example_queries(opened: Searchable) -> list[str]:
    """Return a word, a phrase of two words, and a word on one host; fewer if the titles do not yield them."""
    entries = opened.some(PAGES)
    titles = [_words(entry.title) or _words(entry.text) for entry in entries]
    common = Counter(word.lower() for words in titles for word in dict.fromkeys(words))
    # A word in every title is the name of a site.
    distinctive = [word for word, times in common.most_common() if times <= max(1, len(entries) // 4)]
    found: list[str] = []
    for candidates in (distinctive, _pairs(titles, distinctive), _on_hosts(entries, distinctive)):
        # Each candidate is searched for: an example without results would mislead.
        example = next((each for each in candidates if opened.search(each, 1).total), None)
        if example is not None and example not in found:
            found.append(example)
    return found[:MAX_EXAMPLES]


def _words(text: str) -> list[str]:
    words = [match.group() for match in WORD.finditer(text[:300])]
    return [
        word for word in words if MIN_WORD_CHARS <= len(word) <= MAX_WORD_CHARS and word.isalpha() and stem_of(word)
    ]


def _pairs(titles: Sequence[Sequence[str]], distinctive: Sequence[str]) -> Iterator[str]:
    """Yield pairs of adjacent title words, at least one of them telling and not the first example's."""
    wanted = set(distinctive[1:50])
    for words in titles[:50]:
        for one, other in pairwise(words):
            if one.lower() in wanted or other.lower() in wanted:
                yield f'"{one.lower()} {other.lower()}"'


def _on_hosts(entries: Sequence[IndexEntry], distinctive: Sequence[str]) -> Iterator[str]:
    wanted = set(distinctive[:50])
    for entry in entries[:50]:
        for word in _words(entry.title) or _words(entry.text):
            if word.lower() in wanted:
                yield f"site:{entry.host} {word.lower()}"
