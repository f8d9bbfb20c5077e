"""Every page in Debian's Chromium: its policy holds, axe finds nothing, nothing scrolls sideways (UX 5, 6, 21, 23)."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from fastapi import FastAPI
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from teia.clock import WallClock
from teia.store.root import open_root
from teia.web.accounts import Accounts
from teia.web.app import gates_of, make_app
from teia.web.roles import Role
from teia.web.site import Site
from tests.conftest import missing

from .conftest import PASSWORD, QUICK, Web
from .test_gate import address_of

CHROMIUM = "/usr/bin/chromium"
NOT_PAGES = ("/api/", "/raw/", "/metrics", "/health", "/events", "/logout")


@dataclass
class Live:
    """The application on a socket, and somebody who is signed in to it as admin."""

    web: Web
    base: str

    def context(self, browser: Browser, **how: object) -> BrowserContext:
        context = browser.new_context(base_url=self.base, **how)  # type: ignore[arg-type]
        name = f"admin-{len(self.web.site.accounts.users())}"
        code = self.web.site.accounts.invite(Role.ADMIN)
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
    site = Site(open_root(data), clock, Accounts(data / "web.sqlite", clock, QUICK))
    app: FastAPI = make_app(site)
    server = Served(uvicorn.Config(app, port=0, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    until = time.monotonic() + 20
    while not server.started and time.monotonic() < until:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield Live(Web(app, site), f"http://127.0.0.1:{port}")
    server.should_exit = True
    thread.join(20)
    site.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        missing("chromium is not installed")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM)
        yield opened
        opened.close()


def addresses(live: Live) -> list[str]:
    """Every page there is: the route table's, with something to show in each."""
    url, client = live.web.some_url(), live.web.client(Role.ADMIN)
    gates = [gate for gate in gates_of(live.web.app) if gate.method == "GET" and not gate.path.startswith(NOT_PAGES)]
    found = []
    for address in (f"{address_of(gate, live.web)}?url={url}&q=renda" for gate in gates):
        answer = client.get(address)
        assert answer.status_code < 500, address
        if answer.status_code == 200 and answer.headers["content-type"].startswith("text/html"):
            found.append(address)
    assert len(found) >= 10
    return found


def watched(page: Page) -> list[str]:
    """What the browser complains of, from now on."""
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    return said


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("scheme", "language"), [("light", "en"), ("dark", "pt-BR")])
def test_every_page_is_sound_and_can_be_used_by_all(live: Live, browser: Browser, scheme: str, language: str) -> None:
    context = live.context(browser, color_scheme=scheme, locale=language, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    said = watched(page)
    problems: dict[str, list[str]] = {}
    for address in addresses(live):
        page.goto(address)
        found = Axe().run(page).response["violations"]
        problems[address] = [f"{each['id']}: {each['nodes'][0]['html'][:160]}" for each in found] + said
        said.clear()
    assert {address: each for address, each in problems.items() if each} == {}
    context.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("width", [320, 360, 720, 1440])
def test_no_page_scrolls_sideways(live: Live, browser: Browser, width: int) -> None:
    context = live.context(browser, viewport={"width": width, "height": 700})
    page = context.new_page()
    wide = {}
    for address in addresses(live):
        page.goto(address)
        overhang = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if overhang > 0:
            wide[address] = overhang
    assert wide == {}
    context.close()


def test_an_invitation_is_taken_from_the_address_and_leaves_it(live: Live, browser: Browser) -> None:
    context = browser.new_context(base_url=live.base)
    page = context.new_page()
    code = live.web.site.accounts.invite(Role.VIEWER)
    page.goto(f"/login#{code}")
    assert page.input_value("#code") == code
    assert "#" not in page.url
    page.fill("#new-name", "convidada")
    page.fill("#new-password", PASSWORD)
    page.click("text=Make the account")
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
