"""A whole cluster on this machine, for trying it: NATS servers and nodes in processes of their own.

    DIR/up.json         addresses of its servers and processes of its nodes; readable by its owner alone
    DIR/up.lock         held by the process that runs the cluster; contains its process id
    DIR/up.log          output of that process
    DIR/web.toml        the collection's settings, as `up` was given them
    DIR/nats/           the servers' files
    DIR/node-1/ …       each node's data folder and, beside it, node-1.log

Only NATS servers are restarted: a node that you kill stays dead, and the others take its cells.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from teia.clock import Clock
from teia.cluster.nats.servers import NatsServers, write_private
from teia.durable import disk_errors, file_lock, lock_holder
from teia.errors import ClusterError
from teia.lib.child_process import ChildProcess

LEAVE_S = 30.0


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """The content of `up.json`."""

    pid: int
    collection: str
    urls: list[str]
    key: str
    nodes: dict[str, int] = field(default_factory=dict)


def read_local(folder: Path) -> LocalCluster:
    """Return the cluster that runs in a folder; ClusterError if none does."""
    path = folder / "up.json"
    if holder(folder) is None or not path.exists():
        raise ClusterError(f"no cluster is running in {folder}; start one with `teia cluster up --data {folder}`")
    with disk_errors(path, "read"):
        return LocalCluster(**json.loads(path.read_text("utf-8")))


def holder(folder: Path) -> int | None:
    """Return the process that runs a folder's cluster; None if there is none."""
    return lock_holder(folder / "up.lock")


async def supervise(
    folder: Path,
    collection: str,
    nodes: int,
    servers: int,
    session_s: float,
    clock: Clock,
    report: Callable[[str], None],
) -> None:
    """Run a cluster until SIGTERM or SIGINT; then have its nodes leave, and end everything."""
    stop_requested = asyncio.Event()
    loop = asyncio.get_running_loop()
    # A signal only sets the event; everything is ended in order below.
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop_requested.set)
    with file_lock(folder / "up.lock", mode=0o600, is_signed=True) as is_ours:
        if not is_ours:
            raise ClusterError(f"a cluster is already running in {folder}; see `teia cluster status`")
        state = folder / "up.json"
        async with NatsServers(folder / "nats", servers, clock) as nats:
            processes: dict[str, ChildProcess] = {}
            try:
                for at in range(1, nodes + 1):
                    processes[f"node-{at}"] = _start_node(folder, f"node-{at}", collection, nats, session_s)
                pids = {name: process.pid for name, process in processes.items()}
                made = LocalCluster(os.getpid(), collection, nats.urls, str(nats.key.resolve()), pids)
                write_private(state, json.dumps(asdict(made)).encode())
                report(f"{nodes} nodes, NATS at {', '.join(nats.urls)}")
                await stop_requested.wait()
            finally:
                # Gone before the nodes end: a reader finds no cluster that is about to leave.
                state.unlink(missing_ok=True)
                # All nodes leave together; those that do not are killed.
                for process in processes.values():
                    process.terminate()
                for process in processes.values():
                    await process.end_async(LEAVE_S)


def _start_node(folder: Path, name: str, collection: str, nats: NatsServers, session_s: float) -> ChildProcess:
    servers = [word for url in nats.urls for word in ("--nats", url)]
    command = [
        sys.executable, "-m", "teia", "node", *servers, "--key", str(nats.key), "--data", str(folder / name),
        "--name", name, "--collection", collection, "--config", str(folder / "web.toml"), "--session", str(session_s),
    ]  # fmt: skip
    with disk_errors(folder, "written"):
        return ChildProcess(command, log=folder / f"{name}.log", keeps_log=True, on_parent_death=signal.SIGTERM)
