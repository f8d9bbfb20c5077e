"""The timeline of events (P2), one heap, in plain Python.

    crawler free      it gets the most overdue page that may be visited now, never early, and is free again when it has
                      the page. If there is none it waits
    scheduler ready   the next server may be visited; a waiting crawler gets it
    document modified our copy is stale from now on; the document's next modification is put onto the timeline
    statistics        the caller reads the results. The last of these is the end

Each server has a queue of pages, the same as the live crawler's (`teia.refresh.dispatch`). It is in one of two heaps of
servers: `waiting` by the first instant at which it may be visited, `ready` by how overdue it is. Requests to a server
begin at least P apart in any plan. A timetable's visit may be made from its due time on. Plans without a timetable have
slots, `slot_s` apart on each server. The slots of different servers have different offsets (by the golden ratio), or
all would need a crawler at the same moment. Every slot is used, for the page that is next. Where crawlers are late on a
server that is visited every P, a slot is lost. When one slot per server is lost, an idle crawler takes the next slot of
some other server early.

A crawler is busy for the time of one page at its speed, or for the transfer time of its server if that is more; of
several idle crawlers the fastest gets the page. The server is busy for P or for the transfer, whichever is longer. The
copy is as fresh as the page was when the request began. Ties in time are broken by the number of the server.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

import numpy as np

from teia.lab.simulate.changes import STILL, Modifications
from teia.refresh.dispatch import PlanQueue, make_queue
from teia.refresh.merge import Timetable
from teia.refresh.model import Floats, Numbers, RefreshWorld, Rows
from teia.refresh.policy import ByValue, Intervals, Plan

# Its multiples modulo 1 stay far apart from each other, however many there are.
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


class Event(IntEnum):
    """The kinds of events; of events at one instant the smaller comes first."""

    DOCUMENT_MODIFIED = 0
    STATISTICS = 1
    CRAWLER_FREE = 2
    SCHEDULER_READY = 3


class Visits(NamedTuple):
    """Visits in the order in which they were made, or at least in order per server; `page` are the world's rows.

    `before_s` is the last time the copy had been fresh. With it the cost of a gap is known without searching its
    beginning.
    """

    page: Rows
    time_s: Floats
    late_s: Floats
    before_s: Floats


class Timeline(Protocol):
    """Crawlers, servers and documents from instant 0 on. `fresh_s` are the times at which copies were last known fresh.

    Where changes are drawn, `seen` counts the visits of each page that found one, `fresh_weight` is the weight of all
    copies that are fresh now and `fresh_area` its integral up to now.
    """

    @property
    def fresh_s(self) -> Floats: ...

    @property
    def seen(self) -> Numbers: ...

    @property
    def fresh_weight(self) -> float: ...

    @property
    def fresh_area(self) -> float: ...

    def follow(self, plan: Plan, now_s: float) -> None:
        """Begin with a plan; the rest of the previous one is dropped."""

    def allow_visits(self, visits: int, now_s: float) -> None:
        """Allow this many visits from now on."""

    def run(self, until_s: float, *, in_order: bool = True) -> Visits:
        """Continue to `until_s` and return the visits made; without `in_order`, they are in order per server only."""

    def run_in_parts(self, until_s: float) -> Iterator[Visits]:
        """Continue to `until_s` and yield the visits, in order per server. Each part overwrites the previous one."""


def slot_offsets(plan: Intervals | ByValue) -> Floats:
    """Return the first slot of each server, so that those of neighbours are far apart."""
    part = (np.arange(1, len(plan.slot_s) + 1) * GOLDEN) % 1.0
    return part * plan.slot_s


def servers_with_work(plan: Intervals | ByValue, world: RefreshWorld) -> Numbers:
    """Return the number of pages of each server that a plan without a timetable would ever visit."""
    is_useful = np.isfinite(plan.interval_s) if isinstance(plan, Intervals) else world.worth_visiting
    return np.bincount(world.server, is_useful, minlength=world.servers).astype(np.int64)


def earliest_after(now_s: float, delay_s: float) -> float:
    """Return the first instant at least `delay_s` from now, robust against rounding of the difference."""
    then_s = now_s + delay_s
    return math.nextafter(then_s, math.inf) if then_s - now_s < delay_s else then_s


class PlainTimeline:
    """A `Timeline` that takes some 8 us a visit."""

    def __init__(self, world: RefreshWorld, modifications: Modifications | None = None) -> None:
        self.fresh_s = -world.age_s
        self.seen = np.zeros(len(world), dtype=np.int64)
        self.fresh_weight, self.fresh_area = 0.0, 0.0
        self._world = world
        self._row = dict(zip(world.page.tolist(), range(len(world)), strict=True))
        self._transfer_s = world.transfer_s.tolist()
        costs = world.server_costs
        self._cost: list[float] = [1.0] * len(world) if costs is None else costs.tolist()
        self._politeness_s = world.politeness_s.tolist()
        self._service_s = [1.0 / speed for speed in world.crawlers.each_pages_per_s]
        self._events: list[tuple[float, Event, int]] = []
        self._waiting: list[tuple[float, int]] = []
        self._ready: list[tuple[float, int]] = []
        self._allowed_s = [-math.inf] * world.servers
        # Idle crawlers by the time they take for a page: the fastest gets the next one.
        self._idle: list[tuple[float, int]] = []
        self._allowed_visits = 0
        # The time of the one valid wake-up; other SCHEDULER_READY events in the heap are outdated.
        self._wakes_s = math.inf
        self._made: list[tuple[int, float, float, float]] = []
        self._changes = None if modifications is None else _Documents(world, modifications, self._push)
        for crawler in range(world.crawlers.count):
            self._push(0.0, Event.CRAWLER_FREE, crawler)

    def follow(self, plan: Plan, now_s: float) -> None:
        world = self._world.with_ages(now_s - self.fresh_s) if now_s > 0 else self._world
        self._plan = plan
        self._queues: list[PlanQueue] = [make_queue(plan, world, server, now_s) for server in range(world.servers)]
        self._waiting, self._ready = [], []
        self._made_by_plan, self._slots_per_s = 0.0, 0.0
        if not isinstance(plan, Timetable):
            self._nominal_s: list[float] = (now_s + slot_offsets(plan)).tolist()
            self._slot_s: list[float] = plan.slot_s.tolist()
            with_work = servers_with_work(plan, world)
            self._with_work: list[int] = with_work.tolist()
            # Slots are used early only after one slot per server with work was lost.
            used_s = plan.slot_s[with_work > 0]
            self._started_s, self._slots_per_s, self._slack = now_s, float((1.0 / used_s).sum()), len(used_s)
        for server in range(world.servers):
            self._enqueue(server, now_s)
        self._wake_at(now_s)

    def allow_visits(self, visits: int, now_s: float) -> None:
        self._allowed_visits = visits
        self._wake_at(now_s)

    def run(self, until_s: float, *, in_order: bool = True) -> Visits:  # noqa: ARG002  # they come in order anyway
        self._made = []
        self._push(until_s, Event.STATISTICS, 0)
        while True:
            now_s, event, number = heappop(self._events)
            if event is Event.DOCUMENT_MODIFIED:
                assert self._changes is not None
                self._changes.note_modified(number, now_s)
            elif event is Event.STATISTICS:
                break
            elif event is Event.CRAWLER_FREE:
                heappush(self._idle, (self._service_s[number], number))
                self._assign(now_s)
            elif now_s == self._wakes_s:  # an outdated wake-up is ignored
                self._wakes_s = math.inf
                self._assign(now_s)
        if self._changes is not None:
            self._changes.integrate_to(until_s)
            self.seen, self.fresh_weight = self._changes.seen, self._changes.fresh_weight
            self.fresh_area = self._changes.fresh_area
        # The reshape gives four columns also where no visit was made.
        columns = np.array(self._made).reshape(-1, 4)
        return Visits(columns[:, 0].astype(np.int32), *columns.T[1:])

    def run_in_parts(self, until_s: float) -> Iterator[Visits]:
        yield self.run(until_s)

    def _push(self, at_s: float, event: Event, number: int) -> None:
        heappush(self._events, (at_s, event, number))

    def _wake_at(self, at_s: float) -> None:
        """Schedule one event for all waiting crawlers; an outdated later one is ignored when it comes."""
        self._wakes_s = at_s
        self._push(at_s, Event.SCHEDULER_READY, 0)

    def _enqueue(self, server: int, now_s: float) -> None:
        """Queue the server until it may be visited again, if it has pages to visit."""
        at_s = self._allowed_s[server]
        if isinstance(self._plan, Timetable):
            due = self._queues[server].next(now_s)
            if due is None:
                return
            at_s = max(at_s, due.not_before_s)
        elif not self._with_work[server] or math.isinf(self._slot_s[server]):
            return
        heappush(self._waiting, (at_s, server))

    def _assign(self, now_s: float) -> None:
        """Give ready servers to waiting crawlers; then schedule the next wake-up."""
        next_s = math.inf
        while self._idle and self._allowed_visits > 0:
            self._find_ready(now_s)
            # The first ready server's turn comes with its slot, or earlier if visits have fallen behind the slots.
            next_s = max(now_s, min(self._ready[0][0], self._lag_at_s())) if self._ready else math.inf
            if next_s > now_s:
                break
            key_s, server = heappop(self._ready)
            self._visit(server, now_s, key_s)
        if self._idle and self._allowed_visits > 0:
            next_s = min(next_s, self._waiting[0][0]) if self._waiting else next_s
            if next_s < self._wakes_s:
                self._wake_at(next_s)

    def _lag_at_s(self) -> float:
        """Return the time at which visits fall behind slots by one per server; slots may be used early from then on."""
        if not self._slots_per_s > 0:
            return math.inf
        return self._started_s + (self._made_by_plan + self._slack) / self._slots_per_s

    def _find_ready(self, now_s: float) -> None:
        while self._waiting and self._waiting[0][0] <= now_s:
            _, server = heappop(self._waiting)
            heappush(self._ready, (self._due_s(server, now_s), server))

    def _due_s(self, server: int, now_s: float) -> float:
        """Return the due time of the server's next visit."""
        if not isinstance(self._plan, Timetable):
            return self._nominal_s[server]
        due = self._queues[server].next(now_s)
        assert due is not None  # or the server would not be waiting
        return due.due_s

    def _visit(self, server: int, now_s: float, key_s: float) -> None:
        queue = self._queues[server]
        due = queue.next(now_s)
        row = -1 if due is None else self._row[due.page]
        cost = 1.0 if due is None else self._cost[row]
        # The slot is used up even if the queue has no page for it; a large page takes several.
        if not isinstance(self._plan, Timetable):
            self._nominal_s[server] += cost * self._slot_s[server]
        if due is not None:
            queue.record_visit(due.page, now_s)
            # A page chosen by value is due at any time, so lateness is counted from its slot.
            due_s = key_s if isinstance(self._plan, ByValue) else due.due_s
            self._made.append((row, now_s, max(0.0, now_s - due_s), float(self.fresh_s[row])))
            self.fresh_s[row] = now_s
            if self._changes is not None:
                self._changes.note_visit(row, now_s)
            service_s, crawler = heappop(self._idle)
            self._allowed_visits -= 1
            self._made_by_plan += cost
            sent_s = self._transfer_s[row]
            self._push(now_s + max(service_s, sent_s), Event.CRAWLER_FREE, crawler)
            self._allowed_s[server] = earliest_after(now_s, max(self._politeness_s[server], sent_s))
        self._enqueue(server, now_s)


