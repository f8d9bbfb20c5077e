"""Frontier explorer: what comes next, and what waits for what (A6, C1)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Query
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from teia.clock import Clock, iso_utc
from teia.crawl.agenda import preview_of
from teia.crawl.coming import HOSTS_LOOKED_AT, MATCHED_AMONG, Coming, Filter, coming, time_or_never
from teia.crawl.hosttable import HostTable, Whys, host_table, whys_of
from teia.crawl.lookup import Lookup
from teia.crawl.queued import Waiting, waiting_urls
from teia.errors import TeiaError
from teia.web import limits
from teia.web.gate import Refused
from teia.web.pages.bulk import DeedRow, deeds_of
from teia.web.pages.monitor import table_of
from teia.web.roles import Role
from teia.web.site import Site
from teia.web.twins import OfSite, Pages

PER_PAGE = 50
MAX_SHOWN = 1_000
"""Also those that are put into another order: the first ones in the order of the crawler."""

Source = Literal["", "new", "retry", "refresh", "suspect"]
Sort = Literal["", "waiting", "weight", "depth", "host"]
Why = Literal["", "next", "resting", "behind", "retry", "suspect", "parked", "not_due"]
Host = Annotated[str, Query(max_length=255)]
Text = Annotated[str, Query(max_length=500)]
Depth = Annotated[str, Query(max_length=4, pattern=r"^[0-9]{0,4}$")]


@dataclass(frozen=True, slots=True)
class ComingRow:
    """A URL that waits. `expected` assumes that nothing new is found; `ahead` are URLs of its host that come before.

    `expected` is null where its host is left alone, `weight` where it is not known yet.
    """

    expected: str | None
    host: str
    url: str
    source: str
    why: str
    ahead: int
    since: str | None
    depth: int
    failures: int
    weight: float | None


@dataclass(frozen=True, slots=True)
class FrontierView:
    """How many URLs wait and for what, as counted then; and the first of them in the order they would be taken in.

    Only so many hosts and so many URLs of each are looked at; `is_bounded` says that there may be more. With `sort`,
    the first `sorted_among` of them are in another order: longest waiting, heaviest, nearest to the seeds, by host
    (`waiting`, `weight`, `depth`, `host`). `weights` is
    what makes a page important here. `deeds` are the last ones on many URLs at once. `next_run` is when the schedule
    begins the next run, if there is one.
    """

    counted: str
    order: str
    weights: str
    whys: Whys
    why: str
    host: str
    contains: str
    source: str
    depth: int | None
    sort: str
    sorted_among: int
    offset: int
    next: int | None
    is_bounded: bool
    hosts_looked_at: int
    urls_looked_at: int
    rows: list[ComingRow]
    deeds: list[DeedRow]
    next_run: str | None


def add_to(pages: Pages) -> None:
    pages.page("/c/{collection}/frontier", "frontier.html", Role.VIEWER)(frontier)
    pages.add("GET", "/c/{collection}/frontier.jsonl", Role.VIEWER, as_lines, response_class=StreamingResponse)


def frontier(
    site: OfSite,
    collection: str,
    why: Why = "",
    host: Host = "",
    contains: Text = "",
    source: Source = "",
    depth: Depth = "",
    sort: Sort = "",
    offset: Annotated[int, Query(ge=0, le=MAX_SHOWN)] = 0,
    n: Annotated[int, Query(ge=1, le=200)] = PER_PAGE,
) -> FrontierView:
    """What waits, and the first URLs in the order in which they would be taken."""
    config = site.config(collection)
    table = table_of(site, collection)
    assert table is not None
    only = Filter(host.strip().lower(), contains, source, int(depth) if depth else None, why)
    now_s = site.clock.now_s()
    with site.lookup(collection) as lookup:
        found = coming(lookup, table, config, now_s, MAX_SHOWN if sort else offset + n + 1, only)
        weighed = partial(_weights, site, collection, lookup, table)
        rows = _sorted(found, sort, weighed) if sort else found
        shown, has_more = rows[offset : offset + n], len(rows) > offset + n and offset + n < MAX_SHOWN
        weights = weighed(shown)
    waiting = sum(line.waits.any for line in table.hosts.values())
    return FrontierView(
        counted=iso_utc(table.time_s),
        order=config.collection.order,
        weights=config.refresh.weights,
        whys=whys_of(table),
        why=why,
        host=only.host,
        contains=contains,
        source=source,
        depth=only.depth,
        sort=sort,
        sorted_among=MAX_SHOWN,
        offset=offset,
        next=offset + n if has_more else None,
        is_bounded=only.is_picky or (waiting > HOSTS_LOOKED_AT and not only.host),
        hosts_looked_at=HOSTS_LOOKED_AT,
        urls_looked_at=MATCHED_AMONG,
        rows=[_row(*each) for each in zip(shown, weights, strict=True)],
        deeds=deeds_of(site, collection),
        next_run=next(iter(preview_of(config.schedule, now_s, 1).starts), None),
    )


def _weights(
    site: Site, collection: str, lookup: Lookup, table: HostTable, rows: Sequence[Coming]
) -> Sequence[float | None]:
    lines = [table.hosts[each.host] for each in rows]
    known = [lookup.links_to(each.url, line.cell, line.host_id) for each, line in zip(rows, lines, strict=True)]
    return site.weights(collection, known)


def _sorted(
    found: Sequence[Coming], sort: Sort, weighed: Callable[[Sequence[Coming]], Sequence[float | None]]
) -> Sequence[Coming]:
    """In another order; those that are alike in it stay in that of the crawler."""
    if sort == "weight":
        pairs = zip(weighed(found), found, strict=True)
        return [each for _, each in sorted(pairs, key=lambda pair: -(pair[0] or 0.0))]
    return sorted(found, key=_KEYS[sort])


_KEYS: dict[str, Callable[[Coming], Any]] = {
    "waiting": lambda each: each.since_s,
    "depth": lambda each: each.depth,
    "host": lambda each: each.host,
}


def _row(each: Coming, weight: float | None) -> ComingRow:
    return ComingRow(
        expected=time_or_never(each.expected_s),
        host=each.host,
        url=each.url,
        source=each.source,
        why=each.why,
        ahead=each.ahead,
        since=time_or_never(each.since_s),
        depth=each.depth,
        failures=each.failures,
        weight=None if weight is None else round(weight, 4),
    )


# ---- all of them ----------------------------------------------------------------------------------------------------


def as_lines(
    site: OfSite,
    collection: str,
    why: Why = "",
    host: Host = "",
    contains: Text = "",
    source: Source = "",
    depth: Depth = "",
) -> StreamingResponse:
    """All URLs that wait, or those of a filter: one JSON object a line."""
    only = Filter(host.strip().lower(), contains, source, int(depth) if depth else None, why)
    with site.lookup(collection):
        pass  # or there is none
    if not site.exports.acquire(blocking=False):
        raise Refused(429, f"{limits.EXPORTS_AT_ONCE} exports are being made", "try again when one has ended")
    lines = _lines(site, collection, only)
    next(lines)  # from here on it gives its turn back, however it ends
    head = {"content-disposition": f'attachment; filename="{collection}-frontier.jsonl"'}
    return Export(lines, head)


class Export(StreamingResponse):
    """Lines for somebody who may read them slowly, or not at all: after a while they are cut off."""

    def __init__(self, lines: Generator[str, None, None], headers: Mapping[str, str]) -> None:
        super().__init__(lines, media_type="application/jsonl", headers=headers)
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(limits.EXPORT_S + limits.EXPORT_GRACE_S):
                    await super().__call__(scope, receive, send)
        finally:
            with suppress(ValueError):  # a thread is still in them; they are closed when it lets go of them
                self._lines.close()


def _lines(site: Site, collection: str, only: Filter) -> Generator[str, None, None]:
    """An empty text once everything is at hand, then the lines of an export; it has a turn, and gives it back."""
    try:
        until, now_s = site.clock.ticks_s() + limits.EXPORT_S, site.clock.now_s()
        table, config = host_table(site.root, collection, now_s), site.config(collection)
        site.weigher(collection, limits.EXPORT_S)  # waited for, once
        opened, weigh = partial(site.lookup, collection), partial(site.weights, collection)
        yield ""
        yield from _written(waiting_urls(opened, table, config, only, now_s, weigh), site.clock, until)
    finally:
        site.exports.release()


def _written(found: Iterable[Sequence[Waiting]], clock: Clock, until: float) -> Generator[str, None, None]:
    """URLs as lines. Where they had to be cut, or something fails on the way, the last line says so."""
    try:
        for some in found:
            yield "".join(json.dumps(asdict(each), ensure_ascii=False) + "\n" for each in some)
            if clock.ticks_s() > until:
                said = f"stopped after {limits.EXPORT_S:g} s; there is more"
                yield json.dumps({"error": "too_long", "message": said, "next": "ask for one host or reason"}) + "\n"
                return
    except TeiaError as error:
        yield json.dumps({"error": "interrupted", "message": str(error), "next": "try again"}) + "\n"


def counts(site: Site, collection: str) -> dict[str, Any]:
    """What changes by itself: how many wait for what."""
    table = table_of(site, collection)
    assert table is not None
    return {"counted": iso_utc(table.time_s), "whys": asdict(whys_of(table))}
