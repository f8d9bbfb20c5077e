"""A collection as the coordinator sees it: its schedule, its run, and its task in the current shift."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf

from teia.collections.account import Summary
from teia.collections.calendar import Schedule, parse_schedule
from teia.collections.commands import NO_COMMANDS, StandingCommands
from teia.collections.scheduled_runs import CrawlTask, DueTask, ScheduledRun, find_due_task
from teia.config.sections import Config
from teia.crawler.keep_fresh.visit_all_again import RevisitAll, RoundAccount
from teia.crawler.running_collection import Crawl, RunCounts

NO_TASK = DueTask(CrawlTask.NOTHING)


@dataclass(slots=True, eq=False)
class CollectionController:
    """State of one collection in the coordinator. `crawl` is its part of the current shift, if any.

    `current_task` is the due run that `crawl` serves, until it has ended by itself; `is_in_run`: it belongs to a
    schedule, whose runs are recorded by the coordinator. `is_requested`: a user wants a run.
    `is_over`: it needs nothing more from this process. `done_until_s`: its work until that time ended by itself.
    `commands` and `is_announced` are for the coordinator that follows standing commands (resident.py). `parked` is the
    error of the collection, if any: it is left alone until its settings change, a user requests it, or another process
    begins. `failed` is the last crawl whose failure was noted: it stays open until its shift ends, and parks the
    collection once.
    """

    name: str
    config: Config
    schedule: Schedule | None
    due_task: DueTask = NO_TASK
    run: ScheduledRun | None = None
    crawl: Crawl | None = None
    current_task: DueTask | None = None
    is_in_run: bool = False
    counts: RunCounts = field(default_factory=RunCounts)
    seconds: float = 0.0
    summary: Summary | None = None
    is_paused: bool = False
    is_stopped: bool = False
    is_requested: bool = False
    is_over: bool = False
    has_lost_schedule: bool = False
    done_until_s: float = -inf
    reported: tuple[object, ...] = ()
    commands: StandingCommands = NO_COMMANDS
    is_announced: bool = False
    parked: str = ""
    parked_until_s: float = inf
    failed: Crawl | None = None

    def unpark(self) -> None:
        """Clear the error, so that the collection is tried again, with the next shift if its crawl has failed."""
        self.parked, self.parked_until_s = "", inf

    @property
    def is_served(self) -> bool:
        return not self.is_over and not self.is_stopped and not self.parked

    @property
    def sound_crawl(self) -> Crawl | None:
        """Its part of the current shift, unless that has failed."""
        return None if self.crawl is None or self.crawl.failure is not None else self.crawl

    def apply_config(self, config: Config, now_s: float) -> None:
        """Apply other settings. A schedule that was over may begin again; without one there is nothing more to do."""
        before = self.schedule
        if config != self.config:
            self.unpark()
        self.config, self.schedule = config, collection_schedule(config)
        if self.schedule is None:
            self.has_lost_schedule = self.has_lost_schedule or before is not None
        elif self.schedule != before:
            self.has_lost_schedule = False
            self.is_over = self.is_over and find_due_task(self.schedule, self.run, now_s).task is CrawlTask.NOTHING

    @property
    def account(self) -> RoundAccount | None:
        """Progress of its run; None while no crawl is counting it."""
        again = None if self.crawl is None else self.crawl.committer.refresh
        if isinstance(again, RevisitAll) and self.run is not None and again.since_s == self.run.began_s:
            return again.progress
        return None


def collection_schedule(config: Config) -> Schedule | None:
    """Return a collection's schedule; a collection that keeps its pages fresh does so between runs."""
    found = parse_schedule(config.schedule)
    return None if found is None else replace(found, keep_fresh=found.keep_fresh or config.refresh.keep)


def shift_config(controller: CollectionController) -> Config:
    """Return the settings of a collection's part in a shift."""
    if controller.due_task.task is CrawlTask.CRAWL:
        return controller.config
    refresh = replace(controller.config.refresh, keep=controller.due_task.task is CrawlTask.KEEP_FRESH)
    return replace(controller.config, refresh=refresh)
