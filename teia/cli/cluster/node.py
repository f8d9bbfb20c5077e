"""`teia node`: this machine as a node of a cluster."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teia.cli.exits import INTERRUPTED
from teia.cli.options import AsJson, Ca, Data
from teia.cli.output import print_json, progress_console
from teia.errors import UsageError
from teia.store.root import open_root

if TYPE_CHECKING:
    from teia.cluster.node import Node

Nats = Annotated[
    list[str], typer.Option("--nats", metavar="URL", help="NATS server, such as nats://10.0.0.1:4222; may be repeated.")
]
Key = Annotated[
    Path | None, typer.Option("--key", metavar="FILE", help="File with the key of this node for the NATS servers.")
]
Collection = Annotated[str, typer.Option("--collection", metavar="NAME", help="Name of the collection to crawl.")]
File = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE.toml", help="TOML file with its settings, for the first node of a collection."
    ),
]
Name = Annotated[str | None, typer.Option("--name", help="Name of the node; by default the name of the machine.")]
Region = Annotated[str, typer.Option("--region", metavar="NAME", help="Region of the node, a name of your choice.")]
Capacity = Annotated[
    float, typer.Option("--capacity", help="Relative capacity; twice the capacity gets twice the cells.")
]
Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy", help="Placement of sites: hash, geo, rtt or isolated; by default the strategy of the cluster."
    ),
]
Countries = Annotated[
    Path | None,
    typer.Option("--countries", metavar="FILE", help="CSV file with the country or city of each address range (geo)."),
]
Bind = Annotated[str, typer.Option("--bind", metavar="ADDRESS", help="Local IP address that requests are sent from.")]
MaxHosts = Annotated[
    int | None,
    typer.Option(
        "--max-hosts",
        min=1,
        help="Maximum number of hosts that this node crawls in parallel, instead of the"
        " collection's (courtesy.max_hosts).",
    ),
]
SessionS = Annotated[
    float,
    typer.Option(
        "--session",
        metavar="S",
        help="Time without a sign of life after which a node counts as dead, in seconds; set by the first node.",
    ),
]
Once = Annotated[bool, typer.Option("--once", help="Exit when no node has work left.")]


def node(
    data: Data,
    nats: Nats,
    collection: Collection = "main",
    config: File = None,
    name: Name = None,
    region: Region = "",
    capacity: Capacity = 1.0,
    strategy: Strategy = None,
    countries: Countries = None,
    bind: Bind = "",
    max_hosts: MaxHosts = None,
    key: Key = None,
    ca: Ca = None,
    session: SessionS = 15.0,
    once: Once = False,
    as_json: AsJson = False,
) -> None:
    """Run a node of a cluster: own some cells of a collection and crawl them, until stopped."""
    if not 0 < capacity <= 1_000:
        raise UsageError(f"--capacity {capacity:g}: must be more than 0 and at most 1000")
    import uvloop

    from teia.clock import WallClock
    from teia.cluster.node import Node, NodeIdentity
    from teia.cluster.placing.site_strategies import GEO, STRATEGIES
    from teia.collections.settings import with_whole_paths
    from teia.config.load import load

    if strategy is not None and strategy not in STRATEGIES:
        raise UsageError(f"--strategy {strategy}: must be one of {', '.join(STRATEGIES)}")
    if strategy == GEO and not region:
        raise UsageError(
            "--strategy geo requires --region with the country of this node, such as BR, or several: BR,PT"
        )

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    # An operator wants to see joins and take-overs, and only the warnings of all other modules.
    logging.getLogger("teia.cluster").setLevel(logging.INFO)
    root = open_root(data, create=True)
    settings = None
    if config is not None:
        settings = load(config, os.environ, {"collection.name": collection}).config
        settings = with_whole_paths(settings, config.absolute().parent)
    identity = NodeIdentity(
        name or _name_of_machine(), tuple(nats), key, ca, region=region, capacity=capacity, strategy=strategy or "",
        countries=countries, bind=bind, max_hosts=max_hosts, session_s=session,
    )  # fmt: skip
    with root.locked():
        this = Node(root, collection, settings, identity, WallClock(), once=once)
        interrupted = uvloop.run(_run(this))
    progress_console().print(f"{identity.name} left the cluster after {this.shifts} shifts and {this.pages:,} pages")
    if as_json:
        done = {"name": identity.name, "shifts": this.shifts, "pages": this.pages, "requests": this.requests}
        # User and system time, of this process and of its ended children.
        spent = {"cpu_s": round(sum(os.times()[:4]), 3), "exchange_cpu_s": round(this.exchange_cpu_s, 3)}
        print_json({**done, "messages": this.messages, "sent_bytes": this.sent_bytes, **spent})
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _name_of_machine() -> str:
    # The name becomes a part of NATS keys, where a dot separates two parts.
    return re.sub(r"[^A-Za-z0-9_-]+", "-", platform.node()).strip("-_")[:63] or "node"


async def _run(this: Node) -> bool:
    """Run a node until it ends or a signal stops it; return True if that was Ctrl-C."""
    signals: list[int] = []
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        signals.append(number)
        this.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    await this.run()
    return signal.SIGINT in signals
