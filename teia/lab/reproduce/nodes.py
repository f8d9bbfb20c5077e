"""Real nodes on a lab web, for the studies of many machines (A12, A16): `teia node` in separate processes.

NATS, the lab and the nodes are started for one run and ended after it, also if it fails. All their files are in one
folder: DIR/nats-…, and for each node its data folder and its log.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec

from teia.clock import Clock
from teia.cluster.nats.servers import NatsServers
from teia.errors import LabError
from teia.lib.child_process import PIPE, ChildProcess, last_line

START_S, LEAVE_S = 60.0, 60.0
SESSION_S = 10.0
"""Session length; long, because no node dies in these studies and a busy machine may stall one for seconds."""

COLLECTION = "study"
MAX_LINE_BYTES = 16 << 20


def format_toml(values: Mapping[str, Any]) -> str:
    """Format dotted keys and plain values as TOML; plain JSON values are valid TOML."""
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


async def run_nodes(
    folder: Path,
    settings: Mapping[str, Any],
    nodes: Mapping[str, Sequence[str]],
    clock: Clock,
    seconds: float | None,
    has_started: Callable[[], bool] = lambda: True,
    *,
    isolated: bool = False,
) -> dict[str, dict[str, Any]]:
    """Run nodes for `seconds`, or until no work is left; return the final report of each.

    `nodes` are the flags of each besides the common ones. Time begins when all of them have been started and
    `has_started` returns True. Nodes that are `isolated` have a NATS server each and do not know each other.
    """
    file = folder / "study.toml"
    file.write_text(format_toml({**settings, "collection.name": COLLECTION}), encoding="utf-8")
    async with AsyncExitStack() as stack:
        groups = [[name] for name in nodes] if isolated else [list(nodes)]
        servers: dict[str, NatsServers] = {}
        for group in groups:
            nats = await stack.enter_async_context(NatsServers(folder / f"nats-{group[0]}", 1, clock))
            servers.update(dict.fromkeys(group, nats))
        started: dict[str, ChildProcess] = {}
        try:
            for name, flags in nodes.items():
                # Without a time limit each node ends by itself when no work is left.
                end_flags = [] if seconds is not None else ["--once"]
                started[name] = _start(folder, name, servers[name], [*flags, *end_flags, "--config", str(file)])
            if seconds is not None:
                await _wait_for_start(has_started, clock)
                await clock.sleep(seconds)
                # All nodes get the signal before any of them is waited for, so that they leave together.
                for process in started.values():
                    process.terminate()
            return {name: await _read_report(folder, name, process, seconds) for name, process in started.items()}
        finally:
            for process in started.values():
                await process.end_async()


async def _wait_for_start(has_started: Callable[[], bool], clock: Clock) -> None:
    until = clock.ticks_s() + START_S
    while not has_started():
        if clock.ticks_s() > until:
            raise LabError(f"the nodes did not start within {START_S:g} s")
        await clock.sleep(0.05)


def _start(folder: Path, name: str, nats: NatsServers, flags: Sequence[str]) -> ChildProcess:
    command = [
        sys.executable, "-m", "teia", "node", "--nats", nats.urls[0], "--key", str(nats.key),
        "--data", str(folder / name), "--name", name, "--collection", COLLECTION, "--session", str(SESSION_S),
        "--json", *flags,
    ]  # fmt: skip
    log = folder / f"{name}.log"
    return ChildProcess(command, stdout=PIPE, log=log, keeps_log=True, on_parent_death=signal.SIGTERM)


async def _read_report(
    folder: Path, name: str, process: ChildProcess, seconds: float | None
) -> dict[str, Any]:  # Any: a JSON object, see `cli.cluster.node`
    """Wait until a node has ended, and return the last line of its output."""
    line = b""
    try:
        async with asyncio.timeout(None if seconds is None else LEAVE_S):
            async for each in process.lines(MAX_LINE_BYTES):
                line = each
            status = await process.ended()
    except TimeoutError:
        raise LabError(f"{name} did not leave within {LEAVE_S:g} s; see {folder / name}.log") from None
    if status or not line:
        raise LabError(f"{name} exited with {status}: {last_line(folder / f'{name}.log') or 'no message'}")
    return msgspec.json.decode(line, type=dict[str, Any])
