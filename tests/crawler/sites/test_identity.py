"""Servers that answer by the client's identity are found by one page under two User-Agents (T9)."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from teia.config.sections import CourtesySettings
from teia.crawler.compiled_settings import other_user_agent
from teia.crawler.sites.identity import IDENTITY_REQUESTS, parse_detail
from teia.frontier.cell.rows import QueuedUrl
from teia.lab.server.witness import early_requests
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.records import Outcome
from teia.store.root import open_root
from teia.views.reports.identities import identities
from teia.views.reports.source import open_source
from tests.crawler.webs import HTML, Crawled, Page, ScriptedWeb, crawl_web, html, redirect, robots, text_of

BROWSER = "Mozilla/5.0"


def by_agent(ours: Page, other: Page) -> Page:
    def answer(request: WorldRequest) -> WorldAnswer:
        page = other if request.headers["user-agent"].startswith(BROWSER) else ours
        return page(request) if callable(page) else page

    return answer


LINKS = [f"/{n}" for n in range(1, 6)]


def home(number: int) -> WorldAnswer:
    return html(*LINKS, text=text_of(number))


def site(number: int, front: Page) -> dict[str, Page]:
    """A front page, and pages whose text no other site has."""
    return {"/": front, **{f"/{n}": html(text=text_of(number + n)) for n in range(1, 6)}}


SECRET = html("/secret", text=text_of(99))
SITES = {
    "alike.test": site(10, home(10)),
    "refusing.test": site(20, by_agent(WorldAnswer(403, HTML, b"<p>no robots"), home(20))),
    "showing.test": site(30, by_agent(home(30), SECRET)),
    "leading.test": site(40, by_agent(home(40), redirect("/mobile"))),
}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    numbers = count(100)
    restless = site(50, lambda _: home(next(numbers)))
    forbidden = {**site(60, home(60)), "/robots.txt": robots("User-agent: *\nDisallow: /$\n")}
    web = ScriptedWeb({**SITES, "restless.test": restless, "forbidden.test": forbidden})
    seeds = [f"{host}/{path}" for host in web.pages for path in ("", "1", "2", "3", "4")]
    settings = {"sites__identity_after_pages": 1, "courtesy__delay_s": 0.02, "sites__aliases": False}
    return crawl_web(web, tmp_path_factory.mktemp("crawl"), *seeds, **settings)


def test_hosts_that_answer_by_identity_are_reported_and_restless_pages_are_told_from_them(crawled: Crawled) -> None:
    with open_source(open_root(crawled.data), "main") as source:
        found = identities(source)
    rows = {row.host: (row.ours, row.other, str(row.meaning)) for row in found.rows}
    assert rows == {
        "refusing.test": ("403", "200", "answers by identity"),
        "showing.test": ("200", "200", "answers by identity"),
        "leading.test": ("200", "302", "answers by identity"),
        "restless.test": ("200", "200", "changes by itself"),
    }
    assert (found.compared, found.different, found.unstable) == (6, 3, 1)


def test_at_most_two_more_requests_are_sent_and_they_are_polite(crawled: Crawled) -> None:
    asked = crawled.requested()
    assert {host: asked.count(f"{host}/") for host in ("alike.test", "showing.test", "restless.test")} == {
        "alike.test": 2,
        "showing.test": 3,
        "restless.test": 3,
    }
    assert not early_requests(crawled.entries, 0.02, lambda entry: entry.host)


def test_robots_txt_holds_for_the_other_name_too(crawled: Crawled) -> None:
    """The home page of this host is forbidden: another one is compared."""
    assert "forbidden.test/" not in crawled.requested()


def test_a_page_that_the_settings_exclude_meanwhile_is_not_requested_under_another_name(crawled: Crawled) -> None:
    crawl = crawled.crawls[0]
    for purpose in IDENTITY_REQUESTS:
        item = QueuedUrl("http://elsewhere.example/", 1, -1, 0, 1, 0.0, purpose=purpose)
        refusal = crawl.refusal(crawl.queues["alike.test"], item)
        assert refusal is not None
        assert refusal[0] == Outcome.OUT_OF_SCOPE


def test_a_host_is_compared_also_if_its_last_url_was_requested_before_its_first_page_was_read(tmp_path: Path) -> None:
    """It depended on the load whether such a host was compared at all."""
    others = {"leading.test": redirect("/mobile"), "showing.test": SECRET}
    web = ScriptedWeb({host: {"/": by_agent(html(), other)} for host, other in others.items()})
    crawled = crawl_web(web, tmp_path, *(f"{host}/" for host in others), sites__identity_after_pages=1)
    with open_source(open_root(crawled.data), "main") as source:
        assert {row.host for row in identities(source).rows} == set(others)


def test_what_is_kept_is_what_the_server_shows_to_us(crawled: Crawled) -> None:
    assert "showing.test/secret" not in crawled.requested(), "links of the other answer are not followed"
    outcomes = crawled.outcomes()
    assert (outcomes["showing.test/"], outcomes["refusing.test/"]) == ("200", "403")


def test_without_the_setting_every_page_is_requested_once(tmp_path: Path) -> None:
    crawled = crawl_web(ScriptedWeb({"showing.test": SITES["showing.test"]}), tmp_path, "showing.test/")
    assert crawled.requested().count("showing.test/") == 1


def test_the_other_user_agent_says_who_it_is() -> None:
    courtesy = CourtesySettings(contact="https://who.example/")
    assert other_user_agent(courtesy).startswith(f"{BROWSER} (compatible; teia/")
    assert "+https://who.example/" in other_user_agent(courtesy)


@pytest.mark.parametrize("detail", ["identity: open; ours 200, other 403", "too slow", "identity: same", ""])
def test_details_of_other_requests_are_no_result(detail: str) -> None:
    assert parse_detail(detail) is None
