"""The truth about a world: every page, its versions, its links, and whether a crawler may fetch it.

`pages` yields all URLs of all hosts' trees, under every name of a host. Pictures, sitemaps, feeds, calendars and dead
names are not pages and are left out, though `line` answers for any URL of the world. Nothing here requests an answer
from the world; tests/lab/world/test_truth.py shows that both agree.
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


def pages(world: World, until_s: float) -> Iterator[TruthLine]:
    """Yield a line for every URL of every host's tree, host by host and name by name."""
    for host in world.hosts:
        permission = RobotsPermissions(host, world.robots_txt(host))
        space = world.spaces[host.index]
        for name in (host.name, *host.aliases):
            for slot in range(host.size):
                place = UrlTarget(space, space.kind(slot), space.path(slot), slot)
                yield _line(world, place, name, permission, until_s)


def line(world: World, url: str, until_s: float) -> TruthLine | None:
    """Return the line of one URL, in any spelling; None if the world has no such host or URL."""
    canonical = canonicalize(url)
    parts = split(canonical) if canonical else None
    host = world.names.get(parts.host) if parts and parts.port == world.port else None
    if parts is None or host is None:
        return None
    place = world.place(host, parts.target.encode())
    if place.kind is UrlKind.NOWHERE:
        return None
    return _line(world, place, parts.host, RobotsPermissions(host, world.robots_txt(host)), until_s)


def _line(world: World, place: UrlTarget, name: str, permission: RobotsPermissions, until_s: float) -> TruthLine:
    space, slot = place.space, place.slot
    url = (world.roots[name] + place.path).decode()
    versions, meaningful = _versions(world, place, until_s)
    changes = place.kind in WITH_BODY
    count = len(meaningful) - 1 if changes else 0
    links, nofollow = _links(world, place, name, count)
    since = []
    if world.spec.links.changing:
        for number, moment in enumerate(meaningful):
            then, shunned = _links(world, place, name, number)
            since.append((moment, [url for url in then if url not in shunned]))
    habit = world.changes.habit(space.host.content, slot) if changes else None
    return TruthLine(
        url=url,
        host=name,
        kind=place.kind.value,
        versions=versions,
        meaningful=meaningful,
        links=links,
        nofollow=nofollow,
        location=world.location(place).decode() if place.kind in REDIRECTS else None,
        robots_allowed=permission.allows(url),
        same_as=_original(world, place, name),
        process=PROCESS_NAMES[habit.process] if habit else None,
        rate_per_day=habit.rate_per_day * world.spec.time_factor if habit else None,
        links_since=since,
    )


def _versions(world: World, place: UrlTarget, until_s: float) -> tuple[list[str], list[str]]:
    """Return the times of all versions, and of those that differ in more than boilerplate."""
    if place.kind not in WITH_BODY:
        return [], []
    content = place.space.host.content
    began = iso_utc(world.time_s(-world.changes.habit(content, place.slot).age))
    versions, meaningful = [began], [began]
    for days, is_meaningful in world.changes.events(content, place.slot, world.days(until_s)):
        moment = iso_utc(world.time_s(days))
        versions.append(moment)
        if is_meaningful:
            meaningful.append(moment)
    return versions, meaningful


def _links(world: World, place: UrlTarget, name: str, meaningful: int) -> tuple[list[str], list[str]]:
    """Return URLs that the body links to after `meaningful` changes, each once, and those with only nofollow links."""
    root = world.roots[name]
    if place.kind is UrlKind.CHOICES:
        return _unique(world.choices(place)), []
    if place.kind in REDIRECTS:
        return _unique([world.location(place)]), []
    nav = [root + path for path in world.frame(place.space).nav]
    if place.kind is UrlKind.CALENDAR:
        month = find_month(place.space, place.path)
        return _unique([*nav, *(root + other.path for other in month.neighbours)] if month else nav), []
    if place.kind not in WITH_BODY or place.kind is UrlKind.PDF:
        return [], []
    followed, shunned = _page_links(world, place, root, meaningful)
    links = _unique([*nav, *followed, *shunned])
    # A URL that has links of both kinds may be followed.
    sure = set(_unique([*nav, *followed]))
    return links, [url for url in links if url not in sure]


def _page_links(world: World, place: UrlTarget, root: bytes, meaningful: int) -> tuple[list[bytes], list[bytes]]:
    space, slot = place.space, place.slot
    found = world.graph.of_page(space, slot, world.graph.draws(space, slot), meaningful)
    parent = [space.parent(slot)] if slot else []
    followed = [root + space.path(each) for each in (*parent, *found.children, *found.inside)]
    shunned = [root + space.path(found.nofollow)] if found.nofollow is not None else []
    for link in found.outside:
        (shunned if link.nofollow else followed).append(world.roots[link.name] + link.space.path(link.slot))
    followed += [world.roots[partner] for partner in found.partners]
    if space.host.park:
        page = (root + place.path).decode()
        entrances = [resolve(each.decode(), page) for each in trap_park.entrances(space, slot)]
        followed += [url.encode() for url in entrances if url]
    return followed, shunned


def _original(world: World, place: UrlTarget, name: str) -> str | None:
    original: WorldHost = world.hosts[place.space.host.content]
    if name == original.name or place.slot < 0:
        return None
    return (world.roots[original.name] + place.space.path(place.slot)).decode()


def _unique(urls: list[bytes]) -> list[str]:
    """Return the URLs, each once. A world writes only canonical paths."""
    return list(dict.fromkeys(url.decode() for url in urls))
