"""Phase 3 of PSP (P4), for one host: the queue that yields the next page and its due time.

A queue holds the pages of one host in the order of a plan. The crawler calls `next`, makes the visit when politeness
allows a request to the host and `not_before_s` has passed, and reports it with `record_visit`. A failed visit is not
reported, so the page keeps its place. `put` and `drop` follow pages that appear and disappear and rates that are
estimated anew. The queue does not enforce politeness. The caller does: it sends a host one request at a time and waits
for the politeness delay after it.

Times are those of the crawl's clock; `start_s` is the time at which the plan was made. Pages are numbers chosen by the
caller.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from teia.refresh.merge import Timetable
from teia.refresh.model import RefreshWorld
from teia.refresh.policy import ByValue, Intervals, Plan


@dataclass(frozen=True, slots=True)
class DuePage:
    """The next page, its due time, and the earliest time at which it may be visited (for most plans: any time)."""

    page: int
    due_s: float
    not_before_s: float = -math.inf


@dataclass(frozen=True, slots=True)
class PageState:
    """Current knowledge of a page; `fresh_s` is the time at which its copy was last known to be fresh."""

    page: int
    weight: float
    rate: float
    fresh_s: float


class PlanQueue(Protocol):
    """The pages of one host, in the order of a plan."""

    def next(self, now_s: float) -> DuePage | None:
        """Return the next page; the queue does not change until `record_visit`."""

    def record_visit(self, page: int, now_s: float) -> None:
        """Record a visit: the page's capture is fresh now."""

    def update(self, state: PageState) -> None:
        """Add a page, or update its weight, rate and freshness."""


class TimetableQueue:
    """Visits in their order, never early. A new page waits for the next plan."""

    def __init__(self, page: list[int], due_s: list[float], start_s: float) -> None:
        # Reversed, so that the next visit is popped from the end.
        self._visits = list(zip(page, (start_s + due for due in due_s), strict=True))[::-1]

    def next(self, now_s: float) -> DuePage | None:  # noqa: ARG002  # the time changes nothing
        if not self._visits:
            return None
        page, due_s = self._visits[-1]
        return DuePage(page, due_s, due_s)

    def record_visit(self, page: int, now_s: float) -> None:  # noqa: ARG002  # the due times of later visits are fixed
        if self._visits and self._visits[-1][0] == page:
            self._visits.pop()

    def update(self, state: PageState) -> None:
        """Change nothing: the visits are fixed."""


class DueQueue:
    """Queue by due time: the page due first is next, early or late; ties by page number. Costs O(log n)."""

    def __init__(self, plan: Intervals, server: int, start_s: float) -> None:
        self._plan, self._server, self._start_s = plan, server, start_s
        self._interval_s: dict[int, float] = {}
        self._due_s: dict[int, float] = {}
        self._waiting: list[tuple[float, int]] = []

    def load(self, page: int, interval_s: float, due_s: float) -> None:
        """Add a page as planned; `due_s` counts from the time at which the plan was made."""
        self._interval_s[page] = interval_s
        self._schedule(page, self._start_s + due_s)

    def next(self, now_s: float) -> DuePage | None:  # noqa: ARG002  # the order does not depend on the time
        while self._waiting:
            due_s, page = self._waiting[0]
            # An entry is current only if it has the page's latest due time; others are left from earlier schedules.
            if self._due_s.get(page) == due_s:
                return DuePage(page, due_s)
            heapq.heappop(self._waiting)
        return None

    def record_visit(self, page: int, now_s: float) -> None:
        if page in self._interval_s:
            self._schedule(page, now_s + self._interval_s[page])

    def update(self, state: PageState) -> None:
        interval_s = self._plan.interval_for(self._server, state.weight, state.rate)
        self._interval_s[state.page] = interval_s
        self._schedule(state.page, state.fresh_s + interval_s)

    def _schedule(self, page: int, due_s: float) -> None:
        """Set a page's due time. Outdated heap entries stay until they reach the top or outnumber the live ones."""
        self._due_s[page] = due_s
        if math.isfinite(due_s):
            heapq.heappush(self._waiting, (due_s, page))
        if len(self._waiting) > 2 * len(self._due_s) + 64:
            self._waiting = [(due, each) for each, due in self._due_s.items() if math.isfinite(due)]
            heapq.heapify(self._waiting)


class ValueQueue:
    """Queue by current value; ties by page number. Each `next` reads all pages, about 20 ns each."""

    def __init__(self, plan: ByValue, slot_s: float) -> None:
        self._plan, self._slot_s = plan, slot_s
        self._row: dict[int, int] = {}
        # One row each for page, weight, rate and `fresh_s`; the width doubles when it is full.
        self._columns = np.zeros((4, 16))
        self._last_s = -math.inf

    def next(self, now_s: float) -> DuePage | None:
        page, weight, rate, fresh_s = self._columns[:, : len(self._row)]
        worth = self._plan.visit_values(weight, rate, np.maximum(now_s - fresh_s, 0.0))
        if not len(worth) or not worth.max() > 0:
            return None
        best = int(page[worth == worth.max()].min())
        return DuePage(best, max(now_s, self._last_s + self._slot_s))

    def record_visit(self, page: int, now_s: float) -> None:
        if page in self._row:
            self._columns[3, self._row[page]] = now_s
            self._last_s = now_s

    def update(self, state: PageState) -> None:
        row = self._row.setdefault(state.page, len(self._row))
        if row == self._columns.shape[1]:
            self._columns = np.concatenate([self._columns, np.zeros_like(self._columns)], axis=1)
        self._columns[:, row] = state.page, state.weight, state.rate, state.fresh_s


def make_queue(plan: Plan, world: RefreshWorld, server: int, start_s: float = 0.0) -> PlanQueue:
    """Return the queue of one server under a plan; its pages are identified by the ids of the world."""
    rows = slice(int(world.starts[server]), int(world.starts[server + 1]))
    ids = world.page[rows].tolist()
    if isinstance(plan, Timetable):
        visits = slice(int(plan.starts[server]), int(plan.starts[server + 1]))
        return TimetableQueue(world.page[plan.page[visits]].tolist(), plan.due_s[visits].tolist(), start_s)
    if isinstance(plan, Intervals):
        due = DueQueue(plan, server, start_s)
        for each in zip(ids, plan.interval_s[rows].tolist(), plan.due_s[rows].tolist(), strict=True):
            due.load(*each)
        return due
    value = ValueQueue(plan, float(plan.slot_s[server]))
    weight = world.weight[rows] if plan.cost is None else world.weight[rows] / plan.cost[rows]
    columns = (ids, weight.tolist(), world.rate[rows].tolist(), (start_s - world.age_s[rows]).tolist())
    for state in zip(*columns, strict=True):
        value.update(PageState(*state))
    return value
