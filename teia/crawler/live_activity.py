"""Activity of one crawl at this moment, for the user interface: the key `live` of its account.

It holds the requests under way, the last finished ones, the states of the hosts, and the smallest margin by which a
request respected its server's delay. All of it is bounded, and costs the loop a few dictionary operations a request.
Counting hosts visits each of them, so it is done less often the longer it takes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

from teia.clock import Clock, iso_utc
from teia.crawler.visit import ActiveVisit
from teia.frontier.queue.schedule import HostQueue, HostState

SHOWN_NOW = 12
SHOWN_DONE = 40
SHOWN_CHARS = 500
COUNT_SHARE = 0.01
"""Share of a processor that counting hosts may take."""

TOLERANCE_S = 0.001
"""Ticks are floats: a delay that is shorter by less than this counts as respected."""

STATES = ("ready", "resting", "fetching", "idle")


class EndedRequest(NamedTuple):
    """A request that ended, at `time_s`."""

    number: int
    time_s: float
    outcome: str
    url: str
    took_s: float
    bytes: int
    links: int

    def line(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "time": iso_utc(self.time_s),
            "outcome": self.outcome,
            "url": _short(self.url),
            "ms": round(1000 * self.took_s),
            "bytes": self.bytes,
            "links": self.links,
        }


class LiveRequests:
    """Requests of one crawl that are under way or just ended."""

    def __init__(self) -> None:
        self._under_way: dict[ActiveVisit, None] = {}
        self._done: deque[EndedRequest] = deque(maxlen=SHOWN_DONE)
        self._number = 0
        self._hosts: dict[str, int] = dict.fromkeys(STATES, 0)
        self._count_at = 0.0
        self.early = 0
        self.closest: tuple[float, float] | None = None

    # -- input from the loop -------------------------------------------------------------------------------

    def note_start(self, visit: ActiveVisit) -> None:
        """Note a request that is sent, and the time since its server's last answer."""
        self._under_way[visit] = None
        waited_s, delay_s = visit.waited_s, visit.delay_before_s
        if waited_s is None or not delay_s:
            return
        self.early += waited_s < delay_s - TOLERANCE_S
        if self.closest is None or waited_s - delay_s < self.closest[0] - self.closest[1]:
            self.closest = (waited_s, delay_s)

    def note_end(self, visit: ActiveVisit) -> None:
        self._under_way.pop(visit, None)

    def conclude(self, visit: ActiveVisit) -> None:
        """Note a visit that is over, if a request was sent for it."""
        if visit.fetched is not None:
            self._number += 1
            fetched, links = visit.fetched, 0 if visit.result is None else visit.result.links_seen
            took_s = max(0.0, fetched.ended_s - fetched.started_s)
            # The visit itself is not kept here: it holds the page until it is committed.
            self._done.append(
                EndedRequest(
                    self._number, fetched.ended_s, visit.outcome, visit.item.url, took_s, visit.bytes_received, links
                )
            )

    # -- output for the account ----------------------------------------------------------------------------

    def account(self, queues: Iterable[HostQueue], clock: Clock, finished: int = 0, waiting: int = 0) -> dict[str, Any]:
        """Return the activity as JSON values; `closest_s` is None until a server was requested twice.

        `finished` is the number of hosts that have left memory; they count as idle. Those `waiting` on disk are ready.
        """
        now = clock.ticks_s()
        if now >= self._count_at:
            # Visits every host, of which there may be 100,000.
            self._hosts = states_of(queues, now)
            # If counting took a while, the next count waits a hundred times as long.
            self._count_at = clock.ticks_s() + (clock.ticks_s() - now) / COUNT_SHARE
        closest_s, of_s = self.closest or (None, None)
        return {
            "now": [
                {"host": each.queue.host, "url": _short(each.item.url), "seconds": round(now - each.started, 1)}
                for each in islice(self._under_way, SHOWN_NOW)
            ],
            "under_way": len(self._under_way),
            "done": [each.line() for each in reversed(self._done)],
            "hosts": {
                **self._hosts,
                "ready": self._hosts["ready"] + waiting,
                "idle": self._hosts["idle"] + finished,
            },
            "early": self.early,
            "closest_s": None if closest_s is None else round(closest_s, 3),
            "closest_of_s": None if of_s is None else round(of_s, 3),
        }


def states_of(queues: Iterable[HostQueue], now: float) -> dict[str, int]:
    """Count hosts that are ready, are delayed with URLs waiting, are being fetched from, or have no URLs."""
    fetching = delayed = ready = idle = 0
    for queue in list(queues):
        if queue.server.busy and queue.state is not HostState.IDLE:
            fetching += 1
        elif queue.state is not HostState.WAITING:
            idle += 1
        elif queue.server.ready_at > now:
            delayed += 1
        else:
            ready += 1
    return dict(zip(STATES, (ready, delayed, fetching, idle), strict=True))


def _short(url: str) -> str:
    return url if len(url) <= SHOWN_CHARS else url[:SHOWN_CHARS] + "…"
