"""Cost of a cluster's exchange per page: messages, bytes, processor time (goal: at most 2, 2 kB, 10%).

    python -m bench.exchange [--nodes 3] [--cells 8] [--write FILE.md]

Three NATS servers, a lab and the nodes run on this machine, three times: a *polite* crawl with a delay of a second, so
that commits hold few pages; a *brief* one like it, in which start and end weigh much; and an *unthrottled* one. The
messages and bytes are those that the nodes send: records of cells' logs, links for other cells, address leases.
Sessions are not counted: five messages per session time, whatever is crawled. Processor time is that of the nodes with
their parse children. The exchange's part is the time of the cluster's own thread, sessions included, and of compressing
records. The time of the NATS servers is a column of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teia.clock import WallClock
from teia.cluster.nats.servers import NatsServers
from teia.lab.server.process import lab_process

SPEC = """
seed = 7
hosts = {hosts}
pages = {pages}
sites = {{ theta = 0.2, mirrors = 0, aliases = 0, nxdomain = 0, unreachable = 0 }}
errors = {{ scale = 0 }}
robots = {{ crawl_delay = 0 }}
"""
SETTINGS = """
[collection]
seeds = ["{seed}"]
cells = {cells}
[scope]
include = ["suffix:.test"]
[courtesy]
delay_s = {delay_s}
per_host = {per_host}
[sites]
aliases = false
[fetch]
dns = "{dns}"
allow_nets = ["127.77.0.0/16"]
[parse]
children = 1
"""
NET = 199
FINISH_S = 180.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Kind:
    """One crawl to be measured."""

    name: str
    hosts: int
    pages: int
    delay_s: float
    per_host: int = 1


KINDS = (Kind("polite", 60, 1_200, 1.0), Kind("brief", 12, 120, 1.0), Kind("unthrottled", 12, 3_000, 0.0, 4))


async def measure(kind: Kind, nodes: int, cells: int, folder: Path) -> dict[str, float]:
    """Crawl a lab web to its end with a cluster; return the figures."""
    spec = folder / "world.toml"
    spec.write_text(SPEC.format(hosts=kind.hosts, pages=kind.pages), "utf-8")
    flags = ["--spec", str(spec), "--port", "0", "--address", f"127.77.{NET}.1", "--log", str(folder / "log.jsonl")]
    flags += ["--dns-address", f"127.77.255.{NET}:0", "--control-address", f"127.77.254.{NET}"]
    with lab_process(*flags) as ready:
        settings = folder / "web.toml"
        values = {"seed": ready["seeds"][0], "dns": ready["dns"], "cells": cells}
        settings.write_text(SETTINGS.format(delay_s=kind.delay_s, per_host=kind.per_host, **values), "utf-8")
        async with NatsServers(folder / "nats", 3, WallClock()) as nats:
            began = time.perf_counter()
            reports = await asyncio.gather(*(_node(folder, f"n{at}", nats, settings) for at in range(nodes)))
            seconds = time.perf_counter() - began
            servers_s = sum(_cpu_s(nats.process_of(at)) for at in range(3))
    total = {key: sum(each[key] for each in reports) for key in ("pages", "messages", "sent_bytes", "cpu_s")}
    exchange_s = sum(each["exchange_cpu_s"] for each in reports)
    pages = total["pages"]
    return {
        "pages": pages,
        "seconds": seconds,
        "messages": total["messages"] / pages,
        "bytes": total["sent_bytes"] / pages,
        "cpu_ms": 1000 * total["cpu_s"] / pages,
        "exchange_share": exchange_s / total["cpu_s"],
        "nats_ms": 1000 * servers_s / pages,
    }


async def _node(folder: Path, name: str, nats: NatsServers, settings: Path) -> dict[str, Any]:
    servers = [word for url in nats.urls for word in ("--nats", url)]
    with (folder / f"{name}.err").open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "teia", "node", *servers, "--key", str(nats.key), "--data", str(folder / name),
            "--name", name, "--session", "15", "--config", str(settings), "--once", "--json",
            stdout=asyncio.subprocess.PIPE, stderr=errors,
        )  # fmt: skip
    try:
        out, _ = await asyncio.wait_for(process.communicate(), FINISH_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise SystemExit(
            f"{name}: {process.returncode}\n" + (folder / f"{name}.err").read_text("utf-8", "replace")[-2_000:]
        )
    return dict(json.loads(out.splitlines()[-1]))


def _cpu_s(process: int) -> float:
    """Return the processor seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text("ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def table(rows: dict[str, dict[str, float]]) -> str:
    lines = [
        "| crawl | pages | s | messages a page | bytes a page | CPU a page | of it exchange | CPU of NATS |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, row in rows.items():
        lines.append(
            f"| {name} | {row['pages']:,.0f} | {row['seconds']:.0f} | {row['messages']:.2f} | {row['bytes']:,.0f} |"
            f" {row['cpu_ms']:.1f} ms | {row['exchange_share']:.1%} | {row['nats_ms']:.1f} ms |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--cells", type=int, default=8)
    parser.add_argument("--kind", choices=[kind.name for kind in KINDS])
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    rows = {}
    for kind in KINDS:
        if options.kind in {None, kind.name}:
            with tempfile.TemporaryDirectory() as folder:
                rows[kind.name] = asyncio.run(measure(kind, options.nodes, options.cells, Path(folder)))
    print(table(rows))
    if options.write is not None:
        options.write.write_text(f"# Exchange\n\n{table(rows)}\n", "utf-8")


if __name__ == "__main__":
    main()
