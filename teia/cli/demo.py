"""`teia demo`: a generated web on this machine, and a crawl of it."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from teia.cli.crawl.crawl import crawl_with
from teia.cli.exits import INTERRUPTED
from teia.cli.options import AsJson
from teia.cli.output import progress_console
from teia.clock import WallClock, from_iso
from teia.errors import StoreError
from teia.lab.server.process import lab_process
from teia.lab.world.spec import WorldSpec
from teia.store.root import Root, open_root
from teia.web.server.tour import Tour, write_tour

NAME = "demo"
# Short, because all servers are on this machine.
DELAY_S = 0.2
CONTACT = "demo@teia.invalid"  # the generated web has no owners who would write
PAGES = 400
HOSTS, PAGES_PER_HOST = 25, 8
"""Number of servers, and the least number of pages of each: smaller servers have no room for the errors of the web."""

# Addresses of the generated web, which the address guard would block.
NETWORK = "127.77.0.0/16"
TIME_FACTOR = 5_000
KEEP_FRESH_SETTINGS = {"refresh.keep": True, "refresh.least_s": 5.0, "refresh.replan_s": 5.0, "courtesy.delay_s": 0.5}
"""Settings while the user watches: the web changes, a day in 17 seconds, and its pages are revisited."""

RETRY_WAIT_S = 0.5
SLOW_S = 2.0
"""Failed answers are tried again soon and silent servers given up soon: a demonstration should not wait for them."""

SPEC = """
[sites]
theta = 0.3

[errors]
silent_s = 3.0

[robots]
crawl_delay_s = 0.5
"""
"""Sites of about the same size, so that the delays of no single server decide how long the crawl takes."""


def demo(
    once: Annotated[bool, typer.Option("--once", help="Crawl, print the summary and exit.")] = False,
    pages: Annotated[
        int, typer.Option("--pages", min=1, max=1_000_000, help="Number of pages of the generated web.")
    ] = PAGES,
    seed: Annotated[int, typer.Option("--seed", help="Random seed of the generated web.")] = 1,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port of the generated web's servers; 0: any free port.")
    ] = 0,
    web_port: Annotated[int, typer.Option("--web-port", min=0, max=65535, help="Port of the web interface.")] = 8700,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Folder that keeps the results; by default a temporary folder."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Generate a web on loopback addresses, crawl it politely, and show the result in the browser.

    Nothing leaves this machine. Without --once the generated web and the web interface run until Ctrl-C.
    """
    console = progress_console()
    with _folder(data) as folder, tempfile.TemporaryDirectory(prefix="teia-web-") as plans:
        spec = Path(plans) / "world.toml"
        spec.write_text(SPEC, "utf-8")
        size = {
            "pages": pages,
            "hosts": max(1, min(HOSTS, pages // PAGES_PER_HOST)),
            "seed": seed,
            "time_factor": TIME_FACTOR,
        }
        sizes = [word for key, value in size.items() for word in (f"--{key.replace('_', '-')}", str(value))]
        network_options = ["--port", str(port), "--dns-address", "127.77.255.53:0"]
        with lab_process("--spec", str(spec), *sizes, *network_options) as lab:
            console.print(f"generated a web of {lab['pages']:,} pages on {lab['hosts']} servers from seed {seed}")
            console.print(
                f"crawling from {lab['seeds'][0]}; delay between requests to a server: {DELAY_S:g} s (default: 5 s)",
                soft_wrap=True,
            )
            root = open_root(folder, create=True)
            crawl_with(root, NAME, None, _flags(lab), as_json, is_kept=data is not None)
            if not once:
                _keep_fresh(root)
                write_tour(root, Tour(NAME, lab["seeds"][0]))
                _print_next_steps(lab, folder)
            if data is None:
                console.print(f"{folder} is deleted when the demo ends; --data DIR keeps the results.", soft_wrap=True)
            if not once:
                with _measure_regularly(WorldSpec.load(spec, **size), lab, root):
                    _serve(folder, web_port)


def _measure_regularly(spec: WorldSpec, lab: dict[str, Any], root: Root) -> AbstractContextManager[None]:
    """Record the true freshness of the captures, by a second instance of the same generated web."""
    from teia.lab.measure.live_freshness import measure_regularly
    from teia.lab.world.world import World

    # The same spec, epoch and port give the same pages and the same changes.
    world = World(spec, epoch_s=from_iso(lab["epoch"]), port=lab["port"])
    return measure_regularly(world, root, NAME, WallClock())


def _flags(lab: dict[str, Any]) -> dict[str, Any]:
    return {
        "collection.seeds": lab["seeds"][:1],
        "scope.include": ["suffix:.test"],
        "courtesy.contact": CONTACT,
        "courtesy.delay_s": DELAY_S,
        "courtesy.retry_wait_s": RETRY_WAIT_S,
        "limits.slow_s": SLOW_S,
        "fetch.dns": lab["dns"],
        "fetch.allow_nets": [NETWORK],
    }


def _keep_fresh(root: Root) -> None:
    """Change the collection to be kept fresh by the crawler of the web server."""
    from teia.collections.commands import give_command
    from teia.collections.settings import change
    from teia.records import Command, Edit, Operator

    clock = WallClock()
    change(root, NAME, [Edit(key, Operator.SET, value) for key, value in KEEP_FRESH_SETTINGS.items()], clock)
    give_command(root, NAME, Command.RUN, clock)
    progress_console().print(
        f"\nIts pages change {TIME_FACTOR:,} times as fast as real ones and are now kept fresh; delay between"
        f" requests to a server: {KEEP_FRESH_SETTINGS['courtesy.delay_s']:g} s."
    )


@contextmanager
def _folder(data: Path | None) -> Iterator[Path]:
    if data is not None:
        # The generated pages must not be mixed with a real collection.
        if data.exists() and any(data.iterdir()):
            raise StoreError(f"{data} is not empty; remove it, or choose another folder with --data")
        yield data
        return
    with tempfile.TemporaryDirectory(prefix="teia-demo-") as folder:
        yield Path(folder)


def _print_next_steps(lab: dict[str, Any], folder: Path) -> None:
    console = progress_console()
    url = lab["seeds"][0]
    console.print("\nThe generated web is still running. Try in another terminal:")
    for words, description in (
        (f"teia page {url} --data {folder}", "one page: versions, incoming and outgoing links"),
        (f"teia trace {url} --data {folder}", "its path through the crawler, with times"),
        (f"teia export graph --data {folder}", "the link graph"),
        (f"teia export warc --data {folder} --out demo.warc.gz", "the whole archive, for other tools"),
        (f"teia audit politeness --data {folder}", "check that every delay between requests was respected"),
    ):
        console.print(f"  {words}\n      {description}", soft_wrap=True, markup=False)


def _serve(folder: Path, port: int) -> None:
    """Serve the web interface until Ctrl-C or SIGTERM; the caller then removes the folders."""
    from teia.web.serve import free_port, serve

    console = progress_console()

    def report(line: str) -> None:
        console.print(f"  {line}", soft_wrap=True, highlight=False, markup=False)

    console.print("\nOpen in a browser (Ctrl-C ends the demo):")
    ended_by = serve(open_root(folder), WallClock(), "127.0.0.1", free_port(port), (), None, report)
    raise typer.Exit(INTERRUPTED if ended_by is signal.SIGINT else 0)
