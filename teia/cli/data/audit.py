"""`teia audit`: checks of the data folder that trust no counter."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from teia.cli.long_work import archive_bytes, print_next, shown_work
from teia.cli.options import AsJson, Collection, Data, open_collection
from teia.cli.output import print_json, result_console
from teia.clock import WallClock
from teia.transfer.audits import AuditKind, audit
from teia.transfer.frontier_audit import accept
from teia.transfer.links_audit import LinksAudit
from teia.transfer.repair_archive import RepairResult, repair

app = typer.Typer(
    help="Audit politeness, archive, index, in-links and frontier, record by record.", no_args_is_help=True
)


NEXT_STEPS = {
    AuditKind.POLITENESS: "teia page URL {at}, for a request that came too early; please report it",
    AuditKind.ARCHIVE: "teia audit archive --repair {at}",
    AuditKind.INDEX: "teia rebuild index {at}",
    AuditKind.LINKS: "teia audit links --repair {at}",
    AuditKind.FRONTIER: "restore a backup, or teia audit frontier --accept {at}",
}
"""What to do after an audit that found violations."""


@app.command()
def politeness(data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Replay the fetch log and check that every request respected the delay of its server."""
    _audit(AuditKind.POLITENESS, "requests", data, collection, as_json=as_json)


@app.command()
def archive(
    data: Data,
    collection: Collection = None,
    must_repair: Annotated[
        bool, typer.Option("--repair", help="Drop records that cannot be recovered, and queue their pages again.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read every record of the archive: complete, one per gzip member, with matching digests."""
    _audit(AuditKind.ARCHIVE, "records", data, collection, as_json=as_json, must_repair=must_repair)


@app.command()
def index(data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Compare the search index with the pages that should be in it."""
    _audit(AuditKind.INDEX, "pages", data, collection, as_json=as_json)


@app.command()
def links(
    data: Data,
    collection: Collection = None,
    must_repair: Annotated[
        bool, typer.Option("--repair", help="Correct wrong counts; not possible during a crawl.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Recount the pages that link to every URL, and compare with the stored counts."""
    _audit(AuditKind.LINKS, "URLs", data, collection, as_json=as_json, must_repair=must_repair)


@app.command()
def frontier(
    data: Data,
    collection: Collection = None,
    must_accept: Annotated[
        bool,
        typer.Option("--accept", help="Take the files as they are, with new checksums; not possible during a crawl."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check the frontier's pages by their checksums, and compare it with the archive and the fetch log."""
    if must_accept:
        root, name = open_collection(data, collection)
        with root.locked():
            accept(root, name)
    _audit(AuditKind.FRONTIER, "URLs", data, collection, as_json=as_json)


def _audit(
    kind: AuditKind,
    what: str,
    data: Path,
    collection: str | None,
    *,
    as_json: bool,
    must_repair: bool = False,
) -> None:
    (root, name), console, repaired = open_collection(data, collection), result_console(), None
    # The repair of links takes the lock itself (transfer/links_audit.py).
    if must_repair and kind is AuditKind.ARCHIVE:
        with root.locked():
            repaired = repair(root, name, WallClock())
    # Other audits than that of the archive are shorter, and their amount is not known before.
    with shown_work(f"auditing the {kind.value}", archive_bytes(root, name) if kind is AuditKind.ARCHIVE else 0):
        found = audit(root, name, kind, WallClock(), repair=must_repair and kind is AuditKind.LINKS)
    if as_json:
        print_json(asdict(found) | ({} if repaired is None else {"repaired": asdict(repaired)}))
    else:
        if repaired is not None:
            _print_repair(repaired, console)
        if isinstance(found, LinksAudit):
            _print_links(found, console, is_repaired=must_repair)
        console.print(f"{found.checked:,} {what} checked, {found.violations:,} violations")
        for line in found.details:
            console.print(f"  {line}", markup=False)
    at = f"--data {data} --collection {name}"
    print_next(NEXT_STEPS[kind].format(at=at) if found.violations else "nothing to repair")
    # Scripts see violations by the exit status.
    if found.violations:
        raise typer.Exit(1)


def _print_repair(repaired: RepairResult, console: Console) -> None:
    """Print the result of a repair."""
    for line in repaired.details:
        console.print(line, markup=False, soft_wrap=True)
    if not repaired.cells:
        console.print("nothing to repair: the archive is complete")


def _print_links(found: LinksAudit, console: Console, *, is_repaired: bool) -> None:
    if is_repaired:
        console.print(f"{found.repaired:,} counts corrected")
    elif found.uncertain:
        console.print(
            f"{found.uncertain:,} pages were stored by an older version without the details of their links; `teia"
            " audit links --repair` recounts them"
        )
