"""View of one page: the keys of `teia page --json`, and of its page in the web interface (F5, T10, P9).

`page_view` has the keys of the command; the details add its neighbours by title and its captures. Signals about a page
are listed with their sources, their times, and whether a visit followed (docs/signals.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches

from teia.clock import Clock, iso_utc
from teia.config.sections import Config
from teia.crawler.keep_fresh.estimate import freshness_of, rate_of_peers
from teia.crawler.lookup import Lookup, UrlEntry, alias_note, main_url
from teia.crawler.signals_in.site_hints import source_trust
from teia.crawler.sites.soft404 import soft_404_note
from teia.errors import StoreError
from teia.fetch.robots import rules_from_answer
from teia.frontier.cell import site_statements
from teia.frontier.cell.revisits import captured_s
from teia.frontier.cell.schema import (
    BY_FEED,
    BY_LINK,
    BY_LIST,
    BY_REDIRECT,
    BY_REQUISITE,
    BY_SEED,
    BY_SIGNAL,
    BY_SITEMAP,
    LANE_DUE,
    LANE_REFRESH,
)
from teia.frontier.tables.pages import similar_pages, url_of
from teia.lib.message import Message, joined
from teia.records import Link
from teia.signals.trust import SignalKind, SignalSource, is_news
from teia.urls import from_user, site_of, slot_of, split
from teia.views.captures import versions
from teia.views.links import links_in, targets
from teia.views.why_waiting import why_unknown, why_waiting


@dataclass(frozen=True, slots=True)
class PageSignal:
    """One kind of signal about a page, and the weight of its host's claims (`weight`).

    `changed` is the last change of the page by that signal, `heard` its claim at our last visit; `is_news`: it claims a
    change since.
    """

    kind: str
    changed: str
    heard: str | None
    is_news: bool
    weight: float


def page_signals(lookup: Lookup, entry: UrlEntry) -> tuple[PageSignal, ...]:
    """Return all signals about a page."""
    frontier, slot = lookup.cells[entry.cell], slot_of(site_of(entry.host))
    if not site_statements.has_tables(frontier):  # no version with signals has written it yet
        return ()
    statements = site_statements.statements_of_page(frontier, (slot, entry.host_id, entry.key))
    sources = source_trust(frontier, slot, entry.host_id) if statements else {}
    visited_s = entry.page.last_visit_s if entry.page is not None else 0.0
    return tuple(
        PageSignal(
            kind=SignalKind(each.kind).word,
            changed=iso_utc(each.reported_s),
            heard=iso_utc(each.checked_s) if each.checked_s else None,
            is_news=is_news(each.reported_s, each.checked_s, visited_s),
            weight=round(sources.get(each.kind, SignalSource()).weight, 4),
        )
        for each in sorted(statements, key=lambda one: one.kind)
    )


SUGGESTIONS = 3
MAX_COMPARED = 2_000
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
    entry = find_entry(lookup, url, config)
    page = entry.page
    outward = lookup.links(entry.cell, page) if page is not None else ()
    now_s = clock.now_s()
    fresh = freshness_of(lookup.cells, entry.cell, entry.host, entry.host_id, entry.key, now_s)
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
        versions=list_versions(lookup, entry),
        links_out=tuple(targets(outward, entry.url)),
        links_in=inward.urls,
        rate_per_day=fresh.rate_per_day if fresh is not None else None,
        next_due=next_due(entry),
        fresh_probability=fresh.fresh_probability if fresh is not None else None,
        why_waiting=why_waiting(lookup, entry, now_s),
        note=joined("; ", filter(None, (soft_404_note(lookup.cells[entry.cell], entry), inward.note))),
        signals=page_signals(lookup, entry),
    )


def find_entry(lookup: Lookup, text: str, config: Config) -> UrlEntry:
    """Return the entry of a URL as a person typed it."""
    url = from_user(text)
    if url is None:
        raise StoreError(
            Message("{url!r} is not an http or https URL; write it like https://example.org/page", url=text)
        )
    entry = lookup.find(url)
    if entry is None:
        # The page may be known under the main name of its host.
        main = main_url(lookup, url)
        if main is not None and lookup.find(main) is not None:
            raise StoreError(
                Message(
                    "{url} is not known in {collection}: {why}",
                    url=url,
                    collection=lookup.name,
                    why=alias_note(lookup, url),
                )
            )
        alike = suggestions(lookup, url)
        hint = (
            Message("did you mean {what}", what=", ".join(alike))
            if alike
            else Message("`teia export urls --data {path}` lists all", path=lookup.root.path)
        )
        why = joined("; ", (why_unknown(url, config), hint))
        raise StoreError(Message("{url} is not known in {collection}: {why}", url=url, collection=lookup.name, why=why))
    return entry


def list_versions(lookup: Lookup, entry: UrlEntry) -> tuple[Version, ...]:
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
    known = lookup.urls_of_host(parts.host, MAX_COMPARED)
    # A misspelt path is likelier than a misspelt host.
    if known:
        return get_close_matches(url, known, SUGGESTIONS, cutoff=0.6) or known[:1]
    hosts = get_close_matches(parts.host, lookup.hosts(MAX_COMPARED), SUGGESTIONS, cutoff=0.6)
    return [each for host in hosts for each in lookup.urls_of_host(host, 1)]


# ---- all details -----------------------------------------------------------------------------------------------------


LINKS_AT_ONCE = 50
MIN_VISITS = 5
"""Number of visits below which a page's change rate is hardly known."""

