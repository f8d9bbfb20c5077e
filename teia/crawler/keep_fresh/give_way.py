"""At the size limit the least important pages give way (F2).

With `limits.pages_kept` reached, a host's requests go to the pages that are kept. When a host is planned, its least
important pages are compared with the most important waiting URLs. A clearly less important page is dropped, and the URL
is fetched instead. Where all pages have the same weight nothing is ever dropped. Hosts are handled one by one, so a
page does not give way to one of another host.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

import numpy as np

from teia.crawler.keep_fresh.host_plan import PageColumns, Weigh
from teia.frontier.cell import revisits

CLEARLY = 2.0
"""Ratio of importance at which a page gives way to a URL, large enough that they do not swap forever."""

LOOKED_AT = 5_000
AT_ONCE = 0.05
"""Share of a host's pages that may give way with one plan."""


class Swap(NamedTuple):
    """A page that is dropped, and the URL it gives way to."""

    goes: int
    comes: int


def swaps(db: sqlite3.Connection, slot: int, host_id: int, columns: PageColumns, weigh: Weigh) -> list[Swap]:
    """Return the pages of a host that give way, each with the URL that replaces it."""
    waiting = revisits.waiting(db, slot, host_id, LOOKED_AT)
    if not waiting:
        return []
    worth = weigh(waiting)
    kept = np.where(columns.is_gone, 0.0, columns.weight)
    most = max(1, int(AT_ONCE * len(columns)))
    least, best = np.argsort(kept, kind="stable")[:most], np.argsort(-worth, kind="stable")[:most]
    pairs = zip(least.tolist(), best.tolist(), strict=False)
    return [Swap(int(columns.key[a]), waiting[b].key) for a, b in pairs if worth[b] > CLEARLY * kept[a]]
