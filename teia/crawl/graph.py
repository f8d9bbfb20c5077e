"""The link graph of a collection: who links to whom, as the last good copy of each page says (F5).

Read from the archive, page after page in the order in which copies lie there, so memory does not grow with the
collection. Links to what a page needs to be shown (images, styles) are not edges, nor are links of a page to itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from teia.crawl.links import leads_to
from teia.crawl.lookup import Lookup
from teia.records import Link

SCANNED_FOR_LINKS_IN = 10_000
"""Pages looked through for links to one page, which takes about two seconds."""


@dataclass(frozen=True, slots=True)
class LinksIn:
    """Pages that link to one page. `note` says when not all pages were looked at."""

    urls: tuple[str, ...]
    note: str = ""


def targets(links: tuple[Link, ...], source: str) -> list[str]:
    """Where a page leads to, each target once, in the order of the page."""
    return list(dict.fromkeys(link.url for link in links if not link.kind.is_requisite and link.url != source))


def edges(lookup: Lookup) -> Iterator[tuple[str, str]]:
    """Yield (source, target) for every link between pages."""
    for source, number, page in lookup.pages():
        for target in targets(lookup.links(number, page), source):
            yield source, target


def links_in(lookup: Lookup, url: str, at_most: int = SCANNED_FOR_LINKS_IN) -> LinksIn:
    """Look for pages that link to a URL."""
    pages = lookup.pages()
    found = [
        source
        for source, number, page in islice(pages, at_most)
        if source != url and leads_to(lookup.about(number, page), url)
    ]
    if next(pages, None) is None:
        return LinksIn(tuple(found))
    return LinksIn(tuple(found), f"links_in: only the first {at_most:,} pages of the archive were looked through")
