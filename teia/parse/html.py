"""The processor of web pages: one parse, then links, text, headings, metadata and what the page asks of crawlers.

The text is all that a reader would see, in lines. resiliparse can also keep the main content alone; that costs
twice as much and loses what its heuristics take for a menu, so ranking has to cope with menus instead
(docs/decisions/0007-parse.md has the figures).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import DOMNode, HTMLTree

from teia.clock import iso_utc
from teia.parse.dates import parse_date
from teia.parse.directives import Directives, from_words
from teia.parse.document import Document, Findings
from teia.parse.links import WAYS, LinkCollector, add_element_links
from teia.parse.text import one_line

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
_HEADINGS = frozenset({"h1", "h2", "h3"})
_GLUED = frozenset({
    "td", "th", "caption", "summary", "legend", "noscript", "object", "video", "audio", "canvas", "text", "title",
})  # fmt: skip
_PICTURES = frozenset({"img", "area", "input"})
_LOOKED_AT = ",".join((WAYS, *sorted(_HEADINGS)))
_LOOKED_AT_WITH_TEXT = ",".join((_LOOKED_AT, *sorted(_GLUED), "[alt]"))
"""One search through the tree for all that is wanted of it costs a third of one for each."""

_KEPT_PREFIXES = ("og:", "article:", "dc.", "dcterms.", "citation_", "geo.")
_KEPT_NAMES = frozenset({"keywords", "generator", "rating"})


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
            moment_s = parse_date(self.values.get(name, ""))
            if moment_s is not None and math.isfinite(moment_s):
                return iso_utc(moment_s)
        return ""

    def kept(self) -> dict[str, str]:
        """Return what goes into the page's metadata as it is."""
        names = (name for name in self.values if name in _KEPT_NAMES or name.startswith(_KEPT_PREFIXES))
        return {name: self.values[name] for name, _ in zip(names, range(MAX_METADATA), strict=False)}


def read_html(document: Document) -> Findings:
    """Find everything in a page. The tree is as a browser would build it, scripts not run."""
    tree, want_text = document.tree, document.options.want_text
    elements = tree.document.query_selector_all(_LOOKED_AT_WITH_TEXT if want_text else _LOOKED_AT)
    tags = [element.tag for element in elements]
    links = LinkCollector(document.url, document.options)
    canonical = add_element_links(tree, elements, tags, links)
    meta = read_meta((e for e, tag in zip(elements, tags, strict=True) if tag == "meta"), document.options.agent)
    modified = meta.first_date(*_MODIFIED)
    return Findings(
        title=one_line(tree.title or meta.first("og:title"), MAX_TITLE_CHARS),
        headings=read_headings(e for e, tag in zip(elements, tags, strict=True) if tag in _HEADINGS),
        text=visible_text(tree, elements, tags) if want_text else "",
        language=declared_language(tree, meta),
        description=meta.first("description", "og:description", "dc.description"),
        canonical=canonical,
        author=meta.first(*_AUTHOR),
        published=meta.first_date(*_PUBLISHED),
        metadata=meta.kept() | ({"modified": modified} if modified else {}),
        links=links.links(),
        noindex=meta.directives.noindex,
        nofollow=meta.directives.nofollow,
        truncated=document.lost + (("links",) if links.is_full else ()),
    )


def visible_text(tree: HTMLTree, elements: Sequence[DOMNode], tags: Sequence[str]) -> str:
    """Return what a reader sees, alternative texts of pictures included, block by block on lines of its own.

    Controls of forms (labels, buttons, choices) are not text. The tree gets blanks where the extractor would glue words
    of neighbours together (`<td>one</td><td>two</td>`), so this comes after all else.
    """
    if tree.body is None:
        return ""
    for element, tag in zip(elements, tags, strict=True):
        if tag not in _GLUED and not (tag in _PICTURES and element.getattr("alt")):
            continue
        parent, following = element.parent, element.next
        parent.insert_before(tree.create_text_node(" "), element)
        if following is not None:
            parent.insert_before(tree.create_text_node(" "), following)
        else:
            parent.append_child(tree.create_text_node(" "))
    text: str = extract_plain_text(
        tree,
        preserve_formatting=True,
        main_content=False,
        list_bullets=False,
        alt_texts=True,
        links=False,
        form_fields=False,
        noscript=True,
    )
    return text.strip()


def read_meta(elements: Iterable[DOMNode], agent: str) -> MetaTags:
    found = MetaTags()
    robots = {"robots", agent.lower()}
    for element in elements:
        content = element.getattr("content", "")
        name = element.getattr("name", "") or element.getattr("property", "") or element.getattr("itemprop", "")
        name = (name or element.getattr("http-equiv", "")).strip().lower()[:100]
        if name in robots:
            found.directives |= from_words(content)
        elif name and content and len(found.values) < 4 * MAX_METADATA:
            found.values.setdefault(name, one_line(content, MAX_VALUE_CHARS))
    return found


def read_headings(elements: Iterable[DOMNode]) -> tuple[str, ...]:
    """Return the texts of h1 to h3, in order; deeper ones are seldom about the page."""
    texts = [one_line(element.text, MAX_TITLE_CHARS) for element in islice(elements, MAX_HEADINGS)]
    return tuple(filter(None, texts))


def declared_language(tree: HTMLTree, meta: MetaTags) -> str:
    root = tree.document.query_selector("html")
    attribute = root.getattr("lang", "") or root.getattr("xml:lang", "") if root is not None else ""
    return attribute or meta.first("content-language", "og:locale")
