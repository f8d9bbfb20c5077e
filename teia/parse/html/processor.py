"""The processor of web pages: links, text, headings, metadata and directives to crawlers.

The text is all visible text, in lines. resiliparse can also keep the main content alone; that costs twice as much
and loses text that its heuristics take for a menu, so ranking has to cope with menus instead
(docs/decisions/0007-parse.md has the figures).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice

from teia.clock import iso_utc
from teia.parse.dates import parse_date
from teia.parse.document import Document, Findings
from teia.parse.extract import Element
from teia.parse.html.directives import TDM, Directives, from_words, tdm_reserved
from teia.parse.html.links import LinkCollector, add_page_links, add_requisites
from teia.parse.text.normal import one_line

MAX_TITLE_CHARS = 500
MAX_VALUE_CHARS = 1_000
MAX_HEADINGS = 100
MAX_METADATA = 64

_PUBLISHED = (
    "article:published_time", "datepublished", "dcterms.created", "dc.date.issued", "dcterms.issued", "dc.date",
    "dcterms.date", "citation_publication_date", "pubdate", "date",
)  # fmt: skip
_MODIFIED = ("article:modified_time", "datemodified", "dcterms.modified", "og:updated_time", "last-modified")
_AUTHOR = ("author", "article:author", "dc.creator", "dcterms.creator", "citation_author")
_STORED_PREFIXES = ("og:", "article:", "dc.", "dcterms.", "citation_", "geo.")
_STORED_NAMES = frozenset({"keywords", "generator", "rating"})


@dataclass(slots=True)
class MetaTags:
    """The `<meta>` tags of a page: the first value of each name, and the robots directives of all of them."""

    values: dict[str, str] = field(default_factory=dict)
    directives: Directives = field(default_factory=Directives)

    def first(self, *names: str) -> str:
        return next((self.values[name] for name in names if self.values.get(name)), "")

    def first_date(self, *names: str) -> str:
        """Return the first of these that is a date, in ISO 8601."""
        for name in names:
            moment_s = parse_date(self.values[name]) if name in self.values else None
            if moment_s is not None and math.isfinite(moment_s):
                return iso_utc(moment_s)
        return ""

    def stored_values(self) -> dict[str, str]:
        """Return the values that are stored in the page's metadata unchanged."""
        names = (name for name in self.values if name in _STORED_NAMES or name.startswith(_STORED_PREFIXES))
        return {name: self.values[name] for name, _ in zip(names, range(MAX_METADATA), strict=False)}


def read_html(document: Document) -> Findings:
    """Return all findings of a page."""
    links = LinkCollector(document.url, document.options)
    canonical = add_page_links(document.extract, links)
    if document.options.want_requisites:
        add_requisites(document.tree, links)
    if document.content is None:
        document.content = read_content(document)
    return replace(
        document.content,
        canonical=canonical,
        links=links.links(),
        truncated=document.losses + (("links",) if links.is_full else ()),
        mail_links=len(links.base.mail_links),
        anchor_count=links.anchor_count,
    )


def read_content(document: Document) -> Findings:
    """Return the findings of a page that are the same at every URL: all but its links."""
    extract = document.extract
    metas = (element for element, tag in zip(extract.elements, extract.tags, strict=True) if tag == "meta")
    meta = read_meta(metas, document.options.agent)
    modified = meta.first_date(*_MODIFIED)
    return Findings(
        title=one_line(extract.title or meta.first("og:title"), MAX_TITLE_CHARS),
        headings=read_headings(extract.headings) if document.options.want_headings else (),
        text=extract.text,
        language=extract.language or meta.first("content-language", "og:locale"),
        description=meta.first("description", "og:description", "dc.description"),
        author=meta.first(*_AUTHOR),
        published=meta.first_date(*_PUBLISHED),
        metadata=meta.stored_values() | ({"modified": modified} if modified else {}),
        noindex=meta.directives.noindex,
        nofollow=meta.directives.nofollow,
        reserved=meta.directives.reserved,
        images=count_images(document.payload),
        has_scripts=extract.has_scripts,
    )


def count_images(payload: bytes) -> int:
    """Return the number of image tags (C5). Those in comments count too: this must cost nearly nothing."""
    return payload.count(b"<img") + payload.count(b"<IMG")


def read_meta(elements: Iterable[Element], agent: str) -> MetaTags:
    found = MetaTags()
    robots = {"robots", agent.lower()}
    for element in elements:
        content = element.getattr("content", "")
        name = element.getattr("name", "") or element.getattr("property", "") or element.getattr("itemprop", "")
        name = (name or element.getattr("http-equiv", "")).strip().lower()[:100]
        if name in robots:
            found.directives |= from_words(content)
        elif name == TDM:
            found.directives |= tdm_reserved(content)
        # More are read than kept: dates and authors may stand behind many others.
        elif name and content and len(found.values) < 4 * MAX_METADATA:
            found.values.setdefault(name, one_line(content, MAX_VALUE_CHARS))
    return found


def read_headings(elements: Iterable[Element]) -> tuple[str, ...]:
    """Return the texts of h1 to h3, in order; deeper ones are seldom about the page."""
    texts = [one_line(element.text, MAX_TITLE_CHARS) for element in islice(elements, MAX_HEADINGS)]
    return tuple(filter(None, texts))
