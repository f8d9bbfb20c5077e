"""Processes that crawl a web together, in one of Cho's modes.

    firewall     a link to another process's page is dropped
    cross-over   it is followed when the process has no pages of its own left
    exchange     it is sent to its owner, many at a time, by each process once

Each process fetches one page a turn: the oldest it knows of (breadth first), or the one with the most known links to
it. In the second order, exchanging processes also send repeated links to pages they sent before, because that order
depends on the number of links.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from teia.lab.parallel.web import WebGraph


class Mode(Enum):
    """The treatment of a link to a page of another process."""

    FIREWALL = "firewall"
    CROSS_OVER = "cross-over"
    EXCHANGE = "exchange"


@dataclass(slots=True)
class ParallelCrawlResult:
    """The result of a crawl: pages fetched by all processes in order; numbers of URLs sent and of messages."""

    fetched: list[int] = field(default_factory=list)
    sent: int = 0
    messages: int = 0


class Queue:
    """Waiting pages, each once: the oldest first, or those with the most links to them first."""

    def __init__(self, by_links: bool) -> None:
        self._by_links = by_links
        self._fifo: deque[int] = deque()
        self._heap: list[tuple[int, int, int]] = []
        self._links: dict[int, int] = {}
        self._known: set[int] = set()
        self._fetched: set[int] = set()
        self._sequence = 0

    def add(self, page: int, links: int = 1) -> None:
        """Add `links` more links to a page."""
        if self._by_links:
            if page not in self._fetched:
                self._links[page] = self._links.get(page, 0) + links
                self._sequence += 1
                # Every link pushes a new entry. `pop` skips those whose count is outdated.
                heapq.heappush(self._heap, (-self._links[page], self._sequence, page))
        elif page not in self._known:
            self._known.add(page)
            self._fifo.append(page)

    def pop(self) -> int | None:
        if not self._by_links:
            return self._fifo.popleft() if self._fifo else None
        while self._heap:
            links, _, page = heapq.heappop(self._heap)
            if page not in self._fetched and -links == self._links[page]:
                self._fetched.add(page)
                return page
        return None


class Process:
    """One process: its own pages, the pages of others that it may follow at the end, and its unsent links by owner."""

    def __init__(self, number: int, mode: Mode, by_links: bool) -> None:
        self.number = number
        self.own, self.others = Queue(by_links), Queue(by_links)
        self._mode, self._by_links = mode, by_links
        self._sent: set[int] = set()
        self._outbox: dict[int, dict[int, int]] = {}
        self.unsent = 0

    def pop(self) -> int | None:
        page = self.own.pop()
        return self.others.pop() if page is None and self._mode is Mode.CROSS_OVER else page

    def add_link(self, page: int, owner: int) -> None:
        """Handle a link found on a page."""
        if owner == self.number:
            self.own.add(page)
        elif self._mode is Mode.CROSS_OVER:
            self.others.add(page)
        elif self._mode is Mode.EXCHANGE and (self._by_links or page not in self._sent):
            self._sent.add(page)
            waiting = self._outbox.setdefault(owner, {})
            waiting[page] = waiting.get(page, 0) + 1
            self.unsent += 1

    def take_messages(self) -> dict[int, dict[int, int]]:
        """Return the unsent links by owner, as pages with their numbers of links, and mark them as sent."""
        messages, self._outbox, self.unsent = self._outbox, {}, 0
        return messages


def crawl(
    web: WebGraph,
    owners: Sequence[int],
    seeds: Sequence[Sequence[int]],
    mode: Mode,
    *,
    by_links: bool = False,
    batch: int = 100,
    most_fetched: int = 0,
    enough: int = 0,
) -> ParallelCrawlResult:
    """Run one process for each list of seeds until no work is left.

    A process sends the links of others when it has collected `batch` links, and when it has no other work. The crawl
    ends earlier when `most_fetched` pages were fetched in all, or `enough` different ones.
    """
    processes = [Process(number, mode, by_links) for number in range(len(seeds))]
    for process, pages in zip(processes, seeds, strict=True):
        for first in pages:
            process.own.add(first)
    result, distinct, is_busy = ParallelCrawlResult(), set[int](), True
    while is_busy:
        is_busy = False
        for process in processes:
            # 1. One page a turn; the mode decides what becomes of links to pages of other processes.
            page = process.pop()
            if page is not None:
                is_busy = True
                result.fetched.append(page)
                distinct.add(page)
                for target in web.links[page]:
                    process.add_link(target, owners[target])
                if len(result.fetched) == most_fetched or len(distinct) == enough:
                    return result
            # 2. Send a full batch, or a smaller one if the process is idle. The receivers then have work again.
            if process.unsent and (page is None or process.unsent >= batch):
                is_busy = True
                for to, message in process.take_messages().items():
                    result.messages += 1
                    result.sent += len(message)
                    for found, links in message.items():
                        processes[to].own.add(found, links)
    return result
