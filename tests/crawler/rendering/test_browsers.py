"""Every page that is submitted gets a result, whatever happens to the browser."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from teia.clock import WallClock
from teia.crawler.rendering.browsers import Browsers, RenderJob
from teia.render.devtools import BrowserGone
from teia.render.page import BrowserAnswer, FetchForPage, PageLimits, RenderedPage
from teia.render.program import find_browser
from tests.crawler.rendering.stub_browsers import StubBrowser, use_stub

WITHIN_S = 60.0


async def render(url: str, _: FetchForPage) -> RenderedPage:
    return RenderedPage(url.encode())


async def no_fetch(_url: str, _is_data: bool) -> BrowserAnswer | None:
    return None


def job(url: str, done: Callable[[RenderedPage], None]) -> RenderJob:
    return RenderJob(url, lambda: BrowserAnswer(200, [], b""), no_fetch, PageLimits(), "teia", done)


def browsers(program: str = "stub") -> Browsers:
    return Browsers(program, 1, 2**28, WallClock())


async def result_of(each: Browsers, url: str) -> RenderedPage:
    result: asyncio.Future[RenderedPage] = asyncio.get_running_loop().create_future()
    each.submit(job(url, result.set_result))
    async with asyncio.timeout(WITHIN_S):
        return await result


def test_a_page_that_comes_while_an_idle_browser_is_ended_is_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.crawler.rendering.browsers.IDLE_S", 0.01)
    made: list[StubBrowser] = []

    def make() -> StubBrowser:
        made.append(StubBrowser(ends_late=True))
        return made[-1]

    async def scenario() -> None:
        each = browsers()
        await result_of(each, "http://h.test/1")
        async with asyncio.timeout(WITHIN_S):
            await made[0].is_ending.wait()
        second = asyncio.ensure_future(result_of(each, "http://h.test/2"))
        await asyncio.sleep(0)
        assert each.waiting == 1
        made[0].may_end.set()
        assert (await second).document == b"http://h.test/2"
        made[1].may_end.set()
        await each.close()

    use_stub(monkeypatch, render, make)
    asyncio.run(scenario())


def test_a_result_that_cannot_be_used_costs_no_other_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: RenderedPage) -> None:
        raise ValueError

    async def scenario() -> None:
        each = browsers()
        each.submit(job("http://h.test/1", fail))
        assert (await result_of(each, "http://h.test/2")).document == b"http://h.test/2"
        await each.close()

    use_stub(monkeypatch, render)
    asyncio.run(scenario())


def test_a_page_that_is_not_wanted_any_more_is_not_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    async def note(url: str, fetch: FetchForPage) -> RenderedPage:
        seen.append(url)
        return await render(url, fetch)

    async def scenario() -> None:
        each = browsers()
        unwanted = job("http://h.test/1", lambda _: None)
        unwanted.is_wanted = lambda: False
        each.submit(unwanted)
        await result_of(each, "http://h.test/2")
        await each.close()

    use_stub(monkeypatch, note)
    asyncio.run(scenario())
    assert seen == ["http://h.test/2"]


def test_a_browser_without_a_folder_does_not_start_and_is_not_tried_for_each_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[str] = []

    def fail(*_: object) -> None:
        tries.append("")
        raise OSError("no space left")

    async def scenario() -> None:
        each = browsers(find_browser() or "none")
        first, second = [await result_of(each, f"http://h.test/{number}") for number in range(2)]
        assert "no space left" in first.error
        assert "no space left" in second.error
        assert "no space left" in each.trouble
        assert first.is_blameless
        assert second.is_blameless
        assert each.is_down
        await each.close()

    monkeypatch.setattr("teia.render.browser.ScratchFolder", fail)
    asyncio.run(scenario())
    assert len(tries) == 1


def test_a_page_whose_browser_another_page_ended_is_rendered_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[str] = []
    made: list[StubBrowser] = []

    def make() -> StubBrowser:
        made.append(StubBrowser())
        return made[-1]

    async def end_browser(url: str, fetch: FetchForPage) -> RenderedPage:
        rendered.append(url)
        if "innocent" not in url or rendered.count(url) == 1:
            raise BrowserGone
        return await render(url, fetch)

    async def scenario() -> None:
        each = browsers()
        assert (await result_of(each, "http://h.test/innocent")).document
        guilty = await result_of(each, "http://h.test/guilty")
        assert guilty.error
        assert not guilty.is_blameless
        await each.close()

    use_stub(monkeypatch, end_browser, make)
    asyncio.run(scenario())
    assert len(rendered) == 4
    assert len(made) == 3  # one for all pages, and one for each that is rendered again
