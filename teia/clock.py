"""Clocks that callers pass in.

Two times exist. `now_s` is calendar time in Unix seconds, for data on disk and for display; it may jump. `ticks_s` only
ever grows; it measures politeness delays, time-outs and leases. The wall clock reads CLOCK_BOOTTIME for it, because
CLOCK_MONOTONIC stops while a machine is suspended, and a host's delay does not.

Nothing else in teia reads the time, so a test or the lab can run a day in a moment with `VirtualClock`.
"""

from __future__ import annotations

import heapq
import itertools
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio


class Clock(Protocol):
    """Interface of a clock, for code that needs the time."""

    def now_s(self) -> float:
        """Return calendar time, in Unix seconds."""

    def ticks_s(self) -> float:
        """Return seconds since some fixed instant; never goes back."""

    async def sleep(self, seconds: float) -> None:
        """Return when `seconds` have passed on this clock."""


class WallClock:
    """The machine's own time."""

    def now_s(self) -> float:
        return time.time()

    def ticks_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        import asyncio  # parse children read times too, and have no loop

        await asyncio.sleep(seconds)


class VirtualClock:
    """Clock that moves only on request.

    Sleepers wake in order of their deadline, and those with the same deadline in the order they went to sleep, so a run
    on this clock repeats exactly.
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self._start_s = start_s
        self._elapsed_s = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now_s(self) -> float:
        return self._start_s + self._elapsed_s

    def ticks_s(self) -> float:
        return self._elapsed_s

    async def sleep(self, seconds: float) -> None:
        import asyncio

        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # The counter decides between equal deadlines; futures cannot be compared.
        heapq.heappush(self._sleepers, (self._elapsed_s + max(0.0, seconds), next(self._order), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass, waking sleepers one by one on the way and letting each run until it waits again."""
        # Not `seconds < 0`: NaN must be refused, too.
        if not seconds >= 0:
            raise ValueError(f"time does not pass by {seconds} s")
        until_s = self._elapsed_s + seconds
        await self._settle()
        while self._sleepers and self._sleepers[0][0] <= until_s:
            self._elapsed_s, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
            await self._settle()
        self._elapsed_s = until_s

    @staticmethod
    async def _settle() -> None:
        import asyncio

        # A woken task may need several turns of the loop before it sleeps again; these are enough for plain chains.
        for _ in range(8):
            await asyncio.sleep(0)


class FastClock:
    """Another clock sped up: a second there is `factor` seconds here. With it a crawl lives through weeks.

    Everything that is measured in seconds of the clock is sped up: delays, intervals, our time-outs. Other durations,
    such as the time that a network takes, seem longer by the factor. `real_clock` is for limits of those.
    """

    def __init__(self, clock: Clock, factor: float, since_s: float | None = None) -> None:
        """Start a clock that agrees with the other one at `since_s`: now, or a moment before."""
        if not factor > 0:
            raise ValueError(f"time does not go by {factor:g} times")
        self.real, self.factor = clock, factor
        self._began_s = clock.now_s() if since_s is None else since_s
        # The other clock's ticks at `since_s`; its ticks and its calendar time count from different instants.
        self._began = clock.ticks_s() - (clock.now_s() - self._began_s)

    def now_s(self) -> float:
        return self._began_s + self.ticks_s()

    def ticks_s(self) -> float:
        return (self.real.ticks_s() - self._began) * self.factor

    async def sleep(self, seconds: float) -> None:
        await self.real.sleep(seconds / self.factor)


def real_clock(clock: Clock) -> Clock:
    """Return the clock that a fast one speeds up, or the clock itself: disks and people are no faster with it."""
    return clock.real if isinstance(clock, FastClock) else clock


def iso_utc(unix_s: float) -> str:
    """Format a time in ISO 8601 in UTC with `Z`, to the microsecond, as in all our JSON."""
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def from_iso(text: str) -> float:
    """Parse an ISO 8601 time to Unix seconds; a time without a zone is taken as UTC. ValueError if it is invalid."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
