"""`teia audit`: what the data folder says of itself, checked without trusting any counter."""

from __future__ import annotations

from dataclasses import asdict

import typer

from teia.cli.options import AsJson, Collection, Data
from teia.cli.output import print_json, result_console
from teia.clock import WallClock
from teia.crawl.audit import PolitenessAudit
from teia.crawl.audits import Kind, audit
from teia.crawl.collections import choose
from teia.store.audit import Audit
from teia.store.root import open_root

app = typer.Typer(help="Check politeness, archive and index, record by record.", no_args_is_help=True)


@app.command()
def politeness(data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Replay the fetch log: no request may have come before its server's rest was over."""
    root = open_root(data)
    _report("requests", audit(root, choose(root, collection), Kind.POLITENESS, WallClock()), as_json)


@app.command()
def archive(data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Read every record of the archive: whole, one per gzip member, with the digests it claims."""
    root = open_root(data)
    _report("records", audit(root, choose(root, collection), Kind.ARCHIVE, WallClock()), as_json)


@app.command()
def index(data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Compare the search index with the pages that belong into it."""
    root = open_root(data)
    _report("pages", audit(root, choose(root, collection), Kind.INDEX, WallClock()), as_json)


def _report(what: str, found: PolitenessAudit | Audit, as_json: bool) -> None:
    console = result_console()
    if as_json:
        print_json(asdict(found))
    else:
        console.print(f"{found.checked:,} {what} checked, {found.violations:,} violations")
        for line in found.details:
            console.print(f"  {line}", markup=False)
    if found.violations:
        raise typer.Exit(1)
