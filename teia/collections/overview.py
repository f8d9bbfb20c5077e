"""Overview of a collection's schedule: in words, its next starts, the current run and the last ones.

This is what `teia schedule` prints and the web interface shows. The dates come from the function that the coordinator
uses (calendar.py), so they are the dates on which it runs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from teia.clock import Clock, iso_utc
from teia.collections.calendar import Schedule, describe_schedule, next_starts, parse_schedule
from teia.collections.control_file import CrawlReports
from teia.collections.open_cells import each_cell
from teia.collections.scheduled_runs import CrawlTask, RunLog, ScheduledRun, find_due_task
from teia.collections.settings import saved
from teia.config.sections import Config, ScheduleSettings
from teia.errors import StoreError
from teia.frontier.tables.hosts import largest_host as largest_of_cell
from teia.lib.copy_fields import copy_fields
from teia.lib.message import Message
from teia.store.root import Root

DEFAULT_NUMBER = 5


@dataclass(frozen=True, slots=True)
class RunView:
    """One run; times as in all our JSON. `ended` is None while it is open, `deadline` where it has none.

    Of the pages `known` when it began `visited` were visited, `left` were not, and `new` ones were found and visited.
    """

    number: int
    due: str
    began: str
    deadline: str | None
    ended: str | None
    why: str
    known: int
    visited: int
    left: int
    new: int


@dataclass(frozen=True, slots=True)
class SchedulePreview:
    """A schedule in words and its next starts, also formatted for `zone`; empty without a schedule."""

    words: str = ""
    zone: str = ""
    starts: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()


def preview_schedule(settings: ScheduleSettings, now_s: float, number: int = DEFAULT_NUMBER) -> SchedulePreview:
    """Describe a schedule, also before it is saved; ConfigError names the error in it."""
    schedule = parse_schedule(settings)
    if schedule is None:
        return SchedulePreview()
    starts = next_starts(schedule, now_s, number)
    return SchedulePreview(
        describe_schedule(schedule),
        str(schedule.zone),
        tuple(map(iso_utc, starts)),
        tuple(map(schedule.format_time, starts)),
    )


@dataclass(frozen=True, slots=True)
class ScheduleOverview:
    """A collection's schedule and its runs. `words`, `zone`, `starts` and `shown` are those of its `SchedulePreview`.

    `run` is the one that is open: under way where `running`, else interrupted. `later` is the number of the last run,
    if a command began it after those of the schedule; else 0. `notes` explain surprises.
    """

    collection: str
    words: str
    zone: str
    starts: tuple[str, ...]
    shown: tuple[str, ...]
    running: bool
    run: RunView | None
    last: tuple[RunView, ...]
    notes: tuple[str, ...] = ()
    later: int = 0

    @property
    def next_run(self) -> str | None:
        return self.starts[0] if self.starts else None


def schedule_overview(
    root: Root, name: str, clock: Clock, number: int = DEFAULT_NUMBER, *, with_notes: bool = True
) -> ScheduleOverview:
    """Look up the next and the last runs; nothing is written. Notes take a walk over all pages."""
    config = saved(root, name).config
    schedule, now_s = parse_schedule(config.schedule), clock.now_s()
    runs, running, newest = _runs(root, name, number)
    preview = preview_schedule(config.schedule, now_s, number)
    is_open = bool(runs) and runs[0].is_open
    later = newest if runs and newest > runs[0].number else 0
    return ScheduleOverview(
        collection=name,
        words=preview.words,
        zone=preview.zone,
        starts=preview.starts,
        shown=preview.shown,
        running=running,
        run=run_view(runs[0]) if is_open else None,
        last=tuple(map(run_view, runs[1:] if is_open else runs)),
        notes=() if schedule is None or not with_notes else _notes(root, config, schedule, runs, running, now_s),
        later=later,
    )


def schedule_keys(root: Root, name: str, clock: Clock) -> dict[str, Any]:
    """Return the schedule's keys of a crawl's summary and `teia status`; empty where there never was a schedule.

    The last run is not among them if a command began a later one: the summary is about that.
    """
    overview = schedule_overview(root, name, clock)
    run = None if overview.later else overview.run or next(iter(overview.last), None)
    if not overview.words and run is None:
        return {}
    return {"run": None if run is None else asdict(run), "next_run": overview.next_run}


def _runs(root: Root, name: str, number: int) -> tuple[list[ScheduledRun], bool, int]:
    """Return the last runs of a schedule, whether a crawl of the collection is running, and the number of its last run.

    A read-only folder has no runs.
    """
    try:
        with RunLog(root.control) as run_log, CrawlReports(root.control) as reports:
            # One more, because the open run is shown apart from the last ones.
            newest = max((row[0] for row in reports.recorded_runs(name, 1)), default=0)
            return run_log.recent(name, number + 1), reports.running_crawl(name) is not None, newest
    except StoreError:
        return [], False, 0


def run_view(run: ScheduledRun) -> RunView:
    return copy_fields(
        RunView,
        run,
        due=iso_utc(run.due_s),
        began=iso_utc(run.began_s),
        deadline=None if run.deadline_s is None else iso_utc(run.deadline_s),
        ended=None if run.ended_s is None else iso_utc(run.ended_s),
    )


def _notes(
    root: Root, config: Config, schedule: Schedule, runs: list[ScheduledRun], running: bool, now_s: float
) -> tuple[str, ...]:
    notes: list[str] = []
    due_task = find_due_task(schedule, runs[0] if runs else None, now_s)
    if not running and due_task.task is not CrawlTask.NOTHING:
        command = f"teia crawl --scheduled --data {root.path}"
        notes.append(
            Message("a run is due, but no crawler is running: start `{command}`", command=command)
            if due_task.task is CrawlTask.RUN
            else Message("no crawler is waiting for the next run: start `{command}`", command=command)
        )
    slow = warn_too_long(*largest_host(root, config.collection.name), config.courtesy.delay_s, schedule)
    return (*notes, slow) if slow else tuple(notes)


def warn_too_long(host: str, pages: int, delay_s: float, schedule: Schedule) -> str:
    """Return a warning if a run is too short for all known pages of the largest host, at its politeness delay."""
    longest_s = schedule.stop_after_s
    if schedule.period is not None:
        longest_s = min(longest_s, schedule.period.shortest_s)
    needed_s = pages * delay_s
    if needed_s <= longest_s:
        return ""
    return Message(
        "{n:,} known pages of {host} at one every {delay:g} s take {span}: runs will stop before they are complete",
        n=pages,
        host=host,
        delay=delay_s,
        span=_hours(needed_s),
    )


def largest_host(root: Root, name: str) -> tuple[str, int]:
    """Return the host with the most known pages, and how many."""
    return max([("", 0), *map(largest_of_cell, each_cell(root.collection(name)))], key=lambda each: each[1])


def _hours(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return Message("{n:.1f} days", n=seconds / 86_400)
