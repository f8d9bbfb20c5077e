"""Feeds, RSS 2.0 or Atom: the latest meaningful changes among a host's first pages.

Only the first slots are watched, because a site's feed is about its front pages. Examining all pages of a large host
would cost more than all other answers of the lab.
"""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import formatdate
from xml.sax.saxutils import escape

from teia.lab.world.sitemaps import w3c_time

WATCHED_SLOTS = 64
MEDIA_TYPES = {"rss": "application/rss+xml", "atom": "application/atom+xml"}


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One page of a feed."""

    url: str
    title: str
    time_s: float


def rss(title: str, root: str, language: str, entries: list[FeedEntry]) -> bytes:
    """Return an RSS 2.0 document."""
    items = "".join(
        f"<item><title>{escape(entry.title)}</title><link>{escape(entry.url)}</link>"
        f'<guid isPermaLink="true">{escape(entry.url)}</guid>'
        f"<pubDate>{formatdate(int(entry.time_s), usegmt=True)}</pubDate></item>\n"
        for entry in entries
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0"><channel><title>{escape(title)}</title>'
        f"<link>{root}</link><description>{escape(title)}</description><language>{language}</language>\n"
        f"{items}</channel></rss>\n"
    ).encode()


def atom(title: str, root: str, language: str, entries: list[FeedEntry]) -> bytes:
    """Return an Atom document (RFC 4287)."""
    updated = w3c_time(max((entry.time_s for entry in entries), default=0.0))
    items = "".join(
        f'<entry><title>{escape(entry.title)}</title><link href="{escape(entry.url)}"/>'
        f"<id>{escape(entry.url)}</id><updated>{w3c_time(entry.time_s)}</updated></entry>\n"
        for entry in entries
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="{language}">'
        f'<title>{escape(title)}</title><link href="{root}"/><link rel="self" href="{root}feed.xml"/><id>{root}</id>'
        f"<author><name>{escape(title)}</name></author><updated>{updated}</updated>\n{items}</feed>\n"
    ).encode()
