"""Standing commands of users for collections, valid whether or not a crawl is running now (T2).

They are the table `standing_commands` of `control.sqlite`. A command in `Inbox` is a request to a running crawl: it is
done once, and over. A standing command (`StandingCommands`) is state, so it has a table of its own: it is never done,
and holds until another one is given, through deaths and restarts of the crawler and of the machine. A started
collection is crawled until the crawl has ended, a paused one stays paused, and a stopped one stays idle until it is
started again or its schedule begins the next run. `teia serve` gives standing commands, and the crawler it manages
follows them; a crawl that a user began in a terminal does not.

Removing a collection with all its files takes both sides: the command requests the removal, then the crawler closes the
collection's files and records that. The folder is renamed first, atomically, so that there is either a whole collection
or none; then it is deleted. The next removal deletes what a death leaves of it.

`give_command` gives a command, and also sends it to the running crawl (T7).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from teia.clock import Clock
from teia.collections.calendar import Schedule
from teia.collections.control_file import ControlFile, GiveCommand, Inbox
from teia.collections.scheduled_runs import CrawlTask, ScheduledRun, find_due_task
from teia.durable import disk_errors, sync_folder
from teia.errors import StoreError
from teia.lib.message import Message
from teia.records import Command
from teia.store.root import Root

_ASSIGNMENTS = {
    Command.RUN: "wanted_s = :now_s, paused_s = NULL, stopped_s = NULL",
    Command.PAUSE: "paused_s = :now_s",
    Command.RESUME: "paused_s = NULL",
    Command.STOP: "wanted_s = NULL, paused_s = NULL, stopped_s = :now_s",
}
REQUESTED, RELEASED = "asked", "released"


@dataclass(frozen=True, slots=True)
class StandingCommands:
    """Standing commands for one collection, with their times; None: not given. `removal`: REQUESTED, then RELEASED."""

    wanted_s: float | None = None
    paused_s: float | None = None
    stopped_s: float | None = None
    removal: str = ""

    def is_held(self, schedule: Schedule | None, now_s: float) -> bool:
        """Tell whether the collection was stopped, and no start of its schedule came since."""
        restart_s = self.restart_s(schedule)
        return bool(self.removal) or (self.stopped_s is not None and (restart_s is None or now_s < restart_s))

    def restart_s(self, schedule: Schedule | None) -> float | None:
        """Return the time at which a stopped collection starts again by its schedule; None if it does not."""
        return None if schedule is None or self.stopped_s is None else schedule.next_start(self.stopped_s)


NO_COMMANDS = StandingCommands()


def is_needed(commands: StandingCommands, schedule: Schedule | None, last: ScheduledRun | None, now_s: float) -> bool:
    """Tell whether a crawler process must exist for a collection, to crawl it now or at its next start."""
    if commands.removal or commands.paused_s is not None:
        return False
    if commands.wanted_s is not None:
        return True
    if commands.is_held(schedule, now_s):
        return commands.restart_s(schedule) is not None
    return schedule is not None and find_due_task(schedule, last, now_s).task is not CrawlTask.NOTHING


class CommandTable(ControlFile):
    """The table `standing_commands`."""

    SYNCHRONOUS = "FULL"

    def all(self) -> Mapping[str, StandingCommands]:
        sql = "SELECT collection, wanted_s, paused_s, stopped_s, removal FROM standing_commands"
        return {name: StandingCommands(*rest) for name, *rest in self._read(sql)}

    def get(self, collection: str) -> StandingCommands:
        return self.all().get(collection, NO_COMMANDS)

    def record(self, collection: str, command: Command, now_s: float) -> None:
        """Record a standing command, effective from now on."""
        self._update(f"{_ASSIGNMENTS[command]} WHERE collection = :name", collection, now_s=now_s)

    def mark_done(self, collection: str, wanted_s: float | None) -> None:
        """Record that the crawl requested at `wanted_s` is done; a later request stays in force."""
        self._update("wanted_s = NULL WHERE collection = :name AND wanted_s = :wanted_s", collection, wanted_s=wanted_s)

    def request_removal(self, collection: str) -> None:
        """Request the removal of a collection; the process that has its files open then closes them."""
        self._update("wanted_s = NULL, removal = :word WHERE collection = :name", collection, word=REQUESTED)

    def release(self, collection: str) -> None:
        """Record that the files of a collection to be removed are closed."""
        self._update("removal = :word WHERE collection = :name", collection, word=RELEASED)

    def forget(self, collection: str) -> None:
        self._write("DELETE FROM standing_commands WHERE collection = ?", (collection,))

    def _update(self, sql: str, collection: str, **values: object) -> None:
        # No transaction is needed: a row without any command changes nothing.
        self._write("INSERT OR IGNORE INTO standing_commands (collection) VALUES (?)", (collection,))
        self._write(f"UPDATE standing_commands SET {sql}", {"name": collection, **values})  # noqa: S608  # our own


def give_command(root: Root, name: str, command: Command, clock: Clock) -> bool:
    """Record a standing command, and send it to the running crawl; return True if one is running."""
    with CommandTable(root.control) as table, Inbox(root.control) as inbox:
        # The standing command first: if this process dies now, the next crawler still follows it.
        table.record(name, command, clock.now_s())
        is_running = inbox.running_crawl(name) is not None
        if is_running:
            inbox.send(name, GiveCommand(command), clock.now_s())
    return is_running


def standing_commands(root: Root, name: str) -> StandingCommands:
    """Return the standing commands of a collection."""
    with CommandTable(root.control) as table:
        return table.get(name)


def idle_state(commands: StandingCommands) -> dict[str, Any]:
    """Return the state keys of an account while no crawl runs but a standing command is pending."""
    if commands.paused_s is not None:
        return {"state": "paused", "paused_why": Message("asked to")}
    return {"state": "starting"} if commands.wanted_s is not None else {}


# ---- removal ---------------------------------------------------------------------------------------------------------

TRASH = ".removed-"
CLOSE_TIMEOUT_S = 20.0
POLL_S = 0.05


def remove_collection(root: Root, name: str, clock: Clock) -> None:
    """Remove a collection; a crawler that has it open closes it first, or StoreError names it."""
    folder = root.collection(name)
    with CommandTable(root.control) as table:
        table.request_removal(name)
        # Nothing was touched yet: the request is withdrawn.
        if not _is_free(root, name, table, clock):
            table.forget(name)
            raise StoreError(Message("process {pid} is crawling this folder; stop it first", pid=root.lock_holder()))
    trash = root.path / f"{TRASH}{name}-{int(clock.now_s() * 1e6):x}"
    with disk_errors(folder.path, "removed"):
        # From here on the collection is gone; the rest is cleaning up.
        folder.path.rename(trash)
        sync_folder(root.path)
    with CommandTable(root.control) as table:
        table.forget_collection(name)
    remove_trash(root)


def _is_free(root: Root, name: str, table: CommandTable, clock: Clock) -> bool:
    """Wait until no process has the collection open; return False if that takes too long."""
    until = clock.ticks_s() + CLOSE_TIMEOUT_S
    while root.lock_holder() is not None and table.get(name).removal != RELEASED:
        if clock.ticks_s() > until:
            return False
        time.sleep(POLL_S)
    return True


def remove_trash(root: Root) -> None:
    """Delete the remains of removed collections."""
    for path in root.path.glob(f"{TRASH}*"):
        shutil.rmtree(path, ignore_errors=True)
