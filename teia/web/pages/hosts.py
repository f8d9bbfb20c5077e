"""Hosts and one host: can it be done? (C1, C2, A7)"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Query
from fastapi.responses import PlainTextResponse

from teia.clock import iso_utc
from teia.crawl.feasibility import Feasibility, feasibility_of
from teia.crawl.hosttable import HostLine, HostTable
from teia.crawl.hostview import RHYTHM_S, HostView, Possible, host_view, line_of, standing_at, state_of
from teia.crawl.standing import WEEK_S
from teia.errors import StoreError
from teia.web.pages.freshness import by_host
from teia.web.pages.monitor import table_of
from teia.web.roles import Role
from teia.web.site import Site
from teia.web.twins import API, OfSite, Pages

PER_PAGE = 50
STANDING_S, STANDING_PATIENCE_S = 60.0, 0.1
CSV_ROWS = 100_000
Sort = Literal["waiting", "urls", "pass", "errors", "host"]
State = Literal["", "ready", "resting", "idle", "parked", "slow"]


@dataclass(frozen=True, slots=True)
class HostRow:
    """One host in the list. `fresh` and `best` are None where they are not known, or not yet."""

    host: str
    urls: int
    visited: int
    waiting: int
    fresh: float | None
    best: float | None
    rest_s: float
    pass_s: float
    is_slow: bool
    error_share: float
    last_asked: str | None
    state: str
    ready_at: str | None
    parked: str


@dataclass(frozen=True, slots=True)
class HostsView:
    """The hosts that were asked for, as they stood at `counted`; `next` is where the following page begins."""

    counted: str
    hosts: int
    matched: int
    find: str
    state: str
    sort: str
    offset: int
    next: int | None
    rows: list[HostRow]


@dataclass(frozen=True, slots=True)
class HostPage:
    """One host at a time, and how fresh it is and could be: as it is treated now, and as was asked."""

    time: str
    about: HostView
    now: Feasibility
    is_asked: bool
    possible: Possible | None
    possible_asked: Possible | None

    def ticks(self) -> list[tuple[float, str]]:
        """The rhythm for a chart: when, and how it looks."""
        return [(_unix(each.time), "early" if each.is_early else "s1") for each in self.about.rhythm]

    def quarter(self) -> tuple[float, float]:
        """The time that the rhythm is of."""
        return _unix(self.time) - RHYTHM_S, _unix(self.time)


def _unix(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def add_to(pages: Pages) -> None:
    pages.page("/c/{collection}/hosts", "hosts.html", Role.VIEWER)(hosts)
    pages.add("GET", "/c/{collection}/hosts.csv", Role.VIEWER, as_csv, response_class=PlainTextResponse)
    pages.page("/c/{collection}/hosts/{host}", "host.html", Role.VIEWER)(host_page)
    pages.add("GET", API + "/c/{collection}/hosts/{host}/feasibility", Role.VIEWER, feasibility)
    pages.add("GET", f"{API}/hosts", Role.VIEWER, hosts_anywhere, response_model=HostsView)


_KEYS: dict[str, Callable[[HostLine], Any]] = {
    "waiting": lambda line: (-line.waiting, -line.urls, line.host),
    "urls": lambda line: (-line.urls, line.host),
    "pass": lambda line: (-line.pass_s, line.host),
    "errors": lambda line: (-_error_share(line), -line.failed, line.host),
    "host": lambda line: line.host,
}


def hosts(
    site: OfSite,
    collection: str,
    find: Annotated[str, Query(max_length=255)] = "",
    state: State = "",
    sort: Sort = "waiting",
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    n: Annotated[int, Query(ge=1, le=1_000)] = PER_PAGE,
) -> HostsView:
    """The hosts of a collection: what waits, how long one pass takes, how they stand."""
    table = _table(site, collection)
    chosen = sorted(_chosen(table, find, state, site.clock.now_s()), key=_KEYS[sort])
    shown = chosen[offset : offset + n]
    after = offset + len(shown)
    return HostsView(
        counted=iso_utc(table.time_s),
        hosts=len(table.hosts),
        matched=len(chosen),
        find=find,
        state=state,
        sort=sort,
        offset=offset,
        next=after if after < len(chosen) else None,
        rows=_rows(site, collection, shown),
    )


def hosts_anywhere(site: OfSite, c: str = "") -> HostsView:
    """The hosts of a collection; without a name, of the only one."""
    names = site.names()
    if not c and len(names) != 1:
        raise StoreError(f"say which collection: c={'|'.join(names) or '(there is none yet)'}")
    return hosts(site, c or names[0])


def _table(site: Site, collection: str) -> HostTable:
    site.check(collection)
    table = table_of(site, collection)
    assert table is not None
    return table


def _chosen(table: HostTable, find: str, state: str, now_s: float) -> Iterable[HostLine]:
    wanted = find.strip().lower()
    for line in table.hosts.values():
        is_of_state = not state or (line.pass_s > WEEK_S if state == "slow" else state_of(line, now_s) == state)
        if wanted in line.host and is_of_state:
            yield line


def _rows(site: Site, collection: str, lines: Iterable[HostLine]) -> list[HostRow]:
    fresh, now_s = by_host(site, collection), site.clock.now_s()
    return [_row(line, fresh.get(line.host, (None, None)), now_s) for line in lines]


def _row(line: HostLine, fresh: tuple[float | None, float | None], now_s: float) -> HostRow:
    return HostRow(
        host=line.host,
        urls=line.urls,
        visited=line.visited,
        waiting=line.waiting,
        fresh=fresh[0],
        best=fresh[1],
        rest_s=round(line.rest_s, 3),
        pass_s=round(line.pass_s, 1),
        is_slow=line.pass_s > WEEK_S,
        error_share=round(_error_share(line), 4),
        last_asked=None if line.last_asked_s is None else iso_utc(line.last_asked_s),
        state=state_of(line, now_s),
        ready_at=None if line.ready_at_s is None else iso_utc(line.ready_at_s),
        parked=line.parked,
    )


def _error_share(line: HostLine) -> float:
    settled = line.visited + line.failed
    return line.failed / settled if settled else 0.0


def as_csv(site: OfSite, collection: str) -> PlainTextResponse:
    """The hosts as comma-separated values, those with the most waiting first."""
    lines = sorted(_table(site, collection).hosts.values(), key=_KEYS["waiting"])[:CSV_ROWS]
    out = io.StringIO()
    writer = csv.DictWriter(out, HostRow.__slots__, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in _rows(site, collection, lines))
    return PlainTextResponse(out.getvalue(), media_type="text/csv", headers={"content-disposition": "attachment"})


# ---- one host -------------------------------------------------------------------------------------------------------

Delay = Annotated[float | None, Query(ge=0, le=86_400)]
HowMany = Annotated[int | None, Query(ge=1, le=10**9)]


def host_page(site: OfSite, collection: str, host: str, delay_s: Delay = None, pages: HowMany = None) -> HostPage:
    """One host: how it is treated and answers, and how long one pass takes, at this delay or another."""
    table = _table(site, collection)
    line = line_of(table, host)
    with site.lookup(collection) as lookup:
        about = host_view(lookup, table, line.host, site.clock.now_s(), delay_s, pages)
    is_asked = delay_s is not None or pages is not None
    asked_slot_s = about.feasibility.delay_s + about.feasibility.response_s
    return HostPage(
        time=iso_utc(site.clock.now_s()),
        about=about,
        now=feasibility_of(line),
        is_asked=is_asked,
        possible=_possible(site, collection, line, line.slot_s),
        possible_asked=_possible(site, collection, line, asked_slot_s) if is_asked else None,
    )


def _possible(site: Site, collection: str, line: HostLine, slot_s: float) -> Possible | None:
    def make() -> Possible:
        return standing_at(site.root, collection, line, slot_s, site.clock.now_s())

    key = ("standing", collection, line.host, round(slot_s, 3))
    found = site.kept.peek(key, make, STANDING_S, STANDING_PATIENCE_S)
    return None if found is None else found.value


def feasibility(site: OfSite, collection: str, host: str, delay_s: Delay = None, pages: HowMany = None) -> Feasibility:
    """How long one pass over a host takes, at this delay or another, over all its pages or some."""
    return feasibility_of(line_of(_table(site, collection), host), delay_s, pages)


def live_host(site: Site, collection: str, host: str) -> dict[str, Any]:
    """What changes of a host from second to second."""
    table = _table(site, collection)
    with site.lookup(collection) as lookup:
        about = host_view(lookup, table, line_of(table, host).host, site.clock.now_s(), None, None)
    wanted = ("state", "ready_at", "last_asked", "requests_seen", "waiting", "early", "rest_s", "response_s")
    return {name: getattr(about, name) for name in wanted}
