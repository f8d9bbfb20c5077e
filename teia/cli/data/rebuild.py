"""`teia rebuild`: data that is derived from the archive, made again."""

from __future__ import annotations

import asyncio

import typer

from teia.cli.long_work import count, print_next, shown_work
from teia.cli.options import AsJson, Collection, Data, open_collection
from teia.cli.output import print_json, result_console
from teia.clock import WallClock
from teia.indexer.rebuild import pages_to_index, rebuild_index

app = typer.Typer(help="Rebuild the search index from the archive.", no_args_is_help=True)


@app.callback()
def rebuild() -> None:
    """Rebuild data derived from the archive."""


@app.command()
def index(data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Delete the search index and rebuild it from the archive."""
    root, name = open_collection(data, collection)
    clock = WallClock()
    began = clock.ticks_s()
    with shown_work(f"indexing {name}", pages_to_index(root, name), count):
        documents = asyncio.run(rebuild_index(root, name, clock))
    seconds = clock.ticks_s() - began
    if as_json:
        print_json({"collection": name, "indexed": documents, "seconds": round(seconds, 3)})
    else:
        result_console().print(f"{documents:,} pages indexed in {seconds:.1f} s")
    print_next(f"teia search WORD --data {data} --collection {name}")
