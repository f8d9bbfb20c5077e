"""Every URL a document points to (T6, F5): links to other pages, and the requisites to show this one (T12).

References are resolved against the first `<base>`, wherever it stands, and cached, because menus repeat themselves.
Forms are never submitted. A link to the page itself (`#top`) is ignored.
"""

from __future__ import annotations

from resiliparse.parse.html import DOMNode, HTMLTree

from teia.parse.document import Document, ParseOptions
from teia.parse.extract import Element, Extract
from teia.parse.headers import ResponseHead
from teia.parse.html.base import Base
from teia.parse.html.references import StyleUse, css_references, parse_link_header, parse_refresh, parse_srcset
from teia.parse.scan import take_anchors
from teia.parse.text.normal import MAX_ANCHOR_CHARS, one_line
from teia.records import Link, LinkKind
from teia.urls import resolve

MAX_WRITTEN_CHARS = 1_000_000
"""Total length of a page's anchor texts after which further ones are not read."""

FEED_TYPES = frozenset({"application/rss+xml", "application/atom+xml", "application/rdf+xml", "application/feed+json"})
_ANCHOR = LinkKind.ANCHOR
_UNENDORSED = frozenset({"nofollow", "ugc", "sponsored"})
_PAGE_RELATIONS = frozenset({"next", "prev", "previous", "first", "last", "up", "index", "contents", "alternate"})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PRELOADS = {"style": LinkKind.STYLE, "script": LinkKind.SCRIPT, "image": LinkKind.IMAGE, "font": LinkKind.MEDIA}
_STYLE_USES = {
    StyleUse.SHEET: LinkKind.STYLE,
    StyleUse.IMAGE: LinkKind.IMAGE,
    StyleUse.FONT: LinkKind.MEDIA,
}


class LinkCollector:
    """The links of one document, each URL once per kind: anchors first, then the others, in their order.

    A URL with two links is endorsed if one of the two is, and has the first anchor text that is not empty. Links
    and requisites are limited separately, so that ten thousand icons cannot hide a page's links.
    """

    def __init__(self, url: str, options: ParseOptions, max_links: int = 0) -> None:
        self.url = url
        self.options = options
        self.is_full = False
        self.base = Base(url, options.rules)
        self.has_base = False
        self.max_url_chars = options.limits.url_chars
        # Nearly all links are anchors; keyed by the URL alone they avoid the slow hash of an enumeration.
        self.anchors: dict[str, Link] = {}
        self.anchor_count = 0
        """Number of anchors that lead to other pages, each repetition counted."""
        self._others: dict[tuple[str, LinkKind], Link] = {}
        self.room_for_ways = self._room_for_requisites = max_links or options.limits.links_per_page
        # Only in foreign content (svg) can anchors nest; without this, their texts would be read once per level.
        self.chars_left = MAX_WRITTEN_CHARS

    def set_base(self, reference: str) -> None:
        """Resolve later references against this; a base teia could not crawl is ignored, as browsers ignore `data:`."""
        self.base = Base(resolve(reference, self.url, ()) or self.url, self.options.rules)
        self.has_base = True

    def resolve(self, reference: str) -> str | None:
        """Return the canonical URL of a reference, or None if teia does not crawl it."""
        url = self.base.resolve(reference)
        return None if url is None or len(url) > self.max_url_chars else url

    def add(self, reference: str, kind: LinkKind, text: str = "", *, nofollow: bool = False) -> None:
        url = self.resolve(reference)
        if url is None or url == self.url:
            return
        if kind is _ANCHOR:
            self._add_anchor(url, self.anchors.get(url), text, nofollow)
        elif (url, kind) not in self._others and self._use_room(is_requisite=kind.is_requisite):
            self._others[url, kind] = Link(url, kind, text, nofollow)

    def add_anchor_element(self, anchor: Element, extract: Extract) -> None:
        """Add the target of an anchor, unless it is not crawled or already known.

        Half the anchors of a long page lead to places in it, and most of the others repeat a link of it.
        """
        reference = anchor.getattr("href", "")
        # An anchor without `href` leads nowhere; an empty one leads to the base.
        if not reference and not anchor.hasattr("href"):
            return
        # With a `<base>` even `#top` leads to another page.
        if reference[:1] == "#" and not self.has_base:
            return
        url = self.base.resolve(reference)
        if url is None or url == self.url or len(url) > self.max_url_chars:
            return
        self.anchor_count += 1
        known = self.anchors.get(url)
        # An endorsed link with a text cannot become better.
        if known is not None and known.text and not known.nofollow:
            return
        text = self._anchor_text(anchor) or one_line(extract.pictured(anchor), MAX_ANCHOR_CHARS)
        self.add_anchor(url, known, text, anchor.getattr("rel", ""))

    def _anchor_text(self, anchor: Element) -> str:
        if self.chars_left <= 0:
            return ""
        written = anchor.text
        self.chars_left -= len(written)
        return one_line(written, MAX_ANCHOR_CHARS)

    def add_anchor(self, url: str, known: Link | None, text: str, relations: str) -> None:
        """Add an anchor; `known` is the earlier link to its URL."""
        self._add_anchor(url, known, text, relations != "" and _is_unendorsed(relations))

    def _add_anchor(self, url: str, known: Link | None, text: str, nofollow: bool) -> None:
        if known is not None:
            self.anchors[url] = Link(url, _ANCHOR, known.text or text, known.nofollow and nofollow)
        elif self.room_for_ways > 0:
            self.room_for_ways -= 1
            self.anchors[url] = Link(url, _ANCHOR, text, nofollow)
        else:
            self.is_full = True

    def _use_room(self, *, is_requisite: bool) -> bool:
        if (self._room_for_requisites if is_requisite else self.room_for_ways) <= 0:
            self.is_full = True
            return False
        self._room_for_requisites -= is_requisite
        self.room_for_ways -= not is_requisite
        return True

    def links(self) -> tuple[Link, ...]:
        return (*self.anchors.values(), *self._others.values())


