"""Reports and SQL: the papers' tables for this collection (C5, C9, T8, F9)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.responses import PlainTextResponse

from teia.clock import iso_utc
from teia.errors import QueryError, UsageError
from teia.lib.message import Message, message_of
from teia.store.fetchlog import MAX_SQL_CHARS, Rows
from teia.views.activity import activity
from teia.views.reports.catalogue import TOP, find_report
from teia.views.reports.source import open_source
from teia.views.sql_child import QueryLimits, run_query
from teia.web import limits
from teia.web.access.roles import Role
from teia.web.charts.windows import WINDOWS_S, ReportWindow
from teia.web.parts.freshness_report import freshness_report
from teia.web.server.auth import Refused
from teia.web.server.installation import Installation, UnknownCollection
from teia.web.server.json_routes import API, InstallationDep, PageRoutes, RedirectTo, csv_response

FRESH_S = 20.0
SHOWN_ROWS = 500
REPORT_SQL = {
    "outcomes": "SELECT outcome, count(*) AS requests FROM fetches WHERE kind = 'page' GROUP BY ALL ORDER BY 2 DESC",
    "types": "SELECT media_type, count(*) AS answers, sum(bytes) AS bytes FROM fetches GROUP BY ALL ORDER BY 2 DESC",
    "servers": "SELECT host, count(*) AS answers FROM fetches WHERE status = 200 GROUP BY ALL ORDER BY 2 DESC LIMIT 50",
    "errors": "SELECT host, outcome, count(*) FROM fetches WHERE status IS NULL OR status >= 400 GROUP BY ALL"
    " ORDER BY 3 DESC LIMIT 50",
    "hosts": "SELECT host, urls, queued, failed, excluded, requests FROM hosts ORDER BY urls DESC LIMIT 50",
    "links": "SELECT url, in_links, depth FROM pages ORDER BY in_links DESC LIMIT 50",
}
OVER_TIME = frozenset({"outcomes", "errors", "space"})
"""Reports that also show requests over a time range."""

Top = Annotated[int, Query(ge=1, le=1_000)]


class UnknownReport(UnknownCollection):
    """Raised if an address names a report that does not exist."""


WRAPPED, SORTED = "SELECT * FROM (\n", "\n) ORDER BY "
"""Text around a query whose result is sorted by a column."""


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column of a table: its name and its type."""

    name: str
    type: str


@lru_cache
def sql_tables() -> dict[str, list[SqlColumn]]:
    """Return the tables that a query may name, with their columns."""
    from teia.store.parquet import SCHEMA  # imports pyarrow
    from teia.views.sql_tables import VIEWS

    schemas = {"fetches": SCHEMA, **{name: table.schema for name, table in VIEWS.items()}}
    return {name: [SqlColumn(each.name, str(each.type)) for each in schema] for name, schema in schemas.items()}


@dataclass(frozen=True, slots=True)
class SqlView:
    """An SQL query and its result: at most `max_rows` rows, `cut` if there were more; `error` if it failed.

    `tables` are the tables that a query may name, with their columns; `examples` are queries by name.
    """

    query: str
    columns: list[str]
    rows: list[list[Any]]
    cut: bool
    error: str
    max_rows: int
    max_s: float
    tables: dict[str, list[SqlColumn]]
    examples: dict[str, str]

    def sorted_by(self, column: int) -> str:
        """Return the query sorted by a column of its result; in the other direction if it is sorted by that already."""
        inner, _, by = self.query.strip().rstrip(";").rpartition(SORTED)
        if inner.startswith(WRAPPED) and by.partition(" ")[0].isdigit():
            inner = inner.removeprefix(WRAPPED)
        else:
            inner, by = self.query.strip().rstrip(";"), ""
        direction = "" if by == f"{column} DESC" else " DESC"
        return f"{WRAPPED}{inner}{SORTED}{column}{direction}"


def add_routes(pages: PageRoutes) -> None:
    pages.page("/c/{collection}/reports", "report.html", Role.VIEWER)(first_report)
    pages.page("/c/{collection}/reports/{name}", "report.html", Role.VIEWER)(report)
    pages.add("GET", "/c/{collection}/reports/{name}/csv", Role.VIEWER, as_csv, response_class=PlainTextResponse)
    pages.page("/c/{collection}/sql", "sql.html", Role.VIEWER)(sql)
    pages.add("GET", "/c/{collection}/sql.csv", Role.VIEWER, sql_csv, response_class=PlainTextResponse)


