"""`teia schedule`: when collections are crawled next, the run under way, and the last ones (T1, T3)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from teia.cli.crawl.control import tell
from teia.cli.options import AsJson, Data
from teia.cli.output import print_json, result_console
from teia.clock import WallClock
from teia.collections.overview import Agenda, RunView, agenda_of
from teia.collections.run_log import in_words
from teia.collections.stored import choose
from teia.records import Command
from teia.store.root import open_root

Name = Annotated[str | None, typer.Argument(metavar="NAME", help="The collection; all of them by default.")]
Wanted = Annotated[str | None, typer.Option("--collection", help="The same.")]


Now = Annotated[bool, typer.Option("--now", help="Let whoever serves it begin a run at once.")]


def schedule(
    data: Data, name: Name = None, collection: Wanted = None, now: Now = False, as_json: AsJson = False
) -> None:
    """Show when collections are crawled: the next five starts, the run under way, the last runs.

    A schedule is set with `teia set` and served by `teia crawl --scheduled`. Example:
    teia set schedule.start="2026-11-21 02:00" schedule.every="7 days" schedule.stop_after="4 hours" --data archive
    """
    root, wanted = open_root(data), name or collection
    if now:
        tell(root, wanted, Command.RUN, "a run begins")
    names = root.collections() if wanted is None and root.collections() else [choose(root, wanted)]
    agendas = [agenda_of(root, each, WallClock()) for each in names]
    if as_json:
        accounts = [as_account(each) for each in agendas]
        print_json(accounts[0] if len(accounts) == 1 else {"collections": accounts})
        return
    for agenda in agendas:
        show(agenda, result_console())


def as_account(agenda: Agenda) -> dict[str, Any]:
    return {**asdict(agenda), "next_run": agenda.next_run}


def show(agenda: Agenda, console: Console) -> None:
    """Print one collection's agenda."""
    words = agenda.words or "no schedule; `teia set schedule.start=…` gives it one"
    console.print(f"[bold]{agenda.collection}[/bold]: {escape(words)}", soft_wrap=True)
    if agenda.shown:
        console.print(f"  next: {escape(', '.join(each.partition(' (')[0] for each in agenda.shown))}", soft_wrap=True)
    elif agenda.words:
        console.print("  next: none, it is over")
    if agenda.run is not None:
        state = "under way" if agenda.running else "interrupted, goes on if somebody crawls before its deadline"
        console.print(f"  run {agenda.run.number}: {state}, {escape(of_run(agenda.run))}", soft_wrap=True)
    for run in agenda.last:
        console.print(f"  run {run.number}: {escape(of_run(run))}", soft_wrap=True)
    for note in agenda.notes:
        console.print(f"  [yellow]![/yellow] {escape(note)}", soft_wrap=True)


def of_run(run: RunView) -> str:
    """One run in a line; times are UTC."""
    when = (
        f"{_minute(run.began)} to {_minute(run.ended)} UTC ({run.why})"
        if run.ended
        else f"since {_minute(run.began)} UTC"
    )
    return f"{when}: {in_words(run.known, run.visited, run.new, is_over=bool(run.ended))}"


def _minute(iso: str | None) -> str:
    return (iso or "")[:16].replace("T", " ")
