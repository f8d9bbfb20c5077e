"""The trap park: every kind of trap, around the pages of an ordinary host (RELIABILITY 26)."""

from __future__ import annotations

from functools import lru_cache

import pytest

from teia.lab.world import trap_park, truth
from teia.lab.world.trap_park import Trap
from teia.lab.world.world import World
from tests.lab.worlds import EPOCH_S, fetch, links_in, make_world, url_of

PAGES = 300


@lru_cache(maxsize=1)
def world() -> World:
    return make_world(
        pages=PAGES, hosts=1, seed=11, urls__parks=1.0, errors__scale=0.0, text__pdfs=0.0, links__orphans=0.0
    )


def trap(url: str) -> trap_park.TrapUrl | None:
    space = world().spaces[0]
    return trap_park.trap_at(space, url.removeprefix(world().roots[space.host.name].decode()).encode("latin-1"))


def links(url: str) -> list[str]:
    answer = fetch(world(), url)
    assert answer.status == 200, url
    return links_in(url, answer, world().hosts[0].charset)


def text_of(url: str) -> bytes:
    return fetch(world(), url).body


def test_every_page_leads_into_every_trap() -> None:
    for slot in (0, 1, 17, PAGES - 1):
        kinds = {found.trap for link in links(url_of(world(), world().spaces[0], slot)) if (found := trap(link))}
        assert kinds == set(Trap)


@pytest.mark.parametrize("kind", list(Trap))
def test_trap_goes_on_for_ever(kind: Trap) -> None:
    """What is asked for is always new, and always leads to more of the same; one link to follow is enough."""
    seen: set[str] = set()
    url = next(link for link in links(world().seeds()[0]) if (found := trap(link)) and found.trap is kind)
    for _ in range(40):
        seen.add(url)
        onward = [each for each in links(url) if each not in seen and (found := trap(each)) and found.trap is kind]
        if kind in {Trap.PARAMETERS, Trap.SPELLING} and not onward:
            break  # these are as many as the site has pages, a few times over
        url = onward[-1]
    assert len(seen) >= (10 if kind in {Trap.PARAMETERS, Trap.SPELLING} else 40)


def test_maze_never_says_or_names_the_same_twice() -> None:
    urls = [link for link in links(world().seeds()[0]) if (found := trap(link)) and found.trap is Trap.MAZE]
    for _ in range(3):
        urls = [each for url in urls for each in links(url) if "/maze/" in each][:200]
        assert len(set(urls)) == len(urls)
    assert len({text_of(url) for url in urls[:50]}) == 50


def test_pages_under_other_names_are_the_same_pages() -> None:
    space = world().spaces[0]
    path = space.path(42).decode()
    root, plain = world().seeds()[0], text_of(world().seeds()[0] + space.path(42).decode())
    assert text_of(f"{root}{path}?size=m&view=list") == plain
    assert text_of(f"{root}{path.upper()}") == plain
    assert trap(f"{root}{path}") is None
    assert (found := trap(f"{root}{path.upper()}")) is not None
    assert found.slot == 42


def test_what_a_good_crawler_requests_is_not_wasted() -> None:
    root = world().seeds()[0]
    assert [bool((found := trap(f"{root}list?page={n}")) and found.is_wanted) for n in (1, 8, 9)] == [True, True, False]


def test_answers_depend_on_nothing_but_the_url() -> None:
    other = make_world(
        pages=PAGES, hosts=1, seed=11, urls__parks=1.0, errors__scale=0.0, text__pdfs=0.0, links__orphans=0.0
    )
    for url in links(world().seeds()[0]):
        assert fetch(other, url).body == text_of(url)


def test_truth_knows_the_links_into_the_park() -> None:
    url = url_of(world(), world().spaces[0], 17)
    line = truth.find_line(world(), url, EPOCH_S)
    assert line is not None
    assert set(line.links) == set(links(url))


def test_worlds_have_no_park_by_default() -> None:
    plain = make_world(pages=PAGES, hosts=1, seed=11)
    assert not any(host.park for host in plain.hosts)
    assert fetch(plain, plain.seeds()[0] + "maze/amber").status == 404
