"""Two versions of a page side by side (F3, T10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Query

from teia.clock import iso_utc
from teia.errors import StoreError, UsageError
from teia.lib.message import Message
from teia.urls import from_user
from teia.views.captures import nearest_capture, read_capture, versions
from teia.views.compare_captures import Comparison, compare
from teia.web import limits
from teia.web.access.roles import Role
from teia.web.parts.archived_records import check_reserved, parse_time
from teia.web.server.json_routes import InstallationDep, PageRoutes, VisitorDep

Tab = Literal["text", "links", "headers"]


@dataclass(frozen=True, slots=True)
class DiffView:
    """Comparison of version `a` of a page with `b`; `older` and `newer` are the neighbours of `a` and of `b`."""

    url: str
    collection: str
    tab: str
    a: str
    b: str
    older: str | None
    newer: str | None
    comparison: Comparison


def add_routes(pages: PageRoutes) -> None:
    pages.page("/c/{collection}/diff", "diff.html", Role.PUBLIC)(diff)


def diff(
    installation: InstallationDep,
    visitor: VisitorDep,
    collection: str,
    url: Annotated[str, Query(max_length=limits.URL_CHARS)],
    a: Annotated[str, Query(max_length=40)] = "",
    b: Annotated[str, Query(max_length=40)] = "",
    tab: Tab = "text",
    v: Annotated[list[str] | None, Query(max_length=2_000)] = None,
) -> DiffView:
    """Compare two versions of a page, by default the last two. `v`, given twice, stands for `a` and `b`."""
    installation.check_captures(collection)
    canonical = from_user(url)
    if canonical is None:
        raise UsageError(Message("{url!r} is not an http or https URL", url=url[:200]))
    # ISO times in UTC sort like texts.
    chosen = sorted(v or ())
    if chosen and len(chosen) != 2:
        raise UsageError(Message("choose two versions to compare"))
    a, b = chosen or (a, b)
    with installation.lookup(collection) as lookup:
        entry = lookup.find(canonical)
        visits = lookup.visits(entry) if entry is not None else []
        known = versions(visits)
        if entry is None or not known:
            raise StoreError(Message("there is no capture of {url} in {name}", url=canonical, name=collection))
        last = nearest_capture(visits, parse_time(b)) or known[-1]
        before = [each for each in known if each.time_s < last.time_s and each.digest != last.digest]
        first = nearest_capture(visits, parse_time(a)) if a else (before[-1] if before else known[0])
        if first is None:
            raise StoreError(Message("there is no capture of {url} in {name}", url=canonical, name=collection))
        if first.time_s > last.time_s:
            first, last = last, first
        with installation.capture_slots.hold():
            captures = [read_capture(lookup, entry, each) for each in (first, last)]
            for each in captures:
                check_reserved(installation, visitor, collection, each)
            found = compare(installation.capture_reader, *captures)
    older = [each.time_s for each in known if each.time_s < first.time_s]
    newer = [each.time_s for each in known if each.time_s > last.time_s]
    return DiffView(
        url=canonical,
        collection=collection,
        tab=tab,
        a=iso_utc(first.time_s),
        b=iso_utc(last.time_s),
        older=iso_utc(older[-1]) if older else None,
        newer=iso_utc(newer[0]) if newer else None,
        comparison=found,
    )
