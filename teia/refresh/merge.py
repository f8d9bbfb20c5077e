"""Phase 2 of PSP (P4): the time of each visit, in the order of ideal times, spread evenly over the horizon.

Three spacings, all in the same order:

    printed   i T/(x_s + 1), as in PSP's report. With x_s = T/P visits are a little less than P apart, so the plan
              itself is not polite and only dispatch makes it so
    centred   (i - 1/2) T/x_s: never closer than P if x_s <= T/P
    ideal     each visit at its page's own ideal time, as MP2 and M-Wolf do; dispatch spreads them

Ideal times of pages without age are fractions j/(x + 1) of the horizon. They are compared as whole numbers, so that
equal fractions are equal and the smaller page id wins a tie, also where T is not a whole number.

Where visits of large pages cost more than one (`model`), a visit has as much room after it as it costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from teia.refresh.model import Floats, Numbers, RefreshWorld, Rows
from teia.refresh.segments import Segments

Spacing = Literal["printed", "centred", "ideal"]

VISITS_AT_ONCE = 1 << 16
"""Number of visits up to which servers are sorted together, to fit the cache; a larger server is sorted alone."""

FRACTION_BITS = 44
"""Bits of the binary expansion in which distinct fractions of up to four million visits a page differ."""


@dataclass(frozen=True, slots=True, eq=False)
class Timetable:
    """Visits server by server, in the order of their due times.

    Visits of server `s` are `starts[s]` to `starts[s + 1]`. `page` are places in the world's columns. `due_s` is the
    earliest time of each visit.
    """

    starts: Numbers
    page: Rows
    due_s: Floats

    def __len__(self) -> int:
        return len(self.page)


def merge(world: RefreshWorld, counts: Numbers, spacing: Spacing = "printed") -> Timetable:
    """Order the visits of each server and set the due time of each."""
    per_server = Segments(world.starts).sums(counts.astype(np.float64)).astype(np.int64)
    starts = np.zeros(world.servers + 1, dtype=np.int64)
    np.cumsum(per_server, out=starts[1:])
    page: Rows = np.empty(int(starts[-1]), dtype=np.int32)
    if len(world) >= 1 << 31:
        page = page.astype(np.int64)
    due_s = np.empty(len(page))
    cost = world.server_costs
    for first, last in _groups(starts):
        part = slice(int(starts[first]), int(starts[last]))
        rows = slice(int(world.starts[first]), int(world.starts[last]))
        if part.start < part.stop:
            begins = starts[first : last + 1] - starts[first]
            _merge_some(world, counts, rows, begins, spacing, page[part], due_s[part])
            if cost is not None and spacing != "ideal":
                _make_room(cost[page[part]], begins, world.horizon_s, spacing, due_s[part])
    return Timetable(starts, page, due_s)


def _make_room(cost: Floats, starts: Numbers, horizon_s: float, spacing: Spacing, due_s: Floats) -> None:
    """Set the due times of visits in their order, each as far from the one before it as that one costs."""
    server = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    before = np.cumsum(cost) - cost
    before -= before[starts[server]]
    total = np.bincount(server, cost, minlength=len(starts) - 1)[server]
    due_s[:] = (before + 1) * horizon_s / (total + 1) if spacing == "printed" else (before + 0.5) * horizon_s / total


def _groups(starts: Numbers) -> list[tuple[int, int]]:
    """Return ranges of servers with about `VISITS_AT_ONCE` visits each."""
    groups, first = [], 0
    while first < len(starts) - 1:
        last = int(np.searchsorted(starts, starts[first] + VISITS_AT_ONCE, side="right")) - 1
        last = min(max(last, first + 1), len(starts) - 1)
        groups.append((first, last))
        first = last
    return groups


def _merge_some(
    world: RefreshWorld, counts: Numbers, rows: slice, starts: Numbers, spacing: Spacing, page: Rows, due_s: Floats
) -> None:
    """Write the visits of pages at `rows`, of servers whose visits begin at `starts`, into `page` and `due_s`."""
    x = counts[rows]
    visits = len(page)
    per_server = np.diff(starts)
    server = np.repeat(np.arange(len(per_server)), per_server)
    row = np.repeat(np.arange(len(x)), x)
    j = np.arange(1, visits + 1) - np.repeat(np.cumsum(x) - x, x)
    visits_of = x[row]
    ages = world.age_s[rows]
    # The sort key holds the server number above `bits` bits of the ideal time; it must fit into 63 bits.
    if not ages.any():
        bits = min(FRACTION_BITS, 62 - int(x.max() + 1).bit_length(), 62 - len(per_server).bit_length())
        sort_position = (j << bits) // (visits_of + 1)
        ideal_s = None
    else:
        bits = min(FRACTION_BITS, 62 - len(per_server).bit_length())
        ideal_s = _from_age(world.horizon_s, ages[row], visits_of, j)
        sort_position = np.floor(ideal_s / world.horizon_s * float(1 << bits)).astype(np.int64)
    # The sort is stable and the visits are in the order of page ids, so the smaller id wins a tie.
    order = np.argsort((server << bits) + sort_position, kind="stable")
    page[:] = row[order] + rows.start
    if spacing == "ideal":
        due_s[:] = (j * world.horizon_s / (visits_of + 1) if ideal_s is None else ideal_s)[order]
        return
    i = np.arange(1, visits + 1) - starts[server]
    x_s = per_server[server]
    due_s[:] = i * world.horizon_s / (x_s + 1) if spacing == "printed" else (i - 0.5) * world.horizon_s / x_s


def _from_age(horizon_s: float, age_s: Floats, visits: Numbers, j: Numbers) -> Floats:
    """Return ideal times from an age on.

    The gaps are (T + a)/(x + 1) and the first has already begun; or the first visit is made at once and the gaps are
    T/x.
    """
    at_once = visits * age_s > horizon_s
    later = j * (horizon_s + np.where(at_once, 0.0, age_s)) / (visits + 1) - age_s
    return np.where(at_once, (j - 1) * horizon_s / visits, np.maximum(later, 0.0))
