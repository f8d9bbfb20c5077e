"""Files of a server besides its pages: robots.txt, sitemaps, a feed, pictures, a style sheet, perhaps a calendar."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from teia.lab.world import endless_calendar, feeds, robots, sitemaps
from teia.lab.world.draws import scramble
from teia.lab.world.exchange import WorldAnswer
from teia.lab.world.failure_answers import error_page, headers_of, html_headers
from teia.lab.world.hosts import WorldHost
from teia.lab.world.links import LinkGraph
from teia.lab.world.media import STYLE, png
from teia.lab.world.pages import PageFrame
from teia.lab.world.spec import WorldSpec
from teia.lab.world.url_kinds import UrlKind
from teia.lab.world.urlspace import UrlSpace, UrlTarget

_IMAGE = re.compile(rb"([a-z]+)/([0-9]{1,10})\.png")
_SITEMAP_PART = re.compile(rb"sitemap-([0-9]{1,7})\.xml")


class SiteFiles:
    """Answers for everything that has no slot. `rewritten_s` gives the time of a page's last meaningful change."""

    def __init__(
        self,
        spec: WorldSpec,
        graph: LinkGraph,
        roots: Mapping[str, bytes],
        frame: Callable[[UrlSpace], PageFrame],
        rewritten_s: Callable[[UrlSpace, int, float], float],
        published_s: Callable[[float], float],
    ) -> None:
        self._spec, self._graph, self._roots, self._frame, self._rewritten_s = spec, graph, roots, frame, rewritten_s
        self._published_s = published_s
        self._answers: dict[UrlKind, Callable[[UrlTarget, float], WorldAnswer]] = {
            UrlKind.ROBOTS: self._robots,
            UrlKind.SITEMAP: self._sitemap,
            UrlKind.FEED: self._feed,
            UrlKind.IMAGE: self._picture,
            UrlKind.CALENDAR: self._month,
        }

    def kind(self, space: UrlSpace, path: bytes) -> UrlKind:
        """Return the kind of a path that belongs to no slot."""
        name = path.partition(b"?")[0]
        host = space.host
        if name == b"robots.txt":
            return UrlKind.ROBOTS
        if host.sitemap != "none" and (name == b"sitemap.xml" or self._sitemap_part(space, name) is not None):
            return UrlKind.SITEMAP
        if name == b"feed.xml" and host.feed != "none":
            return UrlKind.FEED
        if name == b"style.css":
            return UrlKind.STYLE
        if self._image(space, name) is not None:
            return UrlKind.IMAGE
        return UrlKind.CALENDAR if endless_calendar.find_month(space, path) else UrlKind.NOWHERE

    def answer(self, target: UrlTarget, now_s: float) -> WorldAnswer:
        """Answer a request for a path that belongs to no slot."""
        if target.kind is UrlKind.STYLE:
            return WorldAnswer(200, headers_of(target.space.host, "text/css"), STYLE)
        make = self._answers.get(target.kind)
        return make(target, now_s) if make else _failed(target, 404, "not_found")

    def robots_txt(self, host: WorldHost) -> str:
        """Return a host's robots.txt; empty if it has none or serves an error instead."""
        if host.robots not in {"some", "closed"}:
            return ""
        return robots.robots_txt(self._spec, host, f"{self._root(host)}sitemap.xml")

    def _root(self, host: WorldHost) -> str:
        return self._roots[host.name].decode()

    def _robots(self, target: UrlTarget, _now_s: float) -> WorldAnswer:
        host = target.space.host
        if host.robots == "none":
            return _failed(target, 404, "not_found")
        if host.robots == "broken":
            return _failed(target, 503, "error")
        return WorldAnswer(200, headers_of(host, "text/plain; charset=utf-8"), self.robots_txt(host).encode())

    def _sitemap_part(self, space: UrlSpace, name: bytes) -> int | None:
        match = _SITEMAP_PART.fullmatch(name)
        count = sitemaps.parts(space, self._spec.sitemaps.urls_per_file)
        # A sitemap that fits into one file has no parts: it is /sitemap.xml itself.
        return int(match.group(1)) if match and count > 1 and int(match.group(1)) < count else None

    def _sitemap(self, target: UrlTarget, now_s: float) -> WorldAnswer:
        space, root = target.space, self._root(target.space.host)
        per_file = self._spec.sitemaps.urls_per_file
        count = sitemaps.parts(space, per_file)
        number = self._sitemap_part(space, target.path.partition(b"?")[0])
        if number is None and count > 1:
            return WorldAnswer(200, headers_of(space.host, "application/xml"), sitemaps.index(root, count))
        first = (number or 0) * per_file
        share, last = self._spec.sitemaps.listed, min(first + per_file, space.size)
        slots = [slot for slot in range(first, last) if sitemaps.is_listed(space, slot, share)]
        published_s = self._published_s(now_s)
        body = sitemaps.part(space, root, slots, lambda slot: self._rewritten_s(space, slot, now_s), published_s)
        return WorldAnswer(200, headers_of(space.host, "application/xml"), body)

    def _feed(self, target: UrlTarget, now_s: float) -> WorldAnswer:
        space, root = target.space, self._root(target.space.host)
        host, codec = space.host, space.lexicon.codec
        slots = [slot for slot in range(min(feeds.WATCHED_SLOTS, space.size)) if space.kind(slot) is UrlKind.PAGE]
        times = {slot: self._rewritten_s(space, slot, now_s) for slot in slots}
        latest = sorted(slots, key=lambda slot: times[slot], reverse=True)[: self._spec.feeds.items]
        entries = [
            feeds.FeedEntry(root + space.path(slot).decode(), space.title(slot).decode(codec), times[slot])
            for slot in latest
        ]
        body = (feeds.rss if host.feed == "rss" else feeds.atom)(host.title, root, host.language, entries)
        return WorldAnswer(200, headers_of(host, feeds.MEDIA_TYPES[host.feed]), body)

    def _image(self, space: UrlSpace, name: bytes) -> int | None:
        match = _IMAGE.fullmatch(name)
        if match is None or match.group(1) != space.lexicon.phrases["images"] or int(match.group(2)) >= space.size:
            return None
        return int(match.group(2))

    def _picture(self, target: UrlTarget, _now_s: float) -> WorldAnswer:
        slot = self._image(target.space, target.path.partition(b"?")[0]) or 0
        return WorldAnswer(200, headers_of(target.space.host, "image/png"), png(scramble(slot, target.space.host.salt)))

    def _month(self, target: UrlTarget, _now_s: float) -> WorldAnswer:
        month = endless_calendar.find_month(target.space, target.path)
        if month is None:
            return _failed(target, 404, "not_found")
        body = endless_calendar.month_page(target.space, self._frame(target.space), self._graph, month)
        return WorldAnswer(200, html_headers(target.space.host), body)


def _failed(target: UrlTarget, status: int, phrase: str) -> WorldAnswer:
    return WorldAnswer(status, html_headers(target.space.host), error_page(target.space.lexicon, phrase, status))
