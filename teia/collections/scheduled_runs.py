"""Runs of scheduled collections: their log in `control.sqlite`, and the run that is due at an instant (T3).

A run is recorded before its first request and is open until its end is recorded. So after a death at any instant it is
known which run was under way and which start was served: the same start is never run twice. The visits of a run are
counted in the cells, with the visits (frontier/cell/revisit_all.py); this table has the count of the last report.

Which run is due is a pure decision, repeated after each event. A start is served once, by the run that was begun for
it, however often that was interrupted. A start that was missed because no crawler was running is made up while its
window is open: until its deadline or the next start. So of several missed starts only the last can be made up. Between
runs pages are kept fresh, where the settings say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from teia.collections.control_file import ControlFile

if TYPE_CHECKING:
    from teia.crawler.keep_fresh.visit_all_again import RoundAccount
from math import inf

from teia.collections.calendar import Schedule

_COLUMNS = "collection, number, due_s, began_s, seen_s, deadline_s, ended_s, why, known, visited, new"


class EndReason(StrEnum):
    """Reason why a run ended."""

    FINISHED = "finished"  # everything was visited
    DEADLINE = "deadline"  # its time was over, or the next was due
    LIMIT = "limit"  # it had as many pages as one crawl may
    INTERRUPTED = "interrupted"  # no crawler was running when its time was over


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """One run of a collection. Times are Unix seconds; `seen_s` is the last time it was known to be under way.

    Of the pages `known` when it began `visited` were visited, and `new` ones beside them.
    """

    collection: str
    number: int
    due_s: float
    began_s: float
    seen_s: float
    deadline_s: float | None = None
    ended_s: float | None = None
    why: str = ""
    known: int = 0
    visited: int = 0
    new: int = 0

    @property
    def is_open(self) -> bool:
        return self.ended_s is None

    @property
    def left(self) -> int:
        """Known pages that were not visited, or not yet."""
        return max(0, self.known - self.visited)


def describe_visits(known: int, visited: int, new: int, *, is_over: bool) -> str:
    """Return the visits of a run in words: `812 of 1,020 known pages visited, 208 not reached, 31 new`."""
    if not known:
        return f"{new:,} new pages visited"
    left = f", {known - visited:,} not reached" if is_over and known > visited else ""
    return f"{visited:,} of {known:,} known pages visited{left}, {new:,} new"


class RunLog(ControlFile):
    """The table `scheduled_runs`; the coordinator writes it, any process may read it."""

    # After a crash of the machine a start that was served must not be served again.
    SYNCHRONOUS = "FULL"

    def last(self, collection: str) -> ScheduledRun | None:
        return next(iter(self.recent(collection, 1)), None)

    def recent(self, collection: str, number: int) -> list[ScheduledRun]:
        """Return the last runs, the newest first."""
        sql = f"SELECT {_COLUMNS} FROM scheduled_runs WHERE collection = ? ORDER BY number DESC LIMIT ?"  # noqa: S608
        return [ScheduledRun(*row) for row in self._read(sql, (collection, number))]

    def begin(self, collection: str, due_s: float, now_s: float) -> ScheduledRun:
        """Record that a run begins; from now on the start that was due then is served."""
        # The folder lock makes sure that one coordinator writes.
        run = ScheduledRun(collection, self.next_run_number(collection), due_s, now_s, now_s)
        sql = "INSERT INTO scheduled_runs (collection, number, due_s, began_s, seen_s) VALUES (?, ?, ?, ?, ?)"
        self._write(sql, (run.collection, run.number, run.due_s, run.began_s, run.seen_s))
        return run

    def note(self, run: ScheduledRun, account: RoundAccount | None, deadline_s: float | None, now_s: float) -> None:
        """Record the progress of a run. `account` is None where nothing is counted: its counts stay."""
        counts = (None, None, None) if account is None else (account.known, account.visited, account.new)
        sql = (
            "UPDATE scheduled_runs SET seen_s = ?, deadline_s = ?, known = coalesce(?, known),"
            " visited = coalesce(?, visited), new = coalesce(?, new) WHERE collection = ? AND number = ?"
        )
        self._write(sql, (now_s, deadline_s, *counts, run.collection, run.number))

    def end(self, run: ScheduledRun, why: EndReason, ended_s: float) -> None:
        sql = "UPDATE scheduled_runs SET ended_s = ?, why = ? WHERE collection = ? AND number = ?"
        self._write(sql, (ended_s, str(why), run.collection, run.number))


# ---- the due run -----------------------------------------------------------------------------------------------------


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
