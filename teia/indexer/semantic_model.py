"""The semantic model of a collection, trained beside the indexer.

Training takes minutes. A collection that wants a model gets a new one when its pages have doubled.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

from teia.clock import Clock
from teia.errors import StoreError
from teia.index.union import UnionReader
from teia.store.root import CollectionFolder

TRAIN_EVERY_S = 600.0
SEED = 20_261
"""Fixed seed: the same pages give the same model."""

RETRAIN_GROWTH = 2.0
"""Growth in pages, as a factor, after which the semantic model is trained again."""


class Trainer:
    """Background training of the semantic model of one collection (semantic.py); `close` waits for a running one."""

    def __init__(self, collection: CollectionFolder, clock: Clock) -> None:
        self._collection = collection
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "semantics")
        self._running: Future[bool] | None = None
        self._due_at = clock.ticks_s() + TRAIN_EVERY_S

    def train_if_due(self) -> None:
        """Start a training if one is due; called often."""
        if self._running is not None and self._running.done():
            self._running.result()
            self._running, self._due_at = None, self._clock.ticks_s() + TRAIN_EVERY_S
        if self._running is None and self._clock.ticks_s() >= self._due_at:
            self._running = self._thread.submit(self._renew)

    def train(self) -> None:
        """Train the model again if the pages have doubled, and wait for it."""
        if self._running is not None:
            self._running.result()
            self._running = None
        self._renew()

    def _renew(self) -> bool:
        return renew_model(self._collection, self._clock, seed=SEED)

    def close(self) -> None:
        self._thread.shutdown()


def renew_model(folder: CollectionFolder, clock: Clock, *, seed: int, force: bool = False) -> bool:
    """Train the semantic model if a collection has none or has doubled, or if `force`; return whether it was trained.

    For many pages it takes minutes and a core, so run it in a thread or process that no user waits for.
    """
    from teia.search.rank.semantic import load, save  # only for collections that want a model
    from teia.search.rank.train_semantic import MIN_PAGES, train

    path = folder.semantic
    with closing(UnionReader({str(cell.number): cell.index for cell in folder.cells()})) as reader:
        try:
            current = load(path)
        except StoreError:
            current = None
        pages = reader.searcher().num_docs
        # Training takes minutes: again only after the collection has doubled.
        if pages < MIN_PAGES or (current is not None and not force and pages < RETRAIN_GROWTH * current.pages):
            return False
        model = train(reader.all_entries, seed=seed)
    if model is None:
        return False
    save(model, path, clock.now_s())
    return True
