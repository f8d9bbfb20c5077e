"""`teia page` and `teia trace`: everything known about one page, and its way through the roles of A1."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from teia.cli.options import AsJson, Collection, Data, open_collection
from teia.cli.output import print_json, result_console
from teia.clock import WallClock
from teia.collections.settings import saved
from teia.crawler.lookup import Lookup
from teia.views.page import PageSignal, PageView, find_entry, page_view
from teia.views.trace import TraceStep, trace

SHOWN = 10
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z")
Url = Annotated[str, typer.Argument(metavar="URL", help="URL of the page.")]


def page(url: Url, data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Show a page: its state, versions, incoming and outgoing links, and why it is not fetched yet."""
    root, name = open_collection(data, collection)
    with Lookup(root, name) as lookup:
        view = page_view(lookup, url, saved(root, name).config, WallClock())
    if as_json:
        print_json(asdict(view))
    else:
        _show(view)


def _show(view: PageView) -> None:
    console = result_console()
    # Texts of the web are never markup: rich would obey a `[red]` in a URL or a title.
    console.print(view.url, markup=False, style="bold", soft_wrap=True)
    table = Table.grid(padding=(0, 2))
    lines = {
        "title": view.title,
        "canonical": view.canonical if view.canonical != view.url else None,
        "state": f"{view.state}{f', {view.outcome}' if view.outcome else ''}",
        "not fetched yet": _readable(view.why_waiting),
        "next visit": _readable(view.next_due),
        "depth": f"{view.depth} (links from a seed)",
        "type": view.type,
        "language": view.lang,
        "digest": view.digest,
    }
    for name, value in lines.items():
        if value:
            table.add_row(name, _plain(value))
    console.print(table)
    # The newest visits, in the order of time.
    _list(f"visits: {len(view.versions)}", [_version(view, number) for number in range(len(view.versions))][-SHOWN:])
    if view.signals:
        _list("signals", [_signal(each) for each in view.signals])
    _list(_first(f"outgoing links: {len(view.links_out):,}", len(view.links_out)), view.links_out[:SHOWN])
    _list(_first(f"incoming links: {view.in_links:,}", view.in_links), view.links_in[:SHOWN])
    if view.note:
        console.print(view.note, markup=False)


def _version(view: PageView, number: int) -> str:
    version = view.versions[number]
    changed = {None: "", True: "changed", False: "unchanged"}[version.changed]
    return f"{_readable(version.time)}  {version.outcome}  {(version.digest or '')[:12]}  {changed}".rstrip()


def _signal(each: PageSignal) -> str:
    news = "not visited since" if each.is_news else "visited since"
    return f"{each.kind}  reports a change at {_readable(each.changed)}, {news}; reliability {each.weight:.2f}"


def _list(title: str, lines: list[str] | tuple[str, ...]) -> None:
    console = result_console()
    console.print(title)
    for line in lines:
        console.print(f"  {line}", markup=False, soft_wrap=True)


def _first(title: str, number: int) -> str:
    """Say that a list shows its first lines only."""
    return f"{title}, the first {SHOWN}:" if number > SHOWN else title


def _readable(text: str | None) -> str:
    """Show the instants of a text to the second; the JSON has the microseconds."""
    return _INSTANT.sub(r"\1 \2 UTC", text or "")


def _plain(text: str) -> str:
    """Escape a text of the web, so that rich shows it unchanged."""
    return text.replace("[", r"\[")


# ---- trace -----------------------------------------------------------------------------------------------------------

TIME_CHARS = 27
ROLE_CHARS = 17


def trace_url(url: Url, data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Trace a URL through the crawler, from the page that linked to it to the links found in it, with times."""
    root, name = open_collection(data, collection)
    with Lookup(root, name) as lookup:
        entry = find_entry(lookup, url, saved(root, name).config)
        steps = trace(lookup, entry, WallClock())
    if as_json:
        print_json({"url": entry.url, "steps": [asdict(step) for step in steps]})
        return
    print(entry.url)
    for step in steps:
        print(_trace_line(step))


def _trace_line(step: TraceStep) -> str:
    # Titles and headers come from servers; a control character in one could take over the terminal.
    printable = step.what if step.what.isprintable() else "".join(c if c.isprintable() else " " for c in step.what)
    where = f"[{step.node}] " if step.node else ""
    sends = f" -> {step.message}" if step.message else ""
    return f"{step.time or '':{TIME_CHARS}}  {step.role:{ROLE_CHARS}}  {where}{printable}{sends}"
