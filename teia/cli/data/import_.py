"""`teia import`: archives, lists and logs from elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from teia.cli.long_work import bytes_of, print_next, shown_work
from teia.cli.options import AsJson, ConfigFile, Data, NewName
from teia.cli.output import count_of, print_json, progress_console
from teia.clock import WallClock
from teia.durable import disk_errors
from teia.store.root import open_root
from teia.transfer.import_data import ImportResult, Target, choose_collection, open_target
from teia.transfer.import_hosts import hosts_of_host_lists, import_hosts
from teia.transfer.import_lists import hosts_of_lists, hosts_of_logs, import_log, import_urls
from teia.transfer.import_wacz import hosts_of_packages, import_wacz
from teia.transfer.import_warc import hosts_of_archives, import_warc

app = typer.Typer(help="Import archives, lists of URLs or hosts, and logs.", no_args_is_help=True)

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files to import.")]
Rules = Annotated[
    list[str] | None,
    typer.Option(metavar="RULE", help="Scope rule of a new collection; by default the hosts in the files."),
]


SEARCHABLE = "teia rebuild index --data {data} --collection {name}, to search the imported pages"
FETCH = "teia crawl --data {data} --collection {name}, to fetch them"


def _add_command(
    name: str,
    description: str,
    hosts_of: Callable[[list[Path]], set[str]],
    import_files: Callable[[Target, list[Path], ImportResult], object],
    next_step: str,
    *,
    reads_archives: bool = False,
) -> None:
    """Add a command that imports one kind of files; `hosts_of` finds the scope of a new collection.

    The progress of archives is counted in bytes; lists take too short for an estimate.
    """

    def command(
        files: Files,
        data: Data,
        name: NewName = None,
        config: ConfigFile = None,
        scope: Rules = None,
        as_json: AsJson = False,
    ) -> None:
        # An unreadable file is an error before a folder or a collection is created.
        for path in files:
            with disk_errors(path, "read"), path.open("rb"):
                pass
        root = open_root(data, create=True)
        with root.locked():
            collection = choose_collection(root, name, config, scope or (), lambda: hosts_of(files))
            done = ImportResult(collection)
            doing = f"importing {count_of(len(files), 'file')}"
            with (
                open_target(root, collection, WallClock()) as target,
                shown_work(doing, bytes_of(iter(files)) if reads_archives else 0),
            ):
                import_files(target, files, done)
        _report(done, as_json)
        # Some damage is reported; it is a failure only if nothing of the files could be used.
        if done.damaged and not done.records and not done.skipped:
            raise typer.Exit(1)
        print_next(next_step.format(data=data, name=done.collection))

    app.command(name, help=description)(command)


_add_command(
    "warc",
    """Import WARC files into the archive, and add their pages and links.

    If interrupted, run the same command to continue. Example: teia import warc other/*.warc.gz --data archive
    """,
    hosts_of_archives,
    lambda target, files, done: asyncio.run(import_warc(target, files, done)),
    SEARCHABLE,
    reads_archives=True,
)
_add_command(
    "wacz",
    "Import WACZ files, as ReplayWeb.page, Browsertrix and `teia export wacz` write them, like `teia import warc`.",
    hosts_of_packages,
    lambda target, files, done: asyncio.run(import_wacz(target, files, done)),
    SEARCHABLE,
    reads_archives=True,
)
_add_command(
    "urls",
    "Queue URLs from lists: one URL per line, or JSON lines as written by `teia export urls`.",
    hosts_of_lists,
    import_urls,
    FETCH,
)
_add_command(
    "hosts",
    """Queue the home pages of hosts in scope, from lists of names, hosts files or DNS zone files.

    Example: teia import hosts pt.zone --data archive --scope suffix:.pt
    """,
    hosts_of_host_lists,
    import_hosts,
    FETCH,
)
_add_command(
    "log",
    "Import fetch logs of another installation, as written by `teia export parquet`, for use with SQL.",
    hosts_of_logs,
    import_log,
    'teia sql "SELECT outcome, count(*) FROM fetches GROUP BY ALL" --data {data} --collection {name}',
)


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
