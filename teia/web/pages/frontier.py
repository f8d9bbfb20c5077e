"""Frontier explorer: what comes next, and what waits for what (A6, C1)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from fastapi import Query

from teia.clock import iso_utc
from teia.crawl.coming import HOSTS_LOOKED_AT, MATCHED_AMONG, Coming, Filter, coming
from teia.crawl.hosttable import Whys, whys_of
from teia.web.pages.bulk import DeedRow, deeds_of
from teia.web.pages.monitor import table_of
from teia.web.roles import Role
from teia.web.site import Site
from teia.web.twins import OfSite, Pages

PER_PAGE = 50
MAX_SHOWN = 1_000
Source = Literal["", "new", "retry", "refresh", "suspect"]


@dataclass(frozen=True, slots=True)
class ComingRow:
    """A URL that waits. `expected` assumes that nothing new is found; `ahead` are URLs of its host that come before."""

    expected: str
    host: str
    url: str
    source: str
    why: str
    ahead: int
    since: str
    depth: int
    failures: int


@dataclass(frozen=True, slots=True)
class FrontierView:
    """How many URLs wait and for what, as counted then; and the first of them in the order they would be taken in.

    Only so many hosts and so many URLs of each are looked at; `is_bounded` says that there may be more. `deeds` are the
    last ones on many URLs at once.
    """

    counted: str
    order: str
    whys: Whys
    host: str
    contains: str
    source: str
    depth: int | None
    offset: int
    next: int | None
    is_bounded: bool
    hosts_looked_at: int
    urls_looked_at: int
    rows: list[ComingRow]
    deeds: list[DeedRow]


def add_to(pages: Pages) -> None:
    pages.page("/c/{collection}/frontier", "frontier.html", Role.VIEWER)(frontier)


def frontier(
    site: OfSite,
    collection: str,
    host: Annotated[str, Query(max_length=255)] = "",
    contains: Annotated[str, Query(max_length=500)] = "",
    source: Source = "",
    depth: Annotated[str, Query(max_length=4, pattern=r"^[0-9]{0,4}$")] = "",
    offset: Annotated[int, Query(ge=0, le=MAX_SHOWN)] = 0,
    n: Annotated[int, Query(ge=1, le=200)] = PER_PAGE,
) -> FrontierView:
    """What waits, and the first URLs in the order in which they would be taken."""
    config = site.config(collection)
    table = table_of(site, collection)
    assert table is not None
    only = Filter(host.strip().lower(), contains, source, int(depth) if depth else None)
    now_s = site.clock.now_s()
    with site.lookup(collection) as lookup:
        found = coming(lookup, table, config, now_s, offset + n + 1, only)
    shown, has_more = found[offset : offset + n], len(found) > offset + n and offset + n < MAX_SHOWN
    waiting = sum(line.waits.any for line in table.hosts.values())
    return FrontierView(
        counted=iso_utc(table.time_s),
        order=config.collection.order,
        whys=whys_of(table),
        host=only.host,
        contains=contains,
        source=source,
        depth=only.depth,
        offset=offset,
        next=offset + n if has_more else None,
        is_bounded=only.is_picky or (waiting > HOSTS_LOOKED_AT and not only.host),
        hosts_looked_at=HOSTS_LOOKED_AT,
        urls_looked_at=MATCHED_AMONG,
        rows=[_row(each, now_s) for each in shown],
        deeds=deeds_of(site, collection),
    )


def _row(each: Coming, now_s: float) -> ComingRow:
    return ComingRow(
        expected=iso_utc(each.expected_s),
        host=each.host,
        url=each.url,
        source=each.source,
        why=_why(each, now_s),
        ahead=each.ahead,
        since=iso_utc(each.since_s),
        depth=each.depth,
        failures=each.failures,
    )


def _why(each: Coming, now_s: float) -> str:
    """What a URL waits for: `behind` others of its host, `failed` before, `resting` …; `next` waits for nothing."""
    if each.source == "retry" and each.since_s > now_s:
        return "failed"
    if each.source == "suspect":
        return "suspect"
    if each.source == "refresh" and each.since_s > now_s:
        return "not_due"
    if each.ahead:
        return "behind"
    return "resting" if each.expected_s > now_s else "next"


def counts(site: Site, collection: str) -> dict[str, Any]:
    """What changes by itself: how many wait for what."""
    table = table_of(site, collection)
    assert table is not None
    return {"counted": iso_utc(table.time_s), "whys": asdict(whys_of(table))}
