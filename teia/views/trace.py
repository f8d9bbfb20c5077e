"""Trace of one URL through the roles of A1, with times: `teia trace`.

The steps are reconstructed from the data of each role on disk: the frontier's row, the fetch log, the page's row and
the links in the archive. A parse child does the work of the three extractors at once, so their steps carry the time at
which the answer was complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from teia.clock import Clock, iso_utc
from teia.crawler.fetch_rows import fetch_log
from teia.crawler.lookup import Lookup, UrlEntry
from teia.crawler.sites.soft404 import soft_404_note
from teia.frontier.cell.schema import BY_FEED, BY_LINK, BY_LIST, BY_REDIRECT, BY_SEED, BY_SIGNAL, BY_SITEMAP
from teia.frontier.tables.pages import PageEntry
from teia.records import AgentRole
from teia.urls import split
from teia.views.links import links_in, targets
from teia.views.page import next_due
from teia.views.why_waiting import why_waiting

_FOUND_BY = {
    BY_SEED: "a seed",
    BY_LINK: "a link",
    BY_REDIRECT: "a redirect",
    BY_SITEMAP: "a sitemap",
    BY_FEED: "a feed",
    BY_SIGNAL: "a signal",
    BY_LIST: "a list",
}
_COLUMNS = (
    "started, ended, kind, attempt, address, outcome, status, bytes, decoded_bytes, rest_s, rested_s, links,"
    " links_in_scope, links_unindexable, media_type, language, text_digest, redirect_to, detail"
)


@dataclass(frozen=True, slots=True)
class TraceStep:
    """Action of one role: its time (null if not recorded), in words, and in values."""

    role: str
    time: str | None
    what: str
    values: dict[str, Any] = field(default_factory=dict)


def trace(lookup: Lookup, entry: UrlEntry, clock: Clock) -> list[TraceStep]:
    """Return the steps of a URL, in the order of a page's life."""
    fetches = _fetches(lookup, entry.url)
    steps = [*_discovery_steps(lookup, entry)]
    for fetch in fetches:
        steps.append(_download_step(fetch))
        # Without a status there was no answer to extract anything from.
        if fetch["status"] is not None:
            steps += _extraction_steps(fetch, entry.page if fetch is fetches[-1] else None)
    if not fetches:
        why = why_waiting(lookup, entry, clock.now_s()) or "fetched by another crawler; the capture was imported"
        steps.append(TraceStep(AgentRole.DOWNLOADER, None, f"not fetched: {why}"))
    last = iso_utc(fetches[-1]["ended"].timestamp()) if fetches else None
    steps.append(_schedule_step(lookup, entry, last, clock))
    if entry.page is not None:
        steps.append(_forwarding_step(lookup, entry, entry.page))
    return steps


def _fetches(lookup: Lookup, url: str) -> list[dict[str, Any]]:
    quoted = url.replace("'", "''")
    sql = f"SELECT {_COLUMNS} FROM fetches WHERE url = '{quoted}' ORDER BY started"  # noqa: S608  # a quoted URL
    with fetch_log(lookup.root, lookup.name) as log:
        rows = log.query(sql)
    return [dict(zip(rows.columns, row, strict=True)) for row in rows.rows]


def _discovery_steps(lookup: Lookup, entry: UrlEntry) -> Iterator[TraceStep]:
    by = [name for bit, name in _FOUND_BY.items() if entry.found_by & bit] or ["an import"]
    pages = links_in(lookup, entry.url)
    where = f", on {pages.urls[0]}" if pages.urls else ""
    more = f" and {len(pages.urls) - 1:,} more pages" if len(pages.urls) > 1 else ""
    found = iso_utc(entry.found_s)
    yield TraceStep(
        AgentRole.FRONTIER,
        found,
        f"found by {' and '.join(by)}{where}{more}; depth {entry.depth}, {entry.in_links:,} incoming links",
        {"found_by": by, "depth": entry.depth, "in_links": entry.in_links, "pages": list(pages.urls[:10])},
    )
    # Links inside the cell are not sent.
    senders = sorted({lookup.cell_number(split(url).host) for url in pages.urls} - {entry.cell})
    sent = f"; linked from cell {', '.join(map(str, senders))}" if senders else ""
    yield TraceStep(
        AgentRole.TAKE, found, f"added to cell {entry.cell}{sent}", {"cell": entry.cell, "from_cells": senders}
    )


