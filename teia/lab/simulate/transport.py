"""Wolf's third phase (P5), for small cases: every planned visit gets a free slot as near to its time as possible.

Wolf and others (2002) solve a transportation problem: slots take one visit each, and the cost of a visit grows with the
distance of its slot from its planned instant. PSP's report objects that freshness needs even gaps, not instants. Where
the planned slots are taken, the nearest free ones may lie on either side, and each visit of a page moves to its own
side. `nearest_slots` is Wolf's solution, `evenest_slots` the one with the least expected staleness.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from teia.errors import UsageError
from teia.refresh.formulas import stale_time
from teia.refresh.merge import Timetable, merge
from teia.refresh.model import Floats, Numbers, RefreshWorld

MOST_PAIRS = 4_000_000
"""Largest number of pairs; 2,000 visits to 2,000 slots take some seconds, and time grows with the third power."""


def nearest_slots(planned_s: Floats, slots_s: Floats) -> Floats:
    """Assign each visit its own slot, minimising the total distance from the planned times."""
    if len(planned_s) > len(slots_s) or len(planned_s) * len(slots_s) > MOST_PAIRS:
        raise UsageError(
            f"{len(planned_s)} visits in {len(slots_s)} slots: there may not be more visits than slots, nor more"
            f" than {MOST_PAIRS:,} pairs of them"
        )
    from scipy.optimize import linear_sum_assignment  # takes half a second to import; the other policies do not need it

    visit, slot = linear_sum_assignment(np.abs(planned_s[:, None] - slots_s[None, :]))
    times: Floats = slots_s[slot[np.argsort(visit)]]
    return times


def evenest_slots(rate: float, horizon_s: float, count: int, slots_s: Floats) -> Floats:
    """Return the `count` slots with the least expected staleness of a page fresh at 0 (dynamic programming)."""
    if not 0 < count <= len(slots_s):
        raise UsageError(f"{count} visits in {len(slots_s)} slots")
    slots_s = np.sort(slots_s)
    between = stale_time(rate * np.maximum(slots_s[None, :] - slots_s[:, None], 0.0))
    # Each visit must be later than the one before it.
    between[np.tril_indices(len(slots_s))] = np.inf
    # cost[s] is the least staleness up to slot s if the latest visit is there; the first gap begins at 0.
    cost = stale_time(rate * slots_s)
    before = []
    for _ in range(count - 1):
        through = cost[:, None] + between
        before.append(through.argmin(axis=0))
        cost = through.min(axis=0)
    index = int((cost + stale_time(rate * (horizon_s - slots_s))).argmin())
    chosen = [index]
    # Follow the best predecessors back from the last visit.
    for step in reversed(before):
        index = int(step[index])
        chosen.append(index)
    return slots_s[chosen[::-1]]


def transport_visits(world: RefreshWorld, counts: Numbers) -> Timetable:
    """Return Wolf's timetable under politeness: visits in slots P apart, as near to their ideal times as possible.

    Servers are solved one by one, because a slot belongs to one of them.
    """
    ideal = merge(world, counts, "ideal")
    page, due_s = ideal.page.copy(), ideal.due_s.copy()
    caps = replace(world, budget=None).caps("floor")
    for server in range(world.servers):
        part = slice(int(ideal.starts[server]), int(ideal.starts[server + 1]))
        if part.start < part.stop:
            slots_s = (np.arange(caps[server]) + 0.5) * world.horizon_s / caps[server]
            times_s = nearest_slots(ideal.due_s[part], slots_s)
            order = np.argsort(times_s, kind="stable")
            page[part], due_s[part] = ideal.page[part][order], times_s[order]
    return Timetable(ideal.starts, page, due_s)
