"""`teia cluster copy`: all cells in one folder, to be read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from teia.cli.cluster.change import Ca, Collection, Data, Key, Nats, servers_of

To = Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder of the copies; made if it is new.")]


def copy(
    to: To,
    data: Data = None,
    nats: Nats = None,
    key: Key = None,
    ca: Ca = None,
    collection: Collection = "main",
) -> None:
    """Copy what all nodes know into one folder, for reports, SQL and exports. Again: only what is new is copied.

    Example: teia cluster copy --to all --data try && teia report hosts --data all
    """
    from teia.clock import WallClock
    from teia.cluster.cells.copy_all import replicate
    from teia.store.root import open_root

    servers, key, collection = servers_of(data, nats, key, collection)
    root = open_root(to, create=True)
    with root.locked():
        done = asyncio.run(replicate(root, servers, key, ca, collection, WallClock()))
    print(f"{done.cells} cells are in {to} as they are now; {done.commits:,} commits were read")
