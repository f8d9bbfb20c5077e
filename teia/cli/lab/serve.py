"""`teia lab serve`: a generated web on this machine's loopback addresses.

The world and its server are imported when the command runs, so that other commands do not pay for them.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from teia.cli.output import print_json, progress_console
from teia.clock import Clock, WallClock, from_iso, iso_utc
from teia.errors import UsageError

if TYPE_CHECKING:
    from teia.lab.server.serve import LabServer
    from teia.lab.world.world import World

DAY_S = 86_400.0


def serve(
    spec: Annotated[Path | None, typer.Option("--spec", metavar="FILE.toml", help="Description of the web.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Random seed of the generated web.")] = None,
    hosts: Annotated[int | None, typer.Option("--hosts", help="Number of servers.")] = None,
    pages: Annotated[int | None, typer.Option("--pages", help="Number of pages.")] = None,
    time_factor: Annotated[
        float | None, typer.Option("--time-factor", help="Speed of page changes relative to real time.")
    ] = None,
    epoch: Annotated[
        str, typer.Option("--epoch", metavar="TIME", help="Time at which pages begin to change, in ISO 8601, or now.")
    ] = "now",
    address: Annotated[str, typer.Option("--address", help="Address of the first server.")] = "127.77.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of all servers; 0: any.")] = 8800,
    dns_address: Annotated[
        str, typer.Option("--dns-address", metavar="ADDRESS:PORT", help="Address of the DNS server.")
    ] = "127.77.255.53:8853",
    control_address: Annotated[
        str, typer.Option("--control-address", metavar="ADDRESS", help="Address of the ground-truth API (JSON).")
    ] = "127.77.255.80",
    truth: Annotated[
        Path | None, typer.Option("--truth", metavar="FILE", help="Write the true versions and links of all pages.")
    ] = None,
    truth_days: Annotated[
        float, typer.Option("--truth-days", min=0, help="Period covered by --truth, in days of the generated web.")
    ] = 1.0,
    log: Annotated[Path | None, typer.Option("--log", metavar="FILE", help="Log all requests to a file.")] = None,
    ready_json: Annotated[bool, typer.Option("--ready-json", help="Print a JSON line when ready.")] = False,
) -> None:
    """Serve a generated web on 127.0.0.0/8 until Ctrl-C: pages that change, robots.txt, sitemaps, errors, traps.

    Examples: teia lab serve --pages 1000 · teia lab serve --spec web.toml --time-factor 1000 --log requests.jsonl
    """
    import uvloop

    from teia.lab.server.control import LabControl, write_truth
    from teia.lab.server.listen import check_loopback, reserve_port
    from teia.lab.server.serve import LabServer
    from teia.lab.world.spec import WorldSpec
    from teia.lab.world.world import World

    clock = WallClock()
    loaded = WorldSpec.load(spec, seed=seed, hosts=hosts, pages=pages, time_factor=time_factor)
    with reserve_port() if port == 0 else nullcontext(port) as known_port:
        world = World(loaded, epoch_s=_epoch_s(epoch, clock), port=known_port, address=check_loopback(address))
        if truth is not None:
            write_truth(truth, world, world.time_s(truth_days))
        lab = LabServer(
            world,
            clock,
            port=known_port,
            dns=dns_address,
            control=LabControl(world),
            control_host=control_address,
            log=log,
        )
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            status = runner.run(_serve(lab, world, ready_json=ready_json))
    raise typer.Exit(status)


def _epoch_s(text: str, clock: Clock) -> float:
    try:
        return clock.now_s() if text == "now" else from_iso(text)
    except ValueError:
        raise UsageError(f"--epoch {text} is not a time; write it like 2026-03-01T12:00:00Z, or now") from None


async def _serve(lab: LabServer, world: World, *, ready_json: bool) -> int:
    """Serve until a signal or a failure of the lab; return the exit status."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()

    def end(status: int) -> None:
        if not ended.done():
            ended.set_result(status)

    loop.add_signal_handler(signal.SIGTERM, end, 0)
    # 130, the status of a command that Ctrl-C ended.
    loop.add_signal_handler(signal.SIGINT, end, 128 + signal.SIGINT)
    async with lab:
        _announce(lab, world, ready_json=ready_json)
        failing = asyncio.create_task(lab.watch())
        failing.add_done_callback(lambda _: end(1))
        gc.freeze()  # what exists now stays to the end, so no collection need look at it again
        try:
            status = await ended
        finally:
            gc.unfreeze()
        if failing.done():
            failing.result()  # raises what ended the lab
        failing.cancel()
        return status


def _announce(lab: LabServer, world: World, *, ready_json: bool) -> None:
    ready: dict[str, Any] = {
        "ready": True,
        "port": lab.port,
        "dns": lab.dns,
        "control": lab.control,
        "hosts": len(world.hosts),
        "pages": world.spec.pages,
        "seeds": world.seeds(),
        "epoch": iso_utc(world.epoch_s),
        "time_factor": world.spec.time_factor,
        "pid": os.getpid(),
    }
    if ready_json:
        print_json(ready)
        return
    network = ".".join(lab.addresses[0].split(".")[:2])
    console = progress_console()
    console.print(
        f"serving {ready['pages']} pages on {ready['hosts']} hosts, addresses from {lab.addresses[0]} on, port "
        f"{lab.port}"
    )
    console.print(f"DNS: {lab.dns} (UDP)   ground truth: http://{lab.control}/")
    crawl = f"teia crawl {ready['seeds'][0]} --dns {lab.dns} --allow-net {network}.0.0/16 --data DIR"
    console.print(f"crawl it with: {crawl}", soft_wrap=True)
