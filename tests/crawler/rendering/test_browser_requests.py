from __future__ import annotations

import asyncio
from collections.abc import Callable

from teia.clock import VirtualClock
from teia.crawler.child.messages import ReadResult
from teia.crawler.rendering.browser_requests import MAX_AGE_S, SHORT_AGE_S, PageRequests
from teia.crawler.visit import RENDER, ActiveVisit
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue
from teia.records import Fetched, Outcome
from teia.render.page import BrowserAnswer

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/javascript\r\n\r\n"
APP = "http://a.test/app.js"


class Loop:
    """The crawler's part: it takes what is queued, and answers."""

    def __init__(self, admit: Callable[[str], bool] = lambda _: True) -> None:
        self.clock = VirtualClock(1_000.0)
        self.queued: list[QueuedUrl] = []
        self.requests = PageRequests(self.clock, admit, self.queued.append)

    def answer(
        self, item: QueuedUrl, status: int = 200, *, unanswered: bool = False, head: bytes = HEAD
    ) -> ActiveVisit:
        visit = ActiveVisit(HostQueue("a.test", 1, 0, 0, DelayTarget("a.test")), item)
        visit.outcome = str(status) if status else Outcome.CONNECT
        visit.fetched = Fetched(
            item.url, visit.outcome, status, 1.0, 2.0, "192.0.2.1", b"", head, b"", unanswered=unanswered
        )
        visit.result = ReadResult(str(status), payload=b"code") if status else None
        self.requests.note_end(visit)
        return visit

    async def fetch(
        self, url: str, status: int = 200, *, is_data: bool = False, head: bytes = HEAD
    ) -> BrowserAnswer | None:
        """Fetch a URL and answer what that queues."""
        fetching = asyncio.ensure_future(self.requests.fetch(url, is_data))
        await asyncio.sleep(0)
        for item in self.queued[-1:] if not fetching.done() else ():
            self.answer(item, status, head=head)
        return await fetching


def test_an_answer_is_used_for_all_pages_until_it_is_old() -> None:
    async def scenario() -> None:
        loop = Loop()
        first, second = await loop.fetch(APP), await loop.fetch(APP)
        assert first is second
        assert first is not None
        assert (first.status, first.body, list(first.headers)) == (200, b"code", [("content-type", "text/javascript")])
        assert [(each.url, each.purpose) for each in loop.queued] == [(APP, RENDER)]
        await loop.clock.advance(MAX_AGE_S + 1)
        await loop.fetch(APP)
        assert len(loop.queued) == 2

    asyncio.run(scenario())


def test_pages_that_want_the_same_at_once_wait_for_one_request() -> None:
    async def scenario() -> None:
        loop = Loop()
        both = [asyncio.ensure_future(loop.requests.fetch(APP)) for _ in range(2)]
        await asyncio.sleep(0)
        (item,) = loop.queued
        loop.answer(item)
        assert [await each for each in both] == [both[0].result()] * 2

    asyncio.run(scenario())


def test_what_may_not_be_fetched_is_not_queued_and_a_failure_is_tried_again_soon() -> None:
    async def scenario() -> None:
        refusing = Loop(lambda _: False)
        assert await refusing.fetch(APP) is None
        assert refusing.queued == []
        loop = Loop()
        assert await loop.fetch(APP, 0) is None
        assert await loop.fetch(APP, 0) is None
        assert len(loop.queued) == 1
        await loop.clock.advance(SHORT_AGE_S + 1)
        assert await loop.fetch(APP) is not None

    asyncio.run(scenario())


def test_a_request_that_a_closed_connection_lost_is_sent_once_more() -> None:
    async def scenario() -> None:
        loop = Loop()
        fetching = asyncio.ensure_future(loop.requests.fetch(APP))
        await asyncio.sleep(0)
        loop.answer(loop.queued[0], 0, unanswered=True)
        assert [each.failures for each in loop.queued] == [0, 1]
        assert not fetching.done()
        loop.answer(loop.queued[1])
        assert await fetching is not None

    asyncio.run(scenario())


def test_the_commit_does_not_keep_bodies_and_the_end_of_a_crawl_fails_what_waits() -> None:
    async def scenario() -> None:
        loop = Loop()
        fetching = asyncio.ensure_future(loop.requests.fetch(APP))
        await asyncio.sleep(0)
        loop.requests.give_up()
        assert await fetching is None
        visit = loop.answer(loop.queued[0])
        assert visit.result is not None
        assert visit.result.payload == b""

    asyncio.run(scenario())


def test_a_host_that_gets_no_requests_any_more_answers_nothing() -> None:
    async def scenario() -> None:
        loop = Loop()
        here, there = (asyncio.ensure_future(loop.requests.fetch(url)) for url in (APP, "http://b.test/"))
        await asyncio.sleep(0)
        loop.requests.refuse_host("a.test")
        assert await here is None
        assert not there.done()
        loop.requests.give_up()
        assert await there is None

    asyncio.run(scenario())


def test_a_request_is_awaited_until_the_last_page_that_wants_it_has_ended() -> None:
    async def scenario() -> None:
        loop = Loop()
        pages = [asyncio.ensure_future(loop.requests.fetch(APP)) for _ in range(2)]
        await asyncio.sleep(0)
        for page in pages:
            assert loop.requests.is_awaited(APP)
            page.cancel()
            await asyncio.gather(page, return_exceptions=True)
        assert not loop.requests.is_awaited(APP)
        assert await loop.fetch(APP) is not None  # a later page has it requested again

    asyncio.run(scenario())


def test_errors_that_pass_and_data_are_used_for_a_minute_and_what_may_not_be_stored_not_at_all() -> None:
    async def scenario() -> None:
        loop = Loop()
        for after_s, number in ((0.0, 1), (1.0, 1), (SHORT_AGE_S, 2)):
            await loop.clock.advance(after_s)
            await loop.fetch(APP, 503)
            assert len(loop.queued) == number
        await loop.clock.advance(SHORT_AGE_S)
        for _ in range(2):
            await loop.fetch(APP)
            await loop.clock.advance(SHORT_AGE_S)
        assert len(loop.queued) == 3
        await loop.fetch(APP, is_data=True)
        assert len(loop.queued) == 4
        for _ in range(2):
            await loop.fetch("http://a.test/own", head=b"HTTP/1.1 200 OK\r\nCache-Control: private, no-store\r\n\r\n")
        assert len(loop.queued) == 6

    asyncio.run(scenario())
