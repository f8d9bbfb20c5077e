"""What a world knows about itself: every page, its versions, its links, and whether a crawler may have it.

`pages` goes through all URLs of all hosts' trees, under every name a host has; pictures, sitemaps, feeds, calendars and
dead names are not pages and are left out, though `line` answers for any URL of the world. Nothing here asks the world
for an answer; that both agree is what tests/lab/test_truth.py shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from teia.clock import iso_utc
from teia.lab import park
from teia.lab.change import PROCESS_NAMES
from teia.lab.endless import find_month
from teia.lab.faults import REDIRECTS, WITH_BODY, Kind
from teia.lab.hosts import Host
from teia.lab.robots import Permission
from teia.lab.urlspace import Place
from teia.lab.world import World
from teia.urls import canonicalize, resolve, split


@dataclass(frozen=True, slots=True)
class TruthLine:
    """All there is to know about one URL up to an instant. Times are ISO 8601; URLs are canonical.

    `versions` begins with the time at which the page, before the epoch, became what the epoch found; it is empty for
    what has no text of its own. `links` are the page's `<a href>`, each once, in their order; `nofollow` those among
    them that only stand there with rel=nofollow. `same_as` is the URL of which a mirror's or an alias' URL is a copy.
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

    def as_json(self) -> dict[str, Any]:
        """Return the line as the truth file has it."""
        return asdict(self)


def pages(world: World, until_s: float) -> Iterator[TruthLine]:
    """Yield a line for every URL of every host's tree, host by host and name by name."""
    for host in world.hosts:
        permission = Permission(host, world.robots_txt(host))
        space = world.spaces[host.index]
        for name in (host.name, *host.aliases):
            for slot in range(host.size):
                place = Place(space, space.kind(slot), space.path(slot), slot)
                yield _line(world, place, name, permission, until_s)


def line(world: World, url: str, until_s: float) -> TruthLine | None:
    """Return the line of one URL, in any spelling; None where the world has no such host, or nothing there."""
    canonical = canonicalize(url)
    parts = split(canonical) if canonical else None
    host = world.names.get(parts.host) if parts and parts.port == world.port else None
    if parts is None or host is None:
        return None
    place = world.place(host, parts.target.encode())
    if place.kind is Kind.NOWHERE:
        return None
    return _line(world, place, parts.host, Permission(host, world.robots_txt(host)), until_s)


def _line(world: World, place: Place, name: str, permission: Permission, until_s: float) -> TruthLine:
    space, slot = place.space, place.slot
    url = (world.roots[name] + place.path).decode()
    versions, meaningful = _versions(world, place, until_s)
    links, nofollow = _links(world, place, name)
    changes = place.kind in WITH_BODY
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
    )


def _versions(world: World, place: Place, until_s: float) -> tuple[list[str], list[str]]:
    """When each version came to be, and when those did that differ in more than boilerplate."""
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


def _links(world: World, place: Place, name: str) -> tuple[list[str], list[str]]:
    """URLs that the body links to, each once, and those of them with nothing but nofollow links."""
    root = world.roots[name]
    if place.kind is Kind.CHOICES:
        return _unique(world.choices(place)), []
    if place.kind in REDIRECTS:
        return _unique([world.location(place)]), []
    nav = [root + path for path in world.frame(place.space).nav]
    if place.kind is Kind.CALENDAR:
        month = find_month(place.space, place.path)
        return _unique([*nav, *(root + other.path for other in month.neighbours)] if month else nav), []
    if place.kind not in WITH_BODY or place.kind is Kind.PDF:
        return [], []
    followed, shunned = _page_links(world, place, root)
    links = _unique([*nav, *followed, *shunned])
    sure = set(_unique([*nav, *followed]))
    return links, [url for url in links if url not in sure]


def _page_links(world: World, place: Place, root: bytes) -> tuple[list[bytes], list[bytes]]:
    space, slot = place.space, place.slot
    found = world.graph.of_page(space, slot, world.graph.draws(space, slot))
    parent = [space.parent(slot)] if slot else []
    followed = [root + space.path(each) for each in (*parent, *found.children, *found.inside)]
    shunned = [root + space.path(found.nofollow)] if found.nofollow is not None else []
    for link in found.outside:
        (shunned if link.nofollow else followed).append(world.roots[link.name] + link.space.path(link.slot))
    followed += [world.roots[partner] for partner in found.partners]
    if space.host.park:
        page = (root + place.path).decode()
        entrances = [resolve(each.decode(), page) for each in park.entrances(space, slot)]
        followed += [url.encode() for url in entrances if url]
    return followed, shunned


def _original(world: World, place: Place, name: str) -> str | None:
    original: Host = world.hosts[place.space.host.content]
    if name == original.name or place.slot < 0:
        return None
    return (world.roots[original.name] + place.space.path(place.slot)).decode()


def _unique(urls: list[bytes]) -> list[str]:
    """The URLs, each once. A world writes no path that is not canonical already."""
    return list(dict.fromkeys(url.decode() for url in urls))
