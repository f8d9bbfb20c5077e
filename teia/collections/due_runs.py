"""The run that a collection's schedule requires at an instant: a pure decision, repeated after each event (T3).

A start is served once, by the run that was begun for it, however often that was interrupted. A start that was missed
because no crawler was running is made up while its window is open: until its deadline or the next start. So of several
missed starts only the last can be made up. Between runs pages are kept fresh, where the settings say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf

from teia.collections.calendar import Schedule
from teia.collections.run_log import ScheduledRun


class CrawlTask(StrEnum):
    """Task of the crawler for one collection."""

    CRAWL = "crawl"  # it has no schedule: crawl it until that ends
    RUN = "run"
    KEEP_FRESH = "keep fresh"
    WAIT = "wait"
    NOTHING = "nothing"  # its last run is over

    @property
    def needs_crawler(self) -> bool:
        return self in {CrawlTask.CRAWL, CrawlTask.RUN, CrawlTask.KEEP_FRESH}


@dataclass(frozen=True, slots=True)
class DueTask:
    """A task and its end, in Unix seconds; for a run, also the start that it serves."""

    task: CrawlTask
    until_s: float = inf
    due_s: float | None = None


def find_due_task(schedule: Schedule | None, last: ScheduledRun | None, now_s: float) -> DueTask:
    """Return the task at an instant; `last` is the collection's last run, which may be under way."""
    if last is not None and last.is_open:
        deadline_s = deadline_of(schedule, last.due_s)
        # Otherwise its time is over, and the coordinator ends it.
        if now_s < deadline_s:
            return DueTask(CrawlTask.RUN, deadline_s, last.due_s)
    if schedule is None:
        return DueTask(CrawlTask.CRAWL)
    due_s = schedule.last_start(now_s)
    # The latest start, if no run was begun for it and its window is open.
    if due_s is not None and (last is None or due_s > last.due_s) and now_s < schedule.deadline(due_s):
        return DueTask(CrawlTask.RUN, schedule.deadline(due_s), due_s)
    next_s = schedule.next_start(now_s)
    # Before the first run there is nothing to keep fresh.
    if schedule.keep_fresh and last is not None and now_s < schedule.until_s:
        return DueTask(CrawlTask.KEEP_FRESH, schedule.until_s if next_s is None else next_s)
    return DueTask(CrawlTask.NOTHING) if next_s is None else DueTask(CrawlTask.WAIT, next_s)


def deadline_of(schedule: Schedule | None, due_s: float) -> float:
    return inf if schedule is None else schedule.deadline(due_s)
