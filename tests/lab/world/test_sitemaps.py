"""Sitemaps: valid, complete, and as honest as they say."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from teia.clock import from_iso
from teia.lab.world import truth
from teia.lab.world.hosts import WorldHost
from teia.lab.world.world import World
from tests.lab.worlds import DAY_S, EPOCH_S, fetch, make_world

NS = {"s": "http://www.sitemaps.org/schemas/sitemap/0.9"}
NOW_S = EPOCH_S + 30 * DAY_S
HOSTS = {"pages": 2_000, "hosts": 40, "sitemaps__urls_per_file": 50, "urls__sessions": 0.0}


def _entries(world: World, url: str) -> list[tuple[str, str | None]]:
    tree = ET.fromstring(fetch(world, url, NOW_S).body)
    if tree.tag.endswith("sitemapindex"):
        return [entry for loc in tree.iterfind("s:sitemap/s:loc", NS) for entry in _entries(world, str(loc.text))]
    return [(str(each.findtext("s:loc", None, NS)), each.findtext("s:lastmod", None, NS)) for each in tree]


def _of(world: World, host: WorldHost) -> list[tuple[str, str | None]]:
    return _entries(world, f"{world.roots[host.name].decode()}sitemap.xml")


def test_sitemaps_list_exactly_the_live_pages() -> None:
    world = make_world(**HOSTS)
    lines = list(truth.all_lines(world, NOW_S))
    for host in world.hosts:
        if host.sitemap == "none":
            continue
        live = {line.url for line in lines if line.host == host.name and line.kind in {"page", "pdf", "orphan"}}
        listed = [url for url, _ in _of(world, host)]
        assert set(listed) == live
        assert len(listed) == len(live)


def test_large_sites_have_an_index() -> None:
    world = make_world(**HOSTS, sitemaps__honest=1.0, sitemaps__lying=0.0, sitemaps__bare=0.0)
    for host in world.hosts:
        root = world.roots[host.name].decode()
        body = fetch(world, f"{root}sitemap.xml").body
        assert (b"<sitemapindex" in body) == (host.size > 50)
        assert fetch(world, f"{root}sitemap-{host.size // 50 + 2}.xml").status == 404


def test_honest_lastmod_is_the_last_meaningful_change() -> None:
    world = make_world(**HOSTS, sitemaps__honest=1.0, sitemaps__lying=0.0, sitemaps__bare=0.0)
    for url, lastmod in _of(world, world.hosts[3]):
        line = truth.find_line(world, url, NOW_S)
        assert line is not None
        assert lastmod == re.sub(r"\.\d+Z", "Z", line.meaningful[-1])


def test_lying_lastmod_is_always_now_and_bare_ones_have_none() -> None:
    lying = make_world(**HOSTS, sitemaps__honest=0.0, sitemaps__lying=1.0, sitemaps__bare=0.0)
    assert {from_iso(str(lastmod)) for _, lastmod in _of(lying, lying.hosts[2])} == {NOW_S}
    bare = make_world(**HOSTS, sitemaps__honest=0.0, sitemaps__lying=0.0, sitemaps__bare=1.0)
    assert {lastmod for _, lastmod in _of(bare, bare.hosts[2])} == {None}


@pytest.mark.parametrize("name", ["sitemap.xml", "sitemap-0.xml"])
def test_hosts_without_a_sitemap_answer_404(name: str) -> None:
    world = make_world(**HOSTS, sitemaps__honest=0.0, sitemaps__lying=0.0, sitemaps__bare=0.0)
    assert fetch(world, world.seeds()[0] + name).status == 404
