"""Trace of one URL through the roles of A1, with times: `teia trace`.

Each step is a record that its role left behind: the fetch log has the times of request, answer, extraction and commit;
the frontier's row has the second in which the URL was merged; the cell's own log has its owners, hand-overs and load
states (crawler/agent_log.py). Steps are in causal order, and so are their times. A step names the message of the paper
that it sends, and the node that owned the cell then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from teia.clock import Clock, iso_utc
from teia.crawler.agent_log import AgentEvent, read_events
from teia.crawler.fetch_rows import CACHED, fetch_log
from teia.crawler.lookup import Lookup, UrlEntry
from teia.crawler.sites.soft404 import soft_404_note
from teia.frontier.cell.schema import BY_FEED, BY_LINK, BY_LIST, BY_REDIRECT, BY_SEED, BY_SIGNAL, BY_SITEMAP
from teia.frontier.tables.pages import PageEntry
from teia.records import AgentMessage, AgentRole
from teia.urls import site_of, slot_of, split
from teia.views.links import LinksIn, links_in, targets
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
    "url, started, ended, parsed, committed, kind, attempt, address, outcome, status, bytes, decoded_bytes, rest_s,"
    " rested_s, links, links_in_scope, links_unindexable, media_type, language, text_digest, redirect_to, detail"
)
LINKING_PAGES = 50
"""Linking pages whose visits are searched for the one that brought the URL."""


@dataclass(frozen=True, slots=True)
class TraceStep:
    """Action of one role: its time (null if not recorded), in words, and in values.

    `message` is the message that the role sends with it, `node` the node where it happened; null on one machine.
    """

    role: str
    time: str | None
    what: str
    values: dict[str, Any] = field(default_factory=dict)
    message: str | None = None
    node: str | None = None


Fetch = dict[str, Any]
_Timed = tuple[float | None, TraceStep]


def trace(lookup: Lookup, entry: UrlEntry, clock: Clock) -> list[TraceStep]:
    """Return the steps of a URL, in the order of a page's life."""
    events = read_events(lookup.cells[entry.cell])
    pages = links_in(lookup, entry.url)
    visits = _fetches(lookup, [entry.url, *pages.urls[:LINKING_PAGES]])
    fetches = [visit for visit in visits if visit["url"] == entry.url]
    steps = list(_discovery(lookup, entry, pages, events, visits))
    if not fetches:
        why = why_waiting(lookup, entry, clock.now_s()) or "fetched by another crawler; the capture was imported"
        steps.append((None, TraceStep(AgentRole.DOWNLOADER, None, f"not fetched: {why}")))
    for fetch in fetches:
        steps += _visit(lookup, entry, fetch, is_last=fetch is fetches[-1])
    steps.append(_state(lookup, entry, fetches[-1] if fetches else None, clock))
    return [_on_node(time_s, step, events) for time_s, step in _with_events(steps, events, entry.found_s)]


def _fetches(lookup: Lookup, urls: Sequence[str]) -> list[Fetch]:
    quoted = ", ".join("'" + url.replace("'", "''") + "'" for url in urls)
    sql = f"SELECT {_COLUMNS} FROM fetches WHERE url IN ({quoted}) ORDER BY started"  # noqa: S608  # quoted URLs
    with fetch_log(lookup.root, lookup.name) as log:
        rows = log.query(sql)
    return [dict(zip(rows.columns, row, strict=True)) for row in rows.rows]


# ---- how the URL came to its cell -----------------------------------------------------------------------------------


def _discovery(
    lookup: Lookup, entry: UrlEntry, pages: LinksIn, events: Sequence[AgentEvent], visits: Sequence[Fetch]
) -> Iterator[_Timed]:
    """Yield the way of the URL from the page that brought it to the queue of its host."""
    # The frontier keeps the second alone. A URL is not merged before the page that brought it is committed.
    found_s = entry.found_s
    sender = _sender(entry, visits)
    if sender is not None:
        found_s = max(found_s, _seconds(sender["committed"]) or 0.0)
        yield from _sending(lookup, entry, sender)
    received = [event for event in events if event.role == AgentRole.TAKE and int(event.time_s) == int(entry.found_s)]
    found_s = max([found_s, *(event.time_s for event in received)])
    senders = sorted({lookup.cell_number(split(url).host) for url in pages.urls} - {entry.cell})
    sent = f"; linked from cell {', '.join(map(str, senders))}" if senders else ""
    yield _step(
        AgentRole.TAKE, found_s, f"added to cell {entry.cell}{sent}", {"cell": entry.cell, "from_cells": senders}
    )
    by = [name for bit, name in _FOUND_BY.items() if entry.found_by & bit] or ["an import"]
    where = f", on {pages.urls[0]}" if pages.urls else ""
    more = f" and {len(pages.urls) - 1:,} more pages" if len(pages.urls) > 1 else ""
    yield _step(
        AgentRole.FRONTIER,
        found_s,
        f"queued; found by {' and '.join(by)}{where}{more}; depth {entry.depth}, {entry.in_links:,} incoming links",
        {"found_by": by, "depth": entry.depth, "in_links": entry.in_links, "pages": list(pages.urls[:10])},
        AgentMessage.URL,
    )


