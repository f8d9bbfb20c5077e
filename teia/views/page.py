"""View of one page: the keys of `teia page --json`, and of its page in the web interface."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from teia.clock import Clock, iso_utc
from teia.config.sections import Config
from teia.crawler.keep_fresh.page_freshness import freshness_of
from teia.crawler.lookup import Lookup, UrlEntry, main_url, why_alias
from teia.crawler.sites.soft404 import soft_404_note
from teia.errors import StoreError
from teia.frontier.cell.schema import LANE_DUE, LANE_REFRESH
from teia.urls import from_user, split
from teia.views.links import links_in, targets
from teia.views.page_signals import PageSignal, page_signals
from teia.views.why_waiting import why_unknown, why_waiting

SUGGESTIONS = 3
LOOKED_AT = 2_000
"""Most URLs of a host, or names of hosts in a cell, that are searched for similar ones."""


@dataclass(frozen=True, slots=True)
class Version:
    """One visit. `changed` compares its text with that of the visit before; null where there is none."""

    time: str
    outcome: str
    digest: str | None
    changed: bool | None


@dataclass(frozen=True, slots=True)
class PageView:
    """One page. Its change rate, and the probability that our capture is fresh, are null until it was visited twice."""

    url: str
    canonical: str
    state: str
    outcome: str | None
    depth: int
    in_links: int
    title: str | None
    lang: str | None
    type: str | None
    digest: str | None
    versions: tuple[Version, ...]
    links_out: tuple[str, ...]
    links_in: tuple[str, ...]
    rate_per_day: float | None
    next_due: str | None
    fresh_probability: float | None
    why_waiting: str | None
    note: str = ""
    signals: tuple[PageSignal, ...] = ()


def page_view(lookup: Lookup, url: str, config: Config, clock: Clock) -> PageView:
    """Look a page up by its URL as a user typed it; StoreError with the nearest ones if it is not known."""
    entry = entry_of(lookup, url, config)
    page = entry.page
    outward = lookup.links(entry.cell, page) if page is not None else ()
    now_s = clock.now_s()
    fresh = freshness_of(lookup.cells[entry.cell], entry.host, entry.host_id, entry.key, now_s)
    inward = links_in(lookup, entry.url)
    return PageView(
        url=entry.url,
        canonical=page.canonical if page is not None and page.canonical else entry.url,
        state=entry.state,
        outcome=entry.outcome or None,
        depth=entry.depth,
        in_links=entry.in_links,
        title=page.title or None if page is not None else None,
        lang=page.language or None if page is not None else None,
        type=page.media_type or None if page is not None else None,
        digest=page.digest.hex() or None if page is not None else None,
        versions=versions_of(lookup, entry),
        links_out=tuple(targets(outward, entry.url)),
        links_in=inward.urls,
        rate_per_day=fresh.rate_per_day if fresh is not None else None,
        next_due=next_due(entry),
        fresh_probability=fresh.fresh_probability if fresh is not None else None,
        why_waiting=why_waiting(lookup, entry, now_s),
        note="; ".join(filter(None, (soft_404_note(lookup.cells[entry.cell], entry), inward.note))),
        signals=page_signals(lookup, entry),
    )


def entry_of(lookup: Lookup, text: str, config: Config) -> UrlEntry:
    """Return the entry of a URL as a person typed it."""
    url = from_user(text)
    if url is None:
        raise StoreError(f"{text!r} is not an http or https URL; write it like https://example.org/page")
    entry = lookup.find(url)
    if entry is None:
        there = main_url(lookup, url)
        if there is not None and lookup.find(there) is not None:
            raise StoreError(f"{url} is not known in {lookup.name}: {why_alias(lookup, url)}")
        alike = suggestions(lookup, url)
        hint = (
            f"; did you mean {', '.join(alike)}"
            if alike
            else f"; `teia export urls --data {lookup.root.path}` lists all"
        )
        raise StoreError(f"{url} is not known in {lookup.name}: {why_unknown(url, config)}{hint}")
    return entry


def versions_of(lookup: Lookup, entry: UrlEntry) -> tuple[Version, ...]:
    return tuple(
        Version(iso_utc(visit.time_s), visit.outcome, visit.digest.hex() or None, visit.changed)
        for visit in lookup.visits(entry)
    )


def next_due(entry: UrlEntry) -> str | None:
    """Return the time of a page's next visit, to keep it fresh or to retry it; None if none is due."""
    is_due = entry.lane == LANE_REFRESH or (entry.state == "queued" and entry.lane == LANE_DUE)
    return iso_utc(entry.rank / 1000) if is_due else None


def suggestions(lookup: Lookup, url: str) -> list[str]:
    """Suggest known URLs that resemble an unknown one: of the same host, or of hosts with a similar name."""
    parts = split(url)
    known = lookup.urls_of_host(parts.host, LOOKED_AT)
    if known:
        return get_close_matches(url, known, SUGGESTIONS, cutoff=0.6) or known[:1]
    hosts = get_close_matches(parts.host, lookup.hosts(LOOKED_AT), SUGGESTIONS, cutoff=0.6)
    return [each for host in hosts for each in lookup.urls_of_host(host, 1)]
