"""Signals about one page: their sources, their times, and whether a visit followed (docs/signals.md)."""

from __future__ import annotations

from dataclasses import dataclass

from teia.clock import iso_utc
from teia.crawler.lookup import Lookup, UrlEntry
from teia.crawler.signals_in.site_hints import voices_of
from teia.frontier.cell import site_statements
from teia.signals.trust import Kind, Voice, is_news
from teia.urls import site_of, slot_of


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
    if not site_statements.are_there(frontier.db):  # no version with signals has written it yet
        return ()
    said = site_statements.of_page(frontier.db, (slot, entry.host_id, entry.key))
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
