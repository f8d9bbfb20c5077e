"""Queue page: the next fetches, and the reasons why URLs wait (A6, C1)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Depends, Query
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from teia.clock import Clock, iso_utc
from teia.collections.overview import preview_schedule
from teia.crawler.lookup import Lookup
from teia.errors import TeiaError
from teia.lib.copy_fields import copy_fields
from teia.lib.message import Message
from teia.views.hosts import HostTable, WaitReasons, count_wait_reasons, host_table
from teia.views.queue import (
    MAX_HOSTS_SCANNED,
    MAX_URLS_SCANNED,
    QueueFilter,
    QueuePreview,
    WaitingUrl,
    preview_queue,
    time_or_never,
    waiting_urls,
)
from teia.web import limits
from teia.web.access.roles import Role
from teia.web.parts.bulk_actions import BulkActionRow, latest_actions
from teia.web.parts.collection_state import account_of, table_of
from teia.web.server.auth import Refused
from teia.web.server.installation import Installation
from teia.web.server.json_routes import InstallationDep, PageRoutes

PER_PAGE = 50
MAX_SHOWN = 1_000
"""Most rows shown; also the number of first rows, in crawl order, that `sort` reorders."""

Source = Literal["", "new", "retry", "refresh", "suspect"]
Sort = Literal["", "waiting", "weight", "depth", "host"]
Why = Literal["", "next", "resting", "behind", "retry", "suspect", "parked", "not_due"]


def queue_filter(
    why: Why = "",
    host: Annotated[str, Query(max_length=255)] = "",
    contains: Annotated[str, Query(max_length=500)] = "",
    source: Source = "",
    depth: Annotated[str, Query(max_length=4, pattern=r"^[0-9]{0,4}$")] = "",
) -> QueueFilter:
    return QueueFilter(host.strip().lower(), contains, source, int(depth) if depth else None, why)


FilterDep = Annotated[QueueFilter, Depends(queue_filter)]


@dataclass(frozen=True, slots=True)
class QueuePreviewRow:
    """A waiting URL.

    `expected` assumes that no new URLs are found; `ahead` counts the URLs of its host that come before. `expected` is
    null if the host is left alone, `weight` if it is not known yet.
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
    """Queued URLs now, counts of waiting URLs by reason at `counted`, and the first URLs in crawl order.

    Only a limited number of hosts, and of URLs of each, is examined; `is_bounded` tells that there may be more. With
    `sort`, the first `sorted_among` are in another order: longest waiting, heaviest, nearest to the seeds, or by host
    (`waiting`, `weight`, `depth`, `host`). `weights` is the source of page weights. `deeds` are the last bulk actions.
    `next_run` is the next scheduled start, if there is one.
    """

    urls_queued: int
    counted: str
    order: str
    weights: str
    whys: WaitReasons
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
    rows: list[QueuePreviewRow]
    deeds: list[BulkActionRow]
    next_run: str | None


def add_routes(pages: PageRoutes) -> None:
    pages.page("/c/{collection}/frontier", "frontier.html", Role.VIEWER)(frontier)
    pages.add("GET", "/c/{collection}/frontier.jsonl", Role.VIEWER, as_lines, response_class=StreamingResponse)


def frontier(
    installation: InstallationDep,
    collection: str,
    only: FilterDep,
    sort: Sort = "",
    offset: Annotated[int, Query(ge=0, le=MAX_SHOWN)] = 0,
    n: Annotated[int, Query(ge=1, le=200)] = PER_PAGE,
) -> FrontierView:
    """List the waiting URLs, the first ones in crawl order."""
    config = installation.config(collection)
    urls_queued = account_of(installation, collection)[0]["urls_queued"]
    table = table_of(installation, collection)
    assert table is not None
    now_s = installation.clock.now_s()
    with installation.lookup(collection) as lookup:
        # One row more than shown tells whether there is another page.
        found = preview_queue(lookup, table, config, now_s, MAX_SHOWN if sort else offset + n + 1, only)
        weigh_rows = partial(_weights, installation, collection, lookup, table)
        rows = _sorted(found, sort, weigh_rows) if sort else found
        shown, has_more = rows[offset : offset + n], len(rows) > offset + n and offset + n < MAX_SHOWN
        weights = weigh_rows(shown)
    waiting = sum(line.waits.any for line in table.hosts.values())
    return FrontierView(
        urls_queued=urls_queued,
        counted=iso_utc(table.time_s),
        order=config.collection.order,
        weights=config.refresh.weights,
        whys=count_wait_reasons(table),
        **asdict(only),
        sort=sort,
        sorted_among=MAX_SHOWN,
        offset=offset,
        next=offset + n if has_more else None,
        is_bounded=only.needs_scan or (waiting > MAX_HOSTS_SCANNED and not only.host),
        hosts_looked_at=MAX_HOSTS_SCANNED,
        urls_looked_at=MAX_URLS_SCANNED,
        rows=[_row(*each) for each in zip(shown, weights, strict=True)],
        deeds=latest_actions(installation, collection),
        next_run=next(iter(preview_schedule(config.schedule, now_s, 1).starts), None),
    )


