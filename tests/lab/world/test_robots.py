"""robots.txt, read by protego."""

from __future__ import annotations

from protego import Protego

from teia.lab.world.exchange import WorldRequest
from teia.lab.world.hosts import WorldHost
from teia.lab.world.url_kinds import UrlKind
from teia.lab.world.world import World
from tests.lab.worlds import EPOCH_S, fetch, make_world, slots_of_kind, url_of, varied_world


def _fetch(world: World, host: WorldHost) -> tuple[int, str]:
    answer = world.answer(WorldRequest(host.name, "/robots.txt"), EPOCH_S)
    return answer.status, answer.body.decode(errors="replace")


def test_some_hosts_have_one_and_some_have_none() -> None:
    world = varied_world()
    statuses = {_fetch(world, host)[0] for host in world.hosts}
    assert statuses == {200, 404}
    assert all((_fetch(world, host)[0] == 404) == (host.robots == "none") for host in world.hosts)


def test_groups_delays_wildcards_and_sitemaps_occur() -> None:
    world = make_world(pages=3_000, hosts=300, robots__present=1.0, robots__crawl_delay_s=1.5)
    texts = [_fetch(world, host)[1] for host in world.hosts]
    for piece in ("User-agent: teia\n", "Crawl-delay: 1.5\n", "*/\n", "Sitemap: http://", "User-agent: BadBot\n"):
        assert any(piece in text for text in texts)
        assert piece.startswith("User-agent: Bad") or not all(piece in text for text in texts)
    for host, text in zip(world.hosts, texts, strict=True):
        rules = Protego.parse(text)
        root = world.roots[host.name].decode()
        assert rules.can_fetch(root, "teia")
        assert not rules.can_fetch(root, "BadBot")
        assert list(rules.sitemaps) == ([f"{root}sitemap.xml"] if host.sitemap != "none" else [])
        if "Crawl-delay" in text:
            assert rules.crawl_delay("teia") == rules.crawl_delay("another") == 1.5


def test_pages_are_forbidden_to_all_agents_exactly_in_the_excluded_section() -> None:
    world = varied_world()
    for space in world.spaces:
        if space.host.robots != "some":
            continue
        rules = Protego.parse(_fetch(world, space.host)[1])
        for slot in range(space.size):
            url = url_of(world, space, slot)
            for agent in ("teia", "another"):
                assert rules.can_fetch(url, agent) == (space.kind(slot) is not UrlKind.EXCLUDED)


def test_excluded_pages_answer_whoever_does_not_obey() -> None:
    world = varied_world()
    for space, slot in slots_of_kind(world, UrlKind.EXCLUDED):
        assert fetch(world, url_of(world, space, slot)).status == 200


def test_closed_hosts_forbid_everything_and_broken_ones_answer_503() -> None:
    world = make_world(pages=500, hosts=100, robots__closed=0.4, robots__broken=0.4)
    for host in world.hosts:
        status, text = _fetch(world, host)
        if host.robots == "closed":
            assert not Protego.parse(text).can_fetch(world.roots[host.name].decode(), "teia")
        assert (status == 503) == (host.robots == "broken")
    assert {host.robots for host in world.hosts} == {"none", "some", "closed", "broken"}
