"""Requests to a running crawl: pages to visit now, bulk actions on URLs, announcements.

A request is a row of `control.sqlite` until a running crawler has put it into its frontier. There it is a due URL like
any other: it waits for its host's politeness delay, which requests do not shorten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from teia.clock import Clock
from teia.crawler.open_cell import Cell
from teia.crawler.signals_in.announcements import Announcements
from teia.frontier.cell.bulk import END, BulkSelection, continue_action, progress
from teia.frontier.cell.fetch_now import visit_soon
from teia.urls import cell_of, site_of, slot_of, split

AT_ONCE = 100
"""Largest number of requests applied with one commit."""

WORK_S = 0.05
"""Longest time, in seconds, that bulk work may delay one commit of a running crawl."""


class VisitRequests:
    """Visit requests of a running crawl: the event loop adds them, the commit thread applies them."""

    def __init__(self, cells: Sequence[Cell], starts: Sequence[int], clock: Clock) -> None:
        self._cells, self._starts, self._clock = cells, starts, clock
        self._waiting: deque[tuple[int, str]] = deque()
        self._applied: deque[int] = deque()
        self._known: set[int] = set()
        self.bulk = BulkWork(cells, clock)
        self.announced = Announcements(cells, starts, clock)

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting) or self.bulk.is_waiting or self.announced.is_waiting

    def accept(self, requests: Sequence[tuple[int, str]]) -> list[int]:
        """Accept requests as (number, URL), each once; return the numbers of those that are in the frontier by now."""
        for number, url in requests:
            if number not in self._known:
                self._known.add(number)
                self._waiting.append((number, url))
        return [self._applied.popleft() for _ in range(len(self._applied))]

    def forget(self, numbers: Sequence[int]) -> None:
        """Forget requests that are no longer in `control.sqlite`."""
        self._known.difference_update(numbers)

    def apply(self) -> list[tuple[Cell, list[tuple[int, str]]]]:
        """Put waiting requests into the frontier; return hosts with new work. Runs in the commit thread."""
        touched = []
        # A request leaves the line only after its transaction: a full disk loses none.
        for number, url in [self._waiting[at] for at in range(min(AT_ONCE, len(self._waiting)))]:
            cell = self._cells[cell_of(slot_of(site_of(split(url).host)), self._starts)]
            with cell.frontier.transaction() as frontier:
                host = visit_soon(frontier, url, self._clock.now_s())
            if host is not None:
                touched.append((cell, [host]))
            self._waiting.popleft()
            self._applied.append(number)
        return touched + self.bulk.process() + self.announced.process()

    def take_changed_hosts(self) -> set[str]:
        """Return the hosts whose queues on disk changed, each once."""
        changed = self.bulk.changed
        return {changed.popleft() for _ in range(len(changed))}


# ---- bulk actions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """A requested action. `number` counts its URLs so far; `done_s` is None until it is complete."""

    id: int
    mark: str
    chosen: BulkSelection
    who: str
    requested_s: float
    number: int
    done_s: float | None


class BulkWork:
    """Bulk actions of a running crawl: the event loop adds them, the commit thread runs them."""

    def __init__(self, cells: Sequence[Cell], clock: Clock) -> None:
        self._cells, self._clock = cells, clock
        self._waiting: deque[BulkRequest] = deque()
        self._done: deque[tuple[int, int]] = deque()
        self._known: set[int] = set()
        self._unwritten: set[int] = set()
        """Actions that are done but not recorded as such: the next one would overwrite their progress."""
        self.changed: deque[str] = deque()
        """Hosts whose queues on disk changed since their buffers were filled."""

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting) and not self._unwritten

    def accept(self, requests: Sequence[BulkRequest]) -> list[tuple[int, int]]:
        """Accept actions, each once; return (number of the action, URLs) of those that are done by now."""
        for each in requests:
            if each.id not in self._known:
                self._known.add(each.id)
                self._waiting.append(each)
        return [self._done.popleft() for _ in range(len(self._done))]

    def forget(self, number: int) -> None:
        """Forget an action that is recorded as done."""
        self._known.discard(number)
        self._unwritten.discard(number)

    def process(self) -> list[tuple[Cell, list[tuple[int, str]]]]:
        """Continue the first action, for a moment; return hosts whose queues changed. Runs in the commit thread."""
        if not self.is_waiting:
            return []
        request, until = self._waiting[0], self._clock.ticks_s() + WORK_S
        touched = []
        for cell in self._cells:
            if progress(cell.frontier, request.mark)[0] != END:
                with cell.frontier.transaction() as frontier:
                    hosts = continue_action(
                        frontier,
                        request.chosen,
                        request.mark,
                        self._clock.now_s(),
                        lambda: self._clock.ticks_s() < until,
                    )
                touched.append((cell, hosts))
                self.changed.extend(host for _, host in hosts)
                if self._clock.ticks_s() >= until:
                    break
        found = [progress(cell.frontier, request.mark) for cell in self._cells]
        if all(position == END for position, _ in found):
            # Progress of all cells is committed; only the record in `control.sqlite` is missing.
            self._waiting.popleft()
            self._unwritten.add(request.id)
            self._done.append((request.id, sum(number for _, number in found)))
        return touched
