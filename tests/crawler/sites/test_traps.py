"""Crawls of webs with traps, and of honest webs that look like some (T9, RELIABILITY 26), by the server's log."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from teia.crawler.lookup import Lookup
from teia.crawler.running_collection import CrawlState
from teia.lab.world import trap_park
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.store.root import open_root
from teia.views.reports.source import open_source
from teia.views.reports.traps import traps
from teia.views.why_waiting import why_waiting
from tests.crawler.webs import HTML, Crawled, ScriptedWeb, crawl_web, html
from tests.lab.worlds import make_world

slow = pytest.mark.slow  # frontier/traps/test_watch.py is about the rules

REAL = 300
FAST = {"courtesy__delay_s": 0.0, "courtesy__per_host": 4}


class Made(ScriptedWeb):
    """One host whose pages are made by a function of their path; None is 404."""

    def __init__(self, page: Callable[[str], WorldAnswer | None]) -> None:
        super().__init__({"a.test": {}})
        self._page = page

    def answer(self, request: WorldRequest, now_s: float) -> WorldAnswer:
        answer = None if request.target == "/robots.txt" else self._page(request.target)
        return answer or WorldAnswer(404, HTML, b"<p>nothing here")


def words(key: str, number: int = 60) -> str:
    """Words that nobody else says."""
    chance = random.Random(key)
    return " ".join("".join(chance.choices("bcdfglmnprstaeiou", k=7)) for _ in range(number))


def number_in(path: str, pattern: str) -> int | None:
    match = re.fullmatch(pattern, path)
    return int(match[1]) if match else None


def asked(crawled: Crawled, prefix: str) -> set[str]:
    return {entry.path for entry in crawled.entries if entry.path.startswith(prefix)}


# ---- traps ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Crawled, Counter[str], int]:
    """A small trap park, crawled to its end: what was asked for, by trap, and how many of its pages."""
    world = make_world(
        pages=REAL, hosts=1, seed=11, urls__parks=1.0, errors__scale=0.0, text__pdfs=0.0, links__orphans=0.0,
        links__nofollow=0.0, robots__noindex=0.0, robots__nofollow=0.0, robots__crawl_delay=0.0,
        robots__excluded=0.0, sites__nxdomain=0.0, sites__unreachable=0.0,
    )  # fmt: skip
    space = world.spaces[0]
    crawled = crawl_web(world, tmp_path_factory.mktemp("park"), f"{space.host.name}/", **FAST)  # type: ignore[arg-type]
    spent: Counter[str] = Counter()
    pages = set()
    for entry in crawled.entries:
        path = entry.path.encode("latin-1")[1:]
        found = trap_park.trap_at(space, path)
        if found is not None and not found.is_wanted:
            spent[found.trap] += 1
        elif found is None and (slot := space.find(path)) is not None:
            pages.add(slot)
    return crawled, spent, len(pages)


@slow
def test_crawl_of_a_trap_park_ends_with_all_its_pages(parked: tuple[Crawled, Counter[str], int]) -> None:
    crawled, spent, pages = parked
    assert crawled.crawls[0].state is CrawlState.FINISHED
    assert pages == REAL
    assert set(spent) == set(trap_park.Trap)
    assert max(spent.values()) <= 60
    assert sum(spent.values()) <= 160, "what a park costs does not grow with the site around it"


@slow
def test_rows_of_a_trap_park_are_few(parked: tuple[Crawled, Counter[str], int]) -> None:
    crawled, _, _ = parked
    cells = crawled.crawls[0].committer.cells
    known = len(list(crawled.outcomes()))
    assert known <= 12 * REAL, "each page of the site names ten URLs of the park, and the park hardly any"
    assert sum(cell.frontier.queued for cell in cells) == 0


@slow
def test_parked_url_says_which_rule_it_fell_under(parked: tuple[Crawled, Counter[str], int]) -> None:
    crawled, _, _ = parked
    urls = {path: outcome for path, outcome in crawled.outcomes().items() if "/maze/" in path}
    path = next(path for path, outcome in urls.items() if outcome == "trap")
    host, slash, rest = path.partition("/")
    url = f"http://{host}:{crawled.port}{slash}{rest}"
    with Lookup(open_root(crawled.data), "main") as lookup:
        entry = lookup.find(url)
        assert entry is not None
        why = why_waiting(lookup, entry, 0.0)
    assert why == "it looks like a trap: pages that only lead to more of their kind (/maze/w)"


@slow
def test_report_tells_what_was_parked(parked: tuple[Crawled, Counter[str], int]) -> None:
    crawled, _, _ = parked
    with open_source(open_root(crawled.data), "main") as source:
        report = traps(source, 100)
    assert report.given_up == Counter(crawled.outcomes().values())["trap"] == crawled.crawls[0].counts.outcomes["trap"]
    assert report.waiting == 0
    assert report.refused > 0
    rules = {row.pattern: row.rule for row in report.rows}
    assert rules["/calendar/0/0"] == "pages that say nothing new"
    assert rules["/maze/w"] == "pages that only lead to more of their kind"
    assert rules["spelling: letter case"] == "another spelling of a known URL"
    assert any(row.standing == "refused" and "three times" in row.rule for row in report.rows)


def test_traps_are_followed_where_the_operator_says_so(tmp_path: Path) -> None:
    def month(path: str) -> WorldAnswer | None:
        number = number_in(path, r"/cal/2026/(\d+)")
        return html(f"/cal/2026/{(number or 0) + 1}", text="Nothing on.")

    crawled = crawl_web(
        Made(month), tmp_path, "a.test/", **{**FAST, "sites__traps": False}, scope__max_depth=500, limits__pages=60
    )
    assert len(asked(crawled, "/cal/")) >= 58


def test_page_with_traps_in_every_link_costs_no_more_than_its_tries(tmp_path: Path) -> None:
    """A calendar with its own words on every page, and a list that never ends: both only lead to themselves."""

    def page(path: str) -> WorldAnswer | None:
        if path == "/":
            return html("/cal/2026/01", "/list?page=1", *(f"/real/{n}" for n in range(40)))
        if (number := number_in(path, r"/cal/2026/(\d+)")) is not None:
            return html(f"/cal/2026/{number + 1:02}", f"/cal/2026/{number + 12:02}", text=words(path))
        if (number := number_in(path, r"/list\?page=(\d+)")) is not None:
            return html(f"/list?page={number + 1}", f"/list?page={number + 5}", text=words(path))
        return html("/", text=words(path)) if path.startswith("/real/") else None

    crawled = crawl_web(Made(page), tmp_path, "a.test/", **FAST, scope__max_depth=10_000)
    assert crawled.crawls[0].state is CrawlState.FINISHED
    assert len(asked(crawled, "/real/")) == 40
    assert len(asked(crawled, "/cal/")) <= 60
    assert len(asked(crawled, "/list")) <= 60


# ---- honest webs ----------------------------------------------------------------------------------------------------


def complete(
    tmp_path: Path, page: Callable[[str], WorldAnswer | None], prefix: str, number: int, **settings: object
) -> None:
    crawled = crawl_web(Made(page), tmp_path, "a.test/", **FAST, **settings)
    assert crawled.crawls[0].state is CrawlState.FINISHED
    assert len(asked(crawled, prefix)) == number
    assert "trap" not in crawled.outcomes().values()


@slow
def test_paginated_archive_of_two_thousand_articles_is_complete(tmp_path: Path) -> None:
    articles, on_a_page = 2_000, 25

    def page(path: str) -> WorldAnswer | None:
        if path == "/":
            return html("/archive?page=1")
        if (number := number_in(path, r"/archive\?page=(\d+)")) is not None and 0 < number <= articles // on_a_page:
            first = (number - 1) * on_a_page
            pages = [f"/archive?page={number + n}" for n in range(1, 6) if number + n <= articles // on_a_page]
            return html(*(f"/article/{n}" for n in range(first, first + on_a_page)), *pages, text="The archive.")
        if (number := number_in(path, r"/article/(\d+)")) is not None and number < articles:
            beside = [f"/article/{n}" for n in (number - 1, number + 1) if 0 <= n < articles]
            return html(*beside, "/", text=words(path))
        return None

    complete(tmp_path, page, "/article/", articles)


@slow
def test_articles_that_only_link_to_each_other_are_complete(tmp_path: Path) -> None:
    def page(path: str) -> WorldAnswer | None:
        number = 0 if path == "/" else number_in(path, r"/article/(\d+)")
        if number is None or number >= 600:
            return None
        chance = random.Random(number)
        related = {(number + 1) % 600, *(chance.randrange(600) for _ in range(8))}
        return html(*(f"/article/{each}" for each in sorted(related)), text=words(path))

    complete(tmp_path, page, "/article/", 600)


@slow
def test_tree_without_a_link_across_is_complete(tmp_path: Path) -> None:
    def page(path: str) -> WorldAnswer | None:
        number = 1 if path == "/" else number_in(path, r"/site/(\d+)")
        if number is None or not 1 <= number <= 500:
            return None
        return html(*(f"/site/{n}" for n in (2 * number, 2 * number + 1) if n <= 500), text=words(path))

    complete(tmp_path, page, "/site/", 499)


def test_pages_that_all_say_the_same_are_complete_if_lists_name_them(tmp_path: Path) -> None:
    def page(path: str) -> WorldAnswer | None:
        if path == "/":
            return html(*(f"/list?page={n}" for n in range(1, 11)))
        if (number := number_in(path, r"/list\?page=(\d+)")) is not None and number <= 10:
            return html(*(f"/app/{number}{n:02}" for n in range(30)), text=words(path, 10))
        return html("/", text="Please enable JavaScript.") if path.startswith("/app/") else None

    complete(tmp_path, page, "/app/", 300)


def test_urls_that_differ_in_letter_case_and_content_are_all_fetched(tmp_path: Path) -> None:
    names = [f"page-{n}" for n in range(40)]

    def page(path: str) -> WorldAnswer | None:
        if path == "/":
            return html(*(f"/{name}" for name in names), *(f"/{name.upper()}" for name in names))
        return html("/", text=words(path)) if path[1:].lower() in names else None

    complete(tmp_path, page, "/P", 40)


@slow
def test_long_lists_by_keyword_are_read_to_their_end(tmp_path: Path) -> None:
    """Forty lists of articles that are all known from elsewhere: they lead to nothing new, and have an end."""

    def page(path: str) -> WorldAnswer | None:
        if path == "/":
            return html(*(f"/tag/t{n}" for n in range(10)), *(f"/post/{n}" for n in range(100)))
        match = re.fullmatch(r"/tag/t(\d)(?:\?page=(\d+))?", path)
        if match and int(match[2] or 1) <= 9:
            following = int(match[2] or 1) + 1
            more = [f"/tag/t{match[1]}?page={following}"] if following <= 9 else []
            return html(f"/post/{int(match[1]) * 10 + following}", *more, text=words(path, 20))
        return html("/", text=words(path)) if path.startswith("/post/") else None

    complete(tmp_path, page, "/tag/", 90)
