"""`teia remove`: pages or sites that must not be in the archive any more."""

from __future__ import annotations

import getpass
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from teia.cli.long_work import shown_work
from teia.cli.options import AsJson, Collection, Data, open_collection
from teia.cli.output import count_of, print_json, result_console
from teia.cli.progress import size
from teia.clock import Clock, WallClock
from teia.lib.message import Message
from teia.transfer.removal import RemovalResult
from teia.transfer.removal import remove as remove_pages

NODE_STATES = {
    "done": "done, nothing is left",
    "pending": "pending: it is down, and removes the pages when it comes back, before it joins",
    "left": "something is left",
}


def remove(
    targets: Annotated[
        list[str], typer.Argument(metavar="URL|NAME...", help="A URL; URL* for all that begin so; or a domain.")
    ],
    data: Data,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason, for the log of changes.")],
    collection: Collection = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove pages or sites from archive, index, histories and subscriptions, and never fetch them again.

    Example: teia remove https://example.org/private --reason "court order 12/2026" --data archive
    """
    root, name = open_collection(data, collection)
    clock = WallClock()
    with shown_work("reading the archive", 0):
        done = remove_pages(root, name, targets, reason, clock, dry_run=dry_run)
    if not dry_run:
        _log(root.path / "web.sqlite", clock, done)
    if as_json:
        print_json({**asdict(done), "is_proven": done.is_proven})
    else:
        _print(done)
    if not done.is_proven:
        raise typer.Exit(1)


def _log(path: Path, clock: Clock, done: RemovalResult) -> None:
    """Add the removal to the log of changes of the web interface, where there is one."""
    from teia.web.access.accounts import Accounts

    if path.exists():
        with closing(Accounts(path, clock)) as accounts:
            what = Message("remove from the archive")
            detail = {"collection": done.collection, "targets": done.targets, "reason": done.reason}
            accounts.log_action(getpass.getuser(), what, **detail, records=done.records, is_proven=done.is_proven)


def _print(done: RemovalResult) -> None:
    console = result_console()
    if done.is_dry_run:
        console.print(f"{count_of(done.urls, 'URL')} and {count_of(done.records, 'record')} would be removed")
        return
    console.print(
        f"{count_of(done.urls, 'URL')}, {count_of(done.records, 'record')} ({size(done.bytes)}),"
        f" {count_of(done.subscriptions, 'subscription')} and {count_of(done.notices, 'notice')} removed"
    )
    if done.pages_again:
        console.print(f"{count_of(done.pages_again, 'other page')} shared a removed body and will be fetched again")
    for node, state in done.nodes.items():
        console.print(f"{node}: {NODE_STATES[state]}")
    if done.is_proven:
        console.print("read again: nothing of them is left")
    elif "pending" in done.nodes.values() and "left" not in done.nodes.values():
        console.print("not proven yet: run the command again when these nodes are back")
    else:
        console.print(
            f"read again, still there: {count_of(done.left_records, 'record')}, {count_of(done.left_pages, 'page')},"
            f" {count_of(done.index_violations, 'violation')} in the index; run the command again"
        )
