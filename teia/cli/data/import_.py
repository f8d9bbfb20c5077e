"""`teia import`: archives, lists and logs from elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from teia.cli.options import AsJson, Data
from teia.cli.output import print_json, progress_console
from teia.clock import WallClock
from teia.durable import disk_errors
from teia.store.root import open_root
from teia.transfer.import_data import ImportResult, Target, choose_collection, open_target
from teia.transfer.import_lists import hosts_of_lists, hosts_of_logs, import_log, import_urls
from teia.transfer.import_warc import hosts_of_archives, import_warc

app = typer.Typer(help="Import archives, URL lists and logs.", no_args_is_help=True)

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files to import.")]
Name = Annotated[
    str | None, typer.Option("--name", "--collection", help="Name of the collection; created if it does not exist.")
]
File = Annotated[
    Path | None, typer.Option("--config", metavar="FILE.toml", help="TOML file with the settings of a new collection.")
]
Rules = Annotated[
    list[str] | None,
    typer.Option(metavar="RULE", help="Scope rule of a new collection; by default the hosts in the files."),
]


@app.command()
def warc(
    files: Files, data: Data, name: Name = None, config: File = None, scope: Rules = None, as_json: AsJson = False
) -> None:
    """Import WARC files into the archive, and add their pages and links.

    If interrupted, run the same command to continue. Example: teia import warc other/*.warc.gz --data archive
    """

    def import_into(target: Target, done: ImportResult) -> None:
        asyncio.run(import_warc(target, files, done))

    _import(files, data, name, config, scope, as_json, lambda: hosts_of_archives(files), import_into)


@app.command()
def urls(
    files: Files, data: Data, name: Name = None, config: File = None, scope: Rules = None, as_json: AsJson = False
) -> None:
    """Queue URLs from lists: one URL per line, or JSON lines as written by `teia export urls`."""

    def import_into(target: Target, done: ImportResult) -> None:
        import_urls(target, files, done)

    _import(files, data, name, config, scope, as_json, lambda: hosts_of_lists(files), import_into)


@app.command()
def log(
    files: Files, data: Data, name: Name = None, config: File = None, scope: Rules = None, as_json: AsJson = False
) -> None:
    """Import fetch logs of another installation, as written by `teia export parquet`, for use with SQL."""

    def import_into(target: Target, done: ImportResult) -> None:
        import_log(target, files, done)

    _import(files, data, name, config, scope, as_json, lambda: hosts_of_logs(files), import_into)


def _import(
    files: list[Path],
    data: Path,
    name: str | None,
    config: Path | None,
    scope: list[str] | None,
    as_json: bool,
    hosts: Callable[[], set[str]],
    import_into: Callable[[Target, ImportResult], None],
) -> None:
    # An unreadable file is an error before a folder or a collection is created.
    for path in files:
        with disk_errors(path, "read"), path.open("rb"):
            pass
    root = open_root(data, create=True)
    with root.locked():
        collection = choose_collection(root, name, config, scope or (), hosts)
        done = ImportResult(collection)
        with open_target(root, collection, WallClock()) as target:
            import_into(target, done)
    _report(done, as_json)
    # Some damage is reported; it is a failure only if nothing of the files could be used.
    if done.damaged and not done.records and not done.skipped:
        raise typer.Exit(1)


def _report(done: ImportResult, as_json: bool) -> None:
    console = progress_console()
    counts = {name: value for name, value in asdict(done).items() if isinstance(value, int) and value}
    summary = ", ".join(f"{value:,} {_WORDS[name]}" for name, value in counts.items()) or "nothing"
    console.print(f"{done.collection}: {summary}", markup=False)
    for line in done.details:
        console.print(f"  {line}", markup=False, soft_wrap=True)
    if as_json:
        print_json(asdict(done))


_WORDS = {
    "files": "files",
    "records": "records stored",
    "pages": "pages added",
    "urls_new": "new URLs",
    "rows": "lines or rows read",
    "skipped": "already present",
    "damaged": "damaged records skipped",
    "mismatched": "records with a wrong digest",
    "refused": "lines rejected",
}
