"""The frontiers of a collection, opened one after the other by a process that does not crawl it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from teia.frontier.cell.cell import FrontierCell
from teia.store.root import CollectionFolder


def each_cell(folder: CollectionFolder, *, read_only: bool = True) -> Iterator[FrontierCell]:
    """Open each existing cell of a collection, and close it before the next one; none if it was never crawled.

    Each open cell needs several file descriptors, and a collection may have more cells than the process may open files.
    """
    for cell in folder.cells():
        if cell.frontier.exists():
            with closing(FrontierCell(cell.frontier, read_only=read_only)) as frontier:
                yield frontier
