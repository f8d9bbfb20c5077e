"""What the tests of the schedule share: hosts with URLs, and a crawler that asks and is answered at once."""

from __future__ import annotations

import itertools
from dataclasses import replace

from teia.config.sections import CourtesySettings
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.order import TOP_SCORE, Order, breadth
from teia.frontier.queue.politeness import Politeness
from teia.frontier.queue.schedule import HostQueue, HostSchedule

keys = itertools.count(1)


def make_schedule(delay_s: float = 5.0, per_host: int = 1, max_hosts: int = 1_000) -> HostSchedule:
    courtesy = CourtesySettings(delay_s=delay_s, response_factor=0.0, per_host=per_host)
    return HostSchedule(Politeness(courtesy), max_hosts)


def queued(host: str, since_s: float) -> QueuedUrl:
    key = next(keys)
    return QueuedUrl(f"http://{host}/{key}", key, 0, key, 1, since_s)


def add(
    schedule: HostSchedule,
    host: str,
    *since_s: float,
    address: str = "",
    collection: int = 0,
    order: Order = breadth,
    in_links: int = 0,
) -> HostQueue:
    """A host in line with one URL for each time; without an address it gets one of its own."""
    server = schedule.politeness.server(host)
    queue = HostQueue(host, 1, 0, collection, server, address=address or f"of {host}", order=order)
    urls = (queued(host, each) for each in since_s)
    queue.buffer.extend(replace(url, rank=order.rank(1, in_links, url.key, TOP_SCORE)) for url in urls)
    schedule.wake(queue)
    return queue


def start_next(schedule: HostSchedule, now: float) -> HostQueue | None:
    """Start the next request, as the crawler does; None when there is none to start."""
    queue = schedule.next_host(now)
    if queue is not None:
        queue.pop()
        schedule.begin_request(queue)
    return queue


def answer(schedule: HostSchedule, queue: HostQueue, now: float, started: float | None = None) -> None:
    schedule.end_request(queue, queue.address, now if started is None else started, now)


def start_all(schedule: HostSchedule, now: float) -> list[HostQueue]:
    """Start every request that may start now."""
    return list(iter(lambda: start_next(schedule, now), None))


def started_hosts(schedule: HostSchedule, now: float) -> list[str]:
    """The same, by name."""
    return [queue.host for queue in start_all(schedule, now)]
