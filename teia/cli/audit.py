"""`teia audit`: what the data folder says of itself, checked without trusting any counter."""

from __future__ import annotations

from dataclasses import asdict

import typer

from teia.cli.options import AsJson, Collection, Data
from teia.cli.output import print_json, result_console
from teia.crawl.audit import PolitenessAudit
from teia.crawl.collections import choose, saved
from teia.crawl.reading import audit_archives, audit_of
from teia.crawl.reindexing import audit_index
from teia.store.audit import Audit
from teia.store.root import open_root

app = typer.Typer(help="Check politeness, archive and index, record by record.", no_args_is_help=True)


@app.command()
def politeness(data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Replay the fetch log: no request may have come before its server's rest was over."""
    root = open_root(data)
    name = choose(root, collection)
    _report("requests", audit_of(root, name, saved(root, name).config.courtesy), as_json)


@app.command()
def archive(data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Read every record of the archive: whole, one per gzip member, with the digests it claims."""
    root = open_root(data)
    _report("records", audit_archives(root, choose(root, collection)), as_json)


@app.command()
def index(data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Compare the search index with the pages that belong into it."""
    root = open_root(data)
    _report("pages", audit_index(root, choose(root, collection)), as_json)


def _report(what: str, audit: PolitenessAudit | Audit, as_json: bool) -> None:
    console = result_console()
    if as_json:
        print_json(asdict(audit))
    else:
        console.print(f"{audit.checked:,} {what} checked, {audit.violations:,} violations")
        for line in audit.details:
            console.print(f"  {line}", markup=False)
    if audit.violations:
        raise typer.Exit(1)
