"""`teia bench`: timed runs on this machine. They are no part of the package and need a checkout and `scripts/peers`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from teia.cli.options import AsJson
from teia.cli.output import print_json, progress_console, result_console
from teia.errors import MissingComponent

ALL_PEERS = "scrapy,crawlee,spider-rs,wget2"

app = typer.Typer(help="Measure teia on this machine, beside the crawlers people would use instead.")

Peers = Annotated[str, typer.Option(metavar="NAME,NAME", help="Whom to compare with; empty: nobody.")]
Rounds = Annotated[int, typer.Option(min=1, help="How often everybody crawls the site.")]


@app.callback()
def _bench() -> None:
    """Keep `crawl` a command of its own: typer makes an application with one command into that command."""


@app.command("crawl")
def crawl(peers: Peers = ALL_PEERS, rounds: Rounds = 3, as_json: AsJson = False) -> None:
    """Crawl Debian's documentation of Python and Apache, served by nginx on loopback, and so let the peers do."""
    names = [name.strip() for name in peers.split(",") if name.strip()]
    console = progress_console()
    result = _from_checkout("bench.peers.runner").compare(names, rounds, console.print)
    _print_table(result)
    if as_json:
        print_json(result)


def _from_checkout(module: str) -> Any:
    root = Path(__file__).resolve().parents[2]
    if not (root / "bench" / "peers").is_dir():
        raise MissingComponent("teia bench: runs from a checkout of the repository only: scripts/teia bench crawl")
    sys.path.insert(0, str(root))
    return import_module(module)


def _print_table(result: dict[str, Any]) -> None:
    table = Table("crawler", "does", "pages", "pages/s", "CPU ms/page", "MB", "disk B/page", "we are", box=None)
    for row in result["rows"]:
        ratio = result["ratios"].get(row["name"])
        table.add_row(
            row["name"],
            row["setting"],
            f"{row['pages']:,}",
            f"{row['pages_per_s']:,.0f}",
            f"{row['cpu_ms_per_page']:.2f}",
            f"{row['peak_rss_mb']:.0f}",
            f"{row['disk_bytes_per_page']:,}",
            f"{ratio:g}x" if ratio else "",
        )
    console = result_console()
    console.print(table)
    for title, found in result["differences"].items():
        only = {"only they fetched": found["only_they"], "only we fetched": found["only_we"]}
        for words, paths in only.items():
            if paths:
                console.print(f"{title}: {words}: {' '.join(paths)}")