MAX_VISITS_SHOWN = 120
MAX_NEAR_COMPARED, MAX_NEAR_SHOWN, NEAR_BITS = 20_000, 10, 3
"""Limits of near-duplicates: pages of a host that are compared, pages listed, bits of 64 that may differ."""

MASK_64 = (1 << 64) - 1
MAX_COUNTED = 1_000
"""Most links of a page that are looked up in the frontier."""

_FOUND_BY = {
    BY_SEED: Message("seed"),
    BY_LINK: Message("link"),
    BY_REDIRECT: Message("redirect"),
    BY_SITEMAP: Message("sitemap"),
    BY_FEED: Message("feed"),
    BY_REQUISITE: Message("requisite"),
    BY_SIGNAL: Message("signal"),
    BY_LIST: Message("list"),
}


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A page at the other end of a link; `state` is null where it is not known to the collection."""

    url: str
    title: str | None
    state: str | None
    outcome: str | None
    nofollow: bool = False


@dataclass(frozen=True, slots=True)
class VisitMark:
    """One visit in the strip of visits: `changed`, `same`, `first` or `failed`; `is_version`: a new capture."""

    time: str
    what: str
    outcome: str
    digest: str | None
    has_copy: bool
    is_version: bool


@dataclass(frozen=True, slots=True)
class RobotsRuling:
    """Robots.txt ruling on a page, as last fetched; `line` is empty if no line applies to it."""

    origin: str
    read: str
    outcome: str
    line: str
    allows: bool


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """Near-duplicate pages of the same host, some by name; `looked_at` is the most pages compared."""

    number: int
    urls: tuple[str, ...]
    looked_at: int


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of a page, and the place of its last good capture."""

    canonical: str
    digest: str | None
    text_digest: str | None
    etag: str | None
    last_modified: str | None
    redirect_to: str | None
    noindex: bool
    file: str | None
    offset: int | None
    length: int | None


@dataclass(frozen=True, slots=True)
class PageDetail(PageView):
    """A page with the extra details of its own view; a bounded list of neighbours begins at `from_here`.

    `low_per_day` and `high_per_day` bound its change rate with a probability of 90%; `like_this_per_day` is the rate of
    similar pages. `last_good` is the time of its last good capture, where a later visit failed. `asked`: a user has
    just requested a visit, and a crawl is `running`, or the request is `waiting` for one. `expected` is the time at
    which the running crawl would fetch a queued URL, if nothing new were found.
    """

    collection: str = ""
    found: str | None = None
    found_by: tuple[str, ...] = ()
    visits: int = 0
    visits_wanted: int = MIN_VISITS
    low_per_day: float | None = None
    high_per_day: float | None = None
    like_this_per_day: float | None = None
    last_good: str | None = None
    marks: tuple[VisitMark, ...] = ()
    in_from: int = 0
    linked_from: tuple[Neighbour, ...] = ()
    out_from: int = 0
    linked_to: tuple[Neighbour, ...] = ()
    out_known: int = 0
    out_nofollow: int = 0
    links_at_once: int = LINKS_AT_ONCE
    identity: Identity | None = None
    near_copies: NearDuplicates | None = None
    robots: RobotsRuling | None = None
    asked: str = ""
    expected: str | None = None


def _last_good(lookup: Lookup, entry: UrlEntry, marks: Sequence[VisitMark]) -> str | None:
    """Return the time of a page's last good capture, where a later visit failed; None if it has none."""
    if entry.page is None or not marks or marks[-1].what != "failed":
        return None
    if entry.page.status < 400:
        # `pages.last_visit_s` moves with failed visits too.
        return iso_utc(captured_s(lookup.cells[entry.cell], entry.row_key))
    # The page is gone, and its row has the capture of the error.
    return next((mark.time for mark in reversed(marks) if mark.what != "failed" and mark.has_copy), None)


