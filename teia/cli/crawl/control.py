"""`teia status`, `pause`, `resume`, `stop`: a running crawl seen and told from another terminal."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from teia.cli.options import AsJson, Collection, Data
from teia.cli.output import print_json, progress_console, result_console
from teia.cli.progress import print_summary
from teia.clock import WallClock
from teia.collections.account import nothing_yet
from teia.collections.inbox import Control
from teia.collections.overview import in_summary
from teia.collections.stored import choose, is_clustered, nobody_hears
from teia.errors import StoreError
from teia.records import Command
from teia.store.root import Root, open_root
from teia.transfer.read_all import account_at_rest

PATIENCE_S = 10.0
STOP_PATIENCE_S = 30.0


def status(data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Say how a crawl stands: live if one is running, else what its folder holds."""
    root = open_root(data)
    name = choose(root, collection)
    account = {**current_account(root, name), **in_summary(root, name, WallClock())}
    if as_json:
        print_json(account)
    else:
        print_summary(account, result_console())


def current_account(root: Root, name: str) -> dict[str, Any]:
    """What the running crawler last said; without one, what is on disk."""
    try:
        control = Control(root.path / "control.sqlite")
    except StoreError:  # a folder without write permission has no crawler
        return account_at_rest(root, name)
    try:
        run = control.run(name)
    finally:
        control.close()
    if run is not None and "requests" in run.account:
        return dict(run.account)
    if run is None:
        return account_at_rest(root, name)
    try:
        account = account_at_rest(root, name)
    except StoreError:  # it waits for its first run
        account = asdict(nothing_yet(name))
    return {**account, **run.account}


def pause(data: Data, collection: Collection = None) -> None:
    """Let a running crawl rest: no new requests until `teia resume`."""
    tell(open_root(data), collection, Command.PAUSE, "paused")


def resume(data: Data, collection: Collection = None) -> None:
    """Let a paused crawl go on."""
    tell(open_root(data), collection, Command.RESUME, "going on")


def stop(data: Data, collection: Collection = None) -> None:
    """Stop a running crawl cleanly; `teia crawl` on the same folder goes on later."""
    tell(open_root(data), collection, Command.STOP, "stopped")


def tell(root: Root, collection: str | None, command: Command, done: str) -> None:
    """Give a running crawl a command, and wait until it was heard."""
    name, clock = choose(root, collection), WallClock()
    control = Control(root.path / "control.sqlite")
    try:
        if control.run(name) is None:
            if is_clustered(root.collection(name)):
                raise nobody_hears(root.collection(name))
            raise StoreError(
                f"no crawl of {name!r} is running in {root.path}; `teia crawl --data {root.path}` starts one"
            )
        number = control.ask(name, command, clock.now_s())
        until = clock.ticks_s() + (STOP_PATIENCE_S if command is Command.STOP else PATIENCE_S)
        while not control.is_done(number) or (command is Command.STOP and control.run(name) is not None):
            if clock.ticks_s() > until:
                raise StoreError(f"the crawl of {name!r} did not answer in time; is its process stopped?")
            time.sleep(0.05)
    finally:
        control.close()
    progress_console().print(f"{name}: {done}")
