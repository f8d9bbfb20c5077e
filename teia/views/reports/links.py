"""References: found, in scope, to types that are never indexed, and their distribution over URLs (C5, F5)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from teia.frontier.cell.schema import FOUND_BY, STATE_NAMES
from teia.frontier.tables.counts import most_linked, urls_by_in_links, urls_by_source
from teia.lib.message import Message
from teia.store.fetchlog import OF_PAGES
from teia.views.reports.source import Source, share_of

IS_LIST = "(media_type IN ('text/xml', 'application/xml') OR media_type LIKE '%+xml') AND media_type NOT LIKE '%xhtml%'"
"""Sitemaps and feeds: lists of URLs rather than pages."""

COUNTED = ("links", "links_in_scope", "links_unindexable", "images", "mail_links")
"""Columns of the fetch log with numbers of references."""

LARGEST = 20
"""URLs with 2**20 references or more share a bucket."""


@dataclass(frozen=True, slots=True)
class InlinkRange:
    """URLs with so many references to them, `least` to `most`."""

    least: int
    most: int
    urls: int
    share: float


@dataclass(frozen=True, slots=True)
class HowFound:
    """URLs that came by one way, and those that came by no other."""

    way: str
    urls: int
    only: int


@dataclass(frozen=True, slots=True)
class LinkedUrl:
    """A URL with many references to it."""

    url: str
    in_links: int
    depth: int
    state: str


@dataclass(frozen=True, slots=True)
class Links:
    """References of all pages that were read, each reading counted."""

    pages_read: int
    references: int
    references_in_scope: int
    references_unindexable: int
    images: int
    mail_links: int
    references_per_page: float
    named_by_lists: int
    urls_known: int
    references_per_url: float
    found_by: tuple[HowFound, ...]
    per_url: tuple[InlinkRange, ...]
    top: tuple[LinkedUrl, ...]
    notes: tuple[str, ...] = (
        Message(
            "References are counted in HTML pages, repeated ones each time; nofollow references are counted but not"
            " followed. References to types that are not stored are recognized by file extension and not fetched;"
            " images and style sheets are counted only if page requisites are fetched. Named by lists: entries of"
            " sitemaps and feeds. References to a URL: the number of pages that currently link to each known URL, each"
            " page counted once, as far as links are followed."
        ),
        Message(
            "Images: image tags in the markup of pages. E-mail addresses: those that a page links to, each once."
            " Neither is among the references."
        ),
    )


def links(source: Source, top: int = 20) -> Links:
    """Count references from the fetch log, and their targets from the frontier."""
    sums = "count(*), " + ", ".join(f"coalesce(sum({name}), 0)" for name in COUNTED)
    of_pages = f"SELECT {sums} FROM fetches WHERE links IS NOT NULL AND {OF_PAGES}"  # noqa: S608  # our text
    read, found, in_scope, unindexable, images, mail_links = source.log.query(
        # An answer of unknown type is no list.
        f"{of_pages} AND status BETWEEN 200 AND 299 AND NOT coalesce({IS_LIST}, false)"
    ).rows[0]
    named = source.log.query(f"{of_pages} AND {IS_LIST}").rows[0][1]
    spread, known, in_links = _spread(source)
    return Links(
        int(read),
        int(found),
        int(in_scope),
        int(unindexable),
        int(images),
        int(mail_links),
        share_of(int(found), int(read)),
        int(named),
        known,
        share_of(in_links, known),
        _how_found(source),
        spread,
        _most_linked(source, top),
    )


def _spread(source: Source) -> tuple[tuple[InlinkRange, ...], int, int]:
    """Count URLs by references to them in doubling buckets (0, 1, 2 to 3, …); return also all URLs, all references."""
    urls: Counter[int] = Counter()
    in_links = 0
    for references, number in source.count(urls_by_in_links).items():
        # Bucket n has 2^(n-1) to 2^n - 1 references, bucket 0 has none.
        urls[min(references.bit_length(), LARGEST + 1)] += number
        in_links += references * number
    known = urls.total()
    rows = [
        InlinkRange((1 << bits) >> 1, (1 << bits) - 1, urls[bits], share_of(urls[bits], known))
        for bits in range(max(urls, default=-1) + 1)
    ]
    return tuple(rows), known, in_links


def _how_found(source: Source) -> tuple[HowFound, ...]:
    masks = source.count(urls_by_source)
    return tuple(
        # Exactly this bit: the URL came in no other way.
        HowFound(way, sum(number for mask, number in masks.items() if mask & bit), masks[bit])
        for way, bit in FOUND_BY.items()
    )


def _most_linked(source: Source, top: int) -> tuple[LinkedUrl, ...]:
    rows = [
        LinkedUrl(url, number, depth, STATE_NAMES[state])
        for cell in source.frontiers
        for url, number, depth, state in most_linked(cell, top)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.in_links, row.url))[:top])
