"""The semantic model of a collection, trained beside the indexer.

A collection gets a model from 300 pages on, and a new one when it has grown by half: every ten minutes, and when the
crawl ends. At the end of a first crawl the indexer still has the words of all pages in memory
(index/training_words.py), so that nothing is read again. The indexer runs with the lowest priority.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

from teia.clock import Clock
from teia.errors import StoreError
from teia.index.stems import MAX_STEMS, shared_words
from teia.index.training_words import Bags
from teia.index.union import UnionReader
from teia.store.root import CollectionFolder

MIN_PAGES = 300
"""Least number of pages; in smaller collections words have too few contexts."""

TRAIN_EVERY_S = 600.0
SEED = 20_261
"""Fixed seed: the same pages give the same model."""

RETRAIN_GROWTH = 1.5
"""Growth in pages, as a factor, after which the semantic model is trained again."""

MAX_AT_END = 50_000
"""Greatest number of pages for which the end of a crawl waits for a model; a larger collection gets one later."""


class Trainer:
    """Background training of the semantic model of one collection (semantic.py); `close` waits for a running one."""

    def __init__(self, collection: CollectionFolder, clock: Clock) -> None:
        self._collection = collection
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "semantics")
        self._running: Future[bool] | None = None
        self._due_at = clock.ticks_s() + TRAIN_EVERY_S
        self.bags = Bags()
        """Words of the pages that the indexer of the collection has indexed."""

    def train_if_due(self) -> None:
        """Start a training if one is due; called often."""
        if self._running is not None and self._running.done():
            self._running.result()
            self._running, self._due_at = None, self._clock.ticks_s() + TRAIN_EVERY_S
        if self._running is None and self._clock.ticks_s() >= self._due_at:
            self._running = self._thread.submit(self._renew)

    def train(self) -> None:
        """Train the model if it is due and takes seconds, and wait for it."""
        if self._running is not None:
            self._running.result()
            self._running = None
        renew_model(self._collection, self._clock, seed=SEED, max_pages=MAX_AT_END, bags=self.bags)

    def _renew(self) -> bool:
        return renew_model(self._collection, self._clock, seed=SEED)

    def close(self) -> None:
        self._thread.shutdown()


def renew_model(
    folder: CollectionFolder,
    clock: Clock,
    *,
    seed: int,
    force: bool = False,
    max_pages: int | None = None,
    bags: Bags | None = None,
) -> bool:
    """Train the semantic model if a collection has none or has grown, or if `force`; return whether it was trained.

    For many pages it takes minutes and a core, so run it in a thread or process that no user waits for. A collection of
    more than `max_pages` is left alone. `bags` are of pages of the index: if it has no others, none is read.
    """
    path = folder.semantic
    with closing(UnionReader({str(cell.number): cell.index for cell in folder.cells()})) as reader:
        pages = reader.searcher().num_docs
        if pages < MIN_PAGES:
            return False
        # Only for collections that get a model: scipy takes longer to import than a small crawl takes to end.
        from teia.search.rank.semantic import load, save
        from teia.search.rank.train_semantic import train, train_on

        try:
            current = load(path)
        except StoreError:
            current = None
        is_new_enough = current is not None and not force and pages < RETRAIN_GROWTH * current.pages
        if is_new_enough or (max_pages is not None and pages > max_pages):
            return False
        # Once the numbers of stems have run out, later pages have bags with gaps.
        words = shared_words()
        if bags is not None and len(bags.pages) == pages and len(words.stems()) < MAX_STEMS:
            model = train_on(bags, words, seed=seed, min_pages=MIN_PAGES)
        else:
            model = train(reader.all_entries, seed=seed, min_pages=MIN_PAGES)
    if model is None:
        return False
    save(model, path, clock.now_s())
    return True
