"""A collection opened to be searched, also while it is being crawled: nothing is written, and no lock is taken.

The cells of a collection, or of several, are searched as one index. Authority comes from its rank file, the last visit
and the number of links to a page from its frontier, meaning from its semantic model where one was trained.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from teia.clock import Clock, WallClock
from teia.crawl.collections import choose, saved
from teia.crawl.lookup import Glance, Lookup
from teia.crawl.ranking import rank_file
from teia.errors import CorruptFile, IndexFailure, StoreError, UsageError
from teia.graph.rankfile import RankFile
from teia.index.entry import Entry
from teia.index.reader import has_index
from teia.index.union import UnionReader
from teia.search.ranking import Keys, Ranking
from teia.search.results import Facts, Hit, Results
from teia.search.searching import Options, Searcher
from teia.search.semantic import Model, Models, load, save
from teia.search.shards import LocalShard
from teia.store.root import CollectionFolder, Root, open_root

RETRAIN_GROWTH = 2.0
"""A model is made anew when there are so many times the pages it was made from."""

logger = logging.getLogger(__name__)


class CollectionSearch:
    """One or several collections, searched as one; threads may share it."""

    def __init__(self, root: Root, names: Sequence[str], clock: Clock) -> None:
        if not names:
            raise UsageError(f"{root.path} holds no collection yet")
        folders = [root.collection(name) for name in names]
        for folder in folders:
            _check_index(root, folder)
        with ExitStack() as stack:
            lookups = [stack.enter_context(contextlib.closing(Lookup(root, name))) for name in names]
            reader = stack.enter_context(contextlib.closing(_reader(folders)))
            models = [Models(folder.semantic) for folder in folders]
            self._searcher = stack.enter_context(
                Searcher(
                    [LocalShard(" and ".join(names), reader)],
                    clock,
                    ranking=Ranking(priors=CollectionRanks([rank_file(folder) for folder in folders])),
                    facts=FrontierFacts(lookups, clock),
                    # Two collections have two models, and what one says of a page cannot be weighed against the other.
                    model=models[0].current if len(models) == 1 else _no_model,
                )
            )
            self._reader = reader
            self._stack = stack.pop_all()

    @property
    def pages(self) -> int:
        """How many pages can be found."""
        return int(self._reader.searcher().num_docs)

    def some(self, n: int) -> list[Entry]:
        """So many pages of the index, any."""
        return self._reader.some_entries(n)

    def search(self, text: str, n: int = 10, offset: int = 0, options: Options | None = None) -> Results:
        """Answer what was typed; see `teia.search.searching.Searcher`."""
        return self._searcher.search(text, n, offset, options)

    def among(self, text: str, keys: Sequence[int]) -> list[Hit] | None:
        """Those of some pages that a search finds; None where not all of them could be looked at in time."""
        return self._searcher.among(text, keys)

    def similar(self, url: str, n: int = 10) -> Results:
        """Pages that speak of what a page speaks of."""
        return self._searcher.similar(url, n)

    def cached(self, url: str) -> Entry | None:
        """A page as the index has it, its text above all; None where it is not there."""
        return self._searcher.cached(url)

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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
) -> Results:
    """Search a collection once: `teia.search`. Who searches often opens a `Collection` and calls its `search`."""
    root = open_root(Path(data))
    with CollectionSearch(root, [choose(root, collection)], WallClock()) as opened:
        return opened.search(text, n, offset, Options(explain, facets, language, expand))


def _no_model() -> Model | None:
    return None


def _reader(folders: Sequence[CollectionFolder]) -> UnionReader:
    """The cells of all these collections as one index."""
    return UnionReader(
        {f"{folder.name} cell {cell.number:02d}": cell.index for folder in folders for cell in folder.cells()}
    )


def _check_index(root: Root, folder: CollectionFolder) -> None:
    """Refuse a collection that has never been indexed, with what to do."""
    if any(has_index(cell.index) for cell in folder.cells()):
        return
    remedy = f"`teia rebuild index --data {root.path}` makes one from the archive"
    if not saved(root, folder.name).config.index.enabled:
        raise IndexFailure(f"{folder.name} was crawled without an index; {remedy}")
    raise IndexFailure(f"{folder.name} has no index yet; crawl some pages first, or {remedy}")


# ---- what is known beside the index ---------------------------------------------------------------------------------


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
        """The file as it is now; without it pages are searched all the same."""
        file = self._files[path]
        try:
            if file is None:
                file = self._files[path] = RankFile.open(path)
            else:
                file.reload()
        except CorruptFile as error:
            logger.warning("ranks are not used: %s", error)
            self._files[path] = None
            return None
        return file


MAX_JUDGED = 20
PEERS_OF_HIT = 100
"""Results of one search of which it is said how likely they are current, and other pages of their hosts that are
looked at for each."""


class FrontierFacts:
    """When pages were last visited, how many links lead to them, and how likely our copy is current: from frontiers."""

    def __init__(self, lookups: Sequence[Lookup], clock: Clock) -> None:
        self._lookups = lookups
        self._clock = clock
        self._lock = Lock()
        for lookup in lookups:
            lookup.cell_number("localhost")  # reads the public suffix list, which the first search would wait for

    def facts(self, urls: Mapping[int, str], /) -> dict[int, Facts]:
        judged = set(list(urls)[:MAX_JUDGED])
        with self._lock:
            return {key: fact for key, url in urls.items() if (fact := self._fact(url, key, key in judged)) is not None}

    def _fact(self, url: str, key: int, is_judged: bool) -> Facts | None:
        for lookup in self._lookups:
            seen = lookup.glance(url, key)
            if seen is not None:
                fresh = self._fresh(lookup, seen, key) if is_judged and seen.visits > 1 else None
                return Facts(seen.last_visit_s, seen.in_links, fresh)
        return None

    def _fresh(self, lookup: Lookup, seen: Glance, key: int) -> float | None:
        from teia.crawl.freshness import freshness_of  # brings scipy, for collections whose pages come again

        frontier, now_s = lookup.cells[seen.cell], self._clock.now_s()
        found = freshness_of(frontier, seen.host, seen.host_id, key, now_s, PEERS_OF_HIT)
        return None if found is None else found.fresh_probability


# ---- meaning --------------------------------------------------------------------------------------------------------


def renew_model(folder: CollectionFolder, clock: Clock, *, seed: int) -> bool:
    """Train the semantic model of a collection if it has none or has doubled since; says whether it did.

    It takes minutes for many pages and a core, so it is for a thread or a process that nobody waits for.
    """
    from teia.search.training import MIN_PAGES, train

    place = folder.semantic
    with contextlib.closing(_reader([folder])) as reader:
        try:
            known = load(place)
        except StoreError:
            known = None
        pages = reader.searcher().num_docs
        if pages < MIN_PAGES or (known is not None and pages < RETRAIN_GROWTH * known.pages):
            return False
        model = train(reader.all_entries, seed=seed)
    if model is None:
        return False
    save(model, place, clock.now_s())
    return True