def page_detail(
    lookup: Lookup, url: str, config: Config, clock: Clock, in_from: int = 0, out_from: int = 0
) -> PageDetail:
    """Look a page up with all its details; StoreError if it is not known."""
    view = page_view(lookup, url, config, clock)
    entry = find_entry(lookup, url, config)
    fresh = freshness_of(lookup.cells, entry.cell, entry.host, entry.host_id, entry.key, clock.now_s())
    links = lookup.links(entry.cell, entry.page) if entry.page is not None else ()
    marks = _marks(lookup, entry)
    page = entry.page
    # Each of them is looked up in the frontier below.
    outward = targets(links, entry.url)[:MAX_COUNTED]
    return PageDetail(
        **{each.name: getattr(view, each.name) for each in fields(PageView)},
        collection=lookup.name,
        found=iso_utc(entry.found_s),
        found_by=tuple(word for bit, word in _FOUND_BY.items() if entry.found_by & bit),
        visits=page.visits if page is not None else 0,
        low_per_day=fresh.low_per_day if fresh is not None else None,
        high_per_day=fresh.high_per_day if fresh is not None else None,
        like_this_per_day=_peer_rate(lookup, entry),
        last_good=_last_good(lookup, entry, marks),
        marks=marks[-MAX_VISITS_SHOWN:],
        in_from=in_from,
        linked_from=_neighbours(lookup, view.links_in[in_from : in_from + LINKS_AT_ONCE]),
        out_from=out_from,
        linked_to=_neighbours(lookup, outward[out_from : out_from + LINKS_AT_ONCE], links),
        out_known=sum(lookup.find(each) is not None for each in outward),
        out_nofollow=len({link.url for link in links if link.nofollow}),
        identity=_identity(entry),
        near_copies=_near_duplicates(lookup, entry),
        robots=robots_ruling(lookup, entry, config),
    )


def _peer_rate(lookup: Lookup, entry: UrlEntry) -> float | None:
    """Return the change rate of similar pages; None if the page's own rate is known, or no similar page has one."""
    page = entry.page
    if page is None or page.visits >= MIN_VISITS:
        return None
    return rate_of_peers(lookup.cells[entry.cell], entry.host, entry.host_id, entry.key)


def _marks(lookup: Lookup, entry: UrlEntry) -> tuple[VisitMark, ...]:
    visits = lookup.visits(entry)
    # Times of one page's visits differ: they are part of the key.
    new = {visit.time_s for visit in versions(visits)}
    return tuple(
        VisitMark(
            iso_utc(visit.time_s),
            _visit_kind(visit.outcome, visit.changed),
            visit.outcome,
            visit.digest.hex() or None,
            bool(visit.file),
            visit.time_s in new,
        )
        for visit in visits
    )


def _visit_kind(outcome: str, changed: bool | None) -> str:
    if not outcome.startswith(("2", "3")):
        return "failed"
    return {None: "first", True: "changed", False: "same"}[changed]


def _neighbours(lookup: Lookup, urls: Sequence[str], links: Sequence[Link] = ()) -> tuple[Neighbour, ...]:
    unendorsed = {link.url for link in links if link.nofollow}
    found = []
    for url in urls:
        canonical = from_user(url)
        entry = lookup.find(canonical) if canonical is not None else None
        title = entry.page.title or None if entry is not None and entry.page is not None else None
        state, outcome = (entry.state, entry.outcome or None) if entry is not None else (None, None)
        found.append(Neighbour(url, title, state, outcome, url in unendorsed))
    return tuple(found)


def _identity(entry: UrlEntry) -> Identity | None:
    page = entry.page
    if page is None:
        return None
    return Identity(
        canonical=page.canonical or entry.url,
        digest=page.digest.hex() or None,
        text_digest=page.text_digest.hex() or None,
        etag=page.etag or None,
        last_modified=page.last_modified or None,
        redirect_to=page.redirect_to or None,
        noindex=bool(page.noindex),
        file=page.file or None,
        offset=page.offset if page.file else None,
        length=page.length if page.file else None,
    )


def _near_duplicates(lookup: Lookup, entry: UrlEntry) -> NearDuplicates | None:
    """Return pages of the host with the same text or a fingerprint that differs in a few bits; None without a text."""
    cell, page, (slot, host_id, _) = lookup.cells[entry.cell], entry.page, entry.row_key
    # A simhash of 0: the page has no text.
    if page is None or not page.simhash:
        return None
    alike = [
        (slot, host_id, key)
        for key, other, text_digest in similar_pages(cell, slot, host_id, MAX_NEAR_COMPARED)
        if key != entry.key
        and other
        # SQLite's numbers are signed; 64 bits of the difference count.
        and (text_digest == page.text_digest or ((page.simhash ^ other) & MASK_64).bit_count() <= NEAR_BITS)
    ]
    shown = tuple(url_of(cell, row_key) for row_key in alike[:MAX_NEAR_SHOWN])
    return NearDuplicates(len(alike), shown, MAX_NEAR_COMPARED)


def robots_ruling(lookup: Lookup, entry: UrlEntry, config: Config) -> RobotsRuling | None:
    """Return the robots.txt ruling on a page; None if robots.txt was not fetched or is not obeyed."""
    parts = split(entry.url)
    page_origin = f"{parts.scheme}://{parts.authority}"
    robots_rows = lookup.cells[entry.cell].robots_of(entry.host_id, entry.host) if config.courtesy.robots else ()
    for origin, read_s, outcome, status, body in robots_rows:
        if origin == page_origin:
            agent, limit = config.courtesy.user_agent, config.limits.robots_bytes
            rules = rules_from_answer(outcome, status, body, agent, None, read_s, limit)
            return RobotsRuling(origin, iso_utc(read_s), outcome, rules.line_for(entry.url), rules.allows(entry.url))
    return None
