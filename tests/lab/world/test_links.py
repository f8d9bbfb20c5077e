"""Who links to whom: everything is reachable that should be, and few pages get most links."""

from __future__ import annotations

import re
from collections import Counter

from teia.lab.world import truth
from teia.lab.world.url_kinds import UrlKind
from tests.lab.worlds import EPOCH_S, fetch, make_world, varied_world

LIVE = {"page", "pdf", "excluded"}


def _reachable(lines: dict[str, truth.TruthLine], seeds: list[str]) -> set[str]:
    """URLs found from the seeds, as a crawler would that obeys robots.txt, nofollow, and redirects."""
    found, waiting = set(seeds), list(seeds)
    while waiting:
        line = lines.get(waiting.pop())
        if line is None or not line.robots_allowed:
            continue
        links = [url for url in line.links if url not in line.nofollow]
        for url in links:
            if url not in found:
                found.add(url)
                waiting.append(url)
    return found


def test_every_page_is_reachable_but_orphans_and_these_are_in_sitemaps() -> None:
    world = varied_world()
    lines = {line.url: line for line in truth.all_lines(world, EPOCH_S)}
    main_names = {host.name for host in world.hosts}
    found = _reachable(lines, world.seeds())
    missed = {line.kind for line in lines.values() if line.host in main_names and line.url not in found}
    assert missed == {"orphan"}
    orphans = {line.url for line in lines.values() if line.kind == "orphan" and line.host in main_names}
    assert not orphans & found
    listed: set[str] = set()
    for host in world.hosts:
        if host.sitemap != "none":
            listed |= _sitemap_urls(f"{world.roots[host.name].decode()}sitemap.xml")
    assert orphans <= listed


def _sitemap_urls(url: str) -> set[str]:
    body = fetch(varied_world(), url).body.decode()
    urls = {each.replace("&amp;", "&") for each in re.findall("<loc>(.*?)</loc>", body)}
    if "<sitemapindex" in body:
        return set().union(*map(_sitemap_urls, urls))
    return urls


def test_dead_names_are_linked_and_do_not_answer() -> None:
    world = varied_world()
    linked = {url for line in truth.all_lines(world, EPOCH_S) for url in line.links}
    dead = [name for name in world.roots if name not in world.names]
    assert dead
    assert world.unreachable
    assert set(world.unreachable) < set(dead)
    for name in dead:
        assert world.roots[name].decode() in linked
    assert not {each.address for each in world.unreachable.values()} & {host.address for host in world.hosts}


def test_in_links_follow_a_power_law() -> None:
    world = make_world(pages=5_000, hosts=5, links__orphans=0.0)
    space = world.spaces[0]
    counts: Counter[int] = Counter()
    for slot in range(space.size):
        if space.kind(slot) is UrlKind.PAGE:
            counts.update(world.graph.page_links(space, slot, world.graph.draws(space, slot)).inside)
    total = sum(counts.values())
    top = sum(count for _, count in counts.most_common(space.size // 100))
    assert top / total > 0.15


def test_outside_links_prefer_the_same_topic_as_configured() -> None:
    world = make_world(pages=4_000, hosts=80, links__same_topic=1.0)
    kept = total = 0
    for space in world.spaces:
        for slot in range(min(space.size, 20)):
            for link in world.graph.page_links(space, slot, world.graph.draws(space, slot)).outside:
                total += 1
                kept += link.space.host.topic == space.host.topic
    assert kept / total > 0.95


def test_a_lonely_host_links_to_nobody_else() -> None:
    world = make_world(pages=50, hosts=1, sites__nxdomain=0.0, sites__unreachable=0.0)
    name = world.hosts[0].name
    assert all(f"//{name}:" in url for line in truth.all_lines(world, EPOCH_S) for url in line.links)
