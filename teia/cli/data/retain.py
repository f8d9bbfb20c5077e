"""`teia retain`: remove the captures that the retention rules of a collection do not keep."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from teia.cli.long_work import print_next, shown_work
from teia.cli.options import AsJson, Collection, Data, open_collection
from teia.cli.output import print_json, result_console
from teia.cli.progress import size
from teia.clock import WallClock
from teia.crawler.upkeep.retention import RetentionResult
from teia.transfer.retention import retain as apply_rules


def retain(
    data: Data,
    collection: Collection = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove captures from the archive by the rules of the section retention of the settings.

    Example: teia set retention.versions=10 --data archive; teia retain --dry-run --data archive
    """
    root, name = open_collection(data, collection)
    with shown_work("applying the retention rules", 0):
        if dry_run:
            done = apply_rules(root, name, WallClock(), dry_run=True)
        else:
            with root.locked():
                done = apply_rules(root, name, WallClock(), dry_run=False)
    if as_json:
        print_json(asdict(done))
    else:
        _print(done)
    # Scripts see by the exit status that the rules keep more than the quota allows.
    if done.is_over_quota:
        raise typer.Exit(1)
    at = f"--data {data} --collection {name}"
    print_next(f"teia retain {at}, to remove them" if dry_run else f"teia audit archive {at}, to check what is left")


def _print(done: RetentionResult) -> None:
    console = result_console()
    verb = "would be removed" if done.is_dry_run else "removed"
    rules = ", ".join(f"{number:,} by {rule}" for rule, number in done.by_rule.items())
    console.print(
        f"{done.removed:,} of {done.captures:,} captures of {done.pages:,} pages {verb} ({size(done.bytes)})"
        + (f": {rules}" if rules else ""),
        markup=False,
    )
    if done.held:
        console.print(f"{done.held:,} captures stay because others that are kept refer to their bodies")
    console.print(f"the archive takes {size(done.archive_bytes)}" + (" now" if not done.is_dry_run else ""))
    if done.is_over_quota:
        console.print(
            f"the last captures alone take more than the quota of {size(done.quota_bytes)}; raise"
            " retention.quota_bytes, or keep fewer captures"
        )
