"""Number of files a process may have open, and the part that is left for sockets.

Every request under way and every idle connection is a descriptor, beside the files of each cell. If a crawl ran out of
descriptors, servers that were never requested would look dead. So a crawl counts its descriptors at its start, and
limits the number of concurrent requests to them. If there are almost none, it reports an error and does not start.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass

from teia.errors import StoreError

WANTED = 65_536
SPARE = 12
"""Descriptors for files opened occasionally: a resolver's socket, a new child's pipes, a log file, an index."""

PER_CHILD = 3
LEAST = 6


@dataclass(frozen=True, slots=True)
class Sockets:
    """Number of concurrent requests and of idle connections for which there are descriptors."""

    at_once: int
    keep_alive: int


def raise_limit() -> int:
    """Raise the descriptor limit above the shell's default; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)


def open_now() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # names are enough


def share_out(limit: int, used: int, at_once: int, keep_alive: int) -> Sockets:
    """Return how many of the requested sockets fit beside `used` descriptors.

    The number of idle connections is reduced by a third, because half as many again may be kept for https
    (fetch/curl.py).
    """
    room = limit - used - SPARE
    if room < LEAST:
        raise StoreError(
            f"the limit of {limit} open files is too low, {used + SPARE + LEAST} are needed; raise it with `ulimit -n`"
        )
    requests = min(at_once, room // 2)
    return Sockets(requests, min(keep_alive, (room - requests) * 2 // 3))
