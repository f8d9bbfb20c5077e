"""`teia audit`: checks of the data folder that trust no counter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from teia.cli.long_work import archive_bytes, print_next, shown_work
from teia.cli.options import AsJson, Collection, Data, open_collection
from teia.cli.output import print_json, result_console
from teia.clock import WallClock
from teia.collections.settings import saved
from teia.store.fixity import FixitySummary, run_due, summarize
from teia.store.signing_key import read_public_keys
from teia.transfer.audits import AuditKind, audit
from teia.transfer.frontier_audit import accept
from teia.transfer.links_audit import LinksAudit
from teia.transfer.manifest_audit import ManifestAudit
from teia.transfer.manifest_audit import accept as accept_files
from teia.transfer.repair_archive import RepairResult, repair

app = typer.Typer(
    help="Audit politeness, archive, index, in-links, frontier and manifest, record by record.", no_args_is_help=True
)


NEXT_STEPS = {
    AuditKind.POLITENESS: "teia page URL {at}, for a request that came too early; please report it",
    AuditKind.ARCHIVE: "teia audit archive --repair {at}",
    AuditKind.INDEX: "teia rebuild index {at}",
    AuditKind.LINKS: "teia audit links --repair {at}",
    AuditKind.FRONTIER: "restore a backup, or teia audit frontier --accept {at}",
    AuditKind.MANIFEST: "restore the files from a backup, or teia audit manifest --accept REASON {at}",
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


@app.command()
def manifest(
    data: Data,
    collection: Collection = None,
    keys: Annotated[
        list[Path] | None,
        typer.Option("--key", metavar="FILE", help="Trust this public key (PEM) instead of those in the folder."),
    ] = None,
    is_due: Annotated[
        bool, typer.Option("--due", help="Only compare the files that are due by archive.fixity_days; for cron.")
    ] = False,
    reason: Annotated[
        str | None,
        typer.Option("--accept", metavar="REASON", help="Sign files as they are that do not match; not in a crawl."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify the signed manifest of the archive: chain, signatures, and the digest of every file."""
    root, name = open_collection(data, collection)
    if is_due:
        checked = run_due(root.collection(name).path, saved(root, name).config.archive.fixity_days, WallClock())
        state = summarize(root.collection(name).path)
        _print_fixity(checked, state, as_json=as_json)
        if state.violations:
            raise typer.Exit(1)
        return
    if reason is not None:
        with root.locked():
            for line in accept_files(root, name, reason, WallClock()):
                result_console().print(f"accepted: {line}", markup=False, soft_wrap=True)
    trusted = [key for path in keys or () for key in read_public_keys(path)]
    _audit(AuditKind.MANIFEST, "files", data, collection, as_json=as_json, trusted=trusted)


def _print_fixity(checked: int, state: FixitySummary, *, as_json: bool) -> None:
    if as_json:
        print_json({"checked": checked, **asdict(state)})
        return
    console = result_console()
    console.print(f"{checked:,} files compared now; of {state.files:,} signed files {state.violations:,} do not match")
    for line in state.details:
        console.print(f"  {line}", markup=False)


def _audit(
    kind: AuditKind,
    what: str,
    data: Path,
    collection: str | None,
    *,
    as_json: bool,
    must_repair: bool = False,
    trusted: Sequence[bytes] = (),
) -> None:
    (root, name), console, repaired = open_collection(data, collection), result_console(), None
    # The repair of links takes the lock itself (transfer/links_audit.py).
    if must_repair and kind is AuditKind.ARCHIVE:
        with root.locked():
            repaired = repair(root, name, WallClock())
            accept_files(root, name, "teia audit archive --repair", WallClock())
    # Other audits are shorter, and their amount is not known before.
    is_long = kind in {AuditKind.ARCHIVE, AuditKind.MANIFEST}
    with shown_work(f"auditing the {kind.value}", archive_bytes(root, name) if is_long else 0):
        found = audit(root, name, kind, WallClock(), repair=must_repair and kind is AuditKind.LINKS, trusted=trusted)
    if as_json:
        print_json(asdict(found) | ({} if repaired is None else {"repaired": asdict(repaired)}))
    else:
        if repaired is not None:
            _print_repair(repaired, console)
        if isinstance(found, LinksAudit):
            _print_links(found, console, is_repaired=must_repair)
        if isinstance(found, ManifestAudit):
            _print_manifest(found, console)
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


def _print_manifest(found: ManifestAudit, console: Console) -> None:
    console.print(f"{found.entries:,} entries; the last one is {found.head}")
    if found.unsigned:
        console.print(
            f"{found.unsigned_bytes:,} bytes of {found.unsigned:,} files are not signed yet; the next crawl or `teia"
            " manifest sign` does it"
        )


def _print_links(found: LinksAudit, console: Console, *, is_repaired: bool) -> None:
    if is_repaired:
        console.print(f"{found.repaired:,} counts corrected")
    elif found.uncertain:
        console.print(
            f"{found.uncertain:,} pages were stored by an older version without the details of their links; `teia"
            " audit links --repair` recounts them"
        )
