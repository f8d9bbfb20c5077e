"""`teia cluster copy`: a copy of all cells in one folder, for reports and exports."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from teia.cli.cluster.change import Ca, Collection, Data, Key, Nats, servers_of

To = Annotated[Path, typer.Option("--to", metavar="DIR", help="Destination folder; created if it does not exist.")]


def copy(
    to: To,
    data: Data = None,
    nats: Nats = None,
    key: Key = None,
    ca: Ca = None,
    collection: Collection = "main",
) -> None:
    """Copy the data of all nodes into one folder, for reports, SQL and exports; repeated runs copy what is new.

    Example: teia cluster copy --to all --data try && teia report hosts --data all
    """
    from teia.clock import WallClock
    from teia.cluster.cells.copy_all import replicate
    from teia.store.root import open_root

    servers, key, collection = servers_of(data, nats, key, collection)
    root = open_root(to, create=True)
    # A second copy into the same folder would mix its writes with these.
    with root.locked():
        done = asyncio.run(replicate(root, servers, key, ca, collection, WallClock()))
    print(f"{done.cells} cells copied to {to}, up to date; {done.commits:,} commits read")
