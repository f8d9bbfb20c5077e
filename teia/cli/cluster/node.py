"""`teia node`: this machine as one of many."""

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
from teia.cli.options import AsJson, Data
from teia.cli.output import print_json, progress_console
from teia.errors import UsageError
from teia.store.root import open_root

if TYPE_CHECKING:
    from teia.cluster.node import Node

Nats = Annotated[
    list[str], typer.Option("--nats", metavar="URL", help="A NATS server, like nats://10.0.0.1:4222; any number.")
]
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="The key that NATS lets this node in with.")]
Ca = Annotated[Path | None, typer.Option("--ca", metavar="FILE", help="Who vouches for the servers (TLS).")]
Collection = Annotated[str, typer.Option("--collection", metavar="NAME", help="What to crawl.")]
File = Annotated[
    Path | None, typer.Option("--config", metavar="FILE.toml", help="Its settings, where no node has told them yet.")
]
Name = Annotated[str | None, typer.Option("--name", help="The node's own name; by default the machine's.")]
Region = Annotated[str, typer.Option("--region", metavar="NAME", help="Where it is, in your own words.")]
Capacity = Annotated[float, typer.Option("--capacity", help="How much it can do; twice as much gets twice the cells.")]
Strategy = Annotated[
    str | None,
    typer.Option("--strategy", help="Who crawls what: hash, geo, rtt, isolated; by default as the cluster does."),
]
Countries = Annotated[
    Path | None, typer.Option("--countries", metavar="FILE", help="Which country an address is in (geo); CSV.")
]
Bind = Annotated[str, typer.Option("--bind", metavar="ADDRESS", help="Own address that requests are sent from.")]
SessionS = Annotated[
    float, typer.Option("--session", metavar="S", help="Silence after which a node counts as dead; the first node's.")
]
Once = Annotated[bool, typer.Option("--once", help="Leave when no node has anything left to do.")]


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
    key: Key = None,
    ca: Ca = None,
    session: SessionS = 15.0,
    once: Once = False,
    as_json: AsJson = False,
) -> None:
    """Be a node of a cluster: keep some of a collection's cells and crawl them, until told to stop."""
    if not 0 < capacity <= 1_000:
        raise UsageError(f"--capacity {capacity:g} must be more than 0, 1000 at most")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads that a crawler never uses
    import uvloop

    from teia.clock import WallClock
    from teia.cluster.node import Node, Place
    from teia.cluster.placing.site_strategies import GEO, STRATEGIES
    from teia.config.load import load

    if strategy is not None and strategy not in STRATEGIES:
        raise UsageError(f"--strategy {strategy}: there are {', '.join(STRATEGIES)}")
    if strategy == GEO and not region:
        raise UsageError("--strategy geo needs a --region: the country this node is in, like BR, or several: BR,PT")

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("teia.cluster").setLevel(logging.INFO)
    root = open_root(data, create=True)
    settings = None
    if config is not None:
        settings = load(config, os.environ, {"collection.name": collection}).config
    place = Place(
        name or _name_of_machine(), tuple(nats), key, ca, region=region, capacity=capacity, strategy=strategy or "",
        countries=countries, bind=bind, session_s=session,
    )  # fmt: skip
    with root.locked():
        this = Node(root, collection, settings, place, WallClock(), once=once)
        interrupted = uvloop.run(_run(this))
    progress_console().print(f"{place.name} has left after {this.shifts} shifts, {this.pages:,} pages")
    if as_json:
        done = {"name": place.name, "shifts": this.shifts, "pages": this.pages, "requests": this.requests}
        spent = {"cpu_s": round(sum(os.times()[:4]), 3), "exchange_cpu_s": round(this.exchange_cpu_s, 3)}
        print_json({**done, "messages": this.messages, "sent_bytes": this.sent_bytes, **spent})
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _name_of_machine() -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", platform.node()).strip("-_")[:63] or "node"


async def _run(this: Node) -> bool:
    """Run until it ends or is told to; returns whether that was by Ctrl-C."""
    signals: list[int] = []
    loop = asyncio.get_running_loop()

    def told(number: int) -> None:
        signals.append(number)
        this.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told, number)
    await this.run()
    return signal.SIGINT in signals
