"""`teia export`: what is in a data folder, in formats that other programs read."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from teia.cli.options import Collection, Data
from teia.crawl.collections import choose
from teia.crawl.reading import known_urls
from teia.store.root import open_root

app = typer.Typer(help="Write what is in a data folder for other programs.", no_args_is_help=True)
Out = Annotated[Path | None, typer.Option("--out", metavar="PATH", help="Where to; standard output if not given.")]


@app.command()
def urls(data: Data, collection: Collection = None, out: Out = None) -> None:
    """Write every known URL, one JSON object a line."""
    root = open_root(data)
    name = choose(root, collection)
    with nullcontext(sys.stdout) if out is None else out.open("w", encoding="utf-8") as file:
        for each in known_urls(root, name):
            file.write(json.dumps(each) + "\n")
