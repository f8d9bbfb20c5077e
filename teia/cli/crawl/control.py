"""`teia status`, `pause`, `resume`, `stop`, `schedule`: crawls controlled from another terminal (T1, T3)."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from teia.cli.options import AsJson, Collection, Data, open_collection
from teia.cli.output import PlainConsole, print_json, progress_console, result_console
from teia.cli.progress import print_summary
from teia.clock import WallClock
from teia.collections.account import empty_summary
from teia.collections.control_file import CrawlReports, GiveCommand, Inbox
from teia.collections.overview import RunView, ScheduleOverview, schedule_keys, schedule_overview
from teia.collections.scheduled_runs import describe_visits
from teia.collections.settings import choose, is_clustered, no_node_error
from teia.errors import StoreError
from teia.lib.message import decoded
from teia.records import Command
from teia.store.fixity import summarize
from teia.store.root import Root, open_root
from teia.transfer.read_all import idle_account

# A crawler reads its commands several times a second; before it stops, it commits and closes its files.
PATIENCE_S = 10.0
STOP_PATIENCE_S = 30.0


def status(data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Show the state of a crawl: live while it runs, otherwise from its folder."""
    root, name = open_collection(data, collection)
    fixity = asdict(summarize(root.collection(name).path))
    account = {**current_account(root, name), **schedule_keys(root, name, WallClock()), "fixity": fixity}
    if as_json:
        print_json(account)
    else:
        print_summary(account, result_console())


def current_account(root: Root, name: str) -> dict[str, Any]:
    """Return the last report of the running crawler; without one, the counts on disk."""
    try:
        with CrawlReports(root.control) as reports:
            run = reports.running_crawl(name)
    except StoreError:  # a folder without write permission has no crawler
        return idle_account(root, name)
    # A crawl that has just started has not reported its counts yet.
    if run is not None and "requests" in run.account:
        return dict(run.account)
    if run is None:
        return idle_account(root, name)
    try:
        account = idle_account(root, name)
    except StoreError:  # it waits for its first run
        account = asdict(empty_summary(name))
    return {**account, **run.account}


def pause(data: Data, collection: Collection = None) -> None:
    """Pause a running crawl: it sends no new requests until `teia resume`."""
    send_command(open_root(data), collection, Command.PAUSE, "paused")


def resume(data: Data, collection: Collection = None) -> None:
    """Resume a paused crawl."""
    send_command(open_root(data), collection, Command.RESUME, "resumed")


def stop(data: Data, collection: Collection = None) -> None:
    """Stop a running crawl cleanly; `teia crawl` on the same folder continues it."""
    send_command(open_root(data), collection, Command.STOP, "stopped")


def send_command(root: Root, collection: str | None, command: Command, done: str) -> None:
    """Send a command to a running crawl, and wait until it was received."""
    name, clock = choose(root, collection), WallClock()
    timeout_s = STOP_PATIENCE_S if command is Command.STOP else PATIENCE_S
    late = f"the crawl of {name!r} did not respond in time; check whether its process is stopped"
    with Inbox(root.control) as inbox:
        if inbox.running_crawl(name) is None:
            if is_clustered(root.collection(name)):
                raise no_node_error(root.collection(name))
            raise StoreError(
                f"no crawl of {name!r} is running in {root.path}; start one with `teia crawl --data {root.path}`"
            )
        until = clock.ticks_s() + timeout_s
        received = inbox.wait(inbox.send(name, GiveCommand(command), clock.now_s()), clock, timeout_s, late)
        if received is None and command is not Command.STOP:
            raise StoreError(f"the crawl of {name!r} has just ended")
        if received is not None and received.answer is not None and received.answer.error:
            raise StoreError(f"the crawl of {name!r} rejected it: {decoded(received.answer.error)}")
        # A stop is complete when the crawl is gone, not when it has received the command.
        while command is Command.STOP and inbox.running_crawl(name) is not None:
            if clock.ticks_s() > until:
                raise StoreError(late)
            time.sleep(0.05)
    progress_console().print(f"{name}: {done}")


# ---- schedules -------------------------------------------------------------------------------------------------------

Name = Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the collection; all by default.")]
CollectionOption = Annotated[str | None, typer.Option("--collection", help="Same as NAME.")]


Now = Annotated[bool, typer.Option("--now", help="Start a run at once, in the process that runs the schedule.")]


def schedule(
    data: Data, name: Name = None, collection: CollectionOption = None, now: Now = False, as_json: AsJson = False
) -> None:
    """Show the schedules of collections: the next five starts, the current run and the last runs.

    A schedule is set with `teia set` and run by `teia crawl --scheduled`. Example:
    teia set schedule.start="2026-11-21 02:00" schedule.every="7 days" schedule.stop_after="4 hours" --data archive
    """
    root, chosen = open_root(data), name or collection
    if now:
        send_command(root, chosen, Command.RUN, "run started")
    # `choose` raises the error for a folder without collections.
    names = root.collections() if chosen is None and root.collections() else [choose(root, chosen)]
    agendas = [schedule_overview(root, each, WallClock()) for each in names]
    if as_json:
        accounts = [as_account(each) for each in agendas]
        print_json(accounts[0] if len(accounts) == 1 else {"collections": accounts})
        return
    for agenda in agendas:
        show(agenda, result_console())


def as_account(agenda: ScheduleOverview) -> dict[str, Any]:
    return {**asdict(agenda), "next_run": agenda.next_run}


def show(agenda: ScheduleOverview, console: Console | PlainConsole) -> None:
    """Print one collection's agenda."""
    words = agenda.words or "no schedule; set one with `teia set schedule.start=…`"
    console.print(f"[bold]{agenda.collection}[/bold]: {escape(words)}", soft_wrap=True)
    if agenda.shown:
        # Without the time zone, which the line above names.
        console.print(f"  next: {escape(', '.join(each.partition(' (')[0] for each in agenda.shown))}", soft_wrap=True)
    elif agenda.words:
        console.print("  next: none, the schedule has ended")
    if agenda.run is not None:
        state = "in progress" if agenda.running else "interrupted; continues if a crawler runs before its deadline"
        console.print(f"  run {agenda.run.number}: {state}, {escape(run_line(agenda.run))}", soft_wrap=True)
    for run in agenda.last:
        console.print(f"  run {run.number}: {escape(run_line(run))}", soft_wrap=True)
    if agenda.later:
        console.print(f"  run {agenda.later} was begun by a command; `teia runs` lists all", soft_wrap=True)
    for note in agenda.notes:
        console.print(f"  [yellow]![/yellow] {escape(note)}", soft_wrap=True)


def run_line(run: RunView) -> str:
    """Return one run as a line; times are UTC."""
    when = (
        f"{_minute(run.began)} to {_minute(run.ended)} UTC ({run.why})"
        if run.ended
        else f"since {_minute(run.began)} UTC"
    )
    return f"{when}: {describe_visits(run.known, run.visited, run.new, is_over=bool(run.ended))}"


def _minute(iso: str | None) -> str:
    return (iso or "")[:16].replace("T", " ")
