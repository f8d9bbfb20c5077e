"""A browser without Chromium: each page is rendered by a function of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import pytest

from teia.clock import Clock
from teia.render.browser import BrowserLimits
from teia.render.page import BrowserAnswer, FetchForPage, PageLimits, RenderedPage

Render = Callable[[str, FetchForPage], Awaitable[RenderedPage]]
"""Function that renders the page at a URL; its requests are made by the second argument."""


class StubBrowser:
    """A browser that always runs. `may_end` lets it end."""

    def __init__(self, *, ends_late: bool = False) -> None:
        self.may_end, self.is_ending, self.pages, self.is_alive = asyncio.Event(), asyncio.Event(), 0, True
        if not ends_late:
            self.may_end.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_ending.set()
        await self.may_end.wait()


def use_stub(
    monkeypatch: pytest.MonkeyPatch, render: Render, make: Callable[[], StubBrowser] = lambda: StubBrowser()
) -> None:
    """Have all pages rendered by a function."""

    def browser(_program: str, _limits: BrowserLimits) -> StubBrowser:
        return make()

    async def render_page(
        browser: StubBrowser,
        url: str,
        answer: BrowserAnswer,
        fetch: FetchForPage,
        limits: PageLimits,
        clock: Clock,
        agent: str,
    ) -> RenderedPage:
        return await render(url, fetch)

    for module in ("teia.crawler.compiled_settings", "teia.crawler.start"):
        monkeypatch.setattr(f"{module}.find_browser", lambda: "stub")
    monkeypatch.setattr("teia.crawler.rendering.browsers.Browser", browser)
    monkeypatch.setattr("teia.crawler.rendering.browsers.render_page", render_page)
