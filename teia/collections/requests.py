"""Requests to a crawl: pages to visit now, bulk actions on URLs, announcements.

A request is a row of `control.sqlite` until a running crawler has put it into its frontier. There it is a due URL like
any other: it waits for its host's politeness delay, which requests do not shorten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from teia.clock import Clock
from teia.collections.bulk import BulkWork, waiting
from teia.collections.inbox import KEPT_S, ControlFile
from teia.crawler.open_cell import Cell
from teia.crawler.signals_in.announcements import Announcements
from teia.errors import DiskFull
from teia.frontier.cell.fetch_now import visit_soon
from teia.urls import cell_of, site_of, slot_of, split

if TYPE_CHECKING:
    from teia.crawler.loop import Crawler
    from teia.crawler.running_collection import Crawl

AT_ONCE = 100
"""Largest number of requests granted with one commit."""


class VisitRequests:
    """Visit requests of a running crawl: the event loop adds them, the commit thread grants them."""

    def __init__(self, cells: Sequence[Cell], starts: Sequence[int], clock: Clock) -> None:
        self._cells, self._starts, self._clock = cells, starts, clock
        self._waiting: deque[tuple[int, str]] = deque()
        self._granted: deque[int] = deque()
        self._known: set[int] = set()
        self.bulk = BulkWork(cells, clock)
        self.announced = Announcements(cells, starts, clock)

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting) or self.bulk.is_waiting or self.announced.is_waiting

    def take(self, wishes: Sequence[tuple[int, str]]) -> list[int]:
        """Accept requests as (number, URL), each once; return the numbers of those that are in the frontier by now."""
        for number, url in wishes:
            if number not in self._known:
                self._known.add(number)
                self._waiting.append((number, url))
        return [self._granted.popleft() for _ in range(len(self._granted))]

    def forget(self, numbers: Sequence[int]) -> None:
        """Forget requests that are no longer in `control.sqlite`."""
        self._known.difference_update(numbers)

    def grant(self) -> list[tuple[Cell, list[tuple[int, str]]]]:
        """Put waiting requests into the frontier; return hosts with new work. Runs in the commit thread."""
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
        """Return the hosts whose queues on disk changed, each once."""
        changed = self.bulk.changed
        return {changed.popleft() for _ in range(len(changed))}


def hear(control: ControlFile, crawler: Crawler, crawl: Crawl, clock: Clock) -> None:
    """Pass the visit requests and bulk actions of users to a crawl, and record its progress for them."""
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