# ---- headers --------------------------------------------------------------------------------------------------------


def add_header_links(head: ResponseHead, links: LinkCollector) -> str:
    """Add Link, Refresh and (of a redirect) Location; return the headers' canonical URL, or "" if there is none."""
    canonical = ""
    for value in head.headers.all("link"):
        for link in parse_link_header(value):
            if "canonical" in link.relations:
                canonical = canonical or links.resolve(link.reference) or ""
                links.add(link.reference, LinkKind.CANONICAL)
            elif link.relations & _PAGE_RELATIONS:
                is_feed = link.parameters.get("type", "").lower() in FEED_TYPES
                links.add(link.reference, LinkKind.FEED if is_feed else LinkKind.HEADER)
            elif links.options.want_requisites and link.relations & {"preload", "stylesheet"}:
                links.add(link.reference, _PRELOADS.get(link.parameters.get("as", "style").lower(), LinkKind.MEDIA))
    for value in head.headers.all("refresh"):
        _add_refresh(value, links)
    if head.status in _REDIRECTS:
        for value in head.headers.all("location"):
            links.add(value, LinkKind.REDIRECT)
    return canonical


def _add_refresh(value: str, links: LinkCollector) -> None:
    refresh = parse_refresh(value)
    if refresh is not None and refresh.reference is not None:
        links.add(refresh.reference, LinkKind.REFRESH)


# ---- elements -------------------------------------------------------------------------------------------------------

_RARE_LINKS = frozenset({"area", "meta", "frame", "iframe"})


def add_page_links(extract: Extract, links: LinkCollector) -> str:
    """Add the links to other pages; return the page's canonical URL, or "" if it names none."""
    base = extract.base
    if base is not None:
        links.set_base(base)
    canonical = ""

    def add_other(tag: str, element: Element) -> None:
        nonlocal canonical
        if tag == "link":
            named = _add_link_element(element, links)
            canonical = canonical or named
        elif tag in _RARE_LINKS:
            _add_rare_link(tag, element, links)

    if not take_anchors(extract, links, add_other):
        for element, tag in zip(extract.elements, extract.tags, strict=True):
            if tag == "a":
                links.add_anchor_element(element, extract)
            else:
                add_other(tag, element)
    return canonical


def _add_rare_link(tag: str, element: Element, links: LinkCollector) -> None:
    if tag == "area" and element.hasattr("href"):
        text = one_line(element.getattr("alt", ""), MAX_ANCHOR_CHARS)
        links.add(
            element.getattr("href", ""), LinkKind.ANCHOR, text, nofollow=_is_unendorsed(element.getattr("rel", ""))
        )
    elif tag == "meta":
        if element.getattr("http-equiv", "").strip().lower() == "refresh":
            _add_refresh(element.getattr("content", ""), links)
    elif tag in {"frame", "iframe"} and element.hasattr("src"):
        links.add(element.getattr("src", ""), LinkKind.FRAME)


