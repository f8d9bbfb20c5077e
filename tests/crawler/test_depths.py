"""A page found by a shorter way after it was read: its links follow (T1). What is crawled depends on the web alone."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest

from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.store.root import open_root
from teia.transfer.read_all import known_urls
from teia.urls import split
from tests.collections.test_settings_of_running_crawl import paths, with_port
from tests.crawler.webs import Crawled, Page, ScriptedWeb, crawl_web, html
from tests.system.labs import IMPATIENT, crawl, running_lab


def words(name: str) -> str:
    return " ".join(f"{name}{number}" for number in range(12))


def page(name: str, *links: str, head: str = "") -> WorldAnswer:
    return html(*links, text=words(name), head=head)


def slow(then: WorldAnswer) -> Page:
    """A page whose server has no time at first, so that the others are read before it."""
    asked: list[int] = []

    def answer(request: WorldRequest) -> WorldAnswer:
        asked.append(1)
        return then if len(asked) > 1 else WorldAnswer(503, b"Retry-After: 1\r\n", b"")

    return answer


def detour(*, edge: WorldAnswer | None = None) -> ScriptedWeb:
    """`/edge` is three hops away by the fast way and two by the slow one; two more hops lie behind it."""
    fast = {
        "/1": page("one", "/2"),
        "/2": page("two", "/edge"),
        "/edge": edge or page("edge", "/behind"),
        "/behind": page("behind", "/beyond"),
        "/beyond": page("beyond"),
    }
    home = page("home", "http://fast.test:{port}/1", "http://slow.test:{port}/")
    way = slow(page("slow", "http://fast.test:{port}/edge"))
    return with_port(ScriptedWeb({"s.test": {"/": home}, "fast.test": fast, "slow.test": {"/": way}}))


def depths(crawled: Crawled) -> dict[str, int]:
    """How deep every URL lies, by its host and path."""
    urls = {each["url"]: each["depth"] for each in known_urls(open_root(crawled.data), "main")}
    return {split(url).host + split(url).target: depth for url, depth in urls.items()}


def test_links_that_had_been_too_deep_are_followed_without_asking_the_page_again(tmp_path: Path) -> None:
    crawled = crawl_web(detour(), tmp_path, "s.test/", scope__max_depth=3)
    assert sorted(paths(crawled.requested(), "fast.test")) == ["/1", "/2", "/behind", "/edge", "/robots.txt"]
    assert depths(crawled) == {
        "s.test/": 0,
        "fast.test/1": 1,
        "slow.test/": 1,
        "fast.test/2": 2,
        "fast.test/edge": 2,
        "fast.test/behind": 3,
    }


def test_depths_of_all_that_follows_are_lowered_and_nothing_is_counted_twice(tmp_path: Path) -> None:
    crawled = crawl_web(detour(), tmp_path, "s.test/")
    assert depths(crawled)["fast.test/beyond"] == 4
    counts = {each["url"].rpartition("/")[2]: each["in_links"] for each in known_urls(open_root(crawled.data), "main")}
    assert (counts["edge"], counts["behind"], counts["beyond"]) == (2, 1, 1)


@pytest.mark.parametrize("edge", [page("edge", "/behind", head='<meta name="robots" content="nofollow">')])
def test_what_a_page_forbids_stays_forbidden(tmp_path: Path, edge: WorldAnswer) -> None:
    crawled = crawl_web(detour(edge=edge), tmp_path, "s.test/", scope__max_depth=3)
    assert "fast.test/behind" not in depths(crawled)


def test_files_of_types_that_are_not_kept_stay_out_however_near_they_come(tmp_path: Path) -> None:
    """C4, T8: what had been too deep is judged by its ending too, as every other link is."""
    edge = page("edge", "/behind", "/paper.pdf", "/sound.mp3")
    crawled = crawl_web(detour(edge=edge), tmp_path, "s.test/", scope__max_depth=3, scope__types=["text/html"])
    assert sorted(paths(crawled.requested(), "fast.test")) == ["/1", "/2", "/behind", "/edge", "/robots.txt"]
    assert {"fast.test/paper.pdf", "fast.test/sound.mp3"}.isdisjoint(depths(crawled))


def test_a_crawl_that_stopped_before_goes_on_with_it(tmp_path: Path) -> None:
    """The page with the shorter way is the last that the first run stores; the second begins with what follows."""
    web = detour()
    first = crawl_web(web, tmp_path, "s.test/", scope__max_depth=3, limits__pages=5)
    second = crawl_web(web, tmp_path, "s.test/", port=first.port, scope__max_depth=3, limits__pages=0)
    asked = paths([*first.requested(), *second.requested()], "fast.test")
    assert "/behind" in asked
    assert len(asked) == len(set(asked))


SPEC = """
seed = 23
hosts = 14
pages = 260

[sites]
theta = 0.3
nxdomain = 0
unreachable = 0

[errors]
scale = 0

[robots]
present = 0.9
excluded = 0
nofollow = 0
crawl_delay = 0.5
crawl_delay_s = 0.3

[sitemaps]
honest = 0
lying = 0
bare = 0

[feeds]
rss = 0
atom = 0
"""


@pytest.mark.slow
@pytest.mark.parametrize("max_depth", [2, 3])
def test_exactly_the_pages_within_so_many_hops_are_fetched(tmp_path: Path, max_depth: int) -> None:
    """Half of the servers ask for long rests, so that pages are read in another order than they lie."""
    with running_lab(tmp_path, SPEC, 84, truth=True) as lab:
        crawl(lab, tmp_path / "data", "--delay", "0.02", "--max-depth", str(max_depth), environ=IMPATIENT)
        truth = lab.truth()
    far = {lab.seed_url: 0}
    waiting = deque(far)
    while waiting:
        url = waiting.popleft()
        for link in truth[url]["links"]:
            is_followed = link in truth and link not in truth[url]["nofollow"]
            if far[url] < max_depth and is_followed and link not in far:
                far[link] = far[url] + 1
                waiting.append(link)
    known = {each["url"]: each for each in known_urls(open_root(tmp_path / "data"), "main")}
    fetched = {url for url, each in known.items() if each["outcome"] == "200" and url in truth}
    assert fetched == set(far)
    assert {url: known[url]["depth"] for url in far} == far
