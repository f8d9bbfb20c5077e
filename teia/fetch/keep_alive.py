"""Kept connections: servers that may keep one open, and connections that servers have closed meanwhile.

A fixed set of servers keeps its connections, not the most recent ones.

Hosts are visited in turn, and a least-recently-used pool smaller than the circle never sees a connection twice (2,000
hosts, room for 1,000: 20,000 of 20,000 new). So a server that has a place keeps it while it is used, and the others
close after each answer. A place is free again when its server had no request for `idle_s`; its connection is gone then.
A server that closes kept connections without notice has no place for a while.

A request that another one follows, as a page follows its robots.txt, keeps its connection without a place: in a crawl
of many small hosts all places are taken, and each host would be connected to twice. libcurl's own limit bounds these.
"""

from __future__ import annotations

import select
from collections import OrderedDict

NO_KEEP_ALIVE_S = 600.0
"""Seconds in which a server that closed a kept connection without notice gets a new one each time."""

MAX_REFUSED = 10_000
"""Most servers for which that is stored."""

Local = tuple[str, int]
"""Address and port of our end of a connection: all that libcurl's hook knows of the one it is about to use."""


class KeepAliveBudget:
    """`budget` places, given in the order of requests."""

    def __init__(self, budget: int, idle_s: float) -> None:
        self._budget = budget
        self._idle_s = idle_s
        self._used_s: OrderedDict[str, float] = OrderedDict()
        self._refused_s: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._used_s)

    def admit(self, origin: str, now_s: float, *, is_followed: bool = False) -> bool:
        """Tell whether the server may keep its connection after the request that starts now."""
        used_s = self._used_s
        if self._refused_s and self._is_refused(origin, now_s):
            return False
        if origin in used_s:
            used_s[origin] = now_s
            used_s.move_to_end(origin)
            return True
        if len(used_s) >= self._budget and not self._free_one(now_s):
            return is_followed and self._budget > 0
        used_s[origin] = now_s
        return True

    def refuse_keep_alive(self, origin: str, now_s: float) -> None:
        """Take its place from a server that closes kept connections without notice."""
        self._used_s.pop(origin, None)
        self._refused_s[origin] = now_s
        self._refused_s.move_to_end(origin)
        if len(self._refused_s) > MAX_REFUSED:
            self._refused_s.popitem(last=False)

    def _is_refused(self, origin: str, now_s: float) -> bool:
        refused_s = self._refused_s.get(origin)
        if refused_s is None or now_s - refused_s <= NO_KEEP_ALIVE_S:
            return refused_s is not None
        del self._refused_s[origin]
        return False

    def _free_one(self, now_s: float) -> bool:
        if not self._used_s:
            return False
        # `admit` moves a used server to the end, so the first one has been unused for longest.
        longest_unused = next(iter(self._used_s))
        if now_s - self._used_s[longest_unused] <= self._idle_s:
            return False
        del self._used_s[longest_unused]
        return True


class IdleSockets:
    """Descriptors of the connections that libcurl keeps, to be checked before they are used again.

    libcurl checks them itself only when a connection was idle for a second. Its hook passes the local end of the
    connection and not its descriptor, so the descriptor is noted whenever a transfer ends. The note of a connection
    that is used again is the one that its last transfer made; a note of one that libcurl has closed is replaced when
    its descriptor is reused, so there are never more notes than descriptors.
    """

    def __init__(self) -> None:
        self._locals: dict[int, Local] = {}
        self._descriptors: dict[Local, int] = {}

    def __len__(self) -> int:
        return len(self._descriptors)

    def note(self, local: Local, descriptor: int) -> None:
        before = self._locals.get(descriptor)
        if before == local:
            return
        if before is not None and self._descriptors.get(before) == descriptor:
            del self._descriptors[before]
        self._locals[descriptor] = local
        self._descriptors[local] = descriptor

    def is_closed(self, local: Local) -> bool:
        """Tell whether the server has closed the kept connection with this local end."""
        descriptor = self._descriptors.get(local)
        if descriptor is None:
            return False
        # poll and not select: descriptors above 1023 are common with thousands of connections.
        poller = select.poll()
        poller.register(descriptor, select.POLLRDHUP)
        return bool(poller.poll(0))  # poll reports errors and resets without a flag
