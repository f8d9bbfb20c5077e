"""Hostile copies in a real browser: they run nothing, ask nobody, their links lead to us (UX 6, 12; RELIABILITY 37-39).

Names of the evil web lead to a server on this machine while its copies are looked at, and what it is asked is counted.
"""

from __future__ import annotations

import http.server
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import uvicorn
from axe_playwright_python.base import AXE_FILE_PATH
from playwright.sync_api import Browser, Page, sync_playwright
from starlette.types import ASGIApp, Receive, Scope, Send

from teia.clock import WallClock
from teia.store.root import open_root
from teia.views.reports.catalogue import REPORTS
from teia.web.access.accounts import Accounts
from teia.web.app import list_routes, make_app
from teia.web.server.installation import Installation
from tests.conftest import missing
from tests.waiting import until
from tests.web.conftest import QUICK, Web
from tests.web.hostile import XSS, crawl_twice, url_of
from tests.web.server.test_auth import address_of
from tests.web.test_browser import CHROMIUM, NOT_PAGES, Live, Served, watched

pytestmark = pytest.mark.timeout(300)
QUICKLY = {"resultTypes": ["violations"], "preload": False, "iframes": False}
PLANTED = "[document.title, document.querySelectorAll('main [onerror], main script, main img[src=x]').length]"
OURS = ("/c/main/copy", "/static/", "/raw/", "/favicon.ico")


@dataclass
class Logged:
    """An application that remembers what it was asked for."""

    app: ASGIApp
    asked: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.asked.append(scope["path"])
        await self.app(scope, receive, send)


