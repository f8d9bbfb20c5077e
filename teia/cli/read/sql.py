"""`teia sql`: one read-only query over the crawled data."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from teia.cli.options import AsJson, Collection, Data, open_collection
from teia.cli.output import print_grid, print_json, progress_console
from teia.errors import UsageError
from teia.lib.csvtext import CsvWriter
from teia.store.fetchlog import Rows
from teia.views.sql_child import TERMINAL_LIMITS, run_query

Query = Annotated[str, typer.Argument(metavar="SELECT", help="One SELECT statement, in DuckDB's SQL.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print comma-separated values with a header line.")]


def sql(
    query: Query, data: Data, collection: Collection = None, as_csv: AsCsv = False, as_json: AsJson = False
) -> None:
    """Run a SELECT over the views fetches (one row per request), pages (one per known URL) and hosts (one per server).

    It is read-only. List the columns of a view with: teia sql "SELECT * FROM (DESCRIBE pages)" --data DIR
    Example: teia sql "SELECT outcome, count(*) FROM fetches GROUP BY ALL ORDER BY 2 DESC" --data archive
    """
    if as_csv and as_json:
        raise UsageError("--csv and --json cannot be combined; use one of them")
    # A child process runs the query: it can be killed, which DuckDB in this one cannot (views/sql_child.py).
    answered = run_query(*open_collection(data, collection), query, TERMINAL_LIMITS)
    found = answered.rows
    for path in answered.damaged:
        progress_console().print(f"omitted, because it cannot be read: {path}", markup=False)
    if as_json:
        print_json({"columns": found.columns, "rows": found.rows, "cut": found.cut})
        return
    _print_csv(found) if as_csv else _print_grid(found)
    if found.cut:
        progress_console().print(
            f"only the first {len(found.rows):,} rows are shown; narrow the query with WHERE or LIMIT"
        )


def _print_csv(found: Rows) -> None:
    CsvWriter(sys.stdout).writerows((found.columns, *([_text(value) for value in row] for row in found.rows)))


def _print_grid(found: Rows) -> None:
    columns = range(len(found.columns))
    numeric = [any(isinstance(row[n], int | float) for row in found.rows) for n in columns]
    print_grid(found.columns, [[_text(value) for value in row] for row in found.rows], numeric)


def _text(value: Any) -> str:
    return "" if value is None else str(value)
