"""PageRank of a whole collection, renewed beside the indexer.

PageRank takes half a minute for a million pages, in a thread of its own. It is due when the link files have grown by a
tenth since the last time, or have changed and then stayed the same for a while. It does not run sooner than a multiple
of its own duration after the last run: ranks are worth a small part of a machine.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from teia.clock import Clock
from teia.graph.linkfile import START
from teia.graph.pagerank import Ranks
from teia.graph.renewal import update_ranks
from teia.store.root import CellFolder, CollectionFolder

GROWTH = 1.1
MIN_PAUSE_S = 60.0
SETTLED_S = 30.0
COST_FACTOR = 20.0


def rank_file(collection: CollectionFolder) -> Path:
    return collection.ranks


def link_file(cell: CellFolder) -> Path:
    return cell.index / "links.bin"


def link_copy(collection: CollectionFolder, cell: int) -> Path:
    """Return the path of the copied link file of a cell that another node owns."""
    return collection.path / "links" / f"{cell:02d}.bin"


class Ranker:
    """Background renewal of the ranks of one collection; `close` waits for a running one."""

    def __init__(self, collection: CollectionFolder, clock: Clock, owned: Collection[int] | None = None) -> None:
        """Set up; `owned` are the cells that a node owns.

        Link files of the other cells are copies from their owners (cluster/).
        """
        self._files = [
            link_file(folder) if owned is None or folder.number in owned else link_copy(collection, folder.number)
            for folder in collection.cells()
        ]
        self._ranks = rank_file(collection)
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "ranks")
        self._running: Future[Ranks] | None = None
        self._began = self._due_at = clock.ticks_s()
        self._ranked_bytes = 0
        self._seen_bytes, self._seen_at = 0, clock.ticks_s()

    def rank_if_due(self) -> None:
        """Start a renewal if one is due; called often."""
        self._collect_result()
        now = self._clock.ticks_s()
        if self._running is None and now >= self._due_at and self._has_changed(now):
            self._start()

    def _has_changed(self, now: float) -> bool:
        """Tell whether there are a tenth more links than were ranked, or changed links that have settled."""
        size = self._size()
        if size != self._seen_bytes:
            self._seen_bytes, self._seen_at = size, now
        is_settled = size != self._ranked_bytes and now - self._seen_at >= SETTLED_S
        return size > GROWTH * self._ranked_bytes or is_settled

    def rank(self) -> None:
        """Renew the ranks from the present links, and wait for the result."""
        if self._running is not None:
            self._running.result()
            self._collect_result()
        if self._size() != self._ranked_bytes or not self._ranks.exists():
            self._start()
            self._collect_result(wait=True)

    def _start(self) -> None:
        # The size at the beginning: links appended while the thread runs count as new.
        self._began, self._ranked_bytes = self._clock.ticks_s(), self._size()
        self._running = self._thread.submit(update_ranks, self._files, self._ranks, self._clock.now_s())

    def _collect_result(self, *, wait: bool = False) -> None:
        if self._running is None or not (wait or self._running.done()):
            return
        self._running.result()
        self._running = None
        took_s = self._clock.ticks_s() - self._began
        self._due_at = self._clock.ticks_s() + max(MIN_PAUSE_S, COST_FACTOR * took_s)

    def _size(self) -> int:
        """Return the bytes of links in all files; without any there is nothing to rank."""
        return sum(path.stat().st_size - len(START) for path in self._files if path.exists())

    def close(self) -> None:
        self._thread.shutdown()
