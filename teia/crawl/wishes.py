"""What a crawl is told: pages that people want visited now, deeds on many URLs (bulk.py), announcements (announced.py).

A wish is a row of `control.sqlite` until the crawler has it in its frontier, whenever one runs; there it is a URL that
is due like others. So it is asked for when its server may be asked next: courtesy is not shortened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from teia.clock import Clock
from teia.crawl.announced import Announced
from teia.crawl.bulk import BulkWork, waiting
from teia.crawl.cells import Cell
from teia.crawl.control import KEPT_S, Control
from teia.errors import DiskFull
from teia.frontier.wanted import visit_soon
from teia.urls import cell_of, site_of, slot_of, split

if TYPE_CHECKING:
    from teia.crawl.crawl import Crawl
    from teia.crawl.engine import Crawler

AT_ONCE = 100
"""So many are taken up with one commit."""


class Wishes:
    """What a running crawl was asked to visit: put in by the loop, granted by the commit thread."""

    def __init__(self, cells: Sequence[Cell], starts: Sequence[int], clock: Clock) -> None:
        self._cells, self._starts, self._clock = cells, starts, clock
        self._waiting: deque[tuple[int, str]] = deque()
        self._granted: deque[int] = deque()
        self._known: set[int] = set()
        self.bulk = BulkWork(cells, clock)
        self.announced = Announced(cells, starts, clock)

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting) or self.bulk.is_waiting or self.announced.is_waiting

    def take(self, wishes: Sequence[tuple[int, str]]) -> list[int]:
        """Take wishes as (number, URL), each once; returns the numbers of those that are in the frontier by now."""
        for number, url in wishes:
            if number not in self._known:
                self._known.add(number)
                self._waiting.append((number, url))
        return [self._granted.popleft() for _ in range(len(self._granted))]

    def forget(self, numbers: Sequence[int]) -> None:
        """Stop remembering wishes that nobody asks for any more."""
        self._known.difference_update(numbers)

    def grant(self) -> list[tuple[Cell, list[tuple[int, str]]]]:
        """Put what waits into the frontier; returns hosts that have something to fetch. In the commit thread."""
        touched = []
        for number, url in [self._waiting[at] for at in range(min(AT_ONCE, len(self._waiting)))]:
            cell = self._cells[cell_of(slot_of(site_of(split(url).host)), self._starts)]
            with cell.frontier.transaction() as frontier:
                host = visit_soon(frontier, url, self._clock.now_s())
            if host is not None:
                touched.append((cell, [host]))
            self._waiting.popleft()
            self._granted.append(number)
        return touched + self.bulk.work() + self.announced.work()

    def take_changed(self) -> set[str]:
        """Hosts whose queues on disk are not what they were; each once."""
        changed = self.bulk.changed
        return {changed.popleft() for _ in range(len(changed))}


def hear(control: Control, crawler: Crawler, crawl: Crawl, clock: Clock) -> None:
    """Let a crawl know what people want to have visited and done, and them that it does."""
    wishes = crawl.committer.wishes
    granted = wishes.take(control.wishes(crawl.name))
    for number in granted:
        with suppress(DiskFull):
            control.grant(number)
    wishes.forget(granted)
    for number, urls in wishes.bulk.take(waiting(control, crawl.name)):
        with suppress(DiskFull):
            control.deed_done(number, urls, clock.now_s())
        wishes.bulk.forget(number)
    for origin, asked_s in control.rereads(crawl.name):
        if crawler.reread_robots(crawl, origin, asked_s) or clock.now_s() > asked_s + KEPT_S:
            with suppress(DiskFull):
                control.reread_done(crawl.name, origin)
