"""`teia signals import-log`: hits of pages, from logs of proxies and web servers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from teia.cli.options import AsJson, Data
from teia.cli.output import print_json, progress_console
from teia.errors import UsageError

Files = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="Access log files, plain or compressed with gzip.")
]
Name = Annotated[
    str | None, typer.Option("--collection", "--name", help="Name of the collection; needed if there are several.")
]
Format = Annotated[str, typer.Option("--format", help="Log format: squid, combined or common; auto detects it.")]
Site = Annotated[
    str,
    typer.Option(
        "--site", metavar="URL", help="URL of the site whose log it is; needed if the lines contain paths only."
    ),
]


def import_log(
    files: Files, data: Data, collection: Name = None, form: Format = "auto", site: Site = "", as_json: AsJson = False
) -> None:
    """Import access logs: requested pages in scope become known, and their weight grows with the number of requests.

    Client addresses are ignored; queries and credentials are cut off. Example: teia signals import-log access.log.gz
    --site https://www.example.org/ --data archive
    """
    from teia.clock import WallClock
    from teia.signals.accesslog import FORMATS
    from teia.store.root import open_root
    from teia.transfer.import_data import choose_collection, open_target
    from teia.transfer.import_hits import import_hits
    from teia.urls import from_user

    chosen = next((each for each in FORMATS if each == form), None)
    if chosen is None and form != "auto":
        raise UsageError(f"--format {form!r}: must be auto, {', '.join(FORMATS)}")
    whose = from_user(site) if site else ""
    if whose is None:
        raise UsageError(f"--site {site!r}: must be a URL, such as https://www.example.org/")
    root = open_root(data, create=False)
    with root.locked():
        # No hosts: a log gives no scope, so a new collection is refused with an error.
        name = choose_collection(root, collection, None, (), set)
        with open_target(root, name, WallClock()) as target:
            done = import_hits(target, root.collection(name), files, chosen, whose)
    console = progress_console()
    counts = [
        f"{value:,} {key.replace('_', ' ')}" for key, value in asdict(done).items() if type(value) is int and value
    ]
    if done.empty:
        console.print(f"{done.empty:,} of {len(files):,} logs are empty", markup=False)
    console.print(f"{done.collection}: {', '.join(counts) or 'nothing'}", markup=False)
    if as_json:
        print_json(asdict(done))
