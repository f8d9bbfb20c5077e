"""The coordinator (T3): due schedules become runs, of one collection or of all in a root, in one process.

It decides the task of each collection now (scheduled_runs.py), and opens a crawler for those that have to be crawled.
That is a *shift*: its set of collections is fixed. When a collection is done or its time is over, its part ends by
itself. When another one has to begin, or to continue with another task, the shift is ended cleanly and the next one
begins with both, a moment later. Politeness delays, queues and counts are on disk, so a shift that ends loses nothing.
While nothing is due there is no crawler: no children, no open cells, and a read of `control.sqlite` five times a
second.

A run is recorded (scheduled_runs.py) before its shift begins, and all known pages are fetched again since that instant
(visit_all_again.py). A death, `teia stop` and signals leave it open, and the next coordinator continues it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from math import inf
from typing import Protocol

from teia.clock import Clock
from teia.collections.account import SeriesWriter, summarize
from teia.collections.bulk import run_actions
from teia.collections.control_file import ACCOUNT_S, Inbox, RequestAnswer
from teia.collections.controllers import CollectionController, collection_schedule, shift_config
from teia.collections.poll_requests import (
    POLL_S,
    OpenCrawl,
    announce,
    drop_stale_requests,
    poll_requests,
    reconfigure_crawl,
    write_account,
)
from teia.collections.scheduled_runs import CrawlTask, EndReason, RunLog, deadline_of, describe_visits, find_due_task
from teia.config.sections import Config, ScheduleSettings
from teia.config.tree import keys_of
from teia.crawler.loop import Crawler
from teia.crawler.running_collection import CrawlState, RunCounts
from teia.crawler.start import open_crawler
from teia.crawler.upkeep.removal import remove_from_closed
from teia.errors import DiskFull, TeiaError
from teia.lib.message import Message
from teia.parse.children.spawn import ZygoteProcess
from teia.records import Command, Edit, RemovedPages
from teia.store.root import Root

DISK_RETRY_S = 5.0
PARKED_FOR_ROOM_S = 60.0
"""Seconds until a collection that could not be opened on a full disk is tried again."""

SCHEDULE_KEYS = frozenset(f"schedule.{name}" for name in keys_of(ScheduleSettings))

ShiftContext = Callable[[Crawler, Sequence[Config]], AbstractAsyncContextManager[None]]
Report = Callable[[str], object]


class CommandFollower(Protocol):
    """The way in which a coordinator follows the commands of users."""

    def open(self) -> AbstractContextManager[None]:
        """Open the file of the commands while the coordinator serves."""

    async def adopt(self, controller: CollectionController) -> None:
        """Begin to serve a collection."""

    def poll(self) -> None:
        """Apply commands that other processes have recorded."""

    def execute(self, controller: CollectionController, command: Command) -> None:
        """Execute a user's command for one collection."""

    def prepare_decision(self, now_s: float) -> None:
        """Apply the commands that hold now to all collections, before their tasks are decided."""

    def next_decision_s(self, now_s: float, *, is_running: bool) -> float:
        """Return the time at which a command needs the next decision; `is_running`: this one needs a crawler."""

    def has_future_work(self) -> bool:
        """Tell whether there will be work later, though there is none now."""

    def begin_requested_run(self, controller: CollectionController, now_s: float) -> None:
        """Begin the run that a user requested."""

    def note_done(self, controller: CollectionController) -> None:
        """Note that a collection has completed its task by itself."""

    def has_account(self, controller: CollectionController) -> bool:
        """Tell whether the account of a collection is to be written."""