def _weights(
    installation: Installation, collection: str, lookup: Lookup, table: HostTable, rows: Sequence[QueuePreview]
) -> Sequence[float | None]:
    lines = [table.hosts[each.host] for each in rows]
    known = [lookup.links_to(each.url, line.cell, line.host_id) for each, line in zip(rows, lines, strict=True)]
    return installation.weights(collection, known)


def _sorted(
    found: Sequence[QueuePreview], sort: Sort, weigh_rows: Callable[[Sequence[QueuePreview]], Sequence[float | None]]
) -> Sequence[QueuePreview]:
    """Sort rows by another key; equal ones stay in crawl order."""
    if sort == "weight":
        pairs = zip(weigh_rows(found), found, strict=True)
        return [each for _, each in sorted(pairs, key=lambda pair: -(pair[0] or 0.0))]
    return sorted(found, key=_KEYS[sort])


_KEYS: dict[str, Callable[[QueuePreview], Any]] = {
    "waiting": lambda each: each.since_s,
    "depth": lambda each: each.depth,
    "host": lambda each: each.host,
}


def _row(each: QueuePreview, weight: float | None) -> QueuePreviewRow:
    return copy_fields(
        QueuePreviewRow,
        each,
        expected=time_or_never(each.expected_s),
        since=time_or_never(each.since_s),
        weight=None if weight is None else round(weight, 4),
    )


# ---- export -------------------------------------------------------------------------------------------------------


def as_lines(installation: InstallationDep, collection: str, only: FilterDep) -> StreamingResponse:
    """Export all waiting URLs, or those of a filter: one JSON object per line."""
    with installation.lookup(collection):
        pass  # raises an error if the collection has no data
    if not installation.export_slots.acquire(blocking=False):
        raise Refused(
            429,
            Message("{n} exports are already running", n=limits.EXPORTS_AT_ONCE),
            Message("try again when one has finished"),
        )
    lines = _lines(installation, collection, only)
    next(lines)  # starts the generator, so that its `finally` releases the semaphore in any case
    head = {"content-disposition": f'attachment; filename="{collection}-frontier.jsonl"'}
    return ExportResponse(lines, head)


class ExportResponse(StreamingResponse):
    """Streaming response for a client that may read slowly or not at all: after a timeout it is cut off."""

    def __init__(self, lines: Generator[str, None, None], headers: Mapping[str, str]) -> None:
        super().__init__(lines, media_type="application/jsonl", headers=headers)
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(limits.EXPORT_S + limits.EXPORT_GRACE_S):
                    await super().__call__(scope, receive, send)
        finally:
            # ValueError: a thread still runs the generator, which is closed when that thread releases it.
            with suppress(ValueError):
                self._lines.close()


def _lines(installation: Installation, collection: str, only: QueueFilter) -> Generator[str, None, None]:
    """Yield an empty text once everything is loaded, then the lines of an export; release the semaphore at the end."""
    try:
        until, now_s = installation.clock.ticks_s() + limits.EXPORT_S, installation.clock.now_s()
        table, config = host_table(installation.root, collection, now_s), installation.config(collection)
        installation.weigher(collection, limits.EXPORT_S)  # wait for it once
        opened, weigh = partial(installation.lookup, collection), partial(installation.weights, collection)
        yield ""
        yield from _export_lines(waiting_urls(opened, table, config, only, now_s, weigh), installation.clock, until)
    finally:
        installation.export_slots.release()


def _export_lines(found: Iterable[Sequence[WaitingUrl]], clock: Clock, until: float) -> Generator[str, None, None]:
    """Yield URLs as lines. If the export was cut or failed, the last line tells so."""
    try:
        for some in found:
            yield "".join(json.dumps(asdict(each), ensure_ascii=False) + "\n" for each in some)
            if clock.ticks_s() > until:
                message = f"stopped after {limits.EXPORT_S:g} s; the export is incomplete"
                yield json.dumps({"error": "too_long", "message": message, "next": "select one host or reason"}) + "\n"
                return
    except TeiaError as error:
        yield json.dumps({"error": "interrupted", "message": error.message, "next": Message("try again")}) + "\n"


def live_queue(installation: Installation, collection: str) -> dict[str, Any]:
    """Return the live part of the page: counts of waiting URLs by reason."""
    table = table_of(installation, collection)
    assert table is not None
    queued = account_of(installation, collection)[0]["urls_queued"]
    return {"urls_queued": queued, "counted": iso_utc(table.time_s), "whys": asdict(count_wait_reasons(table))}
