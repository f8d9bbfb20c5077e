"""Whole simulated crawls: every URL is served once, and no server or address is asked too early."""

from __future__ import annotations

import heapq
import itertools
import random
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from teia.config.sections import CourtesySettings
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.schedule import HostQueue
from tests.frontier.queues import make_schedule, queued

MOST_HOSTS = CourtesySettings().shared_sites
"""More of them at one address would owe each other less (frontier/queue/shared_addresses.py)."""


@dataclass(frozen=True, slots=True)
class Sent:
    url: str
    host: str
    address: str
    started: float
    ended: float


class Simulation:
    """Hosts, addresses, arrivals and answers drawn from a seed; ends when nothing can happen any more.

    The clock jumps to the next thing that the schedule, an arrival or an answer announces. So a host that is
    forgotten in some corner of the schedule leaves URLs unserved.
    """

    def __init__(self, seed: int, delay_s: float, per_host: int, max_hosts: int) -> None:
        self.chance = random.Random(seed)
        self.schedule = make_schedule(delay_s, per_host, max_hosts)
        self.events: list[tuple[float, int, str, HostQueue, QueuedUrl | None]] = []
        self.order = itertools.count()
        self.sent: list[Sent] = []
        self.most_engaged = 0
        self.expected: set[str] = set()
        self.addresses: dict[str, str] = {}
        for host in range(self.chance.randrange(1, MOST_HOSTS + 1)):
            self.addresses[f"h{host}"] = f"1.1.1.{self.chance.randrange(4)}"
            for collection in range(self.chance.choice((1, 1, 2))):
                self.plan(f"h{host}", collection)

    def plan(self, host: str, collection: int) -> None:
        queue = HostQueue(host, 1, 0, collection, self.schedule.politeness.server(host))
        for _ in range(self.chance.randrange(1, 8)):
            at = self.chance.randrange(100) / 4
            item = queued(host, at)
            self.expected.add(item.url)
            self.at(at, "found", queue, item)

    def at(self, time: float, what: str, queue: HostQueue, item: QueuedUrl | None = None) -> None:
        heapq.heappush(self.events, (time, next(self.order), what, queue, item))

    def run(self) -> None:
        now = 0.0
        while True:
            while self.events and self.events[0][0] <= now:
                self.happen(now, *heapq.heappop(self.events)[2:])
            while (queue := self.schedule.next_host(now)) is not None:
                self.serve(queue, now)
            self.most_engaged = max(self.most_engaged, self.schedule.engaged)
            announced = self.schedule.next_event()
            assert announced > now, "the schedule promised something now and had nothing"
            now = min(announced, self.events[0][0] if self.events else float("inf"))
            if now == float("inf"):
                return

    def happen(self, now: float, what: str, queue: HostQueue, item: QueuedUrl | None) -> None:
        if what == "found":
            assert item is not None
            queue.buffer.append(item)
            self.schedule.wake(queue)
        elif what == "answered":
            sent = self.sent[-1 - next(n for n, s in enumerate(reversed(self.sent)) if item and s.url == item.url)]
            retry_after_s = self.chance.choice((0, 0, 0, 0, 20))
            self.schedule.end_request(queue, sent.address, sent.started, now, retry_after_s)
        elif what == "resolved":
            self.schedule.put_back(queue)
        else:
            self.schedule.wake(queue)

    def serve(self, queue: HostQueue, now: float) -> None:
        """What the crawler does with a host: look up its name first, hold it now and then, start a request."""
        if not queue.address:
            queue.address = self.addresses[queue.host]
            if self.chance.random() < 0.5:
                self.at(now + self.chance.randrange(8) / 4, "resolved", queue)
                return
        if self.chance.random() < 0.05:
            self.schedule.put_back(queue, held=True)
            self.at(now + 1, "woken", queue)
        elif self.schedule.is_free(queue, now):
            item, seconds = queue.pop(), self.chance.randrange(1, 12) / 4
            self.schedule.begin_request(queue)
            self.sent.append(Sent(item.url, queue.host, queue.address, now, now + seconds))
            self.at(now + seconds, "answered", queue, item)
        else:
            self.schedule.put_back(queue)


@settings(max_examples=300)
@given(
    seed=st.integers(0, 2**32),
    delay_s=st.sampled_from((0.0, 1.0, 5.0)),
    per_host=st.sampled_from((1, 1, 3)),
    max_hosts=st.sampled_from((1, 3, 1_000)),
)
def test_every_url_is_served_exactly_once(seed: int, delay_s: float, per_host: int, max_hosts: int) -> None:
    simulation = Simulation(seed, delay_s, per_host, max_hosts)
    simulation.run()
    urls = [sent.url for sent in simulation.sent]
    assert len(urls) == len(set(urls))
    assert set(urls) == simulation.expected
    assert simulation.most_engaged <= max_hosts


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32), per_host=st.sampled_from((1, 1, 3)), max_hosts=st.sampled_from((2, 1_000)))
def test_no_server_or_address_is_requested_too_early_or_too_often(seed: int, per_host: int, max_hosts: int) -> None:
    simulation = Simulation(seed, 5.0, per_host, max_hosts)
    simulation.run()
    for number, later in enumerate(simulation.sent):
        for place in ("host", "address"):
            same = [sent for sent in simulation.sent[:number] if getattr(sent, place) == getattr(later, place)]
            assert sum(sent.ended > later.started for sent in same) < per_host
            assert all(later.started >= sent.ended + 5.0 for sent in same if sent.ended <= later.started)
