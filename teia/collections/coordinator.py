"""The coordinator (T3): due schedules become runs, of one collection or of all in a root, in one process.

It decides the task of each collection now (due_runs.py), and opens a crawler for those that have to be crawled. That is
a *shift*: its set of collections is fixed. When a collection is done or its time is over, its part ends by itself. When
another one has to begin, or to continue with another task, the shift is ended cleanly and the next one begins with
both, a moment later. Politeness delays, queues and counts are on disk, so a shift that ends loses nothing. While
nothing is due there is no crawler: no children, no open cells, and a read of `control.sqlite` five times a second.

A run is recorded (run_log.py) before its shift begins, and all known pages are fetched again since that instant
(visit_all_again.py). A death, `teia stop` and signals leave it open, and the next coordinator continues it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from math import inf

from teia.clock import Clock
from teia.collections.account import summarize
from teia.collections.bulk import carry_out
from teia.collections.controllers import CollectionController, config_for, schedule_in
from teia.collections.crawler_reports import announce, hear, take_up, tell
from teia.collections.due_runs import CrawlTask, deadline_of, duty_of
from teia.collections.edits import from_json
from teia.collections.inbox import ACCOUNT_S, POLL_S, ControlFile
from teia.collections.run_log import EndReason, RunLog, in_words
from teia.collections.series import SeriesWriter
from teia.config.sections import Config, ScheduleSettings
from teia.config.tree import keys_of
from teia.crawler.loop import Crawler
from teia.crawler.running_collection import CrawlState, RunCounts
from teia.crawler.start import open_crawler
from teia.errors import DiskFull, TeiaError
from teia.parse.children.spawn import ZygoteProcess
from teia.records import Command
from teia.store.root import Root

DISK_RETRY_S = 5.0
PARKED_FOR_ROOM_S = 60.0
"""Seconds until a collection that could not be opened on a full disk is tried again."""

SCHEDULE_KEYS = frozenset(f"schedule.{name}" for name in keys_of(ScheduleSettings))

Around = Callable[[Crawler, Sequence[Config]], AbstractAsyncContextManager[None]]
Say = Callable[[str], object]


class Coordinator:
    """Serves the schedules of a root, which the caller has locked, until they are over or `stop` is called.

    `read` returns the settings of a collection, `names` the names of all collections; both are called again after a
    change. `at_once` begins a run of each now and returns when they have ended. `around` is entered with each shift;
    `say` receives progress lines.
    """

    def __init__(
        self,
        root: Root,
        names: Callable[[], Sequence[str]],
        read: Callable[[str], Config],
        clock: Clock,
        *,
        at_once: bool = False,
        around: Around | None = None,
        say: Say | None = None,
        zygote: ZygoteProcess | None = None,
        poll_s: float = POLL_S,
    ) -> None:
        self._root, self._names, self._read, self._clock = root, names, read, clock
        self._at_once, self._around, self._say, self._zygote = at_once, around or _alone, say or _say_nothing, zygote
        self._poll_s = poll_s
        self.charges: dict[str, CollectionController] = {}
        self._crawler: Crawler | None = None
        self._stopping = False
        self._decide_at_s = -inf
        self._account_at = -inf
        self._since = 0
        self._shift_began = 0.0
        self.unread: dict[str, str] = {}
        """Errors in the settings of collections that cannot be served because of them, by name."""
        self._announced: set[str] = set()
        """Names of those that have an account all the same."""

    def stop(self) -> None:
        """Finish the requests under way, commit, and return from `serve`; the next `serve` continues the runs."""
        self._stopping = True
        if self._crawler is not None:
            self._crawler.stop()

    def hurry(self) -> None:
        """Stop without waiting for requests."""
        self.stop()
        if self._crawler is not None:
            self._crawler.hurry()

    async def serve(self) -> None:
        """Turn due schedules into runs, shift by shift."""
        with self._opened():
            await self._meet()
            if self._at_once:
                self._begin_all()
            while not self._stopping:
                going = self._decide()
                if going:
                    await self._shift(going)
                elif self._has_prospects():
                    await self._wait()
                else:
                    return

    @contextmanager
    def _opened(self) -> Iterator[None]:
        path = self._root.path / "control.sqlite"
        self._control, self._book = ControlFile(path), RunLog(path)
        # Read before any settings are: a change after this number may not be in them.
        self._since, self._series = self._control.last_change(), SeriesWriter(self._control)
        try:
            yield
        finally:
            for name in (*self.charges, *self._announced):
                with suppress(DiskFull):
                    self._control.end(name)
            self._book.close()
            self._control.close()

    async def _meet(self) -> None:
        """Load the existing collections with their current settings."""
        self._decide_at_s, now_s = -inf, self._clock.now_s()
        self.unread = {}
        for name in dict.fromkeys([*self._names(), *self.charges]):
            try:
                config = self._read(name)
                schedule = schedule_in(config)
            except TeiaError as error:  # the settings that made sense hold on
                self.unread[name] = str(error)
                what = "its new settings are ignored" if name in self.charges else "skipped"
                self._say(f"{name}: {what}: {error}")
                continue
            if name in self.charges:
                self.charges[name].take(config, now_s)
            else:
                charge = CollectionController(name, config, schedule, run=self._book.last(name))
                await self._greet(charge)
                self.charges[name] = charge

    async def _greet(self, charge: CollectionController) -> None:
        await announce(self._control, charge.name, self._clock)

    def _begin_all(self) -> None:
        for charge in self.charges.values():
            if charge.run is None or not charge.run.is_open:
                self._begin_run(charge, self._clock.now_s())

    @staticmethod
    def _is_served(charge: CollectionController) -> bool:
        return not charge.is_over and not charge.is_stopped and not charge.parked

    def _park(self, name: str, error: TeiaError) -> None:
        """Park a collection that has an error; the others continue."""
        charge = self.charges[name]
        if not charge.parked:
            charge.parked = str(error)
            charge.parked_until_s = self._clock.now_s() + PARKED_FOR_ROOM_S if isinstance(error, DiskFull) else inf
            self._decide_at_s = self._account_at = -inf
            self._say(f"{name}: skipped: {error}")

    def _park_failed(self, crawler: Crawler) -> None:
        """Park the collections whose crawls have failed, each crawl once: a user may have fixed the cause since."""
        for crawl in crawler.crawls:
            charge = self.charges[crawl.name]
            if crawl.failure is not None and charge.failed is not crawl:
                charge.failed = crawl
                self._park(crawl.name, crawl.failure)

    def _has_prospects(self) -> bool:
        """Tell whether there will be work later, though there is none now."""
        return any(self._is_served(charge) or charge.parked_until_s < inf for charge in self.charges.values())

    # -- tasks ---------------------------------------------------------------------------------------------

    def _decide(self) -> list[CollectionController]:
        """Decide the task of every collection; return those that need a crawler."""
        now_s, again_s = self._clock.now_s(), -inf
        for charge in self.charges.values():
            if now_s >= charge.parked_until_s:
                charge.unpark()
            try:
                self._note_end(charge, now_s)
                if self._is_served(charge):
                    self._give_duty(charge, now_s)
            except DiskFull as error:  # an end or a run that cannot be recorded does not count
                self._say(f"{charge.name}: {error}")
                again_s = now_s + DISK_RETRY_S
        served = [charge for charge in self.charges.values() if self._is_served(charge)]
        until_s = [charge.duty.until_s for charge in served] + [each.parked_until_s for each in self.charges.values()]
        # At the first end of a task; on a full disk not before some seconds have passed.
        self._decide_at_s = max(again_s, min(until_s, default=inf))
        going = [charge for charge in served if charge.duty.task.needs_crawler and self._may_go(charge, now_s)]
        for charge in served:
            self._tell_duty(charge, is_going=charge in going)
        return going

    def _note_end(self, charge: CollectionController, now_s: float) -> None:
        """Check whether a collection has completed its task."""
        crawl, doing = charge.crawl, charge.doing
        # Ended by itself, not stopped: the task is done.
        if crawl is not None and doing is not None and crawl.state in {CrawlState.FINISHED, CrawlState.LIMIT}:
            if doing.task is CrawlTask.RUN:
                self._end_run(
                    charge, EndReason.FINISHED if crawl.state is CrawlState.FINISHED else EndReason.LIMIT, now_s
                )
            else:
                charge.kept_until_s = doing.until_s
                charge.is_over = doing.until_s == inf
                self._has_ended(charge)
            charge.doing = None
        run = charge.run
        if run is not None and run.is_open and now_s >= deadline_of(charge.schedule, run.due_s):
            if crawl is not None:
                self._end_run(charge, EndReason.DEADLINE, now_s)
            else:
                # No crawler was running then: it ended when it was last seen.
                self._end_run(charge, EndReason.INTERRUPTED, run.seen_s)

    def _give_duty(self, charge: CollectionController, now_s: float) -> None:
        # A run that is open serves the request as well.
        if charge.is_wanted and not (charge.run is not None and charge.run.is_open):
            self._begin_wanted(charge, now_s)
        charge.is_wanted = False
        duty = duty_of(charge.schedule, charge.run, now_s)
        if duty.task is CrawlTask.NOTHING or (duty.task is CrawlTask.CRAWL and charge.has_lost_schedule):
            charge.is_over = True
        is_new = charge.run is None or not charge.run.is_open
        if duty.task is CrawlTask.RUN and is_new and not charge.is_paused:
            self._begin_run(charge, duty.due_s or now_s)
        # Another task: its counts begin at zero.
        if (duty.task, duty.due_s) != (charge.duty.task, charge.duty.due_s):
            charge.counts, charge.seconds = RunCounts(), 0.0
        charge.duty = duty

    def _begin_wanted(self, charge: CollectionController, now_s: float) -> None:
        """Begin the run that a user requested."""
        self._begin_run(charge, now_s)

    def _has_ended(self, charge: CollectionController) -> None:
        """Handle a collection that has completed its task by itself."""

    def _may_go(self, charge: CollectionController, now_s: float) -> bool:
        return now_s >= charge.kept_until_s and (charge.crawl is not None or not charge.is_paused)

    def _begin_run(self, charge: CollectionController, due_s: float) -> None:
        now_s = self._clock.now_s()
        charge.run, charge.said = self._book.begin(charge.name, due_s, now_s), ()
        self._book.note(charge.run, None, _finite(deadline_of(charge.schedule, due_s)), now_s)
        late_s = now_s - due_s
        was_due = f", due {late_s:,.0f} s ago" if late_s >= 60 else ""
        self._say(f"{charge.name}: run {charge.run.number} starts{was_due}")

    def _end_run(self, charge: CollectionController, why: EndReason, ended_s: float) -> None:
        assert charge.run is not None
        # The last counts are recorded before the run is closed.
        self._note_run(charge)
        self._book.end(charge.run, why, ended_s)
        charge.run = run = self._book.last(charge.name)
        assert run is not None
        what = in_words(run.known, run.visited, run.new, is_over=True)
        self._say(f"{run.collection}: run {run.number} ended ({run.why}): {what}")
        charge.is_over = charge.is_over or self._at_once
        self._has_ended(charge)

    def _note_run(self, charge: CollectionController) -> None:
        """Record the progress of a run; also after its end, for requests that were under way then."""
        if charge.run is not None and charge.crawl is not None and charge.account is not None:
            seen_s = self._clock.now_s() if charge.run.is_open else charge.run.seen_s
            deadline_s = _finite(deadline_of(charge.schedule, charge.run.due_s))
            self._book.note(charge.run, charge.account, deadline_s, seen_s)

    # -- nothing is due ------------------------------------------------------------------------------------

    async def _wait(self) -> None:
        """Sleep until a run is due or a command arrives."""
        # A prepared process is for a shift that begins at once; it would idle for days.
        if self._zygote is not None:
            self._zygote.abandon()
            self._zygote = None
        while not self._stopping and self._clock.now_s() < self._decide_at_s:
            await self._sleep()
            await self._attend()

    async def _sleep(self) -> None:
        left_s = self._decide_at_s - self._clock.now_s()
        await self._clock.sleep(max(0.001, min(self._poll_s, left_s)))

    # -- a shift -------------------------------------------------------------------------------------------

    async def _shift(self, going: Sequence[CollectionController]) -> None:
        """Crawl some collections until one of them has to begin or to change its task, or all have ended."""
        going = sorted(going, key=lambda charge: -charge.config.courtesy.delay_s)  # the longest delay applies to all
        configs = [config_for(charge) for charge in going]
        since_s = {
            each.name: each.run.began_s for each in going if each.duty.task is CrawlTask.RUN and each.run is not None
        }
        zygote, self._zygote = self._zygote, None
        clock = self._clock
        self._shift_began = clock.ticks_s()
        seed = int(clock.now_s())
        try:
            async with open_crawler(self._root, configs, clock, seed, zygote, since_s, park=self._park) as crawler:
                await self._crawl_together(crawler)
        except TeiaError:
            # All collections of the shift are parked with their errors; the coordinator continues.
            if any(not charge.parked for charge in going):
                raise

    async def _crawl_together(self, crawler: Crawler) -> None:
        """Run a crawler for the collections that could be opened."""
        clock, going = self._clock, [self.charges[crawl.name] for crawl in crawler.crawls]
        configs = [crawl.config for crawl in crawler.crawls]
        for charge, crawl in zip(going, crawler.crawls, strict=True):
            # Counts go on over all shifts of one task.
            charge.crawl, charge.doing, crawl.counts = crawl, charge.duty, charge.counts
        self._crawler = crawler
        self._park_failed(crawler)  # before changes are read: they may fix what failed
        duties = {charge.name: (charge.duty.task, charge.duty.due_s) for charge in going}
        try:
            async with self._around(crawler, configs):
                await self._oversee(crawler, duties)
        finally:
            self._crawler = None
            for charge in going:
                assert charge.crawl is not None
                charge.seconds += clock.ticks_s() - self._shift_began
                charge.summary = summarize(charge.crawl, charge.seconds)
                with suppress(DiskFull):
                    self._note_run(charge)
                    self._note_end(charge, clock.now_s())
                charge.crawl = charge.doing = charge.failed = None

    async def _oversee(self, crawler: Crawler, duties: dict[str, tuple[CrawlTask, float | None]]) -> None:
        """Run a crawler and keep it on its due runs; a collection that fails is parked."""
        if self._stopping:
            crawler.stop()
        running = asyncio.create_task(crawler.run())
        try:
            while not running.done():
                sleeping = asyncio.create_task(self._sleep())
                await asyncio.wait([running, sleeping], return_when=asyncio.FIRST_COMPLETED)
                sleeping.cancel()
                await self._attend()
                self._park_failed(crawler)
                if not running.done() and self._has_news():
                    self._steer(crawler, duties)
        finally:
            if not running.done():
                # Cancelled or failed: end without waiting for requests, but commit.
                crawler.hurry()
            try:
                await running
            finally:
                self._park_failed(crawler)

    def _has_news(self) -> bool:
        crawls = (charge.crawl for charge in self.charges.values() if charge.crawl is not None)
        return self._clock.now_s() >= self._decide_at_s or any(not crawl.state.is_going for crawl in crawls)

    def _steer(self, crawler: Crawler, duties: dict[str, tuple[CrawlTask, float | None]]) -> None:
        """End tasks that are no longer due; end the shift if another task is due instead or as well."""
        wanted = {charge.name: (charge.duty.task, charge.duty.due_s) for charge in self._decide()}
        for name in duties.keys() - wanted.keys():
            # Its task is over; the shift continues for the others.
            crawl = self.charges[name].crawl
            if crawl is not None:
                crawl.end()
        if any(duties.get(name) != duty or self._was_ended(name) for name, duty in wanted.items()):
            crawler.stop()

    def _was_ended(self, name: str) -> bool:
        """Tell whether a collection's part of the shift was stopped; it needs another shift to continue."""
        crawl = self.charges[name].crawl
        return crawl is not None and crawl.state is CrawlState.STOPPED

    # -- commands and changes ------------------------------------------------------------------------------

    async def _attend(self) -> None:
        """Execute commands, apply changes, and write the accounts."""
        control, now_s = self._control, self._clock.now_s()
        for charge in list(self.charges.values()):
            self._obey(charge, control.take(charge.name, now_s))
            if charge.crawl is not None and self._crawler is not None:
                hear(control, self._crawler, charge.crawl, self._clock)
            elif control.deeds(charge.name):
                # No crawl has the collection open, and this process holds the folder lock.
                await asyncio.to_thread(carry_out, self._root, charge.name, self._clock)
        last = control.last_change()
        if last > self._since:
            await self._take_changes()
            self._since = last
        if self._clock.ticks_s() >= self._account_at:
            self._account_at = self._clock.ticks_s() + ACCOUNT_S
            self._tell()

    def _obey(self, charge: CollectionController, commands: Sequence[Command]) -> None:
        """Execute the commands of users for one collection."""
        for command in commands:
            charge.is_paused = (charge.is_paused or command is Command.PAUSE) and command is not Command.RESUME
            charge.is_stopped = charge.is_stopped or command is Command.STOP
            charge.is_wanted = charge.is_wanted or command is Command.RUN
            if command in {Command.RUN, Command.RESUME}:
                charge.unpark()
            self._decide_at_s = self._account_at = -inf
        if self._crawler is not None and charge.crawl is not None:
            self._crawler.obey(commands, charge.crawl)

    async def _take_changes(self) -> None:
        """Apply changed settings; those that the current shift cannot apply take effect with the next."""
        answers: list[tuple[int, str]] = []
        for charge in self.charges.values():
            for number, edits in self._control.changes(charge.name, self._since):
                crawl = charge.sound_crawl
                if self._crawler is not None and crawl is not None:
                    answers.append((number, await take_up(self._crawler, crawl, self._root, edits, SCHEDULE_KEYS)))
                else:
                    # Nothing is running: the next shift reads the settings from the file.
                    answers.append((number, json.dumps({"now": [edit.key for edit in from_json(edits)]})))
        await self._meet()
        for number, answer in answers:
            with suppress(DiskFull):
                self._control.answer_change(number, answer)

    def _tell(self) -> None:
        """Write every collection's account; on a full disk the last one stays until there is room."""
        for charge in self.charges.values():
            with suppress(DiskFull):
                self._tell_of(charge)
        for name in self.unread.keys() - self.charges.keys():
            with suppress(DiskFull):
                if name not in self._announced:
                    self._control.begin(name, self._clock.now_s())
                    self._announced.add(name)
                self._control.account(name, {"state": "paused", "paused_why": self.unread[name]}, self._clock.now_s())

    def _tell_of(self, charge: CollectionController) -> None:
        if charge.is_stopped and (charge.crawl is None or charge.crawl.is_settled):
            self._control.end(charge.name)
        elif charge.parked:
            self._control.account(charge.name, {"state": "paused", "paused_why": charge.parked}, self._clock.now_s())
        elif charge.sound_crawl is not None:
            seconds = charge.seconds + self._clock.ticks_s() - self._shift_began
            tell(self._control, self._series, charge.sound_crawl, self._clock, seconds)
            self._note_run(charge)
        else:
            why = "asked to" if charge.is_paused else ""
            state = "paused" if charge.is_paused else "waiting"
            self._control.account(charge.name, {"state": state, "paused_why": why}, self._clock.now_s())

    def _tell_duty(self, charge: CollectionController, *, is_going: bool) -> None:
        """Report a collection's task in a line, if it has changed."""
        duty = charge.duty
        says = (duty.task, duty.until_s, is_going)
        if says == charge.said or duty.task in {CrawlTask.RUN, CrawlTask.CRAWL}:
            return
        charge.said = says
        if duty.task is CrawlTask.NOTHING:
            self._say(f"{charge.name}: its schedule has ended")
        elif duty.until_s < inf and charge.schedule is not None:
            what = "is kept fresh until" if duty.task is CrawlTask.KEEP_FRESH and is_going else "waits until"
            self._say(f"{charge.name}: {what} {charge.schedule.shown(duty.until_s)}")


def _finite(at_s: float) -> float | None:
    return at_s if at_s < inf else None


def _say_nothing(line: str) -> None:
    """Discard a line: the default output."""


@asynccontextmanager
async def _alone(crawler: Crawler, configs: Sequence[Config]) -> AsyncIterator[None]:  # noqa: ARG001
    """Default for `around`: run nothing beside a shift."""
    yield
