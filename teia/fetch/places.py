"""Which servers may keep a connection open: a fixed set, not the most recent ones.

Hosts are visited in turn, and a least-recently-used pool smaller than the circle never sees a connection twice (2,000
hosts, room for 1,000: 20,000 of 20,000 new). So a server that has a place keeps it while it is used, and the others
close after each answer. A place is free again when its server was not asked for `idle_s`; its connection is gone then.
"""

from __future__ import annotations

from collections import OrderedDict


class Places:
    """`budget` places, given in the order of asking."""

    def __init__(self, budget: int, idle_s: float) -> None:
        self._budget = budget
        self._idle_s = idle_s
        self._used_s: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._used_s)

    def admit(self, origin: str, now_s: float) -> bool:
        """Whether the server may keep its connection after the request that starts now."""
        used_s = self._used_s
        if origin in used_s:
            used_s[origin] = now_s
            used_s.move_to_end(origin)
            return True
        if len(used_s) >= self._budget and not self._free_one(now_s):
            return False
        used_s[origin] = now_s
        return True

    def _free_one(self, now_s: float) -> bool:
        if not self._used_s:
            return False
        longest_unused = next(iter(self._used_s))
        if now_s - self._used_s[longest_unused] <= self._idle_s:
            return False
        del self._used_s[longest_unused]
        return True
