"""A collection of the kind archive in Debian's Chromium: a capture looks like the page."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from teia.collections.settings import saved
from teia.lab.world.exchange import WorldAnswer
from teia.store.root import open_root
from tests.crawler.webs import ScriptedWeb, crawl_web, html
from tests.web.test_browser import Live, browser
from tests.web.test_live_browser import serving

__all__ = ["browser"]


def png() -> bytes:
    """A picture of two by one pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(b"\x00" + b"\xff\x00\x00" * 2)
    head = struct.pack(">IIBBBBB", 2, 1, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawled page with a style sheet and a picture. A browser cannot be open beside the crawl's event loop."""
    pages = {
        "/": html(text='Styled. <img src="/p.png" alt="">', head='<link rel="stylesheet" href="/s.css">'),
        "/s.css": WorldAnswer(200, b"Content-Type: text/css\r\n", b"p { color: rgb(1, 2, 3) }"),
        "/p.png": WorldAnswer(200, b"Content-Type: image/png\r\n", png()),
    }
    folder = tmp_path_factory.mktemp("archive")
    return crawl_web(ScriptedWeb({"x.test": pages}), folder, "x.test/", collection__kind="archive").data


def test_a_capture_of_an_archive_has_the_styles_and_pictures_of_its_page(archived: Path, browser: Browser) -> None:
    url = saved(open_root(archived), "main").config.collection.seeds[0]
    with serving(archived) as served:
        context = Live(served.web, served.base).context(browser)
        page = context.new_page()
        page.goto(f"/c/main/copy?url={quote(url, safe='')}")
        frame = page.frame_locator("iframe.copy")
        assert frame.locator("p").evaluate("each => getComputedStyle(each).color") == "rgb(1, 2, 3)"
        assert frame.locator("img").evaluate("each => each.naturalWidth") == 2
        page.goto(f"/c/main/calendar?url={quote(url, safe='')}")
        page.click("a.changed")
        assert "/copy?" in page.url
        context.close()
