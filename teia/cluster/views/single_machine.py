"""The cluster of one machine: itself, with all cells of all its collections.

Everything is read from its data folder, so it works beside a running crawl. The machine's name is its node's; its load
is that of its processors over the last minute. It has no region, no lag and no epochs: those are for several.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock

from teia.clock import Clock, iso_utc
from teia.cluster.views.view import CellView, ClusterView, NodeView
from teia.collections.account import FINE_S, points_of, rates_of
from teia.collections.control_file import CrawlReport, CrawlReports
from teia.errors import CorruptFile, StoreError
from teia.frontier.cell.cell import FrontierCell
from teia.store.root import CellFolder, Root
from teia.urls import cell_range

COUNT_S = 5.0
"""Time for which counts of URLs are cached: each cell is a file to be opened."""

NOW_S = 20.0
"""Time span over which the present rate is measured."""


@dataclass(slots=True)
class SingleMachine:
    """One machine as a cluster; threads may share it."""

    root: Root
    clock: Clock
    _lock: Lock = field(default_factory=Lock)
    _cells: list[CellView] = field(default_factory=list)
    _until: float = -1.0

    @property
    def name(self) -> str:
        return os.uname().nodename or "localhost"

    def view(self) -> ClusterView:
        now_s, cells = self.clock.now_s(), self._cached_cells()
        runs = list(self._runs())
        seen_s = max((run.updated_s for run, _ in runs), default=None)
        rates = [rate for _, rate in runs if rate is not None]
        node = NodeView(
            name=self.name,
            state=self._state([run for run, _ in runs]),
            cells=len(cells),
            pages_per_s=round(sum(rates), 2) if rates else None,
            load=round(os.getloadavg()[0] / (os.cpu_count() or 1), 2),
            seen=None if seen_s is None else iso_utc(seen_s),
        )
        return ClusterView(iso_utc(now_s), node.name, [node], cells, [], [])

    def _state(self, runs: list[CrawlReport]) -> str:
        if self.root.lock_holder() is None:
            return "off"
        return "normal" if any(run.account.get("state") == "running" for run in runs) else "idle"

    def _runs(self) -> Iterator[tuple[CrawlReport, float | None]]:
        """Yield the running crawls, each with its pages a second."""
        if not self.root.control.exists():
            return
        with CrawlReports(self.root.control) as reports:
            for collection in self.root.collections():
                run = reports.running_crawl(collection)
                if run is not None:
                    # Rates lie between points, so that one more point is read.
                    points = points_of(reports, collection, FINE_S, self.clock.now_s() - NOW_S - FINE_S)
                    rates = [rate for _, rate in rates_of(points, FINE_S, "pages") if rate is not None]
                    yield run, sum(rates) / len(rates) if rates else None

    def _cached_cells(self) -> list[CellView]:
        with self._lock:
            now = self.clock.ticks_s()
            if now >= self._until:
                self._cells = [cell for name in self.root.collections() for cell in self._cells_of(name)]
                self._until = now + COUNT_S
            return self._cells

    def _cells_of(self, collection: str) -> Iterator[CellView]:
        folder = self.root.collection(collection)
        starts = folder.starts()
        for each in folder.cells():
            urls, queued = _counts(each)
            number, (first, end) = f"{collection}/{each.number:02d}", cell_range(each.number, starts)
            yield CellView(number, collection, each.number, first, end, self.name, urls, queued)


def _counts(folder: CellFolder) -> tuple[int, int]:
    """Return the numbers of known and queued URLs of a cell; zeros if it was never crawled."""
    try:
        cell = FrontierCell(folder.frontier, read_only=True)
    # A broken file is an error; a cell without a file is empty.
    except CorruptFile:
        raise
    except StoreError:
        return 0, 0
    try:
        return cell.known, cell.queued
    finally:
        cell.close()
