"""What a collection's schedule asks for at an instant: a pure decision, made anew whenever something happens (T3).

A start is served once: by the run that was begun for it, however often that was interrupted. One that was missed,
because nobody crawled, is made up for as long as its window is open: until its deadline or the next start. So of
several that were missed only the last can be. Between runs pages are kept fresh, where that is wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf

from teia.crawl.runs import ScheduledRun
from teia.crawl.schedule import Schedule


class Task(StrEnum):
    """What to do with a collection."""

    CRAWL = "crawl"  # it has no schedule: crawl it until that ends
    RUN = "run"
    KEEP_FRESH = "keep fresh"
    WAIT = "wait"
    NOTHING = "nothing"  # its last run is over

    @property
    def needs_crawler(self) -> bool:
        return self in {Task.CRAWL, Task.RUN, Task.KEEP_FRESH}


@dataclass(frozen=True, slots=True)
class Duty:
    """A task and until when it is one, in Unix seconds; of a run, also which start it serves."""

    task: Task
    until_s: float = inf
    due_s: float | None = None


def duty_of(schedule: Schedule | None, last: ScheduledRun | None, now_s: float) -> Duty:
    """What is to be done at an instant; `last` is the collection's last run, which may be under way."""
    if last is not None and last.is_open:
        deadline_s = deadline_of(schedule, last.due_s)
        if now_s < deadline_s:
            return Duty(Task.RUN, deadline_s, last.due_s)
    if schedule is None:
        return Duty(Task.CRAWL)
    due_s = schedule.last_start(now_s)
    if due_s is not None and (last is None or due_s > last.due_s) and now_s < schedule.deadline(due_s):
        return Duty(Task.RUN, schedule.deadline(due_s), due_s)
    next_s = schedule.next_start(now_s)
    if schedule.keep_fresh and last is not None and now_s < schedule.until_s:
        return Duty(Task.KEEP_FRESH, schedule.until_s if next_s is None else next_s)
    return Duty(Task.NOTHING) if next_s is None else Duty(Task.WAIT, next_s)


def deadline_of(schedule: Schedule | None, due_s: float) -> float:
    return inf if schedule is None else schedule.deadline(due_s)
