"""At the size limit the least important pages give way (F2).

With `limits.pages_kept` reached, a host's requests go to the pages that are kept. When a host is planned, its least
important pages are compared with the most important URLs that wait; one that is clearly less important goes, and the
other is asked for. Where all pages weigh the same nothing ever goes. Hosts are looked at one by one, so a page does not
give way to one of another host.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

import numpy as np

from teia.crawl.hostplan import Columns, Weigh
from teia.frontier import revisits

CLEARLY = 2.0
"""How many times as important a URL must be as the page that gives way, so that they do not change places for ever."""

LOOKED_AT = 5_000
AT_ONCE = 0.05
"""Of a host's pages, with one plan."""


class Swap(NamedTuple):
    """A page that is kept, and the URL it gives way to."""

    goes: int
    comes: int


def swaps(db: sqlite3.Connection, slot: int, host_id: int, columns: Columns, weigh: Weigh) -> list[Swap]:
    """Which pages of a host give way to which of its URLs."""
    waiting = revisits.waiting(db, slot, host_id, LOOKED_AT)
    if not waiting:
        return []
    worth = weigh(waiting)
    kept = np.where(columns.is_gone, 0.0, columns.weight)
    most = max(1, int(AT_ONCE * len(columns)))
    least, best = np.argsort(kept, kind="stable")[:most], np.argsort(-worth, kind="stable")[:most]
    pairs = zip(least.tolist(), best.tolist(), strict=False)
    return [Swap(int(columns.key[a]), waiting[b].key) for a, b in pairs if worth[b] > CLEARLY * kept[a]]
