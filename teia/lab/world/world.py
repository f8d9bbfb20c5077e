"""A complete synthetic web that answers any request at any instant as its servers would.

    world = World(WorldSpec.load(), epoch_s=clock.now_s(), port=8800)
    world.answer(Request("www.gazeta-de-valbela.test", "/"), clock.now_s())

A world has no visible state: an answer depends on the spec, the request and the time since the epoch, never on earlier
requests. Only hosts are kept in memory. `truth` gives the facts about the pages.
"""

from __future__ import annotations

import msgspec
from isal import isal_zlib

from teia.lab.text.prose import Lexicons
from teia.lab.world import trap_park
from teia.lab.world.change import ChangeHistories, WorldPageState
from teia.lab.world.draws import bits64
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.lab.world.failure_answers import Failures, headers_of, html_headers, moved_page
from teia.lab.world.hosts import FIRST_ADDRESS, DeadName, WorldHost, make_hosts
from teia.lab.world.links import LinkGraph
from teia.lab.world.media import pdf
from teia.lab.world.pages import PageFrame, PageWriter, make_frame
from teia.lab.world.regions import Regions
from teia.lab.world.site_files import SiteFiles
from teia.lab.world.soft404_page import not_found_page
from teia.lab.world.spec import WorldSpec
from teia.lab.world.url_kinds import REDIRECTS, WITH_BODY, Leaves, UrlKind, make_odds
from teia.lab.world.urlspace import UrlSpace, UrlTarget
from teia.lab.world.validators import NO_CLAIM, claim

DAY_S = 86_400.0
SESSION_S = 3_600.0
AGAIN = b"again=1"
"""Parameter that an endless redirect adds to its URL, and removes again."""

_NOWHERE = frozenset({UrlKind.NOT_FOUND, UrlKind.NOWHERE})
_PAGE, _PDF = UrlKind.PAGE, UrlKind.PDF  # looking a member up in its class is slow
_GZIP_WBITS = 31
_GZIP_LEVEL = 1


