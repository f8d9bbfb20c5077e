from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from teia.clock import WallClock
from teia.lib.scratch import remove_abandoned
from teia.render.browser import FOLDER, Browser
from teia.render.devtools import BrowserGone, DevTools
from teia.render.page import BrowserAnswer, PageLimits, render_page
from tests.waiting import until


class SilentPipe(asyncio.WriteTransport):
    """Takes commands and answers none."""

    def write(self, data: bytes | bytearray | memoryview) -> None: ...


class SilentBrowser:
    def __init__(self) -> None:
        self.devtools, self.pages, self.is_alive = DevTools(), 0, False
        self.devtools.attach(SilentPipe())


async def no_fetch(_url: str, _is_data: bool) -> BrowserAnswer | None:
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


def test_a_message_that_is_too_long_costs_no_other_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.render.devtools.MAX_MESSAGE_BYTES", 100)
    names: list[str] = []

    async def scenario() -> None:
        devtools = DevTools()
        devtools.listen("1", lambda name, _: names.append(name))
        short = b'{"method": "%s", "sessionId": "1"}\0'
        for data in (short % b"a", b'{"method": "', 90 * b"x", 90 * b"x", b'y"}\0' + short % b"b", short % b"c"):
            devtools.data_received(data)
        assert not devtools.closed.done()

    asyncio.run(scenario())
    assert names == ["a", "b", "c"]


STARTED = """
import asyncio
from teia.render import browser

async def start():
    browser._FLAGS = ("-c", "sleep 1000")  # a browser that does not notice that its pipes were closed
    each = browser.Browser("/bin/sh", browser.BrowserLimits())
    await each._start_process()
    print(each.pid, each._folder.path, flush=True)
    await asyncio.sleep(1000)

asyncio.run(start())
"""


def test_a_crawler_that_is_killed_leaves_neither_a_browser_nor_its_folder_behind() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTED], stdout=subprocess.PIPE, text=True) as crawler:
        assert crawler.stdout is not None
        pid, folder = crawler.stdout.readline().split()
        until(lambda: any(each.startswith(b"/bin/sh\0-c\0sleep") for each in _uses(folder)), "the browser runs")
        crawler.kill()
    until(lambda: not Path("/proc", pid).exists() and not _uses(folder), "the browser ends")
    (Path(folder) / "profile").touch()
    remove_abandoned(FOLDER, str(Path(folder).parent))
    assert not Path(folder).exists()


def _uses(folder: str) -> list[bytes]:
    """The commands of processes that name a folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(each.read_bytes())
    return [each for each in found if folder.encode() in each]
