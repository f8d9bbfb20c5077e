"""Links of pages: those worth following, and all of them as the archive keeps them.

There is one rule for the links that are followed. A parse child applies it when it reads a page (read_answer.py). So
does the code that processes the links of a capture once more because their page turned out to be closer to a seed
(depths.py), and the code that counts links again (links_audit.py). A link is refused for the file extension of a type
that is not kept (C4), for the scope, for a URL shape that has no end (T9), or for being too deep.

The archive keeps links as lines of the metadata record that follows a page's answer:

    outlink: http://example.org/a a            the URL, and where in the page it stood (LinkKind)
    outlink: http://example.org/b a nofollow

With them the link graph (F5) can be exported, and made again, from the archive alone. Lines that other crawlers wrote
under the same name (`outlink: URL L a/@href`) are not in this form and are skipped: those links are read from the
page itself.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from teia.config.sections import LimitSettings
from teia.crawler._links import LinkRule
from teia.frontier.cell.rows import tail_of
from teia.frontier.cell.schema import BY_FEED, BY_LINK, BY_REDIRECT, BY_REQUISITE, BY_SITEMAP
from teia.frontier.rules.scope import Scope
from teia.frontier.traps.url_shapes import trap_of
from teia.records import Link, LinkKind
from teia.urls import host_of, key_of

SITEMAP_DEPTH = 1
"""Depth of the sitemaps that a robots.txt announces; those that an index lists are deeper."""

FOUND_BY = {
    LinkKind.SITEMAP: BY_SITEMAP,
    LinkKind.FEED: BY_FEED,
    LinkKind.REDIRECT: BY_REDIRECT,
    **{kind: BY_REQUISITE for kind in LinkKind if kind.is_requisite},
}
"""Discovery bits by the kind of link; every other kind is an ordinary link."""

_ANCHOR = LinkKind.ANCHOR
_LINKS = 1 << 30
"""Bit beside the `BY_…` bits of a URL that the page links to; see `NamedUrl`."""
_BY_KIND = {
    kind.value: FOUND_BY.get(kind, BY_LINK)
    | (_LINKS if kind in {_ANCHOR, LinkKind.FRAME, LinkKind.REFRESH, LinkKind.HEADER} else 0)
    for kind in LinkKind
}


class LinkRefusal(Enum):
    """Reason why a URL is not followed, independent of the page that names it."""

    UNINDEXABLE = "unindexable"
    OUT_OF_SCOPE = "out of scope"


class FrontierUrl(NamedTuple):
    """The frontier's form of a URL: its host, its key and the rest of the URL."""

    host: str
    key: int
    tail: str


LinkDecision = FrontierUrl | LinkRefusal | str
"""A URL in the frontier's form, the reason why it is not followed, or the name of the trap it looks like."""

LinkCheck = Callable[[str], LinkDecision]


NamedUrl = tuple[int, str, int, LinkDecision, bool]
"""A URL that a page names: number of times, first text, `BY_…` bits, the decision, and whether the page links to it.

Only a link counts for the link graph (docs/graph.md). A URL that the page lists (a sitemap, a feed), gives as its own
(canonical) or embeds (an image) does not count. A plain tuple, because one is made for every link of every page.
"""


def evaluate_link(url: str, scope: Scope, limits: LimitSettings) -> LinkDecision:
    """Evaluate a URL that a page links to."""
    if not _is_wanted_type(url, scope):
        return LinkRefusal.UNINDEXABLE
    if not scope.allows(url):
        return LinkRefusal.OUT_OF_SCOPE
    trap = trap_of(url, limits)
    if trap is not None:
        return trap
    host = host_of(url)
    return FrontierUrl(host, key_of(url), tail_of(url, host))


def evaluate_requisite(url: str, scope: Scope, limits: LimitSettings) -> LinkDecision:
    """Evaluate a page requisite: fetched from any host, one hop further than links (T12), unless excluded."""
    if scope.excludes(url) or trap_of(url, limits) is not None:
        return LinkRefusal.OUT_OF_SCOPE
    host = host_of(url)
    return FrontierUrl(host, key_of(url), tail_of(url, host))


def _is_wanted_type(url: str, scope: Scope) -> bool:
    """Tell whether a URL's extension allows a type that the collection keeps (C4); most extensions allow any."""
    if not scope.media_types:
        return True
    path = url.partition("?")[0]
    dot = path.rfind(".", path.rfind("/"))
    guessed = mimetypes.types_map.get(path[dot:].lower()) if dot > 0 else None
    return guessed is None or guessed in scope.media_types


RULE = LinkRule(_ANCHOR, _BY_KIND, _LINKS, BY_REQUISITE, FrontierUrl, LinkRefusal.UNINDEXABLE, LinkRefusal.OUT_OF_SCOPE)
"""The rule in its compiled form."""


def evaluate_links(
    links: Iterable[Link], check_link: LinkCheck, check_requisite: LinkCheck, *, obeys: bool, too_deep: bool
) -> list[NamedUrl]:
    """Return each URL that a page names once, with its decision: a `FrontierUrl` if it may be followed."""
    return RULE.evaluate(links, check_link, check_requisite, obeys=obeys, too_deep=too_deep)


# ---- links as the archive keeps them ---------------------------------------------------------------------------------


MAX_OUTLINKS = 6_000
"""Maximum per page; `limits.links_per_page` cannot raise it, so that a metadata record stays small."""

_KINDS = {kind.value: kind for kind in LinkKind}


def outlink_lines(links: Iterable[Link]) -> tuple[str, ...]:
    """Return the values of `outlink` lines; canonical URLs contain neither blanks nor line ends."""
    # `.value` takes twice as long as `._value_`, and a page has a hundred links.
    return tuple(
        [f"{url} {kind._value_} nofollow" if nofollow else f"{url} {kind._value_}" for url, kind, _, nofollow in links]
    )


def outlinks_of(block: bytes) -> tuple[Link, ...]:
    """Return the links in the block of a metadata record; lines in other forms are skipped."""
    links = []
    for line in block.split(b"\n"):
        if line.startswith(b"outlink: "):
            url, _, how = line[9:].decode("utf-8", "replace").strip().partition(" ")
            kind, _, mark = how.partition(" ")
            # Lines of other crawlers have another word here (`L`), and are skipped.
            if kind in _KINDS and url.startswith(("http://", "https://")):
                links.append(Link(url, _KINDS[kind], nofollow=mark == "nofollow"))
    return tuple(links[:MAX_OUTLINKS])


def leads_to(block: bytes, url: str) -> bool:
    """Tell whether a page links to a URL, other than as a requisite; tested without parsing all its links."""
    # One search in the bytes settles most pages.
    if b"outlink: %b " % url.encode() not in block:
        return False
    return any(link.url == url and not link.kind.is_requisite for link in outlinks_of(block))


def field_of(block: bytes, name: str) -> str:
    """Return the first value of a name in the block of a metadata record; empty if it is absent."""
    start = name.encode() + b": "
    for line in block.split(b"\n"):
        if line.startswith(start):
            return line[len(start) :].decode("utf-8", "replace").strip()
    return ""
