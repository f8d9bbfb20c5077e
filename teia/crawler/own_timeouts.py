"""Documents lost to time-outs of this machine, and the number of parallel requests that it can carry (T4).

A machine with too many requests under way reads answers late: documents reach their time limit although their servers
are well. Its load need not be high, so Tarântula's authors found such losses hard to identify. The sign used here: of
the requests to hosts that had answered before, several at different addresses run into the time limit together.
Servers far apart do not fail together, so the fault is with this machine or its network. The crawler then halves its
parallel requests, and raises them again step by step while no such time-outs occur.
"""

from __future__ import annotations

import logging

JUDGED = 100
"""Number of requests after which the number of parallel requests is decided anew."""

LOST_SHARE, ADDRESSES = 0.1, 5
"""Share of requests that timed out, and their least number of addresses, from which the machine is the cause."""

WELL_SHARE = 0.02
LEAST = 8
"""Parallel requests that any machine is thought to carry."""

_log = logging.getLogger(__name__)


class OwnTimeouts:
    """The number of parallel requests that this machine carries without losing documents; `most` at first."""

    def __init__(self, most: int) -> None:
        self._most = self.cap = most
        self.lost = 0
        """Documents that the machine itself lost, as far as is known."""
        self._changed_at = float("-inf")
        self._requests = self._peak = 0
        self._timeouts: list[str] = []

    @property
    def share(self) -> float:
        """Part of its usual parallel requests that the machine carries."""
        return self.cap / self._most

    def note_answer(self, address: str, started: float, now: float, in_flight: int, *, is_timeout: bool) -> None:
        """Count the end of a request to a host that had answered before; `in_flight` were under way with it.

        A request that began before the last change says nothing of the present number.
        """
        if started < self._changed_at:
            return
        self._requests += 1
        self._peak = max(self._peak, in_flight)
        if is_timeout:
            self._timeouts.append(address)
        if self._requests >= JUDGED:
            self._judge(now)

    def _judge(self, now: float) -> None:
        lost, before = len(self._timeouts), self.cap
        if lost >= LOST_SHARE * self._requests and len(set(self._timeouts)) >= ADDRESSES:
            self.lost += lost
            self.cap = max(min(LEAST, self._most), min(self.cap, self._peak) // 2)
            self._changed_at = now
            _log.warning(
                "%d of %d requests to servers at %d addresses that had answered before timed out; this machine sends"
                " at most %d requests at once now, instead of %d",
                lost, self._requests, len(set(self._timeouts)), self.cap, before,
            )  # fmt: skip
        elif lost <= WELL_SHARE * self._requests and self.cap < self._most:
            self.cap = min(self._most, self.cap + max(1, self.cap // 4))
            _log.info("no more time-outs of this machine's own; at most %d requests at once now", self.cap)
        self._requests = self._peak = 0
        self._timeouts.clear()
