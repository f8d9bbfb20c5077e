"""`teia trace`: one URL's way through the roles of A1."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from teia.cli.options import AsJson, Collection, Data
from teia.cli.output import print_json
from teia.clock import WallClock
from teia.collections.stored import choose, saved
from teia.crawler.lookup import Lookup
from teia.store.root import open_root
from teia.views.page import entry_of
from teia.views.trace import Step, trace

Url = Annotated[str, typer.Argument(metavar="URL", help="The page.")]
TIME_CHARS = 27
ROLE_CHARS = 17


def trace_url(url: Url, data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Follow a URL from the page that named it to the links that were sent on, role by role, with times."""
    root = open_root(data)
    name = choose(root, collection)
    with Lookup(root, name) as lookup:
        entry = entry_of(lookup, url, saved(root, name).config)
        steps = trace(lookup, entry, WallClock())
    if as_json:
        print_json({"url": entry.url, "steps": [asdict(step) for step in steps]})
        return
    print(entry.url)
    for step in steps:
        print(_line(step))


def _line(step: Step) -> str:
    printable = step.what if step.what.isprintable() else "".join(c if c.isprintable() else " " for c in step.what)
    return f"{step.time or '':{TIME_CHARS}}  {step.role:{ROLE_CHARS}}  {printable}"