def first_report(installation: InstallationDep, collection: str) -> dict[str, Any]:
    """Redirect to the first report."""
    installation.check(collection)
    raise RedirectTo(f"/c/{collection}/reports/outcomes")


def report(
    installation: InstallationDep, collection: str, name: str, top: Top = TOP, window: ReportWindow = "all"
) -> dict[str, Any]:
    """Return a report with the keys of `teia report NAME --json`, as counted at `counted`.

    `activity` are the requests of the time range `window`; the other numbers are of the whole collection.
    """
    installation.check(collection)
    try:
        report_of = find_report(name)
    except UsageError as error:
        raise UnknownReport(message_of(error)) from error

    def make() -> tuple[dict[str, Any], list[str]]:
        with open_source(installation.root, collection) as source:
            found = asdict(report_of(source, top))
            if name in OVER_TIME:
                now_s = installation.clock.now_s()
                since_s = None if window == "all" else now_s - WINDOWS_S[window]
                found |= {"window": window, "activity": asdict(activity(source, since_s, now_s))}
            return found, [str(path) for path in source.damaged]

    if name == "freshness":
        # The one that the page on freshness and the monitor show.
        found = freshness_report(installation, collection)
        values, damaged = asdict(found.value.without_guesses()), []
        values["rows"] = values["rows"][:top]
    else:
        key = ("report", collection, name, top, window if name in OVER_TIME else "")
        found = installation.cache.get(key, make, FRESH_S, installation.patience_s(collection))
        values, damaged = found.value
    head = {"report": name, "collection": collection, "counted": iso_utc(found.time_s), "sql": REPORT_SQL.get(name, "")}
    return {**head, **values, "damaged_files": damaged}


def as_csv(installation: InstallationDep, collection: str, name: str, top: Top = 1_000) -> PlainTextResponse:
    """Return the longest table of a report as CSV."""
    found = report(installation, collection, name, top)
    tables = [value for value in found.values() if is_table(value)]
    rows: list[dict[str, Any]] = max(tables, key=len, default=[])
    names = list(rows[0]) if rows else []
    return csv_response(names, ([row[each] for each in names] for row in rows))


def is_table(value: Any) -> bool:
    """Tell whether a field of a report is a table: rows with the same fields."""
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], dict)


# ---- SQL ------------------------------------------------------------------------------------------------------------

SqlText = Annotated[str, Query(max_length=MAX_SQL_CHARS)]


def sql(request: Request, installation: InstallationDep, collection: str, q: SqlText = "") -> SqlView:
    """Run a SELECT over fetches, pages and hosts; read-only, and limited to a few seconds."""
    installation.check(collection)
    found, error = Rows((), [], False), ""
    if q.strip():
        try:
            found = _run_query(installation, collection, q)
        except QueryError as failure:
            # The page shows the error beside the query; the API answers with status 400.
            if request.url.path.startswith(API):
                raise
            error = failure.message
    rows = [list(row) for row in found.rows]
    if not request.url.path.startswith(API):
        rows = rows[:SHOWN_ROWS]
    cut = found.cut or len(rows) < len(found.rows)
    return SqlView(q, list(found.columns), rows, cut, error, limits.SQL_ROWS, limits.SQL_S, sql_tables(), REPORT_SQL)


def sql_csv(installation: InstallationDep, collection: str, q: SqlText) -> PlainTextResponse:
    """Return the result of an SQL query as CSV."""
    installation.check(collection)
    found = _run_query(installation, collection, q)
    return csv_response(found.columns, found.rows)


def _run_query(installation: Installation, collection: str, query: str) -> Rows:
    # A query has a process of its own, with up to SQL_MEMORY_BYTES.
    if not installation.sql_slots.acquire(timeout=limits.SQL_S):
        raise Refused(503, Message("too many SQL queries are running"), Message("try again in a moment"))
    try:
        bounds = QueryLimits(limits.SQL_S, limits.SQL_MEMORY_BYTES, limits.SQL_ROWS, limits.SQL_ANSWER_BYTES)
        return run_query(installation.root, collection, query, bounds).rows
    finally:
        installation.sql_slots.release()