def _sender(entry: UrlEntry, visits: Sequence[Fetch]) -> Fetch | None:
    """Return the visit of a linking page that brought the URL: the last one committed until the URL was merged."""
    requests = (_seconds(visit["started"]) or 0.0 for visit in visits if visit["url"] == entry.url)
    until_s = min([entry.found_s + 1, *requests])
    linking = (visit for visit in visits if visit["url"] != entry.url)
    known = [visit for visit in linking if (_seconds(visit["committed"]) or float("inf")) <= until_s]
    return max(known, key=lambda visit: visit["committed"], default=None)


def _sending(lookup: Lookup, entry: UrlEntry, sender: Fetch) -> Iterator[_Timed]:
    """Yield the steps at the cell of the page that brought the URL."""
    url, committed_s, site = sender["url"], _seconds(sender["committed"]), site_of(entry.host)
    cell, slot = lookup.cell_number(split(url).host), slot_of(site)
    owners = read_events(lookup.cells[cell])
    what = f"sent from cell {cell}, with the commit of that page"
    key = {"site": site, "slot": slot, "cell": entry.cell}
    for time_s, step in (
        _step(
            AgentRole.LINK_EXTRACTOR,
            _seconds(sender["parsed"]),
            f"found in {url}",
            {"page": url},
            AgentMessage.BULK,
        ),
        _step(AgentRole.BULK, committed_s, what, {"cell": cell, "page": url}, AgentMessage.PUT),
        _step(
            AgentRole.DISTRIBUTOR,
            committed_s,
            f"{entry.host} is of site {site}, in slot {slot}, of cell {entry.cell}",
            key,
            AgentMessage.KEY,
        ),
    ):
        yield time_s, _on_node(time_s, step, owners)


# ---- one visit ------------------------------------------------------------------------------------------------------


def _visit(lookup: Lookup, entry: UrlEntry, fetch: Fetch, *, is_last: bool) -> Iterator[_Timed]:
    """Yield the steps of one request, its answer, and the commit of its links."""
    yield _download(fetch)
    # Without a status there was no answer to extract anything from.
    if fetch["status"] is None:
        return
    ended_s, seconds = _seconds(fetch["ended"]), (fetch["ended"] - fetch["started"]).total_seconds()
    kb_s = round(fetch["bytes"] / 1000 / max(seconds, 0.001), 3)
    # An answer of a cache says nothing about the server. Where the Analyzer passed the site on, its cell has an event.
    if fetch["kind"] != CACHED:
        yield _step(AgentRole.ANALYZER, ended_s, f"its server sent {kb_s:,.1f} kB/s", {"kb_s": kb_s})
    extractors = (AgentMessage.LINK, AgentMessage.CONTENT, AgentMessage.METADATA)
    what = f"gave the answer to the extractors ({', '.join(extractors)})"
    yield _step(AgentRole.URL_SCHEDULER, ended_s, what, {}, AgentMessage.LINK)
    page = entry.page if is_last else None
    # Rows of older versions lack the time of the extraction; the answer was complete before it.
    yield from _extraction_steps(fetch, page, _seconds(fetch["parsed"]) or ended_s)
    if page is not None:
        yield from _forwarding(lookup, entry, page, _seconds(fetch["committed"]))


def _download(fetch: Fetch) -> _Timed:
    seconds = (fetch["ended"] - fetch["started"]).total_seconds()
    delay = "first request to its host"
    if fetch["rest_s"] is not None:
        delay = f"required delay {fetch['rest_s']:.2f} s, actual {fetch['rested_s']:.2f} s"
    detail = f" ({fetch['detail']})" if fetch["detail"] else ""
    return _step(
        AgentRole.DOWNLOADER,
        _seconds(fetch["started"]),
        f"attempt {fetch['attempt']}: {fetch['outcome']}{detail} from {fetch['address'] or 'no address'}, "
        f"{fetch['bytes']:,} bytes in {seconds:.3f} s; {delay}",
        {name: fetch[name] for name in ("attempt", "outcome", "status", "address", "bytes", "rest_s", "rested_s")}
        | {"seconds": seconds},
        AgentMessage.ANALYZE,
    )


def _extraction_steps(fetch: Fetch, page: PageEntry | None, time_s: float | None) -> Iterator[_Timed]:
    """Yield the three extractors' steps of one answer; title and canonical are stored for the last one alone."""
    links = {name: fetch[name] or 0 for name in ("links", "links_in_scope", "links_unindexable")}
    leads = f"redirects to {fetch['redirect_to']}" if fetch["redirect_to"] else f"{links['links']:,} links"
    what = f"{leads}, {links['links_in_scope']:,} in scope"
    yield _step(AgentRole.LINK_EXTRACTOR, time_s, what, links, AgentMessage.BULK)
    content = {name: fetch[name] for name in ("media_type", "language", "text_digest", "decoded_bytes")}
    text = f", text {content['text_digest'][:12]}…" if content["text_digest"] else ""
    yield _step(
        AgentRole.CONTENT_EXTRACTOR,
        time_s,
        f"{content['media_type'] or 'no type'}, language {content['language'] or 'unknown'},"
        f" {content['decoded_bytes'] or 0:,} bytes{text}",
        content,
    )
    if page is not None:
        named = f"; canonical URL {page.canonical}" if page.canonical else ""
        title = f"title {page.title!r}" if page.title else "no title"
        yield _step(
            AgentRole.METADATA_EXTRACTOR,
            time_s,
            f"{title}{named}{'; noindex' if page.noindex else ''}",
            {"title": page.title or None, "canonical": page.canonical or None, "noindex": bool(page.noindex)},
        )


