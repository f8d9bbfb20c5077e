"""Requests to a running crawl: pages to visit now, bulk actions on URLs.

A request is a row of `control.sqlite` until a running crawler has put it into its frontier. There it is a due URL like
any other: it waits for its host's politeness delay, which requests do not shorten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from teia.clock import Clock
from teia.crawler.open_cell import Cell, Touched
from teia.frontier.cell.bulk import END, BulkSelection, continue_action, progress
from teia.frontier.cell.fetch_now import visit_soon
from teia.urls import cell_of, site_of, slot_of, split

AT_ONCE = 100
"""Largest number of requests applied with one commit."""

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
        self._cells, self._starts, self._clock = cells, starts, clock
        self._waiting: dict[int, str] = {}
        self._applied: set[int] = set()

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def accept(self, number: int, url: str) -> bool:
        """Accept a request, once however often it is given; return True if it is in the frontier by now."""
        if number in self._applied:
            self._applied.discard(number)
            return True
        self._waiting.setdefault(number, url)
        return False

    def process(self) -> Touched:
        """Put waiting requests into the frontier; return hosts with new work. Runs in the commit thread."""
        touched: Touched = []
        for number, url in list(self._waiting.items())[:AT_ONCE]:
            cell = self._cells[cell_of(slot_of(site_of(split(url).host)), self._starts)]
            with cell.frontier.transaction() as frontier:
                host = visit_soon(frontier, url, self._clock.now_s())
            if host is not None:
                touched.append((cell, [host]))
            # Only after its transaction: a full disk loses none. Applied first: `accept` must find it in either.
            self._applied.add(number)
            del self._waiting[number]
        return touched


# ---- bulk actions ----------------------------------------------------------------------------------------------------


class BulkWork:
    """The bulk action of a running crawl: the event loop gives it, the commit thread runs it."""

    def __init__(self, cells: Sequence[Cell], clock: Clock) -> None:
        self._cells, self._clock = cells, clock
        self._current: tuple[int, str, BulkSelection] | None = None
        self._urls: int | None = None
        """Number of URLs of the current action; None until it is done."""
        self._changed: deque[str] = deque()

    @property
    def is_waiting(self) -> bool:
        return self._current is not None and self._urls is None

    def accept(self, number: int, mark: str, chosen: BulkSelection) -> int | None:
        """Accept the oldest pending action, once however often it is given; return its URLs if it is done by now."""
        if self._current is None or self._current[0] != number:
            # The one before is done, and recorded as such.
            self._urls, self._current = None, (number, mark, chosen)
        return self._urls

    def take_changed_hosts(self) -> set[str]:
        """Return the hosts whose queues on disk changed since their buffers were filled, each once."""
        return {self._changed.popleft() for _ in range(len(self._changed))}

    def process(self) -> Touched:
        """Continue the action, for a moment; return hosts whose queues changed. Runs in the commit thread."""
        if self._current is None or self._urls is not None:
            return []
        (_, mark, chosen), until = self._current, self._clock.ticks_s() + WORK_S
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
        found = [progress(cell.frontier, mark) for cell in self._cells]
        if all(position == END for position, _ in found):
            # Progress of all cells is committed; only the record in `control.sqlite` is missing.
            self._urls = sum(number for _, number in found)
        return touched
