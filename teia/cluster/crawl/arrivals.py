"""Batches of links from other nodes, from their arrival to their merge: counts by sender, and the lag (A3, A11).

The lag of a batch is the time from its storage in NATS, by the clock of its server, until a commit here merged it.
The cluster's thread notes arrivals, the commit thread notes merges, and the crawl's loop reports both.
"""

from __future__ import annotations

from collections import Counter, deque
from threading import Lock

from teia.clock import Clock
from teia.cluster.cells.log import LinkBatch

LAG_WITHIN_S = 20.0
"""Time span over which the lag is averaged."""


class Arrivals:
    """The batches that arrived for the cells owned here."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._waiting: dict[int, deque[tuple[int, str, float]]] = {}
        """By cell: (number in the stream, sender, time of storage) of batches that are not merged, in order."""
        self._merged: Counter[str] = Counter()
        self._lags: deque[tuple[float, float]] = deque(maxlen=1_000)

    def note_received(self, cell: int, batch: LinkBatch) -> None:
        with self._lock:
            self._waiting.setdefault(cell, deque()).append((batch.seq, batch.giver, batch.published_s))

    def note_merged(self, cell: int, until: int) -> None:
        """Note that a commit of a cell merged its batches up to a number in the stream."""
        now, now_s = self._clock.ticks_s(), self._clock.now_s()
        with self._lock:
            waiting = self._waiting.get(cell, deque())
            while waiting and waiting[0][0] <= until:
                _, giver, published_s = waiting.popleft()
                self._merged[giver] += 1
                self._lags.append((now, max(0.0, now_s - published_s)))

    def waiting_until(self, cell: int, until: int) -> dict[str, tuple[int, float, float]]:
        """Return the batches of a cell that wait, up to a number in the stream.

        By sender: their number, and the times at which the first and the last of them were stored.
        """
        found: dict[str, list[float]] = {}
        with self._lock:
            for seq, giver, published_s in self._waiting.get(cell, ()):
                if seq <= until:
                    found.setdefault(giver, []).append(published_s)
        return {giver: (len(times), min(times), max(times)) for giver, times in found.items()}

    def forget(self, cell: int) -> None:
        """Forget the batches of a cell that another node owns now."""
        with self._lock:
            self._waiting.pop(cell, None)

    def batches_by_node(self) -> dict[str, tuple[int, int]]:
        """Return, by sender, the batches merged and those that wait; an older sender is not known by name."""
        with self._lock:
            waits = Counter(giver for cell in self._waiting.values() for _, giver, _ in cell)
            return {giver: (self._merged[giver], waits[giver]) for giver in {*self._merged, *waits} if giver}

    def lag(self) -> dict[str, float]:
        """Return `lag_s`: the mean lag of the last batches, or the age of the oldest that waits, if that is longer.

        Empty if no batch was merged lately and none waits.
        """
        now, now_s = self._clock.ticks_s(), self._clock.now_s()
        with self._lock:
            lags = [lag_s for at, lag_s in self._lags if now - at <= LAG_WITHIN_S]
            ages = [now_s - cell[0][2] for cell in self._waiting.values() if cell]
        mean_s = sum(lags) / len(lags) if lags else 0.0
        return {"lag_s": round(max([mean_s, *ages]), 3)} if lags or ages else {}
