"""The crawler that `teia serve` manages: a coordinator of all collections that follows standing commands (T2, T7).

Collections with a schedule run by it. A collection without one is crawled when a user starts it, until that crawl has
ended; then it is idle. Started again it continues with the queued URLs; where none is queued it visits everything once
more. The commands of users are in the table `standing_commands` (commands.py), so that they survive a death. The
coordinator notices collections that are created or removed meanwhile. With nothing to do now or later it exits after a
minute; `teia serve` starts another one when there is work.

`CrawlerDemand` makes that decision for `teia serve`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from math import inf
from typing import Any

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


class Resident(Coordinator):
    """Serves a locked root by its schedules and standing commands; exits after `idle_s` without work."""

    def __init__(self, *given: Any, idle_s: float = IDLE_S, **named: Any) -> None:
        super().__init__(*given, **named)
        self._idle_s = idle_s
        self._idle_from = self._clock.ticks_s()
        self._last_commands: Mapping[str, StandingCommands] = {}

    @contextmanager
    def _open_files(self) -> Iterator[None]:
        self._command_table = CommandTable(self._root.control)
        try:
            with super()._open_files():
                yield
        finally:
            self._command_table.close()

    async def _init_controller(self, controller: CollectionController) -> None:
        """Read the standing commands of a collection; it is announced when there is something to do."""
        self._apply_commands(controller, self._command_table.get(controller.name))

    # -- tasks ---------------------------------------------------------------------------------------------

    def _decide(self) -> list[CollectionController]:
        now_s, restart_s = self._clock.now_s(), inf
        for controller in self.controllers.values():
            commands = controller.commands
            controller.is_stopped = commands.is_held(controller.schedule, now_s)
            if controller.is_stopped:
                restart_s = min(restart_s, commands.restart_s(controller.schedule) or inf)
            if controller.schedule is None and commands.wanted_s is None and controller.crawl is None:
                controller.is_over = True
            if controller.schedule is not None and commands.wanted_s is not None and not controller.is_requested:
                self._on_task_done(controller)  # its run has begun, and is written down
        running = super()._decide()
        if running:
            # Busy: the idle time begins when the last shift has ended.
            self._idle_from = inf
        elif self._idle_from == inf:
            self._idle_from = self._clock.ticks_s()
        left_s = max(0.0, self._idle_from + self._idle_s - self._clock.ticks_s())
        self._decide_at_s = min(self._decide_at_s, restart_s, now_s + left_s if not self._is_needed() else inf)
        return running

    def _is_needed(self) -> bool:
        now_s = self._clock.now_s()
        return any(is_needed(each.commands, each.schedule, each.run, now_s) for each in self.controllers.values())

    def _has_future_work(self) -> bool:
        return self._is_needed() or self._clock.ticks_s() < self._idle_from + self._idle_s

    def _begin_requested_run(self, controller: CollectionController, now_s: float) -> None:
        """Begin a run; without a schedule, continue an unfinished crawl instead."""
        has_work = controller.config.refresh.keep or _has_queued(self._root, controller.name)
        if controller.schedule is not None or not has_work:
            self._begin_run(controller, now_s)
        if controller.schedule is not None:
            self._on_task_done(controller)

    def _on_task_done(self, controller: CollectionController) -> None:
        """Record that the commanded crawl is complete; without a schedule nothing remains to do."""
        with suppress(DiskFull):
            self._command_table.mark_done(controller.name, controller.commands.wanted_s)
            controller.commands = replace(controller.commands, wanted_s=None)
        controller.is_over = controller.is_over or controller.schedule is None

    # -- commands ------------------------------------------------------------------------------------------

    async def _poll_control(self) -> None:
        await super()._poll_control()
        all_commands = self._command_table.all()
        if all_commands != self._last_commands:
            self._last_commands = all_commands
            for controller in self.controllers.values():
                self._apply_commands(controller, all_commands.get(controller.name, NO_COMMANDS))
            self._decide_at_s = self._account_at = -inf
        self._release_removed(all_commands)

    def _execute(self, controller: CollectionController, command: Command) -> None:
        """Record a command as a standing command, which is applied next; a parked collection is tried again."""
        if command is Command.RESUME and controller.parked:
            controller.unpark()
            self._decide_at_s = self._account_at = -inf
        # The sender of RUN has recorded it already (`give_command`); a second time stamp would start the crawl twice.
        # On a full disk the error keeps the request pending.
        if command is not Command.RUN or self._command_table.get(controller.name).wanted_s is None:
            self._command_table.record(controller.name, command, self._clock.now_s())

    def _apply_commands(self, controller: CollectionController, commands: StandingCommands) -> None:
        """Apply the current standing commands of a collection."""
        before, controller.commands = controller.commands, commands
        # A start that was not seen before.
        if commands.wanted_s is not None and commands.wanted_s != before.wanted_s:
            controller.is_requested, controller.is_over, controller.has_lost_schedule = True, False, False
            controller.unpark()
        was_paused, controller.is_paused = controller.is_paused, commands.paused_s is not None
        if self._crawler is None or controller.crawl is None:
            return
        if commands.removal or (commands.stopped_s is not None and commands.stopped_s != before.stopped_s):
            self._crawler.apply_commands([Command.STOP], controller.crawl)
        elif controller.is_paused != was_paused:
            self._crawler.apply_commands([Command.PAUSE if controller.is_paused else Command.RESUME], controller.crawl)

    def _release_removed(self, all_commands: Mapping[str, StandingCommands]) -> None:
        """Close the files of collections to be removed, and record that."""
        for name in [name for name, commands in all_commands.items() if commands.removal == REQUESTED]:
            controller = self.controllers.get(name)
            if controller is not None and controller.crawl is not None and self._crawler is not None:
                self._crawler.stop()  # the shift ends, and with it all that is open
                continue
            with suppress(DiskFull):
                self.controllers.pop(name, None)
                self._inbox.end(name)
                self._command_table.release(name)

    def _write_account(self, controller: CollectionController) -> None:
        """Write a collection's account while it has something to do."""
        is_idle = not self._is_served(controller) and not controller.parked
        if is_idle and (controller.crawl is None or controller.crawl.is_settled):
            if controller.is_announced:
                self._inbox.end(controller.name)
            controller.is_announced = False
            return
        if not controller.is_announced:
            self._inbox.begin(controller.name, self._clock.now_s())
            controller.is_announced = True
        super()._write_account(controller)


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
