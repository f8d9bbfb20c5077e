"""`teia serve`: the web interface and the API."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from teia.cli.exits import INTERRUPTED
from teia.cli.options import Data
from teia.cli.output import progress_console
from teia.clock import WallClock
from teia.errors import TeiaError
from teia.store.root import discard_unused, open_root

Host = Annotated[
    str, typer.Option("--host", help="Address to listen on; an account is required for addresses other than loopback.")
]
Port = Annotated[int, typer.Option("--port", min=0, max=65_535, help="Port to listen on; 0: any free port.")]
Names = Annotated[
    list[str] | None, typer.Option("--name", help="Additional host name of this server; may be repeated.")
]
TokenOut = Annotated[
    Path | None, typer.Option("--token-out", help="Write an admin token for scripts to this file.", dir_okay=False)
]
BehindProxy = Annotated[
    bool,
    typer.Option(
        "--behind-proxy", help="Requests come from a reverse proxy on this machine: use X-Forwarded-For and -Proto."
    ),
]
NoCrawler = Annotated[bool, typer.Option("--no-crawler", help="Serve the folder only; start no crawler.")]


def serve(
    data: Data,
    host: Host = "127.0.0.1",
    port: Port = 8700,
    name: Names = None,
    token_out: TokenOut = None,
    no_crawler: NoCrawler = False,
    behind_proxy: BehindProxy = False,
) -> None:
    """Serve the web interface and the HTTP API of a folder, and run its crawls and schedules."""
    from teia.web.serve import serve as run

    console, is_new, is_serving = progress_console(), not data.exists(), False

    def report(line: str) -> None:
        nonlocal is_serving
        console.print(line, soft_wrap=True, highlight=False)
        # Behind the addresses, which programs read first.
        if is_new and is_serving and line.startswith(" "):
            console.print(f"  {data} is a new folder, without any collection", soft_wrap=True, markup=False)
        is_serving = True

    # A server without a crawler only reads; there a misspelt --data must not create a folder.
    root = open_root(data, create=not no_crawler)
    try:
        ended_by = run(
            root, WallClock(), host, port, tuple(name or ()), token_out, report,
            crawls=not no_crawler, behind_proxy=behind_proxy,
        )  # fmt: skip
    except TeiaError:
        if is_new and not is_serving:
            discard_unused(root)
        raise
    raise typer.Exit(INTERRUPTED if ended_by is signal.SIGINT else 0)
