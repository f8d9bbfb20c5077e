"""The semantic model of a collection, trained beside the indexer.

A collection gets a model from 300 pages on, and a new one when it has grown by half: every ten minutes, and when the
crawl ends. At the end of a first crawl the indexer still has the words of all pages in memory
(index/training_words.py), so that nothing is read again, and the model is trained while tantivy commits the last pages.
The indexer runs with the lowest priority.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

from teia.clock import Clock
from teia.errors import StoreError
from teia.index.stems import MAX_STEMS, shared_words
from teia.index.training_words import Bags
from teia.index.union import UnionReader
from teia.store.root import CollectionFolder

if TYPE_CHECKING:
    from teia.search.rank.semantic import Model

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

        self._on_bags: Future[Model | None] | None = None

    def train_if_due(self) -> None:
        """Start a training if one is due; called often."""
        if self._running is not None and self._running.done():
            self._running.result()
            self._running, self._due_at = None, self._clock.ticks_s() + TRAIN_EVERY_S
        if self._running is None and self._clock.ticks_s() >= self._due_at:
            self._running = self._thread.submit(self._renew)

    def begin(self) -> None:
        """Begin to train on the words in memory, if they may be those of all pages; `train` uses the result.

        Called when the last page was taken, and before it is committed: no page must be added meanwhile.
        """
        if MIN_PAGES <= len(self.bags.pages) <= MAX_AT_END and _has_numbers():
            self._on_bags = self._thread.submit(self._train_on_bags)

    def train(self) -> None:
        """Train the model if it is due and takes seconds, and wait for it."""
        if self._running is not None:
            self._running.result()
            self._running = None
        on_bags, self._on_bags = self._on_bags, None
        trained = None if on_bags is None else on_bags.result()
        renew_model(
            self._collection, self._clock, seed=SEED, max_pages=MAX_AT_END, bags=self.bags, trained_on_bags=trained
        )

    def _train_on_bags(self) -> Model | None:
        return _train_on(self.bags, SEED) if _is_due(self._collection, len(self.bags.pages)) else None

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
    trained_on_bags: Model | None = None,
) -> bool:
    """Train the semantic model if a collection has none or has grown, or if `force`; return whether it was trained.

    For many pages it takes minutes and a core, so run it in a thread or process that no user waits for. A collection of
    more than `max_pages` is left alone. `bags` are of pages of the index: if it has no others, none is read, and a
    model that was trained on the bags before is taken.
    """
    with closing(UnionReader({str(cell.number): cell.index for cell in folder.cells()})) as reader:
        pages = reader.searcher().num_docs
        if pages < MIN_PAGES or (max_pages is not None and pages > max_pages):
            return False
        if not force and not _is_due(folder, pages):
            return False
        # Only for collections that get a model: numpy takes longer to import than a small crawl takes to end.
        from teia.search.rank.semantic import save
        from teia.search.rank.train_semantic import train

        if bags is not None and len(bags.pages) == pages and _has_numbers():
            model = trained_on_bags or _train_on(bags, seed)
        else:
            model = train(reader.all_entries, seed=seed, min_pages=MIN_PAGES)
    if model is None:
        return False
    save(model, folder.semantic, clock.now_s())
    return True


def _is_due(folder: CollectionFolder, pages: int) -> bool:
    """Tell whether a collection of so many pages has no model yet, or has grown."""
    from teia.search.rank.semantic import load

    try:
        current = load(folder.semantic)
    except StoreError:
        return True
    return current is None or pages >= RETRAIN_GROWTH * current.pages


def _has_numbers() -> bool:
    """Tell whether all stems have numbers; once these have run out, later pages have bags with gaps."""
    return len(shared_words().stems()) < MAX_STEMS


def _train_on(bags: Bags, seed: int) -> Model | None:
    from teia.search.rank.train_semantic import train_on

    return train_on(bags, shared_words(), seed=seed, min_pages=MIN_PAGES)