def _download_step(fetch: dict[str, Any]) -> TraceStep:
    seconds = (fetch["ended"] - fetch["started"]).total_seconds()
    delay = "first request to its host"
    if fetch["rest_s"] is not None:
        delay = f"required delay {fetch['rest_s']:.2f} s, actual {fetch['rested_s']:.2f} s"
    detail = f" ({fetch['detail']})" if fetch["detail"] else ""
    return TraceStep(
        AgentRole.DOWNLOADER,
        iso_utc(fetch["started"].timestamp()),
        f"attempt {fetch['attempt']}: {fetch['outcome']}{detail} from {fetch['address'] or 'no address'}, "
        f"{fetch['bytes']:,} bytes in {seconds:.3f} s; {delay}",
        {name: fetch[name] for name in ("attempt", "outcome", "status", "address", "bytes", "rest_s", "rested_s")}
        | {"seconds": seconds},
    )


def _extraction_steps(fetch: dict[str, Any], page: PageEntry | None) -> Iterator[TraceStep]:
    """Yield the three extractors' steps of one answer; title and canonical are stored for the last one alone."""
    time = iso_utc(fetch["ended"].timestamp())
    links = {name: fetch[name] or 0 for name in ("links", "links_in_scope", "links_unindexable")}
    leads = f"redirects to {fetch['redirect_to']}" if fetch["redirect_to"] else f"{links['links']:,} links"
    yield TraceStep(AgentRole.LINK_EXTRACTOR, time, f"{leads}, {links['links_in_scope']:,} in scope", links)
    content = {name: fetch[name] for name in ("media_type", "language", "text_digest", "decoded_bytes")}
    text = f", text {content['text_digest'][:12]}…" if content["text_digest"] else ""
    yield TraceStep(
        AgentRole.CONTENT_EXTRACTOR,
        time,
        f"{content['media_type'] or 'no type'}, language {content['language'] or 'unknown'},"
        f" {content['decoded_bytes'] or 0:,} bytes{text}",
        content,
    )
    if page is not None:
        named = f"; canonical URL {page.canonical}" if page.canonical else ""
        title = f"title {page.title!r}" if page.title else "no title"
        yield TraceStep(
            AgentRole.METADATA_EXTRACTOR,
            time,
            f"{title}{named}{'; noindex' if page.noindex else ''}",
            {"title": page.title or None, "canonical": page.canonical or None, "noindex": bool(page.noindex)},
        )


def _schedule_step(lookup: Lookup, entry: UrlEntry, time: str | None, clock: Clock) -> TraceStep:
    page = entry.page
    why = why_waiting(lookup, entry, clock.now_s())
    due = next_due(entry)
    what = f"{entry.state}{f', {entry.outcome}' if entry.outcome else ''}{f': {why}' if why else ''}"
    note = soft_404_note(lookup.cells[entry.cell], entry)
    what += f": {note}" if note else ""
    if page is not None:
        what += f"; visits: {page.visits:,}, changes: {page.changes:,}"
    values = {"state": entry.state, "outcome": entry.outcome or None, "next_due": due, "why_waiting": why}
    # An imported capture has no row in the fetch log.
    imported = iso_utc(page.last_visit_s) if page is not None else None
    return TraceStep(AgentRole.URL_SCHEDULER, time or imported, what, values)


def _forwarding_step(lookup: Lookup, entry: UrlEntry, page: PageEntry) -> TraceStep:
    cells = [lookup.cell_number(split(url).host) for url in targets(lookup.links(entry.cell, page), entry.url)]
    away = [number for number in cells if number != entry.cell]
    others = f", to cell {', '.join(map(str, sorted(set(away))))}" if away else ""
    return TraceStep(
        AgentRole.BULK,
        iso_utc(page.last_visit_s),
        f"{len(away):,} of {len(cells):,} linked pages belong to other cells{others}",
        {"links": len(cells), "other_cells": len(away), "cells": sorted(set(away))},
    )
