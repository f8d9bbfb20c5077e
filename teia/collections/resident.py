"""The crawler that `teia serve` manages: a coordinator of all collections that follows standing commands (T2, T7).

Collections with a schedule run by it. A collection without one is crawled when a user starts it, until that crawl has
ended; then it is idle. Started again it continues with the queued URLs; where none is queued it visits everything once
more. The commands of users are in the table `standing_commands` (commands.py), so that they survive a death. The
coordinator notices collections that are created or removed meanwhile. With nothing to do now or later it exits after a
minute; `teia serve` starts another one when there is work.

The coordinator itself knows nothing of that: `StandingCommandFollower` does it, as its `CommandFollower`.
`CrawlerDemand` decides for `teia serve` whether a coordinator is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from math import inf

from teia.clock import Clock
from teia.collections.calendar import Schedule
from teia.collections.commands import NO_COMMANDS, REQUESTED, CommandTable, StandingCommands, is_needed
from teia.collections.controllers import CollectionController, collection_schedule
from teia.collections.coordinator import Coordinator
from teia.collections.scheduled_runs import RunLog
from teia.collections.settings import saved
from teia.errors import DiskFull, StoreError, TeiaError
from teia.frontier.cell.cell import FrontierCell
from teia.records import Command
from teia.store.root import Root

IDLE_S = 60.0


class StandingCommandFollower:
    """Follows the standing commands for a coordinator (`CommandFollower`); it ends after `idle_s` without work."""

    def __init__(self, coordinator: Coordinator, *, idle_s: float = IDLE_S) -> None:
        self._coordinator = coordinator
        self._idle_s = idle_s
        self._idle_from = coordinator.clock.ticks_s()
        self._restart_s = inf
        """Earliest time at which a stopped collection starts again by its schedule."""
        self._last_commands: Mapping[str, StandingCommands] = {}

    @contextmanager
    def open(self) -> Iterator[None]:
        with CommandTable(self._coordinator.root.control) as self._table:
            yield

    async def adopt(self, controller: CollectionController) -> None:
        """Read the standing commands of a collection; it is announced when there is something to do."""
        self._apply(controller, self._table.get(controller.name))

    # -- tasks ---------------------------------------------------------------------------------------------

    def prepare_decision(self, now_s: float) -> None:
        self._restart_s = inf
        for controller in self._coordinator.controllers.values():
            commands = controller.commands
            controller.is_stopped = commands.is_held(controller.schedule, now_s)
            if controller.is_stopped:
                self._restart_s = min(self._restart_s, commands.restart_s(controller.schedule) or inf)
            if controller.schedule is None and commands.wanted_s is None and controller.crawl is None:
                controller.is_over = True
            if controller.schedule is not None and commands.wanted_s is not None and not controller.is_requested:
                self.note_done(controller)  # its run has begun, and is written down

    def next_decision_s(self, now_s: float, *, is_running: bool) -> float:
        now = self._coordinator.clock.ticks_s()
        if is_running:
            # Busy: the idle time begins when the last shift has ended.
            self._idle_from = inf
        elif self._idle_from == inf:
            self._idle_from = now
        left_s = max(0.0, self._idle_from + self._idle_s - now)
        return min(self._restart_s, inf if self._is_needed() else now_s + left_s)

    def _is_needed(self) -> bool:
        now_s, controllers = self._coordinator.clock.now_s(), self._coordinator.controllers.values()
        return any(is_needed(each.commands, each.schedule, each.run, now_s) for each in controllers)

    def has_future_work(self) -> bool:
        return self._is_needed() or self._coordinator.clock.ticks_s() < self._idle_from + self._idle_s

    def begin_requested_run(self, controller: CollectionController, now_s: float) -> None:
        """Begin a run; without a schedule, continue an unfinished crawl instead."""
        has_work = controller.config.refresh.keep or _has_queued(self._coordinator.root, controller.name)
        if controller.schedule is not None or not has_work:
            self._coordinator.begin_run(controller, now_s)
        if controller.schedule is not None:
            self.note_done(controller)

    def note_done(self, controller: CollectionController) -> None:
        """Record that the commanded crawl is complete; without a schedule nothing remains to do."""
        with suppress(DiskFull):
            self._table.mark_done(controller.name, controller.commands.wanted_s)
            controller.commands = replace(controller.commands, wanted_s=None)
        controller.is_over = controller.is_over or controller.schedule is None

    # -- commands ------------------------------------------------------------------------------------------

    def poll(self) -> None:
        all_commands = self._table.all()
        if all_commands != self._last_commands:
            self._last_commands = all_commands
            for controller in self._coordinator.controllers.values():
                self._apply(controller, all_commands.get(controller.name, NO_COMMANDS))
            self._coordinator.wake()
        self._release_removed(all_commands)

    def execute(self, controller: CollectionController, command: Command) -> None:
        """Record a command as a standing command, which is applied next; a parked collection is tried again."""
        if command is Command.RESUME and controller.parked:
            controller.unpark()
            self._coordinator.wake()
        # The sender of RUN has recorded it already (`give_command`); a second time stamp would start the crawl twice.
        # On a full disk the error keeps the request pending.
        if command is not Command.RUN or self._table.get(controller.name).wanted_s is None:
            self._table.record(controller.name, command, self._coordinator.clock.now_s())

    def _apply(self, controller: CollectionController, commands: StandingCommands) -> None:
        """Apply the current standing commands of a collection."""
        before, controller.commands = controller.commands, commands
        # A start that was not seen before.
        if commands.wanted_s is not None and commands.wanted_s != before.wanted_s:
            controller.is_requested, controller.is_over, controller.has_lost_schedule = True, False, False
            controller.unpark()
        was_paused, controller.is_paused = controller.is_paused, commands.paused_s is not None
        crawler = self._coordinator.crawler
        if crawler is None or controller.crawl is None:
            return
        if commands.removal or (commands.stopped_s is not None and commands.stopped_s != before.stopped_s):
            crawler.apply_commands([Command.STOP], controller.crawl)
        elif controller.is_paused != was_paused:
            crawler.apply_commands([Command.PAUSE if controller.is_paused else Command.RESUME], controller.crawl)

    def _release_removed(self, all_commands: Mapping[str, StandingCommands]) -> None:
        """Close the files of collections to be removed, and record that."""
        coordinator = self._coordinator
        for name in [name for name, commands in all_commands.items() if commands.removal == REQUESTED]:
            controller = coordinator.controllers.get(name)
            if controller is not None and controller.crawl is not None and coordinator.crawler is not None:
                coordinator.crawler.stop()  # the shift ends, and with it all that is open
                continue
            with suppress(DiskFull):
                coordinator.controllers.pop(name, None)
                coordinator.inbox.end(name)
                self._table.release(name)

    def has_account(self, controller: CollectionController) -> bool:
        """Announce a collection as running while it has something to do."""
        inbox = self._coordinator.inbox
        is_idle = not controller.is_served and not controller.parked
        if is_idle and (controller.crawl is None or controller.crawl.is_settled):
            if controller.is_announced:
                inbox.end(controller.name)
            controller.is_announced = False
        elif not controller.is_announced:
            inbox.begin(controller.name, self._coordinator.clock.now_s())
            controller.is_announced = True
        return controller.is_announced


def _has_queued(root: Root, name: str) -> bool:
    """Tell whether URLs of a collection are queued."""
    for folder in root.collection(name).cells():
        # Nothing is in a cell that cannot be opened yet.
        with suppress(StoreError), closing(FrontierCell(folder.frontier, read_only=True)) as cell:
            if cell.queued:
                return True
    return False


# ---- the decision to start a crawler ---------------------------------------------------------------------------------


class CrawlerDemand:
    """Reads standing commands and schedules; belongs to one thread. Settings are read again when their file changes."""

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root, self._clock = root, clock
        self._command_table = CommandTable(root.control)
        self._run_log = RunLog(root.control)
        self._read: dict[str, tuple[tuple[int, int], Schedule | None]] = {}

    def close(self) -> None:
        self._command_table.close()
        self._run_log.close()

    def is_anything(self) -> bool:
        """True if some collection has to be crawled, or waits for its start time."""
        all_commands, now_s = self._command_table.all(), self._clock.now_s()
        for name in self._root.collections():
            commands, schedule = all_commands.get(name, NO_COMMANDS), self._schedule(name)
            if commands is NO_COMMANDS and schedule is None:
                continue
            if is_needed(commands, schedule, self._run_log.last(name), now_s):
                return True
        return False

    def _schedule(self, name: str) -> Schedule | None:
        """Return a collection's schedule; None also if its settings are invalid."""
        try:
            found = (self._root.path / name / "teia.toml").stat()
        except OSError:
            return None
        # The file is always replaced as a whole, so that its inode changes too.
        stamp, known = (found.st_mtime_ns, found.st_ino), self._read.get(name)
        if known is None or known[0] != stamp:
            try:
                schedule = collection_schedule(saved(self._root, name).config)
            except TeiaError:
                schedule = None
            known = self._read[name] = (stamp, schedule)
        return known[1]
