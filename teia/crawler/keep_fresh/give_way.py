"""Pages that give way at the size limit, to more important URLs of any host (F2).

With `limits.pages_kept` reached, all requests go to the pages that are kept. When a host is planned, its least
important pages are compared with the most important URLs that wait, of its own and of all other hosts in the cells of
this machine. A clearly less important page is dropped, and the URL is fetched instead. Importance is the weight of a
page for its revisits; where all pages have the same weight, it is the number of pages that link to it.

Between nodes the same happens in two steps. Each node reports the importance of its least important page. A node with
a URL that is clearly more important than that page of another node fetches the URL, so that one page too many is kept.
The node with the least important page of all then drops it; of nodes with equally important ones, the first by name.
So nodes need no messages beyond their sessions. A node that dies between the steps leaves at most one page too many for
each other node.

`find` runs in the planning thread, all else in the commit thread, which also forgets hosts that left.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing
from math import inf
from typing import NamedTuple

import numpy as np

from teia.config.sections import RefreshSettings
from teia.crawler.keep_fresh.host_plan import PageColumns, Weigh
from teia.crawler.open_cell import Cell, Touched
from teia.crawler.ownership import KeptElsewhere
from teia.frontier.cell import revisits
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import RowKey
from teia.frontier.cell.revisits import CapturedPage

CLEARLY = 2.0
"""Ratio of importance at which a page gives way to a URL, large enough that they do not swap forever."""

MAX_CANDIDATES = 5_000
MAX_SWAPPED_SHARE = 0.05
"""Share of a host's pages that may give way with one plan."""

READ_EVERY_S = 600.0
"""Interval at which the URLs of all hosts are read: that reads the whole table of each cell."""

TAKE_EVERY_S = 60.0
"""Interval at which a node takes a place from other nodes: long enough for their reports of the page they dropped."""


class NewUrlCandidate(NamedTuple):
    """A new URL that may replace a page: its importance, its cell and host, and its key."""

    worth: float
    cell: int
    slot: int
    host_id: int
    host: str
    key: int

    @property
    def row_key(self) -> RowKey:
        return self.slot, self.host_id, self.key


class Swap(NamedTuple):
    """A page of the planned host that is dropped, and the URL it gives way to; the other one is None across nodes."""

    dropped: int | None
    added: NewUrlCandidate | None


class SwapFinder:
    """Finder of pages that give way, over the cells of this machine."""

    def __init__(self, cells: Iterable[Cell], settings: RefreshSettings, weigh: Weigh) -> None:
        self._cells = cells
        self._weigh: Weigh = _by_links if settings.weights == "equal" else weigh
        self._best: dict[int, NewUrlCandidate] = {}
        self._least: dict[tuple[int, int], float] = {}
        self._read_s = self._took_s = -inf

    @property
    def least(self) -> float:
        """Importance of the least important page of this machine; infinite before any plan. Any thread may read it."""
        return min(list(self._least.values()), default=inf)

    def note_least(self, cell: int, host_id: int, least: float) -> None:
        """Note the importance of a host's least important page; infinite if it has none here, or no longer."""
        if least < inf:
            self._least[cell, host_id] = least
        else:
            self._least.pop((cell, host_id), None)

    def find(
        self,
        frontier: FrontierCell,
        planned: tuple[int, int, int, str],
        rows: Sequence[CapturedPage],
        columns: PageColumns,
        now_s: float,
        excess: int,
        elsewhere: KeptElsewhere,
    ) -> tuple[list[Swap], float]:
        """Return the pages that give way of a host, (cell, slot, host id, name), each with the URL that replaces it.

        `excess` pages are kept beyond the limit. The importance of the host's least important page comes second.
        """
        stored = np.where(columns.is_gone, 0.0, self._weigh(rows))
        most = max(1, int(MAX_SWAPPED_SHARE * len(rows)))
        order = np.argsort(stored, kind="stable")[: most + 1].tolist()
        least_of_host = float(stored[order[0]])
        others = [each for key, each in list(self._least.items()) if key != (planned[0], planned[2])]
        least = min([least_of_host, *others])
        if excess > 0 and elsewhere.goes_after(least):
            # One too many, because a node has taken a place: the least important page of all goes.
            dropped = [each for each in order[: min(excess, most)] if stored[each] <= least]
            return [Swap(rows[each].key, None) for each in dropped], least_of_host
        own = revisits.queued_urls(frontier, planned[1], planned[2], MAX_CANDIDATES)
        waiting = self._read_best(now_s) | {each.key: each for each in self._weighed((planned, url) for url in own)}
        best = heapq.nlargest(most, waiting.values(), key=lambda url: url.worth)
        pairs = zip(order[:most], best, strict=False)
        swaps = [Swap(rows[each].key, url) for each, url in pairs if url.worth > CLEARLY * stored[each]]
        is_time = not swaps and excess <= 0 and now_s - self._took_s >= TAKE_EVERY_S
        if is_time and best and best[0].worth > CLEARLY * elsewhere.least:
            swaps, self._took_s = [Swap(None, best[0])], now_s
        # Other hosts that are planned before the next reading need other URLs.
        for _, url in swaps:
            if url is not None:
                self._best.pop(url.key, None)
        return swaps, least_of_host

    def _read_best(self, now_s: float) -> dict[int, NewUrlCandidate]:
        """Return the most important URLs of all hosts."""
        if now_s - self._read_s >= READ_EVERY_S:
            self._read_s, self._best = now_s, {}
            for cell in list(self._cells):
                with closing(FrontierCell(cell.folder.frontier, read_only=True)) as frontier:
                    found = revisits.most_linked_new(frontier, MAX_CANDIDATES)
                urls = self._weighed(((cell.number, *of_host), url) for of_host, url in found)
                self._best |= {url.key: url for url in urls}
        return self._best

    def _weighed(self, urls: Iterable[tuple[tuple[int, int, int, str], CapturedPage]]) -> list[NewUrlCandidate]:
        found = list(urls)
        worth = self._weigh([url for _, url in found]).tolist() if found else []
        return [NewUrlCandidate(each, *of_host, url.key) for each, (of_host, url) in zip(worth, found, strict=True)]


def give_way(
    cells: Iterable[Cell], cell: Cell, slot: int, host_id: int, swaps: Sequence[Swap], now_s: float
) -> tuple[Touched, int]:
    """Drop pages of a host and queue the URLs that replace them.

    Return the hosts of the queued URLs, and the number of dropped pages. The two may be in different cells, and each
    cell has one transaction. After a crash between them the pages are gone, and the next new URLs take their places.
    """
    if not swaps:
        return [], 0
    open_cells = {each.number: each for each in cells}
    replacing: defaultdict[int, list[NewUrlCandidate]] = defaultdict(list)
    number_dropped = 0
    with cell.frontier.transaction() as frontier:
        for dropped, added in swaps:
            if added is not None:
                other = open_cells.get(added.cell)
                if other is None or not revisits.is_new(other.frontier, added.row_key):
                    continue
            if dropped is not None:
                if not revisits.drop_page(frontier, (slot, host_id, dropped)):
                    continue
                number_dropped += 1
            if added is not None:
                replacing[added.cell].append(added)
    touched: Touched = []
    for number, urls in replacing.items():
        with open_cells[number].frontier.transaction() as frontier:
            for url in urls:
                revisits.request_new(frontier, url.row_key, now_s)
        touched += [(open_cells[number], [(url.host_id, url.host)]) for url in urls]
    return touched, number_dropped


def _by_links(pages: Sequence[CapturedPage]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([1.0 + page.in_links for page in pages])
