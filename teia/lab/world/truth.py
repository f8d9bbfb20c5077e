"""The truth about a world: every page, its versions, its links, and whether a crawler may fetch it.

`all_lines` yields all URLs of all hosts' trees, under every name of a host. Pictures, sitemaps, feeds, calendars and
dead names are not pages and are left out, though `find_line` answers for any URL of the world. Nothing here requests an
answer from the world; tests/lab/world/test_truth.py shows that both agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from teia.clock import iso_utc
from teia.lab.world import trap_park
from teia.lab.world.change import PROCESS_NAMES
from teia.lab.world.endless_calendar import find_month
from teia.lab.world.hosts import WorldHost
from teia.lab.world.robots import RobotsPermissions
from teia.lab.world.url_kinds import REDIRECTS, WITH_BODY, UrlKind
from teia.lab.world.urlspace import UrlTarget
from teia.lab.world.world import World
from teia.urls import canonicalize, resolve, split


@dataclass(frozen=True, slots=True)
class TruthLine:
    """The truth about one URL up to an instant. Times are ISO 8601; URLs are canonical.

    `versions` begins with the time before the epoch at which the page got its first version. It is empty for URLs
    without a text of their own. `links` are the page's `<a href>` at that instant, each once, in order; `nofollow`
    those among them that occur only with rel=nofollow. Where links change (`links.changing`), `links_since` has for
    each meaningful version its time and those of its links that may be followed. `same_as` is the URL of the original
    if the URL belongs to a mirror or an alias.
    """

    url: str
    host: str
    kind: str
    versions: list[str]
    meaningful: list[str]
    links: list[str]
    nofollow: list[str]
    location: str | None
    robots_allowed: bool
    same_as: str | None
    process: str | None
    rate_per_day: float | None
    links_since: list[tuple[str, list[str]]]

    def as_json(self) -> dict[str, Any]:
        """Return the line as the truth file has it."""
        return asdict(self)


def all_lines(world: World, until_s: float) -> Iterator[TruthLine]:
    """Yield a line for every URL of every host's tree, host by host and name by name."""
    for host in world.hosts:
        permission = RobotsPermissions(host, world.robots_txt(host))
        space = world.spaces[host.index]
        for name in (host.name, *host.aliases):
            for slot in range(host.size):
                target = UrlTarget(space, space.kind(slot), space.path(slot), slot)
                yield _make_line(world, target, name, permission, until_s)


def find_line(world: World, url: str, until_s: float) -> TruthLine | None:
    """Return the line of one URL, in any spelling; None if the world has no such host or URL."""
    canonical = canonicalize(url)
    parts = split(canonical) if canonical else None
    host = world.names.get(parts.host) if parts and parts.port == world.port else None
    if parts is None or host is None:
        return None
    target = world.resolve_target(host, parts.target.encode())
    if target.kind is UrlKind.NOWHERE:
        return None
    return _make_line(world, target, parts.host, RobotsPermissions(host, world.robots_txt(host)), until_s)


def _make_line(world: World, target: UrlTarget, name: str, permission: RobotsPermissions, until_s: float) -> TruthLine:
    space, slot = target.space, target.slot
    url = (world.roots[name] + target.path).decode()
    versions, meaningful = _versions(world, target, until_s)
    changes = target.kind in WITH_BODY
    count = len(meaningful) - 1 if changes else 0
    links, nofollow = _links(world, target, name, count)
    since = []
    if world.spec.links.changing:
        for number, moment in enumerate(meaningful):
            then, nofollow_then = _links(world, target, name, number)
            since.append((moment, [url for url in then if url not in nofollow_then]))
    change_process = world.changes.change_process(space.host.content, slot) if changes else None
    return TruthLine(
        url=url,
        host=name,
        kind=target.kind.value,
        versions=versions,
        meaningful=meaningful,
        links=links,
        nofollow=nofollow,
        location=world.location(target).decode() if target.kind in REDIRECTS else None,
        robots_allowed=permission.allows(url),
        same_as=_original(world, target, name),
        process=PROCESS_NAMES[change_process.process] if change_process else None,
        rate_per_day=change_process.rate_per_day * world.spec.time_factor if change_process else None,
        links_since=since,
    )


def _versions(world: World, target: UrlTarget, until_s: float) -> tuple[list[str], list[str]]:
    """Return the times of all versions, and of those that differ in more than boilerplate."""
    if target.kind not in WITH_BODY:
        return [], []
    content = target.space.host.content
    began = iso_utc(world.time_s(-world.changes.change_process(content, target.slot).age))
    versions, meaningful = [began], [began]
    for days, is_meaningful in world.changes.events(content, target.slot, world.days(until_s)):
        moment = iso_utc(world.time_s(days))
        versions.append(moment)
        if is_meaningful:
            meaningful.append(moment)
    return versions, meaningful


def _links(world: World, target: UrlTarget, name: str, meaningful: int) -> tuple[list[str], list[str]]:
    """Return URLs that the body links to after `meaningful` changes, each once, and those with only nofollow links."""
    root = world.roots[name]
    if target.kind is UrlKind.CHOICES:
        return _unique(world.choices(target)), []
    if target.kind in REDIRECTS:
        return _unique([world.location(target)]), []
    nav = [root + path for path in world.frame(target.space).nav]
    if target.kind is UrlKind.CALENDAR:
        month = find_month(target.space, target.path)
        return _unique([*nav, *(root + other.path for other in month.neighbours)] if month else nav), []
    if target.kind not in WITH_BODY or target.kind is UrlKind.PDF:
        return [], []
    followed, nofollow = _page_links(world, target, root, meaningful)
    links = _unique([*nav, *followed, *nofollow])
    # A URL that has links of both kinds may be followed.
    sure = set(_unique([*nav, *followed]))
    return links, [url for url in links if url not in sure]


def _page_links(world: World, target: UrlTarget, root: bytes, meaningful: int) -> tuple[list[bytes], list[bytes]]:
    space, slot = target.space, target.slot
    found = world.graph.page_links(space, slot, world.graph.draws(space, slot), meaningful)
    parent = [space.parent(slot)] if slot else []
    followed = [root + space.path(each) for each in (*parent, *found.children, *found.inside)]
    nofollow = [root + space.path(found.nofollow)] if found.nofollow is not None else []
    for link in found.outside:
        (nofollow if link.nofollow else followed).append(world.roots[link.name] + link.space.path(link.slot))
    followed += [world.roots[partner] for partner in found.partners]
    if space.host.park:
        page = (root + target.path).decode()
        entrances = [resolve(each.decode(), page) for each in trap_park.entrances(space, slot)]
        followed += [url.encode() for url in entrances if url]
    return followed, nofollow


def _original(world: World, target: UrlTarget, name: str) -> str | None:
    original: WorldHost = world.hosts[target.space.host.content]
    if name == original.name or target.slot < 0:
        return None
    return (world.roots[original.name] + target.space.path(target.slot)).decode()


def _unique(urls: list[bytes]) -> list[str]:
    """Return the URLs, each once. A world writes only canonical paths."""
    return list(dict.fromkeys(url.decode() for url in urls))
