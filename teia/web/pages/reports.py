"""Reports and SQL: the papers' tables, ours (C5, C9, T8, F9)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.responses import PlainTextResponse

from teia.clock import iso_utc
from teia.crawl.reports.catalogue import REPORTS, TOP
from teia.crawl.reports.source import looking
from teia.crawl.tables import sql_views
from teia.errors import QueryError
from teia.store.fetchlog import Rows, plain
from teia.store.sql import MAX_SQL_CHARS
from teia.web import limits
from teia.web.gate import Refused
from teia.web.roles import Role
from teia.web.site import Site, UnknownCollection
from teia.web.twins import API, Elsewhere, OfSite, Pages

FRESH_S = 20.0
SHOWN_ROWS = 500
CELL_CHARS = 300
SQL_BEHIND = {
    "outcomes": "SELECT outcome, count(*) AS requests FROM fetches WHERE kind = 'page' GROUP BY ALL ORDER BY 2 DESC",
    "types": "SELECT media_type, count(*) AS answers, sum(bytes) AS bytes FROM fetches GROUP BY ALL ORDER BY 2 DESC",
    "servers": "SELECT host, count(*) AS answers FROM fetches WHERE status = 200 GROUP BY ALL ORDER BY 2 DESC LIMIT 50",
    "errors": "SELECT host, outcome, count(*) FROM fetches WHERE status IS NULL OR status >= 400 GROUP BY ALL"
    " ORDER BY 3 DESC LIMIT 50",
    "hosts": "SELECT * FROM hosts ORDER BY urls DESC LIMIT 50",
    "links": "SELECT url, in_links, depth FROM pages ORDER BY in_links DESC LIMIT 50",
}
Top = Annotated[int, Query(ge=1, le=1_000)]


class UnknownReport(UnknownCollection):
    """An address names a report that is not there."""


@dataclass(frozen=True, slots=True)
class SqlView:
    """A question and its answer: at most so many rows, `cut` if there were more; `error` says why there is none."""

    query: str
    columns: list[str]
    rows: list[list[Any]]
    cut: bool
    error: str
    max_rows: int
    max_s: float


def add_to(pages: Pages) -> None:
    pages.page("/c/{collection}/reports", "report.html", Role.VIEWER, twin=False)(first_report)
    pages.page("/c/{collection}/reports/{name}", "report.html", Role.VIEWER)(report)
    pages.add("GET", "/c/{collection}/reports/{name}/csv", Role.VIEWER, as_csv, response_class=PlainTextResponse)
    pages.page("/c/{collection}/sql", "sql.html", Role.VIEWER)(sql)
    pages.add("GET", "/c/{collection}/sql.csv", Role.VIEWER, sql_csv, response_class=PlainTextResponse)


def first_report(site: OfSite, collection: str) -> dict[str, Any]:
    """Lead to the first report."""
    site.check(collection)
    raise Elsewhere(f"/c/{collection}/reports/outcomes")


def report(site: OfSite, collection: str, name: str, top: Top = TOP) -> dict[str, Any]:
    """A report, under the keys of `teia report NAME --json`, as it was counted at `counted`."""
    site.check(collection)
    if name not in REPORTS:
        raise UnknownReport(f"there is no report {name[:100]!r}; there is {', '.join(REPORTS)}")

    def make() -> tuple[dict[str, Any], list[str]]:
        with looking(site.root, collection) as source:
            found = asdict(REPORTS[name](source, top))
            return found, [str(path) for path in source.log.damaged]

    found = site.kept.get(("report", collection, name, top), make, FRESH_S, site.patience_s(collection))
    values, damaged = found.value
    head = {"report": name, "collection": collection, "counted": iso_utc(found.time_s), "sql": SQL_BEHIND.get(name, "")}
    return {**head, **values, "damaged_files": damaged}


def as_csv(site: OfSite, collection: str, name: str, top: Top = 1_000) -> PlainTextResponse:
    """The longest table of a report as comma-separated values."""
    found = report(site, collection, name, top)
    tables = [value for value in found.values() if is_table(value)]
    rows: list[dict[str, Any]] = max(tables, key=len, default=[])
    names = list(rows[0]) if rows else []
    return _csv(names, ([row[each] for each in names] for row in rows))


def is_table(value: Any) -> bool:
    """Whether a field of a report is a table: rows with the same fields."""
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], dict)


# ---- SQL ------------------------------------------------------------------------------------------------------------

Question = Annotated[str, Query(max_length=MAX_SQL_CHARS)]


def sql(request: Request, site: OfSite, collection: str, q: Question = "") -> SqlView:
    """Answer a SELECT over fetches, pages and hosts; read-only, and no longer than a few seconds."""
    site.check(collection)
    found, error = Rows((), [], False), ""
    if q.strip():
        try:
            found = _answer(site, collection, q)
        except QueryError as failure:
            if request.url.path.startswith(API):
                raise
            error = str(failure)
    rows = [[plain(value) for value in row] for row in found.rows]
    if not request.url.path.startswith(API):
        rows = rows[:SHOWN_ROWS]
    cut = found.cut or len(rows) < len(found.rows)
    return SqlView(q, list(found.columns), rows, cut, error, limits.SQL_ROWS, limits.SQL_S)


def sql_csv(site: OfSite, collection: str, q: Question) -> PlainTextResponse:
    """The answer as comma-separated values."""
    site.check(collection)
    found = _answer(site, collection, q)
    return _csv(found.columns, ([plain(value) for value in row] for row in found.rows))


def _answer(site: Site, collection: str, query: str) -> Rows:
    if not site.sql_turns.acquire(timeout=limits.SQL_S):
        raise Refused(503, "others are asking in SQL just now", "try again in a moment")
    try:
        go_on = _within(site, limits.SQL_S)
        with sql_views(site.root, collection, query, go_on) as log:
            go_on()
            return log.query(query, limits.SQL_ROWS, limits.SQL_S)
    finally:
        site.sql_turns.release()


def _within(site: Site, seconds: float) -> Callable[[], None]:
    until = site.clock.ticks_s() + seconds

    def go_on() -> None:
        if site.clock.ticks_s() > until:
            raise QueryError(f"stopped after {seconds:g} s: there are too many URLs; ask `fetches`, or use teia sql")

    return go_on


def _csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> PlainTextResponse:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_safe(value) for value in row] for row in rows)
    return PlainTextResponse(out.getvalue(), media_type="text/csv", headers={"content-disposition": "attachment"})


def _safe(value: Any) -> Any:
    """A value for a spreadsheet, which takes text that begins with a sign for a formula."""
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value
