"""Politeness judged by the lab's own log, independent of the crawler's claims.

A request is early if its first byte arrived sooner than the delay after the last byte of the previous answer, to the
same host or to the same address. Both times are the server's. The crawler's delay begins when it has read that byte and
ends when it sends. So it can only look longer here than it was, never shorter by more than a clock reading.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from teia.lab.server.requestlog import RequestLogEntry

# For the clock readings of both sides, and for the log's truncated microseconds.
TOLERANCE_S = 0.001


@dataclass(frozen=True, slots=True)
class EarlyRequest:
    """Two requests to one server that were too close: the actual and the required delay between them."""

    server: str
    waited_s: float
    delay_s: float
    before: RequestLogEntry
    after: RequestLogEntry


def early_requests(
    entries: Iterable[RequestLogEntry],
    delay_s: float,
    server_of: Callable[[RequestLogEntry], str],
    tolerance_s: float = TOLERANCE_S,
) -> list[EarlyRequest]:
    """Return every request that came before its server's delay of `delay_s` was over."""
    by_server: dict[str, list[RequestLogEntry]] = defaultdict(list)
    for entry in entries:
        by_server[server_of(entry)].append(entry)
    early = []
    for server, visits in by_server.items():
        visits.sort(key=lambda entry: entry.start_s)
        for before, after in pairwise(visits):
            waited_s = after.start_s - before.end_s
            if waited_s < delay_s - tolerance_s:
                early.append(EarlyRequest(server, waited_s, delay_s, before, after))
    return early
