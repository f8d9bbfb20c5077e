"""The compiled loop as a `Timeline`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from teia.lab.simulate._loop import Loop
from teia.lab.simulate.changes import Modifications
from teia.lab.simulate.timeline import (
    PlainTimeline,
    Timeline,
    Visits,
    servers_with_work,
    slot_offsets,
)
from teia.refresh.formulas import BLOCK
from teia.refresh.merge import Timetable
from teia.refresh.model import Floats, Numbers, RefreshWorld
from teia.refresh.policy import Intervals, Plan

BOOKED_PER_SERVER = 192
LEAST_BOOKED, MOST_BOOKED = 1 << 16, 1 << 22
"""Limits of the number of visits that are booked at a time, and then carried out server by server.

More visits cause fewer cache misses and take more memory, 28 octets a visit.
"""


class CompiledTimeline:
    """A `Timeline` that takes less than a microsecond a visit; two with plans by value."""

    def __init__(self, world: RefreshWorld, modifications: Modifications | None = None) -> None:
        self._world = world
        self._at_once = min(max(LEAST_BOOKED, BOOKED_PER_SERVER * world.servers), MOST_BOOKED)
        self._loop = Loop(
            world.starts,
            world.weight,
            world.rate,
            world.age_s,
            world.transfer_s,
            world.politeness_s,
            world.crawlers.count,
            1.0 / world.crawlers.pages_per_s,
            self._at_once,
        )
        self._columns = Visits(np.empty(BLOCK, dtype=np.int32), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK))
        if modifications is not None:
            self._loop.draw_changes(
                modifications.process,
                modifications.stale,
                modifications.seed,
                modifications.smallest,
                modifications.exponent,
                modifications.jitter,
            )

    @property
    def fresh_s(self) -> Floats:
        return self._loop.fresh_s

    @property
    def seen(self) -> Numbers:
        return self._loop.seen

    @property
    def fresh_weight(self) -> float:
        return self._loop.fresh_weight

    @property
    def fresh_area(self) -> float:
        return self._loop.fresh_area

    def follow(self, plan: Plan, now_s: float) -> None:
        if isinstance(plan, Timetable):
            page = plan.page.astype(np.int32, copy=False)
            self._loop.follow_timetable(now_s, plan.starts, page, plan.due_s)
        elif isinstance(plan, Intervals):
            self._loop.follow_intervals(now_s, plan.interval_s, plan.due_s, plan.slot_s, slot_offsets(plan))
        else:
            with_work = servers_with_work(plan, self._world)
            by_divergence = plan.value == "divergence"
            self._loop.follow_values(now_s, by_divergence, with_work, plan.slot_s, slot_offsets(plan))

    def allow_visits(self, visits: int, now_s: float) -> None:  # noqa: ARG002  # the loop is never ahead of the clock
        self._loop.grant(visits)

    def run_in_parts(self, until_s: float) -> Iterator[Visits]:
        """Yield as many visits at once as stay in the processor's cache, in columns that are reused."""
        page, time_s, late_s, before_s = self._columns
        # A full block means that more visits may follow.
        made = BLOCK
        while made == BLOCK:
            made = self._loop.run(until_s, False, page, time_s, late_s, before_s)
            yield Visits(page[:made], time_s[:made], late_s[:made], before_s[:made])

    def run(self, until_s: float, *, in_order: bool = True) -> Visits:
        parts: list[Visits] = []
        while True:
            page = np.empty(self._at_once, dtype=np.int32)
            time_s, late_s, before_s = (np.empty(self._at_once) for _ in range(3))
            made = self._loop.run(until_s, in_order, page, time_s, late_s, before_s)
            parts.append(Visits(page[:made], time_s[:made], late_s[:made], before_s[:made]))
            if made < self._at_once:
                break
        return Visits(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def make_timeline(world: RefreshWorld, modifications: Modifications | None = None) -> Timeline:
    """Return the fastest timeline that can hold the world.

    The compiled loop numbers pages by 32-bit integers, knows crawlers of one speed, and no costs of large pages.
    """
    if len(world) >= 1 << 31 or world.crawlers.speeds or world.server_costs is not None:
        return PlainTimeline(world, modifications)
    return CompiledTimeline(world, modifications)
