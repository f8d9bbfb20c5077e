"""The frontiers of a collection open for search results: the last visit of a page, and the links to it.

`Lookup` (lookup.py) finds everything else about a page. This part imports little: `teia search` waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from teia.frontier.cell.connection import CellConnection
from teia.frontier.tables.page_summaries import summarize_page
from teia.lib.closing import Closing
from teia.store.root import Root
from teia.urls import host_of, host_to_cell

Cell = TypeVar("Cell", bound=CellConnection, covariant=True)


class PageSummary(NamedTuple):
    """Summary of a page for search results, and the location of the rest."""

    cell: int
    host: str
    host_id: int
    in_links: int
    visits: int
    last_visit_s: float


class PageSummaries(Closing, Generic[Cell]):
    """The cells of a collection, opened read-only; they show the data committed at that instant."""

    def __init__(self, root: Root, name: str, open_cell: Callable[[Path], Cell]) -> None:
        self.root, self.name = root, name
        collection = root.collection(name)
        self.folders = collection.cells()
        self.cell_number = host_to_cell(collection.starts())
        # If one cell cannot be opened, those already open are closed.
        with ExitStack() as stack:
            self.cells: list[Cell] = []
            for folder in self.folders:
                self.cells.append(open_cell(folder.frontier))
                stack.callback(self.cells[-1].close)
            self._stack = stack.pop_all()

    def close(self) -> None:
        self._stack.close()

    def cell_of_host(self, host: str) -> int:
        """Return the cell that knows a host: by its name, or the one to which a cluster moved its site (A4)."""
        location = self.locate_host(host)
        return self.cell_number(host) if location is None else location[0]

    def locate_host(self, host: str) -> tuple[int, int] | None:
        """Return the cell that knows a host, and the host's number there."""
        home = self.cell_number(host)
        for number in (home, *(number for number in range(len(self.cells)) if number != home)):
            host_id = self.cells[number].find_host(host)
            if host_id is not None:
                return number, host_id
        return None

    def page_summary(self, url: str, key: int) -> PageSummary | None:
        """Return the summary of a page in one query; None if the page was not visited."""
        host = host_of(url)
        home = self.cell_number(host)
        for number in (home, *(number for number in range(len(self.cells)) if number != home)):
            row = summarize_page(self.cells[number], host, key)
            if row is not None:
                return PageSummary(number, host, *row)
        return None
