"""A page's links as the archive keeps them: lines of the metadata record that follows its answer.

    outlink: http://example.org/a a            the URL, and where in the page it stood (LinkKind)
    outlink: http://example.org/b a nofollow

With them the link graph (F5) can be exported, and made again, from the archive alone. Lines that other crawlers wrote
under the same name (`outlink: URL L a/@href`) are not in this form and are skipped: those links are read from the
page itself.
"""

from __future__ import annotations

from teia.frontier.cell.schema import BY_FEED, BY_REDIRECT, BY_REQUISITE, BY_SITEMAP
from teia.records import Link, LinkKind

FOUND_BY = {
    LinkKind.SITEMAP: BY_SITEMAP,
    LinkKind.FEED: BY_FEED,
    LinkKind.REDIRECT: BY_REDIRECT,
    **{kind: BY_REQUISITE for kind in LinkKind if kind.is_requisite},
}
"""Discovery bits by the kind of link; every other kind is an ordinary link."""

MAX_OUTLINKS = 6_000
"""Maximum per page; `limits.links_per_page` cannot raise it, so that a metadata record stays small."""

_KINDS = {kind.value: kind for kind in LinkKind}


def outlink_line(link: Link) -> str:
    """Return the value of one `outlink` line; canonical URLs contain neither blanks nor line ends."""
    kind = link.kind._value_  # `.value` takes twice as long, and a page has a hundred links
    return f"{link.url} {kind} nofollow" if link.nofollow else f"{link.url} {kind}"


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
