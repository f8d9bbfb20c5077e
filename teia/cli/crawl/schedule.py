"""`teia schedule`: when collections are crawled next, the run under way, and the last ones (T1, T3)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from teia.cli.crawl.control import send_command
from teia.cli.options import AsJson, Data
from teia.cli.output import print_json, result_console
from teia.clock import WallClock
from teia.collections.overview import RunView, ScheduleOverview, schedule_overview
from teia.collections.scheduled_runs import describe_visits
from teia.collections.settings import choose
from teia.records import Command
from teia.store.root import open_root

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


def show(agenda: ScheduleOverview, console: Console) -> None:
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
