"""Worlds for tests, and ways to send them requests."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from resiliparse.parse.html import HTMLTree

from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.lab.world.spec import WorldSpec
from teia.lab.world.url_kinds import UrlKind
from teia.lab.world.urlspace import UrlSpace
from teia.lab.world.world import World
from teia.urls import resolve, split

EPOCH_S = 1_700_000_000.0
DAY_S = 86_400.0
VARIED = {
    "pages": 3_000,
    "hosts": 60,
    "seed": 5,
    "sites.aliases": 0.2,
    "sites.mirrors": 0.1,
    "sites.nxdomain": 0.05,
    "sites.unreachable": 0.05,
    "urls.sessions": 0.15,
    "urls.calendars": 0.2,
    "links.orphans": 0.03,
    "robots.excluded": 0.02,
    "sitemaps.urls_per_file": 100,
}
"""A small world with a good deal of everything."""


def make_world(epoch_s: float = EPOCH_S, **values: Any) -> World:
    return World(
        WorldSpec.from_values({key.replace("__", "."): value for key, value in values.items()}), epoch_s=epoch_s
    )


@lru_cache(maxsize=1)
def varied_world() -> World:
    return World(WorldSpec.from_values(VARIED), epoch_s=EPOCH_S)


def fetch(world: World, url: str, now_s: float = EPOCH_S, **headers: str) -> WorldAnswer:
    parts = split(url)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return world.answer(WorldRequest(parts.host, parts.target, headers=named), now_s)


def url_of(world: World, space: UrlSpace, slot: int) -> str:
    return (world.roots[space.host.name] + space.path(slot)).decode()


def slots_of_kind(world: World, kind: UrlKind) -> list[tuple[UrlSpace, int]]:
    return [(space, slot) for space in world.spaces for slot in range(space.size) if space.kind(slot) is kind]


def links_in(url: str, answer: WorldAnswer, charset: str) -> list[str]:
    """What an HTML parser finds, resolved as the crawler does it, each once."""
    tree = HTMLTree.parse_from_bytes(answer.body, charset)
    hrefs = [anchor.getattr("href") for anchor in tree.document.query_selector_all("a[href]")]
    return list(dict.fromkeys(found for found in (resolve(href, url) for href in hrefs) if found))