class CommandsOfThisProcess:
    """Commands that hold until the coordinator ends; collections are served until their schedules are over."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def open(self) -> AbstractContextManager[None]:
        return nullcontext()

    async def adopt(self, controller: CollectionController) -> None:
        await announce(self._coordinator.inbox, controller.name, self._coordinator.clock)

    def poll(self) -> None: ...

    def execute(self, controller: CollectionController, command: Command) -> None:
        controller.is_paused = (controller.is_paused or command is Command.PAUSE) and command is not Command.RESUME
        controller.is_stopped = controller.is_stopped or command is Command.STOP
        controller.is_requested = controller.is_requested or command is Command.RUN
        if command in {Command.RUN, Command.RESUME}:
            controller.unpark()
        self._coordinator.wake()
        if self._coordinator.crawler is not None and controller.crawl is not None:
            self._coordinator.crawler.apply_commands([command], controller.crawl)

    def prepare_decision(self, now_s: float) -> None: ...

    def next_decision_s(self, now_s: float, *, is_running: bool) -> float:  # noqa: ARG002
        return inf

    def has_future_work(self) -> bool:
        controllers = self._coordinator.controllers.values()
        return any(each.is_served or each.parked_until_s < inf for each in controllers)

    def begin_requested_run(self, controller: CollectionController, now_s: float) -> None:
        self._coordinator.begin_run(controller, now_s)

    def note_done(self, controller: CollectionController) -> None: ...

    def has_account(self, controller: CollectionController) -> bool:  # noqa: ARG002
        return True


class Coordinator:
    """Serves the schedules of a root, which the caller has locked, until they are over or `stop` is called.

    `read` returns the settings of a collection, `names` the names of all collections; both are called again after a
    change. `run_now` begins a run of each now and returns when they have ended. `shift_context` is entered with each
    shift; `report` receives progress lines. `follow` says how it follows commands (resident.py has the other way).
    """

    def __init__(
        self,
        root: Root,
        names: Callable[[], Sequence[str]],
        read: Callable[[str], Config],
        clock: Clock,
        *,
        run_now: bool = False,
        shift_context: ShiftContext | None = None,
        report: Report | None = None,
        zygote: ZygoteProcess | None = None,
        poll_s: float = POLL_S,
        follow: Callable[[Coordinator], CommandFollower] = CommandsOfThisProcess,
    ) -> None:
        self.root, self._names, self._read, self.clock = root, names, read, clock
        self._commands = follow(self)
        self._run_now, self._shift_context, self._report, self._zygote = (
            run_now,
            shift_context or _no_context,
            report or _discard_line,
            zygote,
        )
        self._poll_s = poll_s
        self.controllers: dict[str, CollectionController] = {}
        self.crawler: Crawler | None = None
        self._stopping = False
        self._decide_at_s = -inf
        self._account_at = -inf
        self._shift_began = 0.0
        self.config_errors: dict[str, str] = {}
        """Errors in the settings of collections that cannot be served because of them, by name."""
        self._announced: set[str] = set()
        """Names of those that have an account all the same."""

    def stop(self) -> None:
        """Finish the requests under way, commit, and return from `serve`; the next `serve` continues the runs."""
        self._stopping = True
        if self.crawler is not None:
            self.crawler.stop()

    def stop_now(self) -> None:
        """Stop without waiting for requests."""
        self.stop()
        if self.crawler is not None:
            self.crawler.stop_now()

    async def serve(self) -> None:
        """Turn due schedules into runs, shift by shift."""
        with self._commands.open(), self._open_files():
            await self._load_collections()
            if self._run_now:
                self._begin_all_runs()
            while not self._stopping:
                running = self._decide()
                if running:
                    await self._run_shift(running)
                elif self._commands.has_future_work():
                    await self._wait()
                else:
                    return

    @contextmanager
    def _open_files(self) -> Iterator[None]:
        drop_stale_requests(self.root, self.clock)
        self.inbox, self._run_log = Inbox(self.root.control), RunLog(self.root.control)
        self._series = SeriesWriter(self.inbox)
        try:
            yield
        finally:
            for name in (*self.controllers, *self._announced):
                with suppress(DiskFull):
                    self.inbox.end(name)
            self._run_log.close()
            self.inbox.close()

    async def _load_collections(self) -> None:
        """Load the existing collections with their current settings."""
        self._decide_at_s, now_s = -inf, self.clock.now_s()
        self.config_errors = {}
        for name in dict.fromkeys([*self._names(), *self.controllers]):
            try:
                config = self._read(name)
                schedule = collection_schedule(config)
            except TeiaError as error:  # the settings that made sense hold on
                self.config_errors[name] = error.message
                what = "its new settings are ignored" if name in self.controllers else "skipped"
                self._report(f"{name}: {what}: {error}")
                continue
            if name in self.controllers:
                self.controllers[name].apply_config(config, now_s)
            else:
                controller = CollectionController(name, config, schedule, run=self._run_log.last(name))
                await self._commands.adopt(controller)
                self.controllers[name] = controller

    def _begin_all_runs(self) -> None:
        for controller in self.controllers.values():
            if controller.run is None or not controller.run.is_open:
                self.begin_run(controller, self.clock.now_s())

    def _park(self, name: str, error: TeiaError) -> None:
        """Park a collection that has an error; the others continue."""
        controller = self.controllers[name]
        if not controller.parked:
            controller.parked = error.message
            controller.parked_until_s = self.clock.now_s() + PARKED_FOR_ROOM_S if isinstance(error, DiskFull) else inf
            self.wake()
            self._report(f"{name}: skipped: {error}")

    def _park_failed(self, crawler: Crawler) -> None:
        """Park the collections whose crawls have failed, each crawl once: a user may have fixed the cause since."""
        for crawl in crawler.crawls:
            controller = self.controllers[crawl.name]
            if crawl.failure is not None and controller.failed is not crawl:
                controller.failed = crawl
                self._park(crawl.name, crawl.failure)

    def wake(self) -> None:
        """Decide the tasks anew and write the accounts, without waiting for their time."""
        self._decide_at_s = self._account_at = -inf

    # -- tasks ---------------------------------------------------------------------------------------------

    def _decide(self) -> list[CollectionController]:
        """Decide the task of every collection; return those that need a crawler."""
        now_s, again_s = self.clock.now_s(), -inf
        self._commands.prepare_decision(now_s)
        for controller in self.controllers.values():
            if now_s >= controller.parked_until_s:
                controller.unpark()
            try:
                self._note_end(controller, now_s)
                if controller.is_served:
                    self._assign_task(controller, now_s)
            except DiskFull as error:  # an end or a run that cannot be recorded does not count
                self._report(f"{controller.name}: {error}")
                again_s = now_s + DISK_RETRY_S
        served = [controller for controller in self.controllers.values() if controller.is_served]
        until_s = [controller.due_task.until_s for controller in served] + [
            each.parked_until_s for each in self.controllers.values()
        ]
        # At the first end of a task; on a full disk not before some seconds have passed.
        self._decide_at_s = max(again_s, min(until_s, default=inf))
        running = [
            controller
            for controller in served
            if controller.due_task.task.needs_crawler and self._may_run(controller, now_s)
        ]
        for controller in served:
            self._report_task(controller, is_running=controller in running)
        by_command_s = self._commands.next_decision_s(now_s, is_running=bool(running))
        self._decide_at_s = min(self._decide_at_s, by_command_s)
        return running

    def _note_end(self, controller: CollectionController, now_s: float) -> None:
        """Check whether a collection has completed its task."""
        crawl, current_task = controller.crawl, controller.current_task
        # Ended by itself, not stopped: the task is done.
        if crawl is not None and current_task is not None and crawl.state in {CrawlState.FINISHED, CrawlState.LIMIT}:
            if current_task.task is CrawlTask.RUN:
                self._end_run(
                    controller, EndReason.FINISHED if crawl.state is CrawlState.FINISHED else EndReason.LIMIT, now_s
                )
            else:
                controller.done_until_s = current_task.until_s
                controller.is_over = current_task.until_s == inf
                self._commands.note_done(controller)
            controller.current_task = None
        run = controller.run
        if run is not None and run.is_open and now_s >= deadline_of(controller.schedule, run.due_s):
            if crawl is not None:
                self._end_run(controller, EndReason.DEADLINE, now_s)
            else:
                # No crawler was running then: it ended when it was last seen.
                self._end_run(controller, EndReason.INTERRUPTED, run.seen_s)

    def _assign_task(self, controller: CollectionController, now_s: float) -> None:
        if controller.is_requested:
            if controller.done_until_s > now_s:
                # Work that ended before the request does not answer it; its counts and limits begin anew.
                controller.counts, controller.seconds, controller.done_until_s = RunCounts(), 0.0, -inf
            # A run that is open serves the request as well.
            if controller.run is None or not controller.run.is_open:
                self._commands.begin_requested_run(controller, now_s)
        controller.is_requested = False
        due_task = find_due_task(controller.schedule, controller.run, now_s)
        if due_task.task is CrawlTask.NOTHING or (due_task.task is CrawlTask.CRAWL and controller.has_lost_schedule):
            controller.is_over = True
        is_new = controller.run is None or not controller.run.is_open
        if due_task.task is CrawlTask.RUN and is_new and not controller.is_paused:
            self.begin_run(controller, due_task.due_s or now_s)
        # Another task: its counts begin at zero.
        if (due_task.task, due_task.due_s) != (controller.due_task.task, controller.due_task.due_s):
            controller.counts, controller.seconds = RunCounts(), 0.0
        controller.due_task = due_task

    def _may_run(self, controller: CollectionController, now_s: float) -> bool:
        return now_s >= controller.done_until_s and (controller.crawl is not None or not controller.is_paused)

    def begin_run(self, controller: CollectionController, due_s: float) -> None:
        """Record a new run of a collection; its shift begins next."""
        now_s = self.clock.now_s()
        controller.run, controller.reported = self._run_log.begin(controller.name, due_s, now_s), ()
        self._run_log.note(controller.run, None, _finite(deadline_of(controller.schedule, due_s)), now_s)
        late_s = now_s - due_s
        was_due = f", due {late_s:,.0f} s ago" if late_s >= 60 else ""
        self._report(f"{controller.name}: run {controller.run.number} starts{was_due}")

    def _end_run(self, controller: CollectionController, why: EndReason, ended_s: float) -> None:
        assert controller.run is not None
        # The last counts are recorded before the run is closed.
        self._note_progress(controller)
        self._run_log.end(controller.run, why, ended_s)
        controller.run = run = self._run_log.last(controller.name)
        assert run is not None
        what = describe_visits(run.known, run.visited, run.new, is_over=True)
        self._report(f"{run.collection}: run {run.number} ended ({run.why}): {what}")
        controller.is_over = controller.is_over or self._run_now
        self._commands.note_done(controller)

    def _note_progress(self, controller: CollectionController) -> None:
        """Record the progress of a run; also after its end, for requests that were under way then."""
        if controller.run is not None and controller.crawl is not None and controller.account is not None:
            seen_s = self.clock.now_s() if controller.run.is_open else controller.run.seen_s
            deadline_s = _finite(deadline_of(controller.schedule, controller.run.due_s))
            self._run_log.note(controller.run, controller.account, deadline_s, seen_s)

    # -- nothing is due ------------------------------------------------------------------------------------

    async def _wait(self) -> None:
        """Sleep until a run is due or a command arrives."""
        # A prepared process is for a shift that begins at once; it would idle for days.
        if self._zygote is not None:
            self._zygote.abandon()
            self._zygote = None
        while not self._stopping and self.clock.now_s() < self._decide_at_s:
            await self._sleep()
            await self._poll_control()

    async def _sleep(self) -> None:
        left_s = self._decide_at_s - self.clock.now_s()
        await self.clock.sleep(max(0.001, min(self._poll_s, left_s)))

    # -- a shift -------------------------------------------------------------------------------------------

    async def _run_shift(self, running: Sequence[CollectionController]) -> None:
        """Crawl some collections until one of them has to begin or to change its task, or all have ended."""
        running = sorted(
            running, key=lambda controller: -controller.config.courtesy.delay_s
        )  # the longest delay applies to all
        configs = [shift_config(controller) for controller in running]
        since_s = {
            each.name: each.run.began_s
            for each in running
            if each.due_task.task is CrawlTask.RUN and each.run is not None
        }
        zygote, self._zygote = self._zygote, None
        clock = self.clock
        self._shift_began = clock.ticks_s()
        seed = int(clock.now_s())
        try:
            async with open_crawler(self.root, configs, clock, seed, zygote, since_s, park=self._park) as crawler:
                await self._crawl_shift(crawler)
        except TeiaError:
            # All collections of the shift are parked with their errors; the coordinator continues.
            if any(not controller.parked for controller in running):
                raise

    async def _crawl_shift(self, crawler: Crawler) -> None:
        """Run a crawler for the collections that could be opened."""
        clock, running = self.clock, [self.controllers[crawl.name] for crawl in crawler.crawls]
        configs = [crawl.config for crawl in crawler.crawls]
        for controller, crawl in zip(running, crawler.crawls, strict=True):
            # Counts go on over all shifts of one task.
            controller.crawl, controller.current_task, crawl.counts = crawl, controller.due_task, controller.counts
            controller.is_in_run = controller.due_task.task is not CrawlTask.CRAWL
        self.crawler = crawler
        self._park_failed(crawler)  # before changes are read: they may fix what failed
        tasks = {controller.name: (controller.due_task.task, controller.due_task.due_s) for controller in running}
        try:
            async with self._shift_context(crawler, configs):
                await self._run_crawler(crawler, tasks)
        finally:
            self.crawler = None
            for controller in running:
                assert controller.crawl is not None
                controller.seconds += clock.ticks_s() - self._shift_began
                controller.summary = summarize(controller.crawl, controller.seconds)
                with suppress(DiskFull):
                    if not controller.is_in_run:
                        self._series.note_run(controller.crawl, clock.now_s())
                    self._note_progress(controller)
                    self._note_end(controller, clock.now_s())
                controller.crawl = controller.current_task = controller.failed = None

    async def _run_crawler(self, crawler: Crawler, tasks: dict[str, tuple[CrawlTask, float | None]]) -> None:
        """Run a crawler and keep it on its due runs; a collection that fails is parked."""
        if self._stopping:
            crawler.stop()
        running = asyncio.create_task(crawler.run())
        try:
            while not running.done():
                sleeping = asyncio.create_task(self._sleep())
                await asyncio.wait([running, sleeping], return_when=asyncio.FIRST_COMPLETED)
                sleeping.cancel()
                await self._poll_control()
                self._park_failed(crawler)
                if not running.done() and self._needs_decision():
                    self._update_tasks(crawler, tasks)
        finally:
            if not running.done():
                # Cancelled or failed: end without waiting for requests, but commit.
                crawler.stop_now()
            try:
                await running
            finally:
                self._park_failed(crawler)

    def _needs_decision(self) -> bool:
        crawls = (controller.crawl for controller in self.controllers.values() if controller.crawl is not None)
        return self.clock.now_s() >= self._decide_at_s or any(not crawl.state.is_active for crawl in crawls)

    def _update_tasks(self, crawler: Crawler, tasks: dict[str, tuple[CrawlTask, float | None]]) -> None:
        """End tasks that are no longer due; end the shift if another task is due instead or as well."""
        wanted = {
            controller.name: (controller.due_task.task, controller.due_task.due_s) for controller in self._decide()
        }
        for name in tasks.keys() - wanted.keys():
            # Its task is over; the shift continues for the others.
            crawl = self.controllers[name].crawl
            if crawl is not None:
                crawl.end()
        if any(tasks.get(name) != due_task or self._was_ended(name) for name, due_task in wanted.items()):
            crawler.stop()

    def _was_ended(self, name: str) -> bool:
        """Tell whether a collection's part of the shift was stopped; it needs another shift to continue."""
        crawl = self.controllers[name].crawl
        return crawl is not None and crawl.state is CrawlState.STOPPED

    # -- requests (poll_requests.py) -----------------------------------------------------------------------

    async def _poll_control(self) -> None:
        """Do what is requested, and write the accounts."""
        await poll_requests(self.inbox, self, self.clock)
        if self.clock.ticks_s() >= self._account_at:
            self._account_at = self.clock.ticks_s() + ACCOUNT_S
            self._write_accounts()
        self._commands.poll()

    def open_crawl(self, name: str) -> OpenCrawl | None:
        controller = self.controllers.get(name)
        if self.crawler is None or controller is None or controller.crawl is None:
            return None
        return OpenCrawl(self.crawler, controller.crawl)

    async def execute(self, name: str, command: Command) -> bool:
        controller = self.controllers.get(name)
        if controller is not None:
            self._commands.execute(controller, command)
        return controller is not None

    async def change(self, name: str, edits: Sequence[Edit]) -> RequestAnswer:
        """Apply changed settings; those that the current shift cannot apply take effect with the next."""
        controller = self.controllers.get(name)
        crawl = None if controller is None else controller.sound_crawl
        if self.crawler is not None and crawl is not None:
            answer = await reconfigure_crawl(self.crawler, crawl, self.root, edits, SCHEDULE_KEYS)
        else:
            # Nothing is running: the next shift reads the settings from the file.
            answer = RequestAnswer(now=tuple(edit.key for edit in edits))
        await self._load_collections()
        return answer

    async def run_bulk_offline(self, name: str) -> None:
        # No crawl has the collection open, and this process holds the folder lock.
        if name in self.controllers:
            await asyncio.to_thread(run_actions, self.root, name, self.clock)

    async def remove_offline(self, name: str, rules: tuple[str, ...]) -> RemovedPages | None:
        # No shift begins meanwhile: its beginning and this are steps of one task.
        return await asyncio.to_thread(remove_from_closed, self.root.collection(name), rules, self.clock)

    def _write_accounts(self) -> None:
        """Write every collection's account; on a full disk the last one stays until there is room."""
        for controller in self.controllers.values():
            with suppress(DiskFull):
                if self._commands.has_account(controller):
                    self._write_account(controller)
        for name in self.config_errors.keys() - self.controllers.keys():
            with suppress(DiskFull):
                if name not in self._announced:
                    self.inbox.begin(name, self.clock.now_s())
                    self._announced.add(name)
                self.inbox.write_account(
                    name, {"state": "paused", "paused_why": self.config_errors[name]}, self.clock.now_s()
                )

    def _write_account(self, controller: CollectionController) -> None:
        if controller.is_stopped and (controller.crawl is None or controller.crawl.is_settled):
            self.inbox.end(controller.name)
        elif controller.parked:
            self.inbox.write_account(
                controller.name, {"state": "paused", "paused_why": controller.parked}, self.clock.now_s()
            )
        elif controller.sound_crawl is not None:
            seconds = controller.seconds + self.clock.ticks_s() - self._shift_began
            crawl, is_run = controller.sound_crawl, controller.is_in_run
            write_account(self.inbox, self._series, crawl, self.clock, seconds, is_scheduled=is_run)
            self._note_progress(controller)
        else:
            why = Message("asked to") if controller.is_paused else ""
            state = "paused" if controller.is_paused else "waiting"
            self.inbox.write_account(controller.name, {"state": state, "paused_why": why}, self.clock.now_s())

    def _report_task(self, controller: CollectionController, *, is_running: bool) -> None:
        """Report a collection's task in a line, if it has changed."""
        due_task = controller.due_task
        report = (due_task.task, due_task.until_s, is_running)
        if report == controller.reported or due_task.task in {CrawlTask.RUN, CrawlTask.CRAWL}:
            return
        controller.reported = report
        if due_task.task is CrawlTask.NOTHING:
            self._report(f"{controller.name}: its schedule has ended")
        elif due_task.until_s < inf and controller.schedule is not None:
            what = "is kept fresh until" if due_task.task is CrawlTask.KEEP_FRESH and is_running else "waits until"
            self._report(f"{controller.name}: {what} {controller.schedule.format_time(due_task.until_s)}")


def _finite(at_s: float) -> float | None:
    return at_s if at_s < inf else None


def _discard_line(line: str) -> None:
    """Discard a line: the default output."""


@asynccontextmanager
async def _no_context(crawler: Crawler, configs: Sequence[Config]) -> AsyncIterator[None]:  # noqa: ARG001
    """Default for `shift_context`: run nothing beside a shift."""
    yield
