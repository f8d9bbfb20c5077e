"""Debian's Chromium, and somebody who is signed in with it (every page: acceptance/test_every_page.py)."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import uvicorn
from axe_playwright_python.base import AXE_FILE_PATH
from fastapi import FastAPI
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from teia.clock import WallClock
from teia.store.root import open_root
from teia.web.access.accounts import Accounts
from teia.web.access.roles import Role
from teia.web.app import make_app
from teia.web.server.installation import Installation
from tests.conftest import missing
from tests.waiting import until

from .conftest import PASSWORD, QUICK, Web

CHROMIUM = "/usr/bin/chromium-headless-shell"
"""The same engine without the parts that nobody sees: a test takes three fifths of the processor time."""
NOT_PAGES = ("/api/", "/raw/", "/metrics", "/health", "/events", "/logout", "/indexnow", "/websub")


@dataclass
class Live:
    """The application on a socket, and somebody who is signed in to it as admin."""

    web: Web
    base: str

    def context(self, browser: Browser, **how: object) -> BrowserContext:
        context = browser.new_context(base_url=self.base, **how)  # type: ignore[arg-type]
        name = f"admin-{len(self.web.installation.accounts.users())}"
        code = self.web.installation.accounts.invite(Role.ADMIN)
        sent = {"code": code, "name": name, "password": PASSWORD}
        assert context.request.post("/login/first", form=sent, max_redirects=0).status == 303
        return context


class Served(uvicorn.Server):
    """Serves in a thread, where signals cannot be caught."""

    def install_signal_handlers(self) -> None:
        return


@pytest.fixture(scope="module")
def live(crawled_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    data = tmp_path_factory.mktemp("live") / "data"
    shutil.copytree(crawled_data, data)
    clock = WallClock()
    installation = Installation(open_root(data), clock, Accounts(data / "web.sqlite", clock, QUICK))
    app: FastAPI = make_app(installation)
    server = Served(uvicorn.Config(app, port=0, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started, "the server listens")
    port = server.servers[0].sockets[0].getsockname()[1]
    yield Live(Web(app, installation), f"http://127.0.0.1:{port}")
    server.should_exit = True
    thread.join(20)
    installation.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        missing("chromium-headless-shell is not installed")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM)
        yield opened
        opened.close()


def watched(page: Page) -> list[str]:
    """What the browser complains of, from now on."""
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    return said


def test_an_invitation_is_taken_from_the_address_and_leaves_it(live: Live, browser: Browser) -> None:
    context = browser.new_context(base_url=live.base)
    page = context.new_page()
    code = live.web.installation.accounts.invite(Role.VIEWER)
    page.goto(f"/login#{code}")
    assert page.input_value("#code") == code
    assert "#" not in page.url
    assert page.locator("main form").first.locator("#code").count() == 1, "it is the first form"
    assert page.evaluate("document.activeElement.id") == "new-name"
    page.fill("#new-name", "convidada")
    page.fill("#new-password", PASSWORD)
    page.click("text=Create account")
    page.wait_for_url("**/c")
    assert page.locator("header").get_by_text("convidada").is_visible()
    context.close()


def test_all_works_without_scripts(live: Live, browser: Browser) -> None:
    """Search, a page, its links, and a language that is chosen (UX 6)."""
    context = browser.new_context(base_url=live.base, java_script_enabled=False)
    page = context.new_page()
    page.goto("/")
    page.fill("input[type=search]", "imposto")
    page.press("input[type=search]", "Enter")
    page.click("text=Links & versions")
    assert page.locator("#links-here").is_visible()
    page.click("button:has-text('PT')")
    assert page.locator("#links-here").inner_text().startswith("Quem aponta")
    context.close()


def test_narrow_screens_show_cards_and_times_are_in_the_zone_that_was_chosen(live: Live, browser: Browser) -> None:
    """UX 2.13 and 4: nothing has to be scrolled sideways to reach a button; scripts go by the chosen zone too."""
    context = live.context(browser, viewport={"width": 360, "height": 800}, timezone_id="Asia/Tokyo")
    page = context.new_page()
    page.goto("/c/main/watches")
    page.fill("#w-query", "imposto de renda")
    page.click("button:has-text('Subscribe')")
    page.goto("/c/main/watches")
    box = page.get_by_role("button", name="Remove").bounding_box()
    assert box is not None
    assert 0 <= box["x"] <= box["x"] + box["width"] <= 360
    assert page.evaluate("document.querySelector('.stack').scrollWidth <= document.querySelector('.stack').clientWidth")
    page.goto("/settings/you")
    assert page.inner_text("[data-zone]") == "Asia/Tokyo"
    page.select_option("#zone", "America/Sao_Paulo")
    page.select_option("#density", "dense")
    page.click("button:has-text('Save')")
    assert page.inner_text("[data-zone]") == "America/Sao_Paulo"
    page.goto("/settings/audit")
    shown = page.locator("main time").first
    there = datetime.fromisoformat(shown.get_attribute("datetime") or "").astimezone(ZoneInfo("America/Sao_Paulo"))
    assert shown.inner_text().endswith(f"{there:%H:%M}")
    page.set_viewport_size({"width": 1280, "height": 800})
    row = page.locator("main tbody td").first.bounding_box()
    assert row is not None
    assert row["height"] < 36, "dense"
    context.close()


@pytest.mark.parametrize("scripts", [True, False])
def test_menus_of_narrow_screens_are_opened(live: Live, browser: Browser, scripts: bool) -> None:
    """UX 4: below 720 px the menu is in <details>, by keyboard and without scripts too; above, nothing is closed."""
    size, scheme = {"width": 360, "height": 800}, "dark" if scripts else "light"
    context = live.context(browser, viewport=size, color_scheme=scheme, java_script_enabled=scripts)
    page = context.new_page()
    page.goto("/c/main/hosts")
    lab, watches = page.locator(".top nav >> text=Lab"), page.locator("nav.sub >> text=Subscriptions")
    assert not lab.is_visible()
    assert not watches.is_visible()
    assert not page.is_visible("text=Sign out")
    assert page.locator("nav.sub summary").inner_text() == "Hosts", "which of them this is"
    box = page.locator("main").bounding_box()
    assert box is not None
    assert box["y"] < 120, "the page begins high up"
    for _ in range(3):  # past the way to the content and the name
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert lab.is_visible()
    assert page.is_visible("text=Sign out")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Search", "the first of what was opened"
    page.locator("nav.sub summary").click()
    assert watches.is_visible()
    if scripts:
        page.evaluate("document.querySelectorAll('.stack td.n').forEach(each => each.textContent = '98% / 100%')")
        wide = (
            "[...document.querySelectorAll('.stack td.n')].filter(each => each.scrollWidth > each.clientWidth).length"
        )
        assert page.evaluate(wide) == 0, "no value is printed over the label beside it"
        page.evaluate(AXE_FILE_PATH.read_text("utf-8"))
        options = {"rules": {"target-size": {"enabled": True}}}
        assert page.evaluate("async (options) => (await axe.run(document, options)).violations", options) == []
    watches.click()
    assert page.url.endswith("/c/main/watches")
    page.set_viewport_size({"width": 720, "height": 800})
    assert page.is_visible("nav.sub li >> text=Subscriptions")
    assert page.is_visible(".top nav >> text=Lab")
    assert page.is_visible("text=Sign out")
    until(lambda: not page.is_visible("summary"), "the menus are laid out for the wider screen")
    page.set_viewport_size(size)
    for address, shown, last in (("/lab", "Lab pages", "Reproduce"), ("/settings/users", "Users", "Changes")):
        page.goto(address)
        assert page.locator("nav.sub summary").inner_text() == shown
        assert not page.is_visible(f"nav.sub li >> text={last}")
        page.locator("nav.sub summary").click()
        assert page.is_visible(f"nav.sub li >> text={last}")
    context.close()


def test_a_query_is_completed_with_the_keyboard_alone(live: Live, browser: Browser) -> None:
    page = browser.new_context(base_url=live.base, locale="en").new_page()
    page.goto("/")
    field = page.get_by_role("combobox")
    field.press_sequentially("impos")
    page.get_by_role("option").first.wait_for()
    assert field.get_attribute("aria-expanded") == "true"
    field.press("Escape")
    assert field.get_attribute("aria-expanded") == "false"
    field.press_sequentially("t")
    page.get_by_role("option", name="imposto", exact=True).wait_for()
    field.press("ArrowDown")
    chosen = page.locator(f"#{field.get_attribute('aria-activedescendant')}")
    assert chosen.get_attribute("aria-selected") == "true"
    text = chosen.inner_text()
    field.press("Enter")
    page.wait_for_url("**/search?q=*")
    assert page.locator("#q").input_value() == text
