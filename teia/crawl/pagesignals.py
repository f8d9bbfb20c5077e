"""What signals say of one page: who said that it changed, when, and whether that was looked at (docs/signals.md)."""

from __future__ import annotations

from dataclasses import dataclass

from teia.clock import iso_utc
from teia.crawl.listening import voices_of
from teia.crawl.lookup import Lookup, UrlEntry
from teia.frontier import sayings
from teia.signals.trust import Kind, Voice, is_news
from teia.urls import site_of, slot_of


@dataclass(frozen=True, slots=True)
class PageSignal:
    """One kind of signal about a page, and what its host's word proved to be worth (`weight`).

    `changed` is when the page last changed by it, `heard` what it had said when we last visited the page; `is_news`: it
    says that the page changed since.
    """

    kind: str
    changed: str
    heard: str | None
    is_news: bool
    weight: float


def page_signals(lookup: Lookup, entry: UrlEntry) -> tuple[PageSignal, ...]:
    """All that is said of a page."""
    frontier, slot = lookup.cells[entry.cell], slot_of(site_of(entry.host))
    if not sayings.are_there(frontier.db):  # nobody who knows of signals has written it yet
        return ()
    said = sayings.of_page(frontier.db, (slot, entry.host_id, entry.key))
    voices = voices_of(frontier, slot, entry.host_id) if said else {}
    visited_s = entry.page.last_visit_s if entry.page is not None else 0.0
    return tuple(
        PageSignal(
            kind=Kind(each.kind).word,
            changed=iso_utc(each.said_s),
            heard=iso_utc(each.heard_s) if each.heard_s else None,
            is_news=is_news(each.said_s, each.heard_s, visited_s),
            weight=round(voices.get(each.kind, Voice()).weight, 4),
        )
        for each in sorted(said, key=lambda one: one.kind)
    )
