"""`teia doctor`: what could go wrong on this machine and with a collection, and what to do about it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from teia.cli.options import AsJson, Collection
from teia.cli.output import print_json, result_console

DataIfAny = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Data folder; without it, the machine alone is checked.")
]
Offline = Annotated[bool, typer.Option("--offline", help="Send nothing: neither DNS queries nor requests.")]
MARKS = {"ok": "ok", "warning": "warning", "failure": "FAILURE", "unknown": "?"}


def doctor(
    data: DataIfAny = None, collection: Collection = None, offline: Offline = False, as_json: AsJson = False
) -> None:
    """Check environment, limits, clock, disk, DNS, contact and robots.txt of the seeds; say what to do about each.

    Example: teia doctor --data archive
    """
    from teia.clock import WallClock
    from teia.collections.settings import choose, saved
    from teia.config.load import load
    from teia.store.root import open_root
    from teia.transfer.doctor import FAILURE, check_contact, check_machine, check_seeds

    root = open_root(data) if data is not None and (data / "format").exists() else None
    names = root.collections() if root is not None else ()
    config = saved(root, choose(root, collection)).config if root is not None and names else load().config
    found = list(check_machine(data or Path(), config.limits.disk_free_bytes))
    if root is not None and names:
        found.append(check_contact(config))
        if not offline:
            found += asyncio.run(check_seeds(root, config, WallClock()))
    if as_json:
        print_json(
            {"checks": [each._asdict() for each in found], "failures": sum(each.state == FAILURE for each in found)}
        )
    else:
        console = result_console()
        for each in found:
            console.print(f"{MARKS[each.state]:8} {each.check:15} {each.found}", soft_wrap=True, markup=False)
            if each.action and each.state != "ok":
                console.print(f"{'':24} {each.action}", soft_wrap=True, markup=False)
    if any(each.state == FAILURE for each in found):
        raise typer.Exit(1)
