"""The state of a collection's index compared with its frontier: pages that can be found, and pages that cannot yet.

The indexer follows the crawl in a process of its own. It may have fallen behind, have died, or have lost a cell's
folder that a user deleted. Everything here is read from files, so all callers see the same: `teia status`, the
monitor's alerts, `teia audit index`, and the searcher, which warns of a partial index.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from teia.durable import lock_holder
from teia.frontier.cell.connection import CellConnection
from teia.frontier.tables.page_summaries import open_summaries
from teia.index.borrowed import count_lacking
from teia.index.position import documents_in, has_index, read_position
from teia.store.root import CellFolder, CollectionFolder

if TYPE_CHECKING:
    from teia.frontier.cell.cell import FrontierCell

LOCK_FILE = "index.lock"
MAX_COUNTED = 10_000
"""Most pages behind the index that are counted one by one; beyond that, every change counts as a page."""

MIN_LAG, MIN_LAG_SHARE = 50, 0.05
"""Number of waiting pages, and their share of all, from which an index that is being written is called partial."""


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index compared with its frontier.

    `indexed` is the number of pages that can be found now. `lag` counts crawled pages that belong in the index,
    which has not reached them yet; `unreadable` those whose archived captures it could not read. `missing_cells` lists
    cells that have pages and no index at all. `is_being_written`: a process holds the lock for writing the index.
    """

    indexed: int = 0
    lag: int = 0
    unreadable: int = 0
    changes: int = 0
    missing_cells: tuple[int, ...] = ()
    is_being_written: bool = False

    @property
    def is_partial(self) -> bool:
        """True if a searcher should be warned: pages are missing and no process adds them, or many are missing."""
        if not self.is_being_written:
            return self.lag + self.unreadable > 0
        return self.unreadable > 0 or self.lag > max(MIN_LAG, MIN_LAG_SHARE * self.changes)


def compare_running_index(folder: CollectionFolder, cells: Iterable[tuple[CellFolder, FrontierCell]]) -> IndexState:
    """Compare a running crawl's index with its frontiers; safe in any thread, because no database is queried.

    Every changed page counts as behind, also those that the index will leave out. A node of a cluster itself looks for
    pages whose captures are elsewhere (indexer.py), so they do not count as unreadable.
    """
    indexed = lag = unreadable = changes = 0
    missing_cells = list[int]()
    for cell, frontier in cells:
        position = read_position(cell.index) if has_index(cell.index) else None
        indexed += documents_in(cell.index)
        lag += max(0, frontier.changes - (position or 0))
        changes += frontier.changes
        missing_cells += [cell.number] if position is None and frontier.changes else []
        unreadable += 0 if frontier.journal is not None else count_lacking(cell.index)
    return IndexState(indexed, lag, unreadable, changes, tuple(missing_cells), is_being_written(folder))


def compare_index(folder: CollectionFolder, cells: Iterable[tuple[CellFolder, CellConnection]]) -> IndexState:
    """Compare the index of a collection with its frontiers.

    For the cells of a cluster only searchable pages are counted: another node may own the cells by now.
    """
    indexed = lag = unreadable = changes = 0
    missing_cells = list[int]()
    for cell, frontier in cells:
        indexed += documents_in(cell.index)
        if frontier.is_of_cluster:
            continue
        position = read_position(cell.index) if has_index(cell.index) else None
        last = frontier.last_change()
        waiting = _waiting(frontier, position or 0, last)
        missing_cells += [cell.number] if position is None and waiting else []
        lag, changes, unreadable = lag + waiting, changes + last, unreadable + count_lacking(cell.index)
    return IndexState(indexed, lag, unreadable, changes, tuple(missing_cells), is_being_written(folder))


def read_index_state(folder: CollectionFolder) -> IndexState:
    """Open the frontiers of a collection, and compare its index with them."""
    with ExitStack() as stack:
        opened = list[tuple[CellFolder, CellConnection]]()
        for cell in folder.cells():
            opened.append((cell, open_summaries(cell.frontier)))
            stack.callback(opened[-1][1].close)
        return compare_index(folder, opened)


def _waiting(frontier: CellConnection, position: int, last: int) -> int:
    """Count the pages after a position that belong in the index."""
    if last <= position:
        return 0
    # An upper limit is enough there: this runs every few seconds, and counting would take long.
    if last - position > MAX_COUNTED:
        return last - position
    # Imported here: a search of a complete index need not wait for it.
    from teia.frontier.tables.page_changes import count_indexable

    return count_indexable(frontier, position)


def is_being_written(folder: CollectionFolder) -> bool:
    """Tell whether a process holds the lock for writing a collection's index."""
    with suppress(OSError):
        return lock_holder(folder.path / LOCK_FILE) is not None
    return False
