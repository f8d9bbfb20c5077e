"""A fresh `teia demo` for all of these tests, and Debian's Chromium for each file of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.conftest import missing
from tests.web.test_browser import CHROMIUM, Live
from tests.workers import shared_folder

from .demo import Left, demo_left, serving_at


@pytest.fixture(scope="session")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """What `teia demo` left; copied by who writes in it."""
    return demo_left(shared_folder(tmp_path_factory) / "teia-demo")


@pytest.fixture(scope="module")
def demo(left: Left, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """The demo behind a server, at the moment at which it was left."""
    data = tmp_path_factory.mktemp("demo") / "data"
    shutil.copytree(left.data, data)
    (data / "web.sqlite").unlink(missing_ok=True)
    with serving_at(data, left.ended_s) as served:
        yield Live(served.web, served.base)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        missing("chromium-headless-shell is not installed")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM)
        yield opened
        opened.close()
