"""The frontiers of a collection, opened for a moment by a process that does not crawl it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from teia.frontier.cell.cell import FrontierCell
from teia.store.root import CollectionFolder


@contextmanager
def open_cells(folder: CollectionFolder, *, read_only: bool = True) -> Iterator[list[FrontierCell]]:
    """Open the existing cells of a collection; none if it was never crawled."""
    with ExitStack() as stack:
        cells = []
        for cell in folder.cells():
            if cell.frontier.exists():
                cells.append(FrontierCell(cell.frontier, read_only=read_only))
                stack.callback(cells[-1].close)
        yield cells
