"""`teia report`: the papers' tables of what was crawled.

A report is a dataclass (`teia.views.reports`). Its plain fields are printed as lines, its tuples of rows as tables, its
notes below; how a number is written follows from its name, where its unit is. With `--json` it is printed as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from teia.cli.options import AsJson, Collection, Data, open_collection
from teia.cli.output import print_grid, print_json, printable
from teia.cli.progress import size
from teia.views.reports.catalogue import REPORTS, SHARES, TOP, find_report
from teia.views.reports.source import open_source

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help=" | ".join(REPORTS), autocompletion=lambda: list(REPORTS), show_default=False),
]
Top = Annotated[
    int, typer.Option("--top", min=1, max=10_000, metavar="N", help="Maximum length of lists of hosts and URLs.")
]


def report(name: Name, data: Data, collection: Collection = None, top: Top = TOP, as_json: AsJson = False) -> None:
    """Print one of the reports on a crawl: outcomes, types, servers, links, hosts, traps and others.

    Examples: teia report outcomes --data archive · teia report hosts --data archive --top 100 --json
    """
    make = find_report(name)
    root, chosen = open_collection(data, collection)
    with open_source(root, chosen) as source:
        found = make(source, top)
        damaged = [str(path) for path in source.damaged]
    if as_json:
        print_json({"report": name, "collection": chosen, **asdict(found), "damaged_files": damaged})
    else:
        # Programs judge the estimates by their errors; people are told that there are none yet.
        print_report(found.without_guesses() if hasattr(found, "without_guesses") else found)
        for path in damaged:
            print(f"\nomitted, because it cannot be read: {path}")


def print_report(found: DataclassInstance) -> None:
    """Print a report for people."""
    everything = {each.name: getattr(found, each.name) for each in fields(found)}
    values = {name: value for name, value in everything.items() if value is not None}
    notes = values.pop("notes", ())
    plain = {name: value for name, value in values.items() if not _is_table(value)}
    width = max((len(name) for name in plain), default=0)
    for name, value in plain.items():
        print(f"{words(name):<{width}}  {printable(text_of(name, value))}")
    for name, value in values.items():
        if name not in plain:
            print()
            _print_rows(words(name), value if isinstance(value, tuple) else (value,))
    for note in notes:
        print(f"\n{note}")


def _is_table(value: Any) -> bool:
    return isinstance(value, tuple) or is_dataclass(value)


def _print_rows(title: str, rows: Sequence[DataclassInstance]) -> None:
    title = "" if title == "rows" else title
    if not rows:
        print(f"{title or 'rows'}: none")
        return
    names = [each.name for each in fields(rows[0])]
    cells = [[text_of(name, getattr(row, name)) for name in names] for row in rows]
    # Any row decides: the first may have an empty cell.
    numeric = [any(isinstance(getattr(row, name), int | float) for row in rows) for name in names]
    print_grid([words(name) for name in names], cells, numeric, title)


def words(name: str) -> str:
    """Return the name of a field as a heading; the unit is shown with the number."""
    return name.removesuffix("_bytes").removesuffix("_s").replace("_", " ")


def text_of(name: str, value: Any) -> str:
    """Format one value for people; its unit is known by the name of its field."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    if name in SHARES:
        # Smaller shares would all be shown as 0.0%.
        return f"{value:.1%}" if value >= 0.0005 or not value else f"{value:.2g}"
    if name.endswith("bytes"):
        return size(value)
    if name.endswith("_s"):
        return f"{value:,.3f} s".replace(".000", "")
    # A status code is a name, not an amount.
    if isinstance(value, int):
        return f"{value:,}" if name != "code" else str(value)
    return f"{value:,.1f}" if isinstance(value, float) else str(value)