def _is_unendorsed(relations: str) -> bool:
    return not _UNENDORSED.isdisjoint(relations.lower().split())


def _add_link_element(element: Element, links: LinkCollector) -> str:
    """Add a `<link>` to a page or feed; return the URL if it is the canonical one."""
    relation = element.getattr("rel", "").lower()
    # The most frequent case first, before the relations are split.
    if relation == "stylesheet" or not element.hasattr("href"):
        return ""
    relations = set(relation.split())
    reference = element.getattr("href", "")
    if "canonical" in relations:
        links.add(reference, LinkKind.CANONICAL)
        return links.resolve(reference) or ""
    if "stylesheet" in relations or "nofollow" in relations:
        return ""
    if "sitemap" in relations:
        links.add(reference, LinkKind.SITEMAP)
    elif "feed" in relations or ("alternate" in relations and element.getattr("type", "").lower() in FEED_TYPES):
        links.add(reference, LinkKind.FEED, one_line(element.getattr("title", ""), MAX_ANCHOR_CHARS))
    elif relations & _PAGE_RELATIONS:
        links.add(reference, LinkKind.ANCHOR)
    return ""


# ---- requisites -----------------------------------------------------------------------------------------------------

_REQUISITES = (
    "img,source,input[src],image,use,video,audio,track[src],embed[src],object[data],script[src],link[href],style,"
    "[style],[background]"
)


def add_requisites(tree: HTMLTree, links: LinkCollector) -> None:
    """Add the requisites to show the page."""
    for element in tree.document.query_selector_all(_REQUISITES):
        _add_requisites(element, links)


def _add_requisites(element: DOMNode, links: LinkCollector) -> None:
    tag = element.tag
    if tag in {"img", "source"}:
        _add_image(element, links)
    elif tag == "link":
        _add_linked(element, links)
    elif tag == "style":
        add_css_links(element.text, links)
    for attribute, kind in _REQUISITE_ATTRIBUTES.get(tag, {}).items():
        reference = element.getattr(attribute, "")
        if reference and not reference.startswith("#"):
            links.add(reference, kind)
    style, background = element.getattr("style", ""), element.getattr("background", "")
    if style:
        add_css_links(style, links)
    if background:
        links.add(background, LinkKind.IMAGE)


def _add_image(element: DOMNode, links: LinkCollector) -> None:
    """Add every candidate of a srcset: the screen on which the archive will be read is unknown."""
    reference = element.getattr("src", "")
    is_image = element.tag == "img" or element.getattr("srcset", "") != ""
    if reference:
        links.add(reference, LinkKind.IMAGE if is_image else LinkKind.MEDIA)
    for candidate in parse_srcset(element.getattr("srcset", "")):
        links.add(candidate.reference, LinkKind.IMAGE)


def _add_linked(element: DOMNode, links: LinkCollector) -> None:
    relations = set(element.getattr("rel", "").lower().split())
    reference = element.getattr("href", "")
    if "stylesheet" in relations:
        links.add(reference, LinkKind.STYLE)
    elif relations & {"icon", "apple-touch-icon", "mask-icon"}:
        links.add(reference, LinkKind.IMAGE)
    elif "modulepreload" in relations:
        links.add(reference, LinkKind.SCRIPT)
    elif "preload" in relations:
        links.add(reference, _PRELOADS.get(element.getattr("as", "").lower(), LinkKind.MEDIA))


_REQUISITE_ATTRIBUTES = {
    "input": {"src": LinkKind.IMAGE},
    "image": {"href": LinkKind.IMAGE},
    "use": {"href": LinkKind.IMAGE},
    "video": {"src": LinkKind.MEDIA, "poster": LinkKind.IMAGE},
    "audio": {"src": LinkKind.MEDIA},
    "track": {"src": LinkKind.MEDIA},
    "embed": {"src": LinkKind.MEDIA},
    "object": {"data": LinkKind.MEDIA},
    "script": {"src": LinkKind.SCRIPT},
}
"""Kinds of the requisites that attributes name, by tag."""


def add_css_links(css: str, links: LinkCollector) -> None:
    """Add the requisites of a style sheet; references in a sheet are resolved against the sheet."""
    for reference, use in css_references(css):
        links.add(reference, _STYLE_USES[use])


def links_of_css(document: Document) -> tuple[Link, ...]:
    links = LinkCollector(document.url, document.options)
    add_css_links(document.markup, links)
    return links.links()
