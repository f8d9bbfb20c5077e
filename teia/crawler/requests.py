"""Requests to a running crawl: pages to visit now, bulk actions on URLs.

A request is a row of `control.sqlite` until a running crawler has put it into its frontier. There it is a due URL like
any other: it waits for its host's politeness delay, which requests do not shorten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from teia.clock import Clock
from teia.crawler.open_cell import Cell, Touched
from teia.frontier.cell.bulk import END, BulkSelection, continue_action, progress
from teia.frontier.cell.fetch_now import visit_soon
from teia.urls import host_to_cell, split

AT_ONCE = 100
"""Largest number of requests applied with one commit."""

REMEMBERED = 10_000
"""Applied requests that are remembered: a request is repeated until its answer is recorded."""

WORK_S = 0.05
"""Longest time, in seconds, that bulk work may delay one commit of a running crawl."""


class PendingWork(Protocol):
    """Work that others request of a crawl; the event loop accepts it, the commit thread does it."""

    @property
    def is_waiting(self) -> bool:
        """True if there is something to do; called by both."""

    def process(self) -> Touched:
        """Do some of it, in the commit thread; return the hosts with new work."""


class VisitRequests:
    """Visit requests of a running crawl: the event loop adds them, the commit thread applies them."""

    def __init__(self, cells: Sequence[Cell], starts: Sequence[int], clock: Clock) -> None:
        self._clock = clock
        cell_number = host_to_cell(starts)
        self.cell_of: Callable[[str], Cell | None] = lambda host: cells[cell_number(host)]
        """Function that returns the cell of a host; None if another node owns it by now."""
        # With the time of the request: an old one must not stand for the next one for the same URL.
        self._waiting: dict[tuple[str, float], None] = {}
        self._applied: dict[tuple[str, float], None] = {}

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def accept(self, url: str, since_s: float) -> bool:
        """Accept the request of a time, once however often it is given; return True if it is in the frontier by now."""
        if (url, since_s) in self._applied:
            return True
        self._waiting[url, since_s] = None
        return False

    def process(self) -> Touched:
        """Put waiting requests into the frontier; return hosts with new work. Runs in the commit thread."""
        touched: Touched = []
        for request in list(self._waiting)[:AT_ONCE]:
            url, _ = request
            cell = self.cell_of(split(url).host)
            if cell is not None and request not in self._applied:
                with cell.frontier.transaction() as frontier:
                    host = visit_soon(frontier, url, self._clock.now_s())
                if host is not None:
                    touched.append((cell, [host]))
                # Only after its transaction: a full disk loses none. Applied first: `accept` must find it in either.
                self._applied[request] = None
            del self._waiting[request]
        for request in list(self._applied)[:-REMEMBERED]:
            del self._applied[request]
        return touched


# ---- bulk actions ----------------------------------------------------------------------------------------------------


class BulkWork:
    """The bulk action of a running crawl: the event loop gives it, the commit thread runs it."""

    def __init__(self, cells: Sequence[Cell], clock: Clock) -> None:
        self._cells, self._clock = cells, clock
        self._current: tuple[str, BulkSelection] | None = None
        self._is_done = False
        self.finished: dict[int, int] = {}
        """Cells in which the current action is done, and the number of its URLs there."""
        self._changed: deque[str] = deque()

    @property
    def is_waiting(self) -> bool:
        return self._current is not None and not self._is_done

    @property
    def mark(self) -> str:
        """The mark of the current action; empty if there is none."""
        return self._current[0] if self._current is not None else ""

    def accept(self, mark: str, chosen: BulkSelection) -> int | None:
        """Accept the oldest pending action, once however often it is given; return its URLs if it is done by now."""
        if self._current is None or self._current[0] != mark:
            # The one before is done, and recorded as such.
            self._is_done, self.finished, self._current = False, {}, (mark, chosen)
        return sum(self.finished.values()) if self._is_done else None

    def take_changed_hosts(self) -> set[str]:
        """Return the hosts whose queues on disk changed since their buffers were filled, each once."""
        return {self._changed.popleft() for _ in range(len(self._changed))}

    def process(self) -> Touched:
        """Continue the action, for a moment; return hosts whose queues changed. Runs in the commit thread."""
        if self._current is None or self._is_done:
            return []
        (mark, chosen), finished = self._current, self.finished
        until = self._clock.ticks_s() + WORK_S
        touched: Touched = []
        for cell in self._cells:
            if progress(cell.frontier, mark)[0] != END:
                with cell.frontier.transaction() as frontier:
                    hosts = continue_action(
                        frontier, chosen, mark, self._clock.now_s(), lambda: self._clock.ticks_s() < until
                    )
                touched.append((cell, hosts))
                self._changed.extend(host for _, host in hosts)
                if self._clock.ticks_s() >= until:
                    break
        found = {cell.number: progress(cell.frontier, mark) for cell in self._cells}
        # Progress of these cells is committed; only the record in `control.sqlite` is missing.
        finished |= {cell: urls for cell, (position, urls) in found.items() if position == END}
        self._is_done = finished is self.finished and len(finished) == len(found)
        return touched