class _Documents:
    """Documents that are modified, and the freshness of their copies."""

    def __init__(
        self, world: RefreshWorld, modifications: Modifications, push: Callable[[float, Event, int], None]
    ) -> None:
        self.seen = np.zeros(len(world), dtype=np.int64)
        self.fresh_weight = float(world.weight @ ~modifications.stale)
        self.fresh_area = 0.0
        self._modifications, self._push = modifications, push
        self._weight, self._rate = world.weight.tolist(), world.rate.tolist()
        self._fresh = (~modifications.stale).tolist()
        self._drawn = [0] * len(world)
        self._integrated_to_s = 0.0
        for page in np.flatnonzero(modifications.process != STILL).tolist():
            self._next(page, 0.0)

    def note_modified(self, page: int, now_s: float) -> None:
        self.integrate_to(now_s)
        if self._fresh[page]:
            self._fresh[page] = False
            self.fresh_weight -= self._weight[page]
        self._next(page, now_s)

    def note_visit(self, page: int, now_s: float) -> None:
        self.integrate_to(now_s)
        if not self._fresh[page]:
            self.seen[page] += 1
            # A page that always changes is stale again at once.
            if math.isfinite(self._rate[page]):
                self._fresh[page] = True
                self.fresh_weight += self._weight[page]

    def integrate_to(self, now_s: float) -> None:
        self.fresh_area += self.fresh_weight * (now_s - self._integrated_to_s)
        self._integrated_to_s = now_s

    def _next(self, page: int, now_s: float) -> None:
        self._drawn[page] += 1
        gap_s = self._modifications.gap(page, self._drawn[page]) / self._rate[page]
        self._push(now_s + gap_s, Event.DOCUMENT_MODIFIED, page)
