"""The link graph of a collection, from the last good capture of each page (F5).

The whole graph is read from the archive, page after page in archive order, so memory does not grow with the collection.
The links to one page come from the index, where there is one. Links to requisites of a page (images, styles) are not
edges, nor are links of a page to itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import numpy as np

from teia.crawler.links import leads_to
from teia.crawler.lookup import Lookup
from teia.errors import CorruptFile
from teia.graph.rankfile import RankFile
from teia.index.position import read_position
from teia.index.relations import linking_pages
from teia.lib.message import Message, joined
from teia.records import Link
from teia.urls import key_of

SCANNED_FOR_LINKS_IN = 10_000
"""Most pages scanned for links to one page, which takes about two seconds."""

SHOWN_LINKS_IN = 1_000
"""Most linking pages listed for each cell, if the index answers."""


@dataclass(frozen=True, slots=True)
class LinksIn:
    """Pages that link to one page. `note` says if the list is incomplete."""

    urls: tuple[str, ...]
    note: str = ""


def targets(links: tuple[Link, ...], source: str) -> list[str]:
    """List the pages that a page links to, each once, in page order."""
    return list(dict.fromkeys(link.url for link in links if not link.kind.is_requisite and link.url != source))


def edges(lookup: Lookup) -> Iterator[tuple[str, str]]:
    """Yield (source, target) for every link between pages."""
    for source, number, page in lookup.pages():
        for target in targets(lookup.links(number, page), source):
            yield source, target


def links_in(lookup: Lookup, url: str) -> LinksIn:
    """Find the pages that link to a URL: from the index where there is one, otherwise by scanning the archive."""
    return indexed_links_in(lookup, url) or archived_links_in(lookup, url)


def indexed_links_in(lookup: Lookup, url: str, at_most: int = SHOWN_LINKS_IN) -> LinksIn | None:
    """Return the pages in the index that link to a URL, the most important first; None unless every cell has an index.

    Pages that do not want to be found (noindex) are not in it.
    """
    parts = [linking_pages(folder.index, key_of(url), at_most, lookup.indexes) for folder in lookup.folders]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    pages, total = [page for part in known for page in part.pages], sum(part.total for part in known)
    notes = []
    if total > len(pages):
        notes.append(Message("showing {n:,} of {total:,} pages that link here", n=len(pages), total=total))
    behind = sum(
        frontier.last_change() - (read_position(folder.index) or 0)
        for folder, frontier in zip(lookup.folders, lookup.cells, strict=True)
    )
    if behind > 0:
        notes.append(Message("pages that are not indexed yet may link here too: {n:,}", n=behind))
    return LinksIn(_most_important_first(lookup, pages), joined("; ", notes))


def _most_important_first(lookup: Lookup, pages: list[tuple[str, int]]) -> tuple[str, ...]:
    ranks = RankFile(lookup.root.collection(lookup.name).ranks)
    # Without ranks, pages are sorted by URL.
    with suppress(CorruptFile):
        ranks.reload()
    scores = ranks.scores(np.array([key for _, key in pages], np.int64)).tolist()
    return tuple(url for _, url in sorted((-score, url) for score, (url, _) in zip(scores, pages, strict=True)))


def archived_links_in(lookup: Lookup, url: str, at_most: int = SCANNED_FOR_LINKS_IN) -> LinksIn:
    """Scan the archive for pages that link to a URL."""
    pages = lookup.pages()
    found = [
        source
        for source, number, page in islice(pages, at_most)
        if source != url and leads_to(lookup.metadata(number, page), url)
    ]
    # Nothing is left: the whole archive was scanned.
    if next(pages, None) is None:
        return LinksIn(tuple(found))
    return LinksIn(
        tuple(found), Message("only the first {n:,} pages of the archive were searched for links", n=at_most)
    )
