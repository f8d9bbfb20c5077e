"""Cho's modes of parallel crawlers, on links that can be followed by hand and on those of a lab world (A16)."""

from __future__ import annotations

from collections import Counter

import pytest

from teia.cluster.circle.circle import Circle
from teia.cluster.circle.host_cell import cell_of_host, cell_owners
from teia.lab.parallel.crawl import Mode, ParallelCrawlResult, crawl
from teia.lab.parallel.measures import communication, coverage, coverage_and_overlap, overlap, quality
from teia.lab.parallel.split import SPLITS
from teia.lab.parallel.web import WebGraph, read_graph
from teia.lab.reproduce.parallel_crawlers import QUIET
from teia.lab.world.spec import WorldSpec
from teia.lab.world.world import World
from teia.urls import SLOTS, cell_starts


def little_web(*links: tuple[int, ...]) -> WebGraph:
    """Pages that lead to these."""
    number = len(links)
    urls = tuple(f"http://h{at}.test/" for at in range(number))
    return WebGraph(urls, tuple(f"h{at}.test" for at in range(number)), ("town",) * number, links, tuple(range(number)))


TWO_SITES = little_web((1, 3), (2,), (), (4,), (2, 0), ())
"""Figure 2 of the paper, in small: 0 1 2 are one process's, 3 4 5 the other's. Nobody leads to 5."""

OWNERS = (0, 0, 0, 1, 1, 1)


def lab_web(pages: int = 400) -> WebGraph:
    return read_graph(World(WorldSpec.from_values({"seed": 5, "pages": pages, "hosts": 20, **QUIET}), epoch_s=0.0))


def test_a_firewall_loses_what_only_others_lead_to() -> None:
    done = crawl(TWO_SITES, OWNERS, [[1], [3]], Mode.FIREWALL)
    assert sorted(done.fetched) == [1, 2, 3, 4]
    assert coverage(done, TWO_SITES) == pytest.approx(4 / 6)
    assert (overlap(done), done.sent) == (0, 0)


def test_cross_over_finds_it_and_fetches_twice_what_others_have() -> None:
    done = crawl(TWO_SITES, OWNERS, [[1], [3]], Mode.CROSS_OVER)
    assert Counter(done.fetched) == {0: 1, 1: 2, 2: 2, 3: 1, 4: 1}
    assert overlap(done) == pytest.approx(2 / 5)


def test_exchange_finds_it_and_fetches_nothing_twice() -> None:
    done = crawl(TWO_SITES, OWNERS, [[1], [3]], Mode.EXCHANGE)
    assert Counter(done.fetched) == dict.fromkeys(range(5), 1)
    assert (done.sent, done.messages) == (3, 2)  # 2 and 0 at once to the one, then 3 to the other
    assert communication(done) == pytest.approx(3 / 5)


def test_a_process_without_seeds_works_on_links_of_others() -> None:
    done = crawl(TWO_SITES, OWNERS, [[0], []], Mode.EXCHANGE)
    assert sorted(done.fetched) == [0, 1, 2, 3, 4]


def test_links_wait_for_others_in_the_order_of_links() -> None:
    web = little_web((1, 2), (3,), (3,), (), ())
    assert crawl(web, (0,) * 5, [[0]], Mode.EXCHANGE, by_links=True).fetched == [0, 1, 2, 3]
    first = crawl(web, (0,) * 5, [[0, 4, 3, 3]], Mode.EXCHANGE, by_links=True).fetched
    assert first[0] == 3, "what two have named goes before what one has"


def test_quality_counts_the_most_linked_among_the_first() -> None:
    web = little_web((1,), (2,), (1,), (1, 2))
    assert quality(ParallelCrawlResult([1, 2, 0]), web, 2) == 1
    assert quality(ParallelCrawlResult([3, 1, 2]), web, 2) == 0.5


def test_overlap_grows_as_pages_are_fetched_again() -> None:
    assert coverage_and_overlap(ParallelCrawlResult([0, 0, 1, 1, 2]), little_web((), (), (), ()), 4) == (
        [0.25, 0.5, 0.75],
        [0.0, 0.5, 2 / 3],
    )


def test_the_web_of_a_quiet_world_is_whole() -> None:
    web = lab_web()
    done = crawl(web, [0] * len(web), [[web.homes[0]]], Mode.FIREWALL)
    assert len(web) == 400
    assert coverage(done, web) == 1


@pytest.mark.parametrize("split", SPLITS)
def test_every_split_gives_every_page_to_somebody_and_exchange_finds_all(split: str) -> None:
    web = lab_web()
    owners = SPLITS[split](web, 7)
    assert set(owners) <= set(range(7))
    if split != "url":
        assert len({(host, owner) for host, owner in zip(web.hosts, owners, strict=True)}) == 20, "a host has one owner"
    seeds = [[web.homes[0]] if owners[web.homes[0]] == number else [] for number in range(7)]
    done = crawl(web, owners, seeds, Mode.EXCHANGE)
    assert (coverage(done, web), overlap(done)) == (1, 0)


def test_by_name_length_is_what_tarantula_did() -> None:
    """T4: the length of the server's name mod N."""
    web = WebGraph(("", "", ""), ("a.test", "bb.test", "ccccc.test"), ("town",) * 3, ((), (), ()), (0, 1, 2))
    assert SPLITS["name-length"](web, 4) == [2, 3, 2]


def test_by_site_is_what_the_cluster_does() -> None:
    web = lab_web()
    kept = cell_owners(Circle({f"process-{number}": 1.0 for number in range(3)}), cell_starts(SLOTS))
    expected = [int(kept[cell_of_host(host, SLOTS).cell][-1]) for host in web.hosts]
    assert SPLITS["site"](web, 3) == expected


def test_keeping_sites_together_saves_messages() -> None:
    """A16, as Cho & Garcia-Molina found: a split by site tells others far less than one by URL."""
    web = lab_web()
    sent = {}
    for split in ("site", "url"):
        owners = SPLITS[split](web, 4)
        seeds = [[home for home in web.homes if owners[home] == number] for number in range(4)]
        sent[split] = communication(crawl(web, owners, seeds, Mode.EXCHANGE))
    assert sent["site"] < sent["url"] / 2
