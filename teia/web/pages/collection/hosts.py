"""Hosts page: all hosts of a collection, and their problems (C1, C2, A7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from fastapi import Query
from fastapi.responses import PlainTextResponse

from teia.clock import iso_utc
from teia.crawler.keep_fresh.freshness import WEEK_S
from teia.lib.copy_fields import copy_fields
from teia.views.host import host_state
from teia.views.hosts import HostLine, HostTable, count_reasons, host_reasons
from teia.web.access.roles import Role
from teia.web.parts.collection_state import HostShares, all_hosts, by_host
from teia.web.parts.last_requests import last_requests
from teia.web.server.installation import Installation
from teia.web.server.json_routes import API, InstallationDep, PageRoutes, csv_response

PER_PAGE = 50
CSV_ROWS = 100_000
Find = Annotated[str, Query(max_length=255)]
Sort = Literal["waiting", "urls", "pass", "errors", "host"]
State = Literal["", "ready", "resting", "idle", "parked", "slow"]
Reason = Literal["", "paused", "parked", "unanswered", "errors", "left_out", "slow", "retry", "suspect", "resting"]


@dataclass(frozen=True, slots=True)
class HostListRow:
    """One host in the list. `fresh`, `best` and `possible` are None if they are not known, or not yet.

    `best` is the most that can be kept fresh in the long run, `possible` what no polite crawler could exceed now.
    `reasons` are its problems, the worst first.
    """

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
    reasons: list[str]
    possible: float | None


@dataclass(frozen=True, slots=True)
class HostsView:
    """Requested hosts, as counted at `counted`; `next` is the offset of the next page.

    `reasons` counts the hosts with each problem, over all hosts.
    """

    counted: str
    hosts: int
    matched: int
    find: str
    state: str
    reason: str
    reasons: dict[str, int]
    sort: str
    offset: int
    next: int | None
    rows: list[HostListRow]


def add_routes(pages: PageRoutes) -> None:
    pages.page("/c/{collection}/hosts", "hosts.html", Role.VIEWER)(hosts)
    pages.add("GET", "/c/{collection}/hosts.csv", Role.VIEWER, as_csv, response_class=PlainTextResponse)
    pages.add("GET", f"{API}/hosts", Role.VIEWER, hosts_anywhere, response_model=HostsView)


_KEYS: dict[str, Callable[[HostLine], Any]] = {
    "waiting": lambda line: (-line.waiting, -line.urls, line.host),
    "urls": lambda line: (-line.urls, line.host),
    "pass": lambda line: (-line.pass_s, line.host),
    "errors": lambda line: (-line.error_share, -line.errors, line.host),
    "host": lambda line: line.host,
}


def hosts(
    installation: InstallationDep,
    collection: str,
    find: Find = "",
    state: State = "",
    reason: Reason = "",
    sort: Sort = "waiting",
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    n: Annotated[int, Query(ge=1, le=1_000)] = PER_PAGE,
) -> HostsView:
    """List the hosts of a collection: waiting URLs, time of one pass, state."""
    table, now_s = all_hosts(installation, collection), installation.clock.now_s()
    matching = sorted(_filter_hosts(table, find, state, reason, now_s), key=_KEYS[sort])
    shown = matching[offset : offset + n]
    after = offset + len(shown)
    return HostsView(
        counted=iso_utc(table.time_s),
        hosts=len(table.hosts),
        matched=len(matching),
        find=find,
        state=state,
        reason=reason,
        reasons=count_reasons(table.hosts.values(), now_s),
        sort=sort,
        offset=offset,
        next=after if after < len(matching) else None,
        rows=_rows(installation, collection, shown),
    )


def hosts_anywhere(installation: InstallationDep, c: str = "") -> HostsView:
    """List the hosts of a collection; without a name, of the only one."""
    return hosts(installation, installation.named_or_only(c))


def _filter_hosts(table: HostTable, find: str, state: str, reason: str, now_s: float) -> Iterable[HostLine]:
    wanted = find.strip().lower()
    for line in table.hosts.values():
        is_of_state = not state or (line.pass_s > WEEK_S if state == "slow" else host_state(line, now_s) == state)
        if wanted in line.host and is_of_state and (not reason or reason in host_reasons(line, now_s)):
            yield line


def _rows(installation: Installation, collection: str, lines: Iterable[HostLine]) -> list[HostListRow]:
    fresh, now_s = by_host(installation, collection), installation.clock.now_s()
    logged = last_requests(installation, collection)
    return [_row(line, fresh.get(line.host, HostShares()), logged.get(line.host), now_s) for line in lines]


def _row(line: HostLine, fresh: HostShares, logged_s: float | None, now_s: float) -> HostListRow:
    # The ledger has the requests of all collections of the folder.
    last_s = line.last_request_s if logged_s is None else logged_s
    return copy_fields(
        HostListRow,
        line,
        fresh=fresh.fresh,
        best=fresh.best,
        rest_s=round(line.delay_s, 3),
        pass_s=round(line.pass_s, 1),
        is_slow=line.pass_s > WEEK_S,
        error_share=round(line.error_share, 4),
        last_asked=None if last_s is None else iso_utc(last_s),
        state=host_state(line, now_s),
        ready_at=None if line.ready_at_s is None else iso_utc(line.ready_at_s),
        reasons=list(host_reasons(line, now_s)),
        possible=fresh.possible,
    )


def as_csv(
    installation: InstallationDep,
    collection: str,
    find: Find = "",
    state: State = "",
    reason: Reason = "",
    sort: Sort = "waiting",
) -> PlainTextResponse:
    """Return the requested hosts as CSV."""
    found = _filter_hosts(all_hosts(installation, collection), find, state, reason, installation.clock.now_s())
    lines = sorted(found, key=_KEYS[sort])[:CSV_ROWS]
    return csv_response(HostListRow.__slots__, (asdict(row).values() for row in _rows(installation, collection, lines)))
