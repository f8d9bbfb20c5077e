"""A host's pages in the order of a plan that due times on disk cannot express (P9).

Such plans are timetables, values, and the intervals of other policies. Most policies are kept for comparison. The
queues of the simulator's plans carry them out (refresh/dispatch.py), in memory, for the hosts that are being visited. A
page is handed out once: the queue then treats it as visited, and is corrected with the time of the real visit. The
memory is lost with the process; the next process makes a new plan from the ages of the captures.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf

import numpy as np

from teia.config.sections import RefreshSettings
from teia.crawler.keep_fresh.host_plan import PageColumns, policy_world
from teia.refresh.dispatch import PageState, TimetableQueue, make_queue
from teia.refresh.policies import find_policy
from teia.refresh.rates import Floats


class PolicyQueue:
    """One host's pages, by their keys. `ends_s` is the end of the plan; infinity if only news end it.

    The host grants a visit every `slot_s`. Of a budget it has `visits_per_s`, which may be more: not every policy
    knows of politeness.
    """

    def __init__(
        self,
        columns: PageColumns,
        rate: Floats,
        slot_s: float,
        settings: RefreshSettings,
        now_s: float,
        visits_per_s: float | None = None,
    ) -> None:
        policy = find_policy(settings.policy)
        self._total = max(float(np.where(columns.is_gone, 0.0, columns.weight).sum()), 1e-300)
        world = policy_world(columns, rate, slot_s, settings, now_s, visits_per_s)
        horizon_s = world.horizon_s
        self._queue = make_queue(policy.plan(world), world, 0, now_s)
        self._keys = columns.key.tolist()
        self._pages = {key: page for page, key in enumerate(self._keys)}
        self._requested_s = dict(enumerate(columns.requested_s.tolist()))
        self._least_s = settings.least_s
        self.is_timetable = isinstance(self._queue, TimetableQueue)
        self.is_fixed = self.is_timetable or policy.renew_s is not None
        self.ends_s = now_s + min(horizon_s if self.is_timetable else inf, policy.renew_s or inf)
        self._planned = len(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def lacks_pages(self) -> bool:
        """True if a tenth of the host's pages, or more, were found after the plan was made."""
        return 10 * (len(self._keys) - self._planned) > len(self._keys)

    def take(self, limit: int, skip: Collection[int], now_s: float, *, early: bool) -> tuple[list[int], float]:
        """Hand out the keys of the next pages, and the time when there may be more; pages in `skip` are under way."""
        taken: list[int] = []
        for _ in range(limit + len(skip) + 1):
            due = self._queue.next(now_s)
            if due is None:
                return taken, self.ends_s
            wait_s = max(due.not_before_s, self._requested_s[due.page] + self._least_s)
            if not early:
                wait_s = max(wait_s, due.due_s)
            # A timetable goes through its pages in order, and passes over one that may not be visited yet.
            if wait_s > now_s and not self.is_timetable:
                return taken, wait_s
            if due.not_before_s > now_s:
                return taken, due.not_before_s
            if len(taken) == limit:
                break
            self._queue.record_visit(due.page, now_s)
            key = self._keys[due.page]
            if wait_s <= now_s and key not in skip and key not in taken:
                taken.append(key)
                self._requested_s[due.page] = now_s
        return taken, now_s

    def note_visit(self, key: int, weight: float, rate: float, requested_s: float, fresh_s: float) -> None:
        """Note the end of a visit; a page that is new here joins the plan, if the plan can take one."""
        page = self._pages.get(key)
        if page is None:
            page = self._pages[key] = len(self._keys)
            self._keys.append(key)
            self._queue.update(PageState(page, weight / self._total, rate, fresh_s))
        # After a failed visit the capture is as old as it was.
        elif not self.is_timetable and fresh_s >= requested_s:
            self._queue.record_visit(page, fresh_s)
        self._requested_s[page] = requested_s