class World:
    """All hosts of a spec. Pages begin to change at `epoch_s`; `port` is that of absolute links."""

    def __init__(self, spec: WorldSpec, *, epoch_s: float, port: int = 8800, address: str = FIRST_ADDRESS) -> None:
        self.spec, self.epoch_s, self.port = spec, epoch_s, port
        self.hosts, dead = make_hosts(spec, address)
        self.names: dict[str, WorldHost] = {name: host for host in self.hosts for name in (host.name, *host.aliases)}
        self.unreachable: dict[str, DeadName] = {each.name: each for each in dead if each.address}
        self.regions = Regions(spec.regions)
        self.changes = ChangeHistories(spec.changes, spec.seed, spec.pages)
        self.spaces = self._make_spaces()
        self.graph = LinkGraph(spec, self.spaces, dead)
        suffix = "" if port == 80 else f":{port}"
        every_name = (*self.names, *(each.name for each in dead))
        self.roots: dict[str, bytes] = {name: f"http://{name}{suffix}/".encode() for name in every_name}
        self._writer = PageWriter(spec, self.graph, self.roots)
        self._failures = Failures(spec.errors)
        self._frames: dict[int, PageFrame] = {}
        self._shared: dict[bytes, bytes] = {}
        self._html = [html_headers(host) for host in self.hosts]
        self._site_files = SiteFiles(spec, self.graph, self.roots, self.frame, self._rewritten_s, self.published_s)
        self._days_per_s = spec.time_factor / DAY_S
        self._is_instant = self.regions.is_instant and not any(host.delay_s or host.drip_s for host in self.hosts)

    def seeds(self) -> list[str]:
        """Return the URL to begin with: every host is reachable from the first one's home page."""
        return [self.roots[self.hosts[0].name].decode()]

    # ---- time --------------------------------------------------------------------------------------------------------

    def days(self, now_s: float) -> float:
        """Return world days since the epoch; 0 before it."""
        return max(0.0, (now_s - self.epoch_s) * self._days_per_s)

    def time_s(self, days: float) -> float:
        """Return the Unix time of an instant in world days."""
        return self.epoch_s + days * DAY_S / (self.spec.time_factor or 1.0)

    # ---- requests ----------------------------------------------------------------------------------------------------

    def answer(self, request: WorldRequest, now_s: float) -> WorldAnswer:
        """Answer any request; never raises. HEAD gets the answer of GET, and the server cuts the body."""
        host = self.names.get(request.host) or self.names.get(request.host.lower().rstrip("."))
        if host is None:
            return WorldAnswer(404, b"Content-Type: text/plain\r\n", b"No such site here.\n")
        if request.method not in ("GET", "HEAD"):
            return WorldAnswer(405, b"Allow: GET, HEAD\r\n")
        target = request.target.encode("latin-1", "replace")
        if not target.startswith(b"/"):
            return WorldAnswer(400, b"Content-Type: text/plain\r\n", b"Not a path.\n")
        answer = self._answer_target(self.resolve_target(host, target), request, now_s)
        if self._is_instant:
            return answer
        size_bytes = len(answer.headers) + len(answer.body)
        delay_s = host.delay_s + self.regions.delay_s(request.client, host, size_bytes)
        return msgspec.structs.replace(answer, delay_s=answer.delay_s + delay_s, drip_s=host.drip_s)

    def resolve_target(self, host: WorldHost, target: bytes) -> UrlTarget:
        """Return the target of a request on a host."""
        space, path = self.spaces[host.index], target[1:]
        slot = space.find(path)
        if slot is not None:
            return UrlTarget(space, space.kind(slot), path, slot)
        if host.park and (found := trap_park.trap_at(space, path)):
            return UrlTarget(space, UrlKind.PARK if found.slot < 0 else space.kind(found.slot), path, found.slot)
        return UrlTarget(space, self._site_files.kind(space, path), path)

    def _answer_target(self, target: UrlTarget, request: WorldRequest, now_s: float) -> WorldAnswer:
        if target.kind is _PAGE or target.kind in WITH_BODY:
            return self._text(target, request, now_s)
        if target.kind in REDIRECTS or target.kind is UrlKind.CHOICES:
            return self._redirect(target)
        if target.kind is UrlKind.PARK and (found := trap_park.trap_at(target.space, target.path)):
            body = trap_park.park_page(target.space, self.frame(target.space), found.trap, target.path)
            return WorldAnswer(200, self._html[target.space.host.index], body)
        if target.kind in _NOWHERE and target.space.host.soft_404:
            body = not_found_page(target.space, self.frame(target.space), target.path)
            return WorldAnswer(200, self._html[target.space.host.index], body)
        if target.slot >= 0:
            return self._failures.answer(target.kind, target.space, target.slot)
        return self._site_files.answer(target, now_s)

    # ---- pages -------------------------------------------------------------------------------------------------------

    def state(self, space: UrlSpace, slot: int, now_s: float) -> WorldPageState:
        """Return the numbers of changes of a page up to now, and the times of the last ones."""
        return self.changes.state(space.host.content, slot, (now_s - self.epoch_s) * self._days_per_s)

    def rewritten_s(self, target: UrlTarget, now_s: float) -> float:
        """Return the time of a page's last meaningful change."""
        return self.time_s(self.state(target.space, target.slot, now_s).rewritten)

    def _rewritten_s(self, space: UrlSpace, slot: int, now_s: float) -> float:
        return self.published_s(self.time_s(self.state(space, slot, now_s).rewritten))

    def published_s(self, moment_s: float) -> float:
        """Return a time as sitemaps and feeds show it: on a calendar that may be as fast as the world."""
        if not self.spec.sitemaps.fast_dates:
            return moment_s
        return self.epoch_s + (moment_s - self.epoch_s) * self.spec.time_factor

    def _text(self, target: UrlTarget, request: WorldRequest, now_s: float) -> WorldAnswer:
        """Answer with a page or a PDF: 304, or the body, compressed where host and client agree."""
        space, slot = target.space, target.slot
        host = space.host
        state = self.state(space, slot, now_s)
        claimed = NO_CLAIM
        if host.validators != "none":
            first_s = (
                self.time_s(-self.changes.change_process(host.content, slot).age)
                if host.validators == "frozen"
                else 0.0
            )
            claimed = claim(host, slot, state[:2], first_s, self.time_s(state.changed), now_s)
            if request.headers and claimed.matches(request):
                return WorldAnswer(304, b"Server: %b\r\n%b" % (host.server.encode(), claimed.headers))
        if target.kind is _PDF:
            return WorldAnswer(
                200, headers_of(host, "application/pdf") + claimed.headers, self._pdf(space, slot, state)
            )
        session = self._session(host, now_s) if host.session else b""
        frame = self._frames.get(host.index) or self.frame(space)
        body = self._writer.write(space, frame, slot, state, session)
        if host.park:
            body = self._add_trap_links(target, frame, body)
        headers = self._html[host.index] + claimed.headers
        if host.gzip and "gzip" in request.headers.get("accept-encoding", ""):
            headers += b"Content-Encoding: gzip\r\n"
            body = isal_zlib.compress(body, _GZIP_LEVEL, _GZIP_WBITS)
        return WorldAnswer(200, headers, body, chunked=host.chunked)

    @staticmethod
    def _add_trap_links(target: UrlTarget, frame: PageFrame, body: bytes) -> bytes:
        """Add links into the trap park to a page of its host, and session ids if the URL is a session trap."""
        found = trap_park.trap_at(target.space, target.path)
        if found is not None and found.trap is trap_park.Trap.SESSION:
            body = trap_park.add_session_ids(body, target.space, target.path)
        return trap_park.add_entrances(body, target.space, frame, target.slot)

    def robots_txt(self, host: WorldHost) -> str:
        """Return a host's robots.txt; empty if it has none or serves an error instead."""
        return self._site_files.robots_txt(host)

    def frame(self, space: UrlSpace) -> PageFrame:
        """Return the shared parts of all pages of a host; rendered when first needed, then cached."""
        frame = self._frames.get(space.host.index)
        if frame is None:
            frame = make_frame(space, self.roots[self.hosts[space.host.content].name], self._shared)
            self._frames[space.host.index] = frame
        return frame

    def _pdf(self, space: UrlSpace, slot: int, state: WorldPageState) -> bytes:
        title, *texts = (text.decode(space.lexicon.codec) for text in self._writer.texts(space, slot, state.meaningful))
        return pdf(title, texts, state.cosmetic)

    def _session(self, host: WorldHost, now_s: float) -> bytes:
        """Return the session suffix of a host's links: 32 hexadecimal digits, different in each hour of the world."""
        key = (self.spec.seed, "session", host.content, int((now_s - self.epoch_s) // SESSION_S))
        token = b"%016X%016X" % (bits64(*key, 1), bits64(*key, 2))
        if host.session == "path" and not host.queries:
            return b";jsessionid=" + token
        return b"%bPHPSESSID=%b" % (b"&" if host.queries else b"?", token)

    # ---- redirects ---------------------------------------------------------------------------------------------------

    def location(self, target: UrlTarget) -> bytes:
        """Return the target of a redirect, as an absolute URL."""
        space, slot = target.space, target.slot
        draws = self.graph.draws(space, slot)
        if draws[10] < self.spec.errors.loops * 65536:
            url = self.roots[space.host.name] + space.path(slot)
            return url if AGAIN in target.path else b"%b%b%b" % (url, b"&" if b"?" in url else b"?", AGAIN)
        found = self.graph.redirect(space, slot, draws, chained=draws[11] < self.spec.errors.chains * 65536)
        return self.roots[found.name] + found.space.path(found.slot)

    def choices(self, target: UrlTarget) -> list[bytes]:
        """Return the URLs a 300 offers: its redirect target, and the page above."""
        space = target.space
        return [self.location(target), self.roots[space.host.name] + space.path(space.parent(target.slot))]

    def _redirect(self, target: UrlTarget) -> WorldAnswer:
        headers, lexicon = self._html[target.space.host.index], target.space.lexicon
        if target.kind is UrlKind.CHOICES:
            return WorldAnswer(300, headers, moved_page(lexicon, "choices", self.choices(target)))
        url = self.location(target)
        root = self.roots[target.space.host.name]
        written = b"/" + url[len(root) :] if target.space.host.relative and url.startswith(root) else url
        headers += b"Location: %b\r\n" % written
        return WorldAnswer(int(target.kind), headers, moved_page(lexicon, "moved", [url]))

    # ---- building ----------------------------------------------------------------------------------------------------

    def _make_spaces(self) -> list[UrlSpace]:
        library = Lexicons(self.spec.seed)
        count = _count_leaves(self.hosts)
        odds = {
            (excludes, orphans): make_odds(self.spec, count, has_robots=excludes, has_sitemap=orphans)
            for excludes in (False, True)
            for orphans in (False, True)
        }
        spaces = []
        for host in self.hosts:
            lexicon = library.lexicon(host.language, host.topic, host.charset)
            spaces.append(UrlSpace(host, lexicon, odds[host.can_exclude, host.can_orphan]))
        return spaces


def _count_leaves(hosts: list[WorldHost]) -> Leaves:
    leaves = [(max(0, host.size - host.first_leaf), host) for host in hosts]
    return Leaves(
        slots=sum(host.size for host in hosts),
        leaves=sum(number for number, _ in leaves),
        with_robots=sum(number for number, host in leaves if host.can_exclude),
        with_sitemap=sum(number for number, host in leaves if host.can_orphan),
    )
