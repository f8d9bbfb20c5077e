"""`teia trace`: one URL's way through the roles of A1."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from teia.cli.options import AsJson, Collection, Data
from teia.cli.output import print_json
from teia.clock import WallClock
from teia.collections.settings import choose, saved
from teia.crawler.lookup import Lookup
from teia.store.root import open_root
from teia.views.page import find_entry
from teia.views.trace import TraceStep, trace

Url = Annotated[str, typer.Argument(metavar="URL", help="URL of the page.")]
TIME_CHARS = 27
ROLE_CHARS = 17


def trace_url(url: Url, data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Trace a URL through the crawler, from the page that linked to it to the links found in it, with times."""
    root = open_root(data)
    name = choose(root, collection)
    with Lookup(root, name) as lookup:
        entry = find_entry(lookup, url, saved(root, name).config)
        steps = trace(lookup, entry, WallClock())
    if as_json:
        print_json({"url": entry.url, "steps": [asdict(step) for step in steps]})
        return
    print(entry.url)
    for step in steps:
        print(_line(step))


def _line(step: TraceStep) -> str:
    # Titles and headers come from servers; a control character in one could take over the terminal.
    printable = step.what if step.what.isprintable() else "".join(c if c.isprintable() else " " for c in step.what)
    return f"{step.time or '':{TIME_CHARS}}  {step.role:{ROLE_CHARS}}  {printable}"