@dataclass
class Scene:
    """Our server with the evil web's copies, and the evil web itself, each with what it was asked."""

    live: Live
    logged: Logged
    evil_asked: list[str]

    def address(self, path: str, kind: str = "copy", **query: str) -> str:
        more = "".join(f"&{name}={quote(value)}" for name, value in query.items())
        return f"/c/main/{kind}?url={quote(url_of(self.live.web.installation.root.path, path), safe='')}{more}"

    def others(self) -> list[str]:
        """What was asked of us that a look at copies does not need."""
        return [path for path in self.logged.asked if not path.startswith(OURS)]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    data = tmp_path_factory.mktemp("scene") / "data"
    shutil.copytree(crawl_twice(tmp_path_factory.mktemp("evil")), data)
    clock = WallClock()
    installation = Installation(open_root(data), clock, Accounts(data / "web.sqlite", clock, QUICK))
    app = make_app(installation)
    logged = Logged(app)
    patch = pytest.MonkeyPatch()
    patch.setattr("teia.web.limits.SIGN_INS_AT_ONCE", 1_000)
    patch.setattr("teia.web.limits.REQUESTS_AT_ONCE", 100_000)
    server = Served(uvicorn.Config(logged, port=0, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started, "the server listens")
    port = server.servers[0].sockets[0].getsockname()[1]
    asked: list[str] = []
    evil = _evil_web(urlsplit(url_of(data, "/perigo")).port or 80, asked)
    yield Scene(Live(Web(app, installation), f"http://127.0.0.1:{port}"), logged, asked)
    evil.shutdown()
    evil.server_close()
    server.should_exit = True
    thread.join(20)
    installation.close()
    patch.undo()


def _evil_web(port: int, asked: list[str]) -> http.server.ThreadingHTTPServer:
    class Counting(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        do_POST = do_GET  # noqa: N815  # the name that the library looks for

        def log_message(self, *_: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Counting)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser to which every name of the evil web is this machine."""
    if not Path(CHROMIUM).exists():
        missing("chromium-headless-shell is not installed")
    with sync_playwright() as playwright:
        rules = ["--host-resolver-rules=MAP *.test 127.0.0.1"]
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=rules)
        yield opened
        opened.close()


@pytest.fixture
def page(scene: Scene, browser: Browser) -> Iterator[Page]:
    context = scene.live.context(browser, viewport={"width": 1280, "height": 800})
    opened = context.new_page()
    scene.logged.asked.clear()
    scene.evil_asked.clear()
    yield opened
    context.close()


def test_names_of_the_evil_web_would_lead_to_it(scene: Scene, page: Page) -> None:
    """The check below can fail: what the browser asks of the live host is seen."""
    page.goto(url_of(scene.live.web.installation.root.path, "/perigo"))
    assert "/perigo" in scene.evil_asked


def test_a_hostile_capture_runs_nothing_and_sends_no_request(scene: Scene, page: Page) -> None:
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.goto(scene.address("/perigo"))
    copy = page.frame_locator("iframe.copy")
    copy.get_by_text("Um texto inofensivo").wait_for()
    box = copy.locator("#ours").bounding_box()
    assert box is not None
    assert box["width"] == 37, "its own style sheet and picture are shown"
    at = page.url
    for button in ("#send", "#send-live", "text=corre", "text=dados", "text=abre", "#here"):
        copy.locator(button).first.click()
    page.wait_for_timeout(1_000)  # nothing happens for a while
    assert page.url == at
    assert page.title() != "broken in"
    assert dialogs == []
    assert scene.others() == [], "0 calls of the API"
    assert scene.evil_asked == [], "0 live requests"


def test_a_link_of_a_copy_leads_to_our_copy_and_its_reader_stays_signed_in(scene: Scene, page: Page) -> None:
    page.goto(scene.address("/perigo"))
    page.frame_locator("iframe.copy").locator("#away").click()
    page.wait_for_url("**/c/main/copy?url=*other*")
    assert page.locator("header.top").get_by_text("admin-").is_visible()
    page.frame_locator("iframe.copy").get_by_text("A outra página").wait_for()  # a frame is filled after its page
    assert scene.others() == []
    assert scene.evil_asked == []


@pytest.mark.parametrize("path", ["/perigo", "/svg"])
def test_a_copy_runs_nothing_in_a_tab_of_its_own_either(scene: Scene, page: Page, path: str) -> None:
    twin = scene.live.web.client().get(f"/api/v1{scene.address(path)}").json()
    scene.logged.asked.clear()
    page.goto(twin["frame"] or twin["picture"])
    page.wait_for_timeout(500)  # nothing happens for a while
    assert scene.others() == []
    assert scene.evil_asked == []


def test_without_scripts_everything_that_is_read_works(scene: Scene, browser: Browser) -> None:
    """UX 6: search, page, versions compared, copy."""
    context = scene.live.context(browser, java_script_enabled=False)
    page = context.new_page()
    page.goto("/")
    page.fill("#q", "mercado")
    page.click("form.search button")
    page.click("text=Links & versions")
    assert page.locator('input[type="checkbox"]:checked').count() == 2
    page.click("button:text('Compare')")
    assert page.locator("ins").first.is_visible()
    page.click("text=Links & versions")
    page.click(".headline >> text=Capture")
    page.frame_locator("iframe.copy").get_by_text("O mercado fecha").wait_for()  # a frame is filled after its page
    page.click("text=older")
    page.frame_locator("iframe.copy").get_by_text("O mercado abre").wait_for()  # a frame is filled after its page
    for tab in ("Text", "Source", "Record", "Page"):
        page.click(f".tabs >> text={tab}")
    context.close()


def test_copies_versions_and_results_can_be_used_by_all(scene: Scene, browser: Browser) -> None:
    """UX 21, 23 for what the route table alone does not reach: tabs, versions, reasons. Dark, only colours differ."""
    context = scene.live.context(browser)
    context.add_init_script(AXE_FILE_PATH.read_text("utf-8"))
    page = context.new_page()
    addresses = [scene.address("/changing", tab=tab) for tab in ("page", "text", "source", "record")]
    addresses += [scene.address("/changing", "diff", tab=tab) for tab in ("text", "links", "headers")]
    addresses += [scene.address("/changing", "page"), scene.address("/doc.pdf"), scene.address("/svg")]
    addresses += ["/search?q=perigo&explain=true", "/c/main/unknown?url=http://evil.test/never"]
    problems = {}
    run = "async (options) => (await axe.run(document, options)).violations.map((each) => each.id)"
    for address in addresses:
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 1280, "height": 800})
        page.goto(address)
        found = page.evaluate(run, QUICKLY)
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": 320, "height": 800})
        found += page.evaluate(run, {**QUICKLY, "runOnly": {"type": "rule", "values": ["color-contrast"]}})
        overhang = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if found or overhang > 0:
            problems[address] = (found, overhang)
    assert problems == {}
    context.close()


def test_a_change_of_markup_alone_is_shown_as_none(scene: Scene, page: Page) -> None:
    """UX 13."""
    page.goto(scene.address("/markup", "diff"))
    assert "counted as the same" in page.inner_text("main .note")
    assert page.locator("main ins, main del").count() == 0


def test_keys_step_through_versions(scene: Scene, page: Page) -> None:
    page.goto(scene.address("/changing"))
    page.keyboard.press("[")
    page.wait_for_url("**time=*")
    assert "version 1 of 2" in page.locator(".bar").inner_text()
    page.keyboard.press("]")
    page.locator(".bar >> text=version 2 of 2").wait_for()


def test_what_a_site_wrote_runs_on_no_page(
    scene: Scene, page: Page, record_property: Callable[[str, object], None]
) -> None:
    """RELIABILITY 38: payloads in every field that a site can fill, on every page of ours that shows one.

    Title, text, description, language, canonical form, anchor, URL, redirect, headers, robots.txt, sitemap, feed, what
    a PDF says of itself, errors; and in what a visitor asks for. A host's name cannot hold one: it would be no name.
    """
    said = watched(page)
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    data = scene.live.web.installation.root.path
    nasty = url_of(data, "/xss")
    routes = [route for route in list_routes(scene.live.web.app) if route.method == "GET"]
    files = (".csv", "/csv", "/svg", ".rss", ".xml", "/json", ".jsonl")
    pages = [route for route in routes if not route.path.startswith(NOT_PAGES) and not route.path.endswith(files)]
    shown = [address_of(route, scene.live.web) for route in pages]
    asked = quote("perigo " + XSS)
    addresses = [f"{each}?url={quote(nasty, safe='')}&q={asked}" for each in shown]
    addresses += [scene.address("/xss", tab=tab) for tab in ("text", "source", "record")]
    addresses += [scene.address("/xss", "diff", tab=tab) for tab in ("links", "headers")]
    addresses += ["/search?q=perigo&explain=true", f"/c/main/unknown?url={quote('http://evil.test/?' + XSS, safe='')}"]
    addresses += [f"/c/{quote(XSS, safe='')}", f"/c/main/page?url={asked}", f"/login?to=/&name={asked}&problem={asked}"]
    with scene.live.web.installation.lookup("main") as lookup:
        known = lookup.urls_of_host("evil.test", 200)
    assert sum("onerror" in url for url in known) >= 4, "by link, redirect, sitemap and feed"
    addresses += [f"/c/main/page?url={quote(url, safe='')}" for url in known]
    addresses += [f"/c/main/reports/{name}" for name in REPORTS]
    addresses += [f"/c/main/sql?q={quote(f'SELECT * FROM {view}')}" for view in ("pages", "fetches", "hosts")]
    addresses += [f"/c/main/hosts/evil.test?{asked}", f"/c/main/frontier?contains={asked}&host={asked}"]
    addresses += [scene.address(path, tab=tab) for path in ("/odd", "/doc.pdf") for tab in ("page", "text", "record")]
    links = scene.live.web.client().get(f"/api/v1{scene.address('/xss', 'page')}").json()["links_out"]
    addresses += [f"/c/main/page?url={quote(link, safe='')}" for link in links]
    for address in dict.fromkeys(addresses):
        answer = page.goto(address, wait_until="domcontentloaded")
        assert answer is not None
        assert answer.status < 500, address
        title, planted = page.evaluate(PLANTED)
        assert title != "broken in", address
        assert planted == 0, address
        if answer.status >= 400:  # of which the browser tells, too
            said[:] = [each for each in said if "the server responded with a status of" not in each]
        assert said == [], address
    assert dialogs == []
    assert scene.evil_asked == []
    record_property("figure 7", f"{len(set(addresses))} pages with payloads in every field: 0 scripts run")


def test_what_was_found_is_text_and_marks(scene: Scene, page: Page) -> None:
    """RELIABILITY 39."""
    page.goto("/search?q=perigo")
    inside = page.evaluate(
        "[...document.querySelectorAll('.snippet *, .hits h2 a *')].map(e => e.tagName).filter(n => n != 'BDI')"
    )
    assert set(inside) == {"MARK"}
    assert "<img src=x" in page.locator(".hits").inner_text()
