"""`teia audit`: what the data folder says of itself, checked without trusting any counter."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from teia.cli.options import AsJson, Collection, Data
from teia.cli.output import print_json, result_console
from teia.cli.supervised import end_with_input
from teia.clock import WallClock
from teia.crawl.audits import Kind, audit
from teia.crawl.collections import choose
from teia.store.root import open_root

app = typer.Typer(help="Check politeness, archive and index, record by record.", no_args_is_help=True)

Supervised = Annotated[bool, typer.Option("--supervised", help="End when standard input does.")]


@app.command()
def politeness(
    data: Data, collection: Collection = None, as_json: AsJson = False, supervised: Supervised = False
) -> None:
    """Replay the fetch log: no request may have come before its server's rest was over."""
    _audit(Kind.POLITENESS, "requests", data, collection, as_json=as_json, supervised=supervised)


@app.command()
def archive(data: Data, collection: Collection = None, as_json: AsJson = False, supervised: Supervised = False) -> None:
    """Read every record of the archive: whole, one per gzip member, with the digests it claims."""
    _audit(Kind.ARCHIVE, "records", data, collection, as_json=as_json, supervised=supervised)


@app.command()
def index(data: Data, collection: Collection = None, as_json: AsJson = False, supervised: Supervised = False) -> None:
    """Compare the search index with the pages that belong into it."""
    _audit(Kind.INDEX, "pages", data, collection, as_json=as_json, supervised=supervised)


def _audit(kind: Kind, what: str, data: Path, collection: str | None, *, as_json: bool, supervised: bool) -> None:
    if supervised:
        end_with_input()
    root, console = open_root(data), result_console()
    found = audit(root, choose(root, collection), kind, WallClock())
    if as_json:
        print_json(asdict(found))
    else:
        console.print(f"{found.checked:,} {what} checked, {found.violations:,} violations")
        for line in found.details:
            console.print(f"  {line}", markup=False)
    if found.violations:
        raise typer.Exit(1)
