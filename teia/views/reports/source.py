"""Source of every report: the fetch log and the cells of one collection, at one instant.

Each cell is held in one read transaction from the first read on. So the report does not see what a running crawler
commits meanwhile, and the cell's log and tables agree with each other. A reader cannot hold the crawler up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from teia.collections.settings import saved
from teia.config.sections import Config
from teia.crawler.fetch_rows import log_part
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.tables.counts import LISTED_REFUSALS
from teia.store.fetchlog import OF_PAGES, LogPart
from teia.store.root import CellFolder, Root

if TYPE_CHECKING:
    from teia.store.sql import FetchLog

Key = TypeVar("Key")
ANSWERED = f"{OF_PAGES} AND status BETWEEN 200 AND 299 AND decoded_bytes > 0 AND outcome NOT IN ({LISTED_REFUSALS})"
"""Condition on the fetch log: an answer that brought a document."""


@dataclass(frozen=True, slots=True)
class OpenCell:
    """A cell open for reading."""

    folder: CellFolder
    frontier: FrontierCell

    @property
    def number(self) -> int:
        return self.folder.number


class LateLog:
    """The fetch log of a collection, opened by the first query: its newest rows are read then."""

    def __init__(self, open_log: Callable[[], FetchLog]) -> None:
        self._open = open_log
        self._log: FetchLog | None = None

    @property
    def log(self) -> FetchLog:
        if self._log is None:
            self._log = self._open()
        return self._log

    @property
    def damaged(self) -> Sequence[Path]:
        """Files that were left out of answers."""
        return () if self._log is None else self._log.damaged


@dataclass(frozen=True, slots=True)
class Source:
    """One collection, open for reading. `agent` is our name in its robots.txt files, `ranks` its rank file.

    `control` is the file with the numbers of its crawls over time.
    """

    late_log: LateLog
    cells: tuple[OpenCell, ...]
    config: Config
    ranks: Path
    collection: str
    control: Path

    @property
    def log(self) -> FetchLog:
        return self.late_log.log

    @property
    def damaged(self) -> Sequence[Path]:
        """Files of the log that were left out of answers."""
        return self.late_log.damaged

    @property
    def agent(self) -> str:
        return self.config.courtesy.user_agent

    @property
    def frontiers(self) -> list[FrontierCell]:
        return [cell.frontier for cell in self.cells]

    def count(self, counted: Callable[[FrontierCell], Counter[Key]]) -> Counter[Key]:
        """Add up what is counted in each cell."""
        return sum(map(counted, self.frontiers), Counter())


@contextmanager
def snapshot(root: Root, collection: str) -> Iterator[tuple[OpenCell, ...]]:
    """Open every cell of a collection for reading, each as a snapshot of now."""
    with ExitStack() as stack:
        cells = []
        for folder in root.collection(collection).cells():
            frontier = FrontierCell(folder.frontier, read_only=True)
            stack.callback(frontier.close)
            frontier.begin_snapshot()
            cells.append(OpenCell(folder, frontier))
        yield tuple(cells)


@contextmanager
def open_source(root: Root, collection: str) -> Iterator[Source]:
    """Open a collection for reports."""
    config = saved(root, collection).config
    with snapshot(root, collection) as cells, ExitStack() as stack:

        def open_log() -> FetchLog:
            from teia.store.sql import FetchLog  # loads DuckDB and Arrow, and many processes read no report

            return stack.enter_context(FetchLog(log_parts(cells)))

        yield Source(LateLog(open_log), cells, config, root.collection(collection).ranks, collection, root.control)


def log_parts(cells: Sequence[OpenCell]) -> Iterator[LogPart]:
    """Yield the fetch log of each cell, as its own frontier describes it."""
    return (log_part(cell.frontier, cell.folder.log) for cell in cells)


def share_of(part: float, whole: float) -> float:
    """Return a part of a whole, 0 where there is nothing."""
    return part / whole if whole else 0.0
