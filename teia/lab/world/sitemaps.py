"""Sitemaps: the live pages of a host or some of them, with a lastmod that is honest, a lie or missing.

Orphans are listed like other pages.

A host with more pages than fit into one file has an index at /sitemap.xml and its parts at /sitemap-N.xml, part N being
slots N * urls_per_file onwards. An honest lastmod is the last *meaningful* change; real sites do not announce a
counter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from xml.sax.saxutils import escape

from teia.lab.world.draws import unit
from teia.lab.world.url_kinds import UrlKind
from teia.lab.world.urlspace import UrlSpace

_NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
_LISTED = frozenset({UrlKind.PAGE, UrlKind.PDF, UrlKind.ORPHAN})


def parts(space: UrlSpace, urls_per_file: int) -> int:
    """Return the number of files of a host's sitemap, without its index."""
    return -(-space.size // urls_per_file)


def w3c_time(unix_s: float) -> str:
    """Format a time as sitemaps and Atom do."""
    return datetime.fromtimestamp(int(unix_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def index(root: str, count: int) -> bytes:
    """Return the index of a large site. It has no lastmod: that of a part would need the state of all its pages."""
    entries = "".join(f"<sitemap><loc>{root}sitemap-{number}.xml</loc></sitemap>\n" for number in range(count))
    return f"{_DECLARATION}<sitemapindex {_NAMESPACE}>\n{entries}</sitemapindex>\n".encode()


def is_listed(space: UrlSpace, slot: int, share: float) -> bool:
    """Tell whether the sitemap of a host that lists this share of its live pages names a slot."""
    return space.kind(slot) in _LISTED and (share >= 1 or unit(space.host.name, "listed", slot) < share)


def part(space: UrlSpace, root: str, slots: Iterable[int], rewritten_s: Callable[[int], float], now_s: float) -> bytes:
    """Return the sitemap of some live slots; `rewritten_s` gives the time of a slot's last meaningful change."""
    entries = []
    for slot in slots:
        entries.append(f"<url><loc>{root}{escape(space.path(slot).decode())}</loc>")
        if space.host.sitemap != "bare":
            moment = rewritten_s(slot) if space.host.sitemap == "honest" else now_s
            entries.append(f"<lastmod>{w3c_time(moment)}</lastmod>")
        entries.append("</url>\n")
    return f"{_DECLARATION}<urlset {_NAMESPACE}>\n{''.join(entries)}</urlset>\n".encode()
