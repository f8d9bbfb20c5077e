"""The schedule and the fetcher without the rest of a crawl: URLs are given, answers are discarded.

The rate on many hosts then depends on the schedule alone, and not on parsing and storing pages.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from functools import partial
from pathlib import Path

import uvloop

from teia.clock import WallClock
from teia.config.sections import CourtesySettings, LimitSettings
from teia.crawler.loop import TICK_S
from teia.fetch.curl import CurlFetcher
from teia.fetch.destination import Destination, Destinations
from teia.fetch.dns import CaresResolver
from teia.fetch.fetcher import FetchRequest
from teia.fetch.guard import AddressGuard
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.politeness import Politeness
from teia.frontier.queue.schedule import HostQueue, HostSchedule
from teia.records import Fetched
from teia.urls import key_of, split


def urls_by_host(truth: Path) -> dict[str, list[str]]:
    """Return the URLs of the lab's ground truth that robots.txt allows, by host."""
    found: dict[str, list[str]] = defaultdict(list)
    with truth.open(encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            if line["robots_allowed"]:
                found[line["host"]].append(line["url"])
    return found


class FetchOnly:
    """A crawl that requests the URLs of every host, as often as its delay allows, for some seconds."""

    def __init__(self, delay_s: float, hosts: int, dns: str) -> None:
        self._clock = WallClock()
        guard = AddressGuard(["127.77.0.0/16"])
        self._schedule = HostSchedule(Politeness(CourtesySettings(delay_s=delay_s)), hosts)
        self._fetcher = CurlFetcher(
            guard, LimitSettings(), self._clock, "teia-bench", keep_alive=hosts, concurrency=hosts
        )
        self._resolver = CaresResolver(self._clock, dns)
        self._destinations = Destinations(self._resolver, guard)
        self._running = True
        self.answers = 0

    async def run(self, urls: dict[str, list[str]], seconds: float) -> None:
        """Resolve the names first, then send requests."""
        for number, (host, its_urls) in enumerate(urls.items()):
            destination = await self._destinations.find(host, split(its_urls[0]).port)
            queue = HostQueue(host, number + 1, 0, 0, self._schedule.politeness.server(host))
            queue.address = destination.address
            queue.buffer.extend(QueuedUrl(url, key_of(url), 0, rank, 1, 0.0) for rank, url in enumerate(its_urls))
            self._schedule.wake(queue)
        until = self._clock.ticks_s() + seconds
        while (now := self._clock.ticks_s()) < until:
            while (queue := self._schedule.next_host(now)) is not None:
                self._serve(queue, now)
            await asyncio.sleep(TICK_S)
        self._running = False
        await self._fetcher.close()
        await self._resolver.close()

    def _serve(self, queue: HostQueue, now: float) -> None:
        item = queue.head
        if item is None:
            self._schedule.put_back(queue)
            return
        destination = self._destinations.find_cached(queue.host, split(item.url).port)
        assert isinstance(destination, Destination), "the name was resolved"
        queue.pop()
        self._schedule.begin_request(queue)
        request = FetchRequest(item.url, destination.address, destination.port)
        self._fetcher.start(request, partial(self._fetched, queue, now))

    def _fetched(self, queue: HostQueue, started: float, fetched: Fetched) -> None:
        self.answers += bool(fetched.status)
        self._schedule.end_request(queue, queue.address, started, self._clock.ticks_s(), 0.0)


def fetch_only(truth: Path, dns: str, seconds: float, delay_s: float) -> int:
    """Send requests for some seconds; return the number of answers."""
    urls = urls_by_host(truth)

    async def run() -> int:
        fetching = FetchOnly(delay_s, len(urls), dns)
        await fetching.run(urls, seconds)
        return fetching.answers

    return uvloop.run(run())
