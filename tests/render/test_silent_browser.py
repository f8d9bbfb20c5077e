from __future__ import annotations

import asyncio
from typing import cast

import pytest

from teia.clock import WallClock
from teia.render.browser import Browser
from teia.render.devtools import BrowserGone, DevTools
from teia.render.page import BrowserAnswer, PageLimits, render_page


class SilentPipe(asyncio.WriteTransport):
    """Takes commands and answers none."""

    def write(self, data: bytes | bytearray | memoryview) -> None: ...


class SilentBrowser:
    def __init__(self) -> None:
        self.devtools, self.pages, self.is_alive = DevTools(), 0, False
        self.devtools.attach(SilentPipe())


async def no_fetch(_: str) -> BrowserAnswer | None:
    return None


def test_a_browser_that_opens_no_page_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.render.page.OPEN_S", 0.01)

    async def scenario() -> None:
        browser = SilentBrowser()
        answer = BrowserAnswer(200, [], b"")
        with pytest.raises(BrowserGone):
            async with asyncio.timeout(60):
                await render_page(
                    cast("Browser", browser), "http://h.test/", answer, no_fetch, PageLimits(), WallClock(), "teia"
                )
        assert browser.devtools.closed.done()
        assert browser.pages == 0

    asyncio.run(scenario())
