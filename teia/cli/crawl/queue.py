"""`teia queue`: queued URLs dropped, put first or retried, many at a time (A6, A10)."""

from __future__ import annotations

import getpass
import time
from typing import Annotated, Any

import typer

from teia.cli.options import AsJson, Collection, Data, open_collection
from teia.cli.output import count_of, print_json, progress_console
from teia.clock import WallClock
from teia.collections import bulk
from teia.collections.control_file import Inbox
from teia.errors import UsageError
from teia.frontier.cell.bulk import BulkAction, BulkSelection, selection_fields
from teia.store.root import Root
from teia.views.reports.source import snapshot

POLL_S = 0.1
PATIENCE_S = 600.0

Action = Annotated[
    BulkAction, typer.Argument(metavar="DEED", help="Action: drop, first or retry.", case_sensitive=False)
]
Host = Annotated[str, typer.Option("--host", metavar="NAME", help="Only URLs of this host.")]
Contains = Annotated[str, typer.Option("--contains", metavar="TEXT", help="Only URLs that contain this text.")]
Source = Annotated[
    str, typer.Option("--from", metavar="SOURCE", help="Only URLs of this kind: new, retry, suspect or refresh.")
]
Depth = Annotated[int | None, typer.Option("--depth", min=0, help="Only URLs at this depth.")]
LastOutcome = Annotated[
    str, typer.Option("--outcome", metavar="NAME", help="Only URLs whose last attempt had this outcome.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Execute the action; without it matching URLs are only counted.")]


def queue(
    action: Action,
    data: Data,
    host: Host = "",
    contains: Contains = "",
    source: Source = "",
    depth: Depth = None,
    outcome: LastOutcome = "",
    yes: Yes = False,
    collection: Collection = None,
    as_json: AsJson = False,
) -> None:
    """Drop queued URLs, move them to the front, or retry failed ones; counts them first, acts with --yes.

    Examples: teia queue drop --contains /agenda/ --data archive
    · teia queue retry --outcome timeout --yes --data archive
    """
    root, name = open_collection(data, collection)
    selection = BulkSelection(action, host.strip().lower(), contains, source, depth, outcome.strip())
    with snapshot(root, name) as cells:
        counted = bulk.count_urls([cell.frontier for cell in cells], selection, WallClock().now_s())
    done = _execute(root, name, selection) if yes else None
    answer: dict[str, Any] = {"collection": name, "deed": str(action), **selection_fields(selection)}
    answer |= {"matched": counted.number, "examples": list(counted.examples), "done": done}
    if as_json:
        print_json(answer)
        return
    console = progress_console()
    for url in counted.examples if done is None else ():
        console.print(url, soft_wrap=True, markup=False, highlight=False)
    message = (
        f"{count_of(counted.number, 'matching URL')}; nothing was changed, repeat the command with --yes to execute it"
        if done is None
        else f"{count_of(done, 'URL')}: {action}"
    )
    console.print(message, soft_wrap=True)


def _execute(root: Root, name: str, selection: BulkSelection) -> int:
    """Request the action, wait until the running crawl or this process has executed it, and return the URL count."""
    clock = WallClock()
    with Inbox(root.control) as inbox:
        number = bulk.request_action(inbox, name, selection, getpass.getuser(), clock.now_s())
        until = clock.ticks_s() + PATIENCE_S
        while clock.ticks_s() < until:
            # No crawl will execute it, so this process locks the folder for a moment and executes a part.
            if inbox.running_crawl(name) is None and root.lock_holder() is None:
                bulk.try_to_run_actions(root, name, clock)
            found = inbox.get(number)
            if found is not None and found.done_s is not None:
                return found.progress
            time.sleep(POLL_S)
    raise UsageError("the request is saved but not executed yet; the crawl that uses this folder will execute it")
