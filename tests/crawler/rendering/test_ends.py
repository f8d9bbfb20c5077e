"""The end of a crawl, of a host or of a page while pages are rendered: nothing waits for ever, nothing is lost."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from teia.clock import VirtualClock
from teia.config.sections import Config
from teia.crawler.child.messages import ReadResult, RenderGain, ScriptSigns
from teia.crawler.rendering.browsers import RenderJob
from teia.crawler.rendering.kinds import CLEAR, RenderVerdict
from teia.crawler.rendering.render_visits import MAX_WAITING, Rendering
from teia.crawler.running_collection import AwaitedResource, CrawlState
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue
from teia.records import Fetched
from teia.render.page import FetchForPage, RenderedPage
from tests.crawler.rendering.stub_browsers import use_stub
from tests.crawler.webs import ScriptedWeb, crawl_web, html

EMPTY, FULL = ScriptSigns(7, is_empty=True), ScriptSigns(7, is_empty=False)


class StubCrawl:
    """The parts of the loop, the crawl and the browsers that a rendering uses."""

    def __init__(self, *, is_fast: bool = False) -> None:
        self.jobs: list[RenderJob] = []
        self.requested: list[str] = []
        self.server, self.clock = DelayTarget("h.test"), VirtualClock(1_000.0)
        if is_fast:
            self.server.last_end = 0.0
        requests = SimpleNamespace(accept=lambda url, _since_s: self.requested.append(url))
        self.accepted: list[ActiveVisit] = []
        self.reread: list[ActiveVisit] = []
        self.forgotten: list[ActiveVisit] = []
        self.stored: list[tuple[int, bytes]] = []
        self.crawl = SimpleNamespace(
            config=Config(),
            is_ending=False,
            not_rendered="",
            unrendered=0,
            queues={},
            forget=self.forgotten.append,
            content_seen=None,
            store_postponed=lambda _url, _host, records: self.stored.extend(records),
            committer=SimpleNamespace(visit_requests=requests),
        )
        self.browsers = SimpleNamespace(submit=self.jobs.append, trouble="", is_down=False, waiting=0)
        self.rendering = Rendering(
            cast("Any", self.crawl), cast("Any", self.browsers), self.clock,
            lambda _crawl, visit, _result: self.accepted.append(visit),
            lambda _crawl, visit, _document: self.reread.append(visit),
            lambda _request: None,
        )  # fmt: skip

    def take(
        self, number: int, signs: ScriptSigns = EMPTY, visits: int = 0, path: str = "p"
    ) -> tuple[ActiveVisit, bool]:
        url = f"http://h.test/{path}/{number}"
        item = QueuedUrl(url, number, 1, 0, 0, 0.0, visits=visits)
        visit = ActiveVisit(HostQueue("h.test", 1, 0, 0, self.server), item)
        visit.fetched = Fetched(url, "200", 200, 1.0, 2.0, "192.0.2.1", b"", b"HTTP/1.1 200 OK\r\n\r\n", b"body")
        return visit, self.rendering.take(visit, ReadResult("200", signs=signs))


def read_again(number: int = 0) -> ReadResult:
    added = list(range(number * CLEAR, (number + 1) * CLEAR))
    return ReadResult("200", gain=RenderGain(CLEAR, 0, added), is_rendered=True)


def test_a_page_that_is_read_again_when_the_crawl_ends_is_kept_and_all_others_are_given_up_once() -> None:
    stub = StubCrawl()
    first, _ = stub.take(1)
    second, _ = stub.take(2)
    stub.jobs[0].done(RenderedPage(b"<p>text"))
    assert stub.reread == [first]
    assert stub.rendering.abandon() == [second]
    assert stub.rendering.abandon() == []
    stub.rendering.note_read(first, read_again())
    assert stub.accepted == [first]
    assert stub.rendering.abandon() == []


def test_a_page_that_was_given_up_is_neither_rendered_nor_read_again() -> None:
    stub = StubCrawl()
    stub.take(1)
    stub.rendering.abandon()
    assert not stub.jobs[0].is_wanted()
    stub.jobs[0].done(RenderedPage(b"<p>text"))
    assert stub.reread == stub.accepted == []


def test_a_crawl_that_ends_takes_no_page_and_fetches_those_again_that_need_their_scripts() -> None:
    stub = StubCrawl()
    stub.crawl.is_ending = True
    empty, taken = stub.take(1)
    assert taken
    assert stub.forgotten == [empty]
    assert stub.crawl.unrendered == 1
    _, taken = stub.take(2, FULL)
    assert not taken
    assert stub.jobs == []
    assert stub.rendering.abandon() == []


def test_a_trial_that_the_end_of_a_crawl_cuts_off_teaches_nothing() -> None:
    stub = StubCrawl()
    visit, _ = stub.take(1)
    kind = stub.rendering._under_way[visit]
    stub.rendering.abandon()
    stub.jobs[0].done(RenderedPage(error="refused"))
    assert kind is not None
    assert kind.verdict is RenderVerdict.UNKNOWN
    assert visit.learnt is None


class GivesUp:
    """A rendering with some pages under way."""

    def __init__(self, visits: list[ActiveVisit]) -> None:
        self.visits = visits

    def abandon(self) -> list[ActiveVisit]:
        given_up, self.visits = self.visits, []
        return given_up


def test_a_page_does_not_wait_for_a_paused_host_and_every_end_of_a_crawl_gives_up_its_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[object] = []

    async def render(url: str, fetch: FetchForPage) -> RenderedPage:
        answers.append(await fetch(url.replace("h.test", "x.test"), False))
        answers.append(await fetch(url.replace("h.test", "x.test") + "again", True))
        return RenderedPage(b"<p>some words that nothing else has")

    use_stub(monkeypatch, render)
    web = ScriptedWeb({"h.test": {"/": html(head="<script src=/a.js></script>")}})
    crawled = crawl_web(web, tmp_path, "h.test/", courtesy__paused=["x.test"])
    assert answers == [None, None]
    assert crawled.outcomes()["h.test/"] == "200"
    crawl = crawled.crawls[0]
    visit = ActiveVisit(crawl.queues["x.test"], QueuedUrl("http://x.test/", 1, 1, 0, 0, 0.0))
    for end in (crawl.end, crawl.wind_up):
        crawl.note_start(visit)
        crawl.rendering = cast("Any", GivesUp([visit]))
        before = crawl.unrendered
        end()
        assert crawl.unrendered == before + 1
        assert not visit.queue.users


class Held:
    """A rendering that holds pages, and what the crawl has it do with them."""

    held, wants_idle_time = 1, True

    def __init__(self) -> None:
        self.calls: list[str] = []

    def use_idle_time(self) -> None:
        self.calls.append("tried")

    def postpone_held(self) -> None:
        self.calls.append("postponed")


def test_pages_that_are_held_do_not_keep_a_crawl_at_its_quota(tmp_path: Path) -> None:
    """Captures are removed while no visit is under way, and nothing else would end those that are held."""
    crawl = crawl_web(ScriptedWeb({"h.test": {"/": html()}}), tmp_path, "h.test/").crawls[0]
    rendering = Held()
    crawl.rendering, crawl.state = cast("Any", rendering), CrawlState.RUNNING
    crawl.use_idle_time()
    assert rendering.calls == ["tried"]
    crawl.pause("asked to")
    crawl.use_idle_time()
    assert rendering.calls == ["tried"]
    crawl.state = CrawlState.RUNNING
    crawl.pause("over its quota", AwaitedResource.QUOTA)
    crawl.use_idle_time()
    assert rendering.calls == ["tried", "postponed"]


def test_pages_that_wait_for_one_with_the_same_body_count_as_waiting() -> None:
    stub = StubCrawl()
    assert not stub.rendering.is_full("h.test")
    stub.crawl.content_seen = SimpleNamespace(waiting=MAX_WAITING)
    assert stub.rendering.is_full("h.test")
