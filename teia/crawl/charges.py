"""A collection as the coordinator sees it: its schedule, its run, and what it does in the shift that is under way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf

from teia.config import Config
from teia.crawl.crawl import Counts, Crawl
from teia.crawl.duties import Duty, Task, duty_of
from teia.crawl.orders import NO_ORDER, Order
from teia.crawl.rounds import RevisitAll, RoundAccount
from teia.crawl.runs import ScheduledRun
from teia.crawl.schedule import Schedule, schedule_of
from teia.crawl.summary import Summary

NO_DUTY = Duty(Task.NOTHING)


@dataclass(slots=True, eq=False)
class Charge:
    """One collection and what is to be done with it. `crawl` is its part of the shift that is under way, if any.

    `doing` is what that is for, until it has ended by itself. `is_wanted`: somebody asked for a run; `is_over`: it
    needs nothing more from this process; `kept_until_s`: it ended by itself what it was to do until then. `order` and
    `is_announced` are for the one who goes by orders (resident.py).
    """

    name: str
    config: Config
    schedule: Schedule | None
    duty: Duty = NO_DUTY
    run: ScheduledRun | None = None
    crawl: Crawl | None = None
    doing: Duty | None = None
    counts: Counts = field(default_factory=Counts)
    seconds: float = 0.0
    summary: Summary | None = None
    is_paused: bool = False
    is_stopped: bool = False
    is_wanted: bool = False
    is_over: bool = False
    has_lost_schedule: bool = False
    kept_until_s: float = -inf
    said: tuple[object, ...] = ()
    order: Order = NO_ORDER
    is_announced: bool = False

    def take(self, config: Config, now_s: float) -> None:
        """Go by other settings. A schedule that was over may begin again; without one there is nothing more to do."""
        before = self.schedule
        self.config, self.schedule = config, schedule_in(config)
        if self.schedule is None:
            self.has_lost_schedule = self.has_lost_schedule or before is not None
        elif self.schedule != before:
            self.has_lost_schedule = False
            self.is_over = self.is_over and duty_of(self.schedule, self.run, now_s).task is Task.NOTHING

    @property
    def account(self) -> RoundAccount | None:
        """How far its run has come, as far as somebody counts that now."""
        again = None if self.crawl is None else self.crawl.committer.refresh
        if isinstance(again, RevisitAll) and self.run is not None and again.since_s == self.run.began_s:
            return again.so_far
        return None


def schedule_in(config: Config) -> Schedule | None:
    """A collection's schedule; one that keeps its pages fresh anyway does so between runs."""
    found = schedule_of(config.schedule)
    return None if found is None else replace(found, keep_fresh=found.keep_fresh or config.refresh.keep)


def config_for(charge: Charge) -> Config:
    """The settings of a collection's part in a shift."""
    if charge.duty.task is Task.CRAWL:
        return charge.config
    refresh = replace(charge.config.refresh, keep=charge.duty.task is Task.KEEP_FRESH)
    return replace(charge.config, refresh=refresh)