def _forwarding(lookup: Lookup, entry: UrlEntry, page: PageEntry, time_s: float | None) -> Iterator[_Timed]:
    """Yield the way of the page's links out of its cell, with its commit."""
    cells = [lookup.cell_number(split(url).host) for url in targets(lookup.links(entry.cell, page), entry.url)]
    away = [number for number in cells if number != entry.cell]
    others = sorted(set(away))
    yield _step(
        AgentRole.BULK,
        time_s,
        f"committed; {len(away):,} of {len(cells):,} linked pages belong to other cells",
        {"links": len(cells), "other_cells": len(away)},
        AgentMessage.PUT if away else None,
    )
    if away:
        what = f"links to cell {', '.join(map(str, others))}"
        yield _step(AgentRole.DISTRIBUTOR, time_s, what, {"cells": others}, AgentMessage.KEY)


def _state(lookup: Lookup, entry: UrlEntry, fetch: Fetch | None, clock: Clock) -> _Timed:
    """Return the state of the URL in the frontier, since its last visit was committed."""
    page = entry.page
    why = why_waiting(lookup, entry, clock.now_s())
    what = f"{entry.state}{f', {entry.outcome}' if entry.outcome else ''}{f': {why}' if why else ''}"
    note = soft_404_note(lookup.cells[entry.cell], entry)
    what += f": {note}" if note else ""
    if page is not None:
        what += f"; visits: {page.visits:,}, changes: {page.changes:,}"
    values = {"state": entry.state, "outcome": entry.outcome or None, "next_due": next_due(entry), "why_waiting": why}
    # An imported capture has no row in the fetch log; a row of an older version has no time of its commit.
    time_s = page.last_visit_s if page is not None else None
    if fetch is not None:
        time_s = _seconds(fetch["committed"]) or _seconds(fetch["ended"])
    return _step(AgentRole.FRONTIER, time_s, what, values)


# ---- events of the cell ---------------------------------------------------------------------------------------------


def _with_events(steps: Sequence[_Timed], events: Sequence[AgentEvent], found_s: float) -> list[_Timed]:
    """Merge the events of the cell with the steps of the URL.

    Of the events before the URL was found, the last of each role and node is shown; of those after it, all until its
    last step.
    """
    ends = max((time_s for time_s, _ in steps if time_s is not None), default=found_s)
    first = min((time_s for time_s, _ in steps if time_s is not None), default=found_s)
    before = {(event.role, event.node): event for event in events if event.time_s <= first}
    received = (event for event in events if event.role == AgentRole.TAKE)
    # Of the batches of links that other nodes sent, those count that may have brought the URL.
    taken = {event.number for event in received if int(event.time_s) == int(found_s)}
    later = [
        event
        for event in events
        if first < event.time_s <= ends and (event.role != AgentRole.TAKE or event.number in taken)
    ]
    shown = [event for event in before.values() if event.role != AgentRole.TAKE or event.number in taken] + later
    merged = [*((event.time_s, _event_step(event)) for event in shown)]
    return _merge(merged, steps)


def _merge(events: Iterable[_Timed], steps: Sequence[_Timed]) -> list[_Timed]:
    """Insert events before the first step that is later; steps keep their order."""
    waiting = sorted(events, key=lambda event: event[0] or 0.0)
    merged: list[_Timed] = []
    for time_s, step in steps:
        while waiting and time_s is not None and (waiting[0][0] or 0.0) <= time_s:
            merged.append(waiting.pop(0))
        merged.append((time_s, step))
    return [*merged, *waiting]


def _event_step(event: AgentEvent) -> TraceStep:
    return TraceStep(event.role, iso_utc(event.time_s), event.what, event.values, event.message, event.node or None)


def _on_node(time_s: float | None, step: TraceStep, events: Sequence[AgentEvent]) -> TraceStep:
    """Return a step with the node that owned the cell at its time, if the cell's log knows it."""
    if step.node is not None or time_s is None:
        return step
    owners = (event for event in reversed(events) if event.role == AgentRole.DISTRIBUTOR and event.time_s <= time_s)
    owner = next(owners, None)
    return step if owner is None else replace(step, node=owner.node or None)


def _step(
    role: AgentRole,
    time_s: float | None,
    what: str,
    values: dict[str, Any] | None = None,
    message: AgentMessage | None = None,
) -> _Timed:
    return time_s, TraceStep(role, None if time_s is None else iso_utc(time_s), what, values or {}, message)


def _seconds(time: Any) -> float | None:  # Any: a datetime of the log, or nothing
    return None if time is None else float(time.timestamp())
