"""How many files a process may have open, and what that leaves for sockets.

Every request under way and every idle connection is a descriptor, beside the files of each cell. Running out of them in
the middle would make servers look dead that were never asked. So a crawl counts at its start, and has as many requests
at once as there is room for; where there is hardly any, it says so and does not begin.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass

from teia.errors import StoreError

WANTED = 65_536
SPARE = 12
"""For what is opened now and then: a resolver's socket, a new child's pipes, a file of the log, an index."""

PER_CHILD = 3
LEAST = 6


@dataclass(frozen=True, slots=True)
class Sockets:
    """Requests under way and idle connections that there are descriptors for."""

    at_once: int
    keep_alive: int


def raise_limit() -> int:
    """Ask for more descriptors than a shell gives by default; returns how many there are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)


def open_now() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # names are enough


def share_out(limit: int, used: int, at_once: int, keep_alive: int) -> Sockets:
    """Return how many of the sockets that are wanted there can be, besides `used` descriptors.

    Of the idle connections half as many again may be kept for https (fetch/curl.py).
    """
    room = limit - used - SPARE
    if room < LEAST:
        raise StoreError(
            f"this process may have {limit} files open and needs {used + SPARE + LEAST}; allow more with `ulimit -n`"
        )
    requests = min(at_once, room // 2)
    return Sockets(requests, min(keep_alive, (room - requests) * 2 // 3))
