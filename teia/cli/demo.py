"""`teia demo`: a made-up web on this machine, crawled before your eyes."""

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

NAME = "demo"
DELAY_S = 0.2
PAGES = 400
HOSTS = 25
NETWORK = "127.77.0.0/16"
TIME_FACTOR = 5_000
KEPT = {"refresh.keep": True, "refresh.least_s": 5.0, "refresh.replan_s": 5.0, "courtesy.delay_s": 0.5}
"""While somebody looks at it the web changes, a day in a quarter of a minute, and is visited again, at leisure."""

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
"""Sites of about the same size, so that no single server's rest decides how long the crawl takes."""


def demo(
    once: Annotated[bool, typer.Option("--once", help="Crawl, report and leave.")] = False,
    pages: Annotated[int, typer.Option("--pages", min=1, max=1_000_000, help="How many pages the web has.")] = PAGES,
    seed: Annotated[int, typer.Option("--seed", help="Another seed, another web.")] = 1,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Of the web's servers; 0: any free one.")] = 0,
    web_port: Annotated[int, typer.Option("--web-port", min=0, max=65535, help="Of the pages to look at.")] = 8700,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Keep what was crawled; a temporary folder if not given."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make up a web on loopback addresses, crawl it politely, and show it in the browser.

    Nothing leaves this machine. Without --once the web and its pages to look at stay up until Ctrl-C.
    """
    console = progress_console()
    with _folder(data) as folder, tempfile.TemporaryDirectory(prefix="teia-web-") as plans:
        spec = Path(plans) / "world.toml"
        spec.write_text(SPEC, "utf-8")
        size = {"pages": pages, "hosts": min(pages, HOSTS), "seed": seed, "time_factor": TIME_FACTOR}
        sizes = [word for key, value in size.items() for word in (f"--{key.replace('_', '-')}", str(value))]
        place = ["--port", str(port), "--dns-address", "127.77.255.53:0"]
        with lab_process("--spec", str(spec), *sizes, *place) as lab:
            console.print(f"a web of {lab['pages']:,} pages on {lab['hosts']} servers, made up from seed {seed}")
            console.print(
                f"crawling it from {lab['seeds'][0]}; every server rests {DELAY_S:g} s after each answer"
                " (5 s by default; these are ours)",
                soft_wrap=True,
            )
            root = open_root(folder, create=True)
            crawl_with(root, NAME, None, _flags(lab), as_json)
            if not once:
                _keep_fresh(root)
                _say_what_next(lab, folder, kept=data is not None)
                with _measuring(WorldSpec.load(spec, **size), lab, root):
                    _serve(folder, web_port)


def _measuring(spec: WorldSpec, lab: dict[str, Any], root: Root) -> AbstractContextManager[None]:
    """Write down how fresh the copies really are, by the same web made once more."""
    from teia.lab.measure.live_freshness import measuring
    from teia.lab.world.world import World

    world = World(spec, epoch_s=from_iso(lab["epoch"]), port=lab["port"])
    return measuring(world, root, NAME, WallClock())


def _flags(lab: dict[str, Any]) -> dict[str, Any]:
    return {
        "collection.seeds": lab["seeds"][:1],
        "scope.include": ["suffix:.test"],
        "courtesy.delay_s": DELAY_S,
        "courtesy.retry_wait_s": RETRY_WAIT_S,
        "limits.slow_s": SLOW_S,
        "fetch.dns": lab["dns"],
        "fetch.allow_nets": [NETWORK],
    }


def _keep_fresh(root: Root) -> None:
    """Let the crawler that serves the pages go on: what changes is seen, and every page says when it comes again."""
    from teia.collections.change_settings import change
    from teia.collections.commands import order
    from teia.collections.edits import Edit, Operator
    from teia.records import Command

    clock = WallClock()
    change(root, NAME, [Edit(key, Operator.SET, value) for key, value in KEPT.items()], clock)
    order(root, NAME, Command.RUN, clock)
    progress_console().print(
        f"\nIts pages change {TIME_FACTOR:,} times as fast as real ones, and are now kept fresh; every server rests"
        f" {KEPT['courtesy.delay_s']:g} s."
    )


@contextmanager
def _folder(data: Path | None) -> Iterator[Path]:
    if data is not None:
        if data.exists() and any(data.iterdir()):
            raise StoreError(f"{data} is not empty; remove it, or give another --data")
        yield data
        return
    with tempfile.TemporaryDirectory(prefix="teia-demo-") as folder:
        yield Path(folder)


def _say_what_next(lab: dict[str, Any], folder: Path, *, kept: bool) -> None:
    console = progress_console()
    url = lab["seeds"][0]
    console.print("\nThe web is still up. To try in another terminal:")
    for words, meaning in (
        (f"teia page {url} --data {folder}", "one page: versions, links in and out"),
        (f"teia trace {url} --data {folder}", "its way through the crawler, with times"),
        (f"teia export graph --data {folder}", "who links to whom"),
        (f"teia export warc --data {folder} --out demo.warc.gz", "everything, for other archive tools"),
        (f"teia audit politeness --data {folder}", "was any server asked too early?"),
    ):
        console.print(f"  {words}\n      {meaning}", soft_wrap=True, markup=False)
    if not kept:
        console.print(f"{folder} goes when the demo ends; --data DIR keeps it.", soft_wrap=True)


def _serve(folder: Path, port: int) -> None:
    """Show it in the browser until Ctrl-C or a request to end, then let the folders be removed."""
    from teia.web.serve import free_port, serve

    console = progress_console()

    def say(line: str) -> None:
        console.print(f"  {line}", soft_wrap=True, highlight=False, markup=False)

    console.print("\nOpen in a browser (Ctrl-C ends the demo):")
    ended_by = serve(open_root(folder), WallClock(), "127.0.0.1", free_port(port), (), None, say)
    raise typer.Exit(INTERRUPTED if ended_by is signal.SIGINT else 0)
