"""`teia cluster …`: many machines."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from teia.cli.cluster.change import copy, drain, move, set_, split
from teia.cli.cluster.connection import ClusterAddress, on_cluster
from teia.cli.cluster.lookup import lookup
from teia.cli.options import AsJson, Data
from teia.cli.output import print_json, progress_console, result_console
from teia.errors import ClusterError, UsageError

if TYPE_CHECKING:
    from teia.cluster.local import LocalCluster
    from teia.cluster.views.status import ClusterStatus

START_S = 60.0
END_S = 60.0
MOVES = 10

Seeds = Annotated[list[str] | None, typer.Argument(metavar="SEED...", help="URLs where the crawl starts.")]
File = Annotated[
    Path | None, typer.Option("--config", metavar="FILE.toml", help="TOML file with the settings of the collection.")
]
Name = Annotated[str, typer.Option("--name", "--collection", help="Name of the collection.")]
Nodes = Annotated[int, typer.Option("--nodes", min=1, max=64, help="Number of nodes.")]
Servers = Annotated[int, typer.Option("--servers", help="Number of NATS servers: 3, or 1 for a test.")]
SessionS = Annotated[
    float,
    typer.Option(
        "--session", metavar="S", help="Time without a sign of life after which a node counts as dead, in seconds."
    ),
]
Foreground = Annotated[bool, typer.Option("--foreground", help="Run in the foreground until Ctrl-C.")]

NUMBERS = frozenset({"cells", "queued", "pages", "epoch", "URLs", "messages/page", "bytes/page"})
"""Columns of figures."""

app = typer.Typer(help="Run a crawl on many machines: nodes, cells and their owners.", no_args_is_help=True)
app.command("lookup")(lookup)
app.command("move")(move)
app.command("drain")(drain)
app.command("split")(split)
app.command("set")(set_)
app.command("copy")(copy)


@app.callback()
def _cluster() -> None:
    """Run a crawl on many machines: nodes, cells and their owners."""


@app.command("key")
def key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to create; `teia node --key FILE` reads it.")],
) -> None:
    """Create a key with which nodes authenticate to NATS servers of your own, and print its public half.

    Example: teia cluster key /etc/teia/node.key
    """
    from teia.cluster.nats.servers import make_key

    if file.exists():
        raise UsageError(f"{file} exists; nodes that use it would be locked out, so it is not replaced")
    print(make_key(file))


@app.command("up")
def up(
    data: Data,
    seeds: Seeds = None,
    nodes: Nodes = 3,
    servers: Servers = 3,
    config: File = None,
    name: Name = "main",
    session: SessionS = 15.0,
    foreground: Foreground = False,
) -> None:
    """Start a local cluster for testing: NATS servers, and nodes that crawl from the SEEDs.

    Without SEEDs it continues the previous crawl. Example: teia cluster up https://example.org/ --data try
    """
    # JetStream needs a majority, so of two servers the failure of either one stops both.
    if servers not in {1, 3}:
        raise UsageError(f"--servers {servers}: must be 3, or 1 for a test; 2 are less reliable than 1")
    data.mkdir(parents=True, exist_ok=True)
    _write_settings(data, seeds or [], config, name)
    if foreground:
        _supervise(data, name, nodes, servers, session)
        return
    local = _start_cluster(data, nodes, servers, name, session)
    print(f"{len(local.nodes)} nodes are running in {data}; `teia cluster status --data {data}` shows them")


def _write_settings(data: Path, seeds: list[str], config: Path | None, name: str) -> None:
    """Write the settings of the crawl beside the cluster; its nodes read them there."""
    from teia.collections.settings import check, with_whole_paths
    from teia.config.load import load, to_toml

    file = data / "web.toml"
    if file.exists():
        if seeds or config is not None:
            raise UsageError(
                f"{data} already has a cluster with other settings in {file.name}; choose another folder with --data"
            )
        return
    settings = load(config, os.environ, {"collection.seeds": seeds or None, "collection.name": name}).config
    if not settings.collection.seeds:
        raise UsageError("a new cluster needs at least one SEED, such as https://example.org/, or --config")
    settings = with_whole_paths(settings, Path.cwd() if config is None else config.absolute().parent)
    check(settings)
    file.write_text(to_toml(settings), "utf-8")


def _supervise(data: Path, name: str, nodes: int, servers: int, session: float) -> None:
    from teia.clock import WallClock
    from teia.cluster.local import supervise

    console = progress_console()
    asyncio.run(supervise(data, name, nodes, servers, session, WallClock(), console.print))


def _start_cluster(data: Path, nodes: int, servers: int, name: str, session: float) -> LocalCluster:
    """Start the process that supervises the cluster, and wait until its nodes run."""
    from teia.cluster.local import holder, read_local
    from teia.lib.child_process import ChildProcess, last_line

    if holder(data) is not None:
        raise ClusterError(f"a cluster is already running in {data}; see `teia cluster status`")
    command = [sys.executable, "-m", "teia", "cluster", "up", "--data", str(data), "--foreground", "--name", name]
    command += ["--nodes", str(nodes), "--servers", str(servers), "--session", str(session)]
    log = data / "up.log"
    # It outlives this command and its terminal.
    process = ChildProcess(command, log=log, on_parent_death=None, own_session=True)
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.status is None:
        # Written once all nodes are started.
        if (data / "up.json").exists():
            return read_local(data)
        time.sleep(0.1)
    # The last line of the log says why the child ended.
    raise ClusterError(f"the cluster did not start: {last_line(log).removeprefix('teia: ') or 'timeout'}")


@app.command("status")
@on_cluster
def status(address: ClusterAddress, as_json: AsJson = False) -> None:
    """Show the nodes and cells of a cluster."""
    found = asyncio.run(_status(address))
    if as_json:
        print_json(asdict(found))
        return
    _print_tables(found)


async def _status(address: ClusterAddress) -> ClusterStatus:
    from teia.clock import WallClock
    from teia.cluster.views.status import status_of

    async with address.connect("status") as wire:
        return await status_of(wire, WallClock(), address.collection)


def _print_tables(found: ClusterStatus) -> None:
    from rich.table import Table

    def table(*heads: str) -> Table:
        made = Table(box=None)
        for head in heads:
            made.add_column(head, justify="right" if head in NUMBERS else "left")
        return made

    def number(value: Any) -> str:  # Any: a number that a node reported, or None
        return "" if value is None else f"{value:,.0f}"

    def each_page(load: dict[str, float], key: str) -> str:
        return f"{load[key] / load['pages']:,.1f}" if load.get("pages") and key in load else ""

    nodes = table("node", "region", "state", "cells", "queued", "pages", "messages/page", "bytes/page")
    for node in found.nodes:
        load = [number(node.load.get(key)) for key in ("queued", "pages")]
        load += [each_page(node.load, key) for key in ("messages", "sent_bytes")]
        state = "drained" if node.is_drained and node.state == "alive" else node.busy or node.state
        nodes.add_row(node.name, node.region, state, str(len(node.cells)), *load)
    cells = table("cell", "owner", "epoch", "URLs", "")
    for cell in found.cells:
        chosen = found.overrides.get(str(cell.id))
        note = "" if chosen is None else "moved here" if chosen == cell.keeper else f"moving to {chosen}"
        cells.add_row(str(cell.id), cell.keeper or "none", str(cell.epoch), number(cell.urls), note)
    console = result_console()
    console.print(nodes)
    console.print(cells)
    if found.moves:
        moves = table("moved", "cell", "from", "to", "why")
        for each in found.moves[:MOVES]:
            moves.add_row(each["time"], str(each["cell"]), each["giver"], each["taker"], each["why"])
        console.print(moves)


@app.command("down")
def down(data: Data) -> None:
    """Stop a local cluster: its nodes commit and leave, then NATS stops. The data is kept."""
    from teia.cluster.local import holder, read_local

    local = read_local(data)
    # `read_local` has checked that a live process holds the lock of the folder.
    os.kill(local.pid, signal.SIGTERM)
    until = time.monotonic() + END_S
    # The kernel frees the lock when the process is gone.
    while holder(data) is not None:
        if time.monotonic() > until:
            raise ClusterError(f"process {local.pid} is still running the cluster in {data}; see {data / 'up.log'}")
        time.sleep(0.1)
    print(f"the cluster in {data} was stopped")
