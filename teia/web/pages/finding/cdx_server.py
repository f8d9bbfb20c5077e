"""CDX server: lists of captures for replay tools and archive clients.

`/c/{collection}/cdx` answers as pywb does, `/c/{collection}/cdx/search/cdx` as the Wayback Machine does. The parameters
that both have mean the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Depends, Query
from fastapi.responses import PlainTextResponse, Response

from teia.views.cdx import (
    MAX_LINES,
    WAYBACK_FIELDS,
    CdxLine,
    CdxQuery,
    MatchType,
    Sort,
    as_cdxj,
    as_json_line,
    as_wayback_row,
    cdx_lines,
    collapse,
    compile_filter,
    field_name,
)
from teia.web import limits
from teia.web.access.roles import Role
from teia.web.server.json_routes import InstallationDep, PageRoutes

MAX_FILTERS = 10
Stamp = Annotated[str, Query(max_length=14)]
Filters = Annotated[list[str], Query(alias="filter", max_length=MAX_FILTERS)]
Fields = Annotated[str, Query(alias="fl", max_length=200)]


@dataclass(frozen=True, slots=True)
class CdxParameters:
    """Parameters that both forms of the server have; `from` is a keyword of Python."""

    url: str
    match: MatchType
    first: str
    last: str
    limit: int
    output: str


def parameters(
    url: Annotated[str, Query(max_length=limits.URL_CHARS)],
    match: Annotated[MatchType, Query(alias="matchType")] = "exact",
    first: Annotated[str, Query(alias="from", max_length=14)] = "",
    last: Annotated[str, Query(alias="to", max_length=14)] = "",
    limit: Annotated[int, Query(ge=-MAX_LINES)] = MAX_LINES,
    output: Literal["", "text", "cdxj", "json"] = "",
) -> CdxParameters:
    return CdxParameters(url, match, first, last, limit, output)


ParametersDep = Annotated[CdxParameters, Depends(parameters)]


def add_routes(pages: PageRoutes) -> None:
    for path, endpoint in (("/c/{collection}/cdx", cdx), ("/c/{collection}/cdx/search/cdx", wayback_cdx)):
        pages.add("GET", path, Role.PUBLIC, endpoint, include_in_schema=False, response_class=Response)


def cdx(
    installation: InstallationDep,
    collection: str,
    wanted: ParametersDep,
    filters: Filters = [],  # noqa: B006  # FastAPI copies it
    fields: Fields = "",
    closest: Stamp = "",
    sort: Sort = "default",
    pages: Annotated[bool, Query(alias="showNumPages")] = False,
) -> Response:
    """Return captures as pywb's CDX server does: CDXJ lines, or JSON lines with output=json."""
    if pages:
        # All lines are one page; clients that read page by page ask for their number first.
        return PlainTextResponse(json.dumps({"pages": 1, "pageSize": 1, "blocks": 1}) + "\n")
    tests = [compile_filter(each) for each in filters]
    limit = min(abs(wanted.limit) or MAX_LINES, MAX_LINES)
    query = CdxQuery(
        wanted.url, wanted.match, wanted.first, wanted.last, closest=closest, sort=sort, limit=limit, tests=tests
    )
    names = [field_name(each) for each in fields.split(",") if each]
    form = as_json_line if wanted.output == "json" else as_cdxj
    text = "".join(form(line, names) for line in _found(installation, collection, query))
    return PlainTextResponse(text, media_type="text/x-ndjson" if wanted.output == "json" else "text/x-cdxj")


def wayback_cdx(
    installation: InstallationDep,
    collection: str,
    wanted: ParametersDep,
    filters: Filters = [],  # noqa: B006  # FastAPI copies it
    fields: Fields = "",
    collapsed: Annotated[list[str], Query(alias="collapse", max_length=MAX_FILTERS)] = [],  # noqa: B006
    pages: Annotated[bool, Query(alias="showNumPages")] = False,
) -> Response:
    """Return captures as the Wayback Machine's CDX server does: words a line, or one JSON table."""
    if pages:
        return PlainTextResponse("1\n")
    names = [each for each in fields.split(",") if each] or list(WAYBACK_FIELDS)
    tests = [compile_filter(each, is_regex=True) for each in filters]
    query = CdxQuery(wanted.url, wanted.match, wanted.first, wanted.last, tests=tests)
    lines: Sequence[CdxLine] = _found(installation, collection, query)
    for field in collapsed:
        lines = collapse(lines, field)
    # A negative limit means the last lines.
    limit = wanted.limit or MAX_LINES
    rows = [as_wayback_row(line, names) for line in (lines[:limit] if limit > 0 else lines[limit:])]
    if wanted.output == "json":
        return PlainTextResponse(json.dumps([names, *rows] if rows else []), media_type="application/json")
    return PlainTextResponse("".join(" ".join(row) + "\n" for row in rows))


def _found(installation: InstallationDep, collection: str, query: CdxQuery) -> list[CdxLine]:
    installation.check_captures(collection)
    with installation.lookup(collection) as lookup, installation.capture_slots.hold():
        return cdx_lines(lookup, query)
