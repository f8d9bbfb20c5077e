"""Pages in a real browser, with the requests answered by the test: no server, no network."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.render.browser import Browser, BrowserLimits, find_isolation
from teia.render.page import BrowserAnswer, PageLimits, RenderedPage, render_page
from teia.render.program import find_browser
from tests.conftest import missing
from tests.waiting import until

MEMORY = 400 * 2**20
PAGES = {
    "timer": "<p>text</p><script>setTimeout(() => document.body.append('late'), 4000)</script>",
    "fetch": "<p id=p></p><script>fetch('/data').then(a => a.text()).then(t => { p.textContent = t })</script>",
    "redirected": "<p id=p></p><script>fetch('/moved').then(a => a.text()).then(t => { p.textContent = t })</script>",
    "click": "<button onclick=\"this.after('shown')\">Show more</button><button>Buy</button>",
    "tabs": "<p id=p>first text</p><button onclick=\"p.textContent='second text'\">Second</button>",
    "leaves": "<p>stays</p><script>location = '/other'</script>",
    "shadow": "<div id=d></div><script>d.attachShadow({mode: 'open'}).innerHTML = '<b>inside</b>'</script>",
    "sockets": "<script>document.body.append([typeof WebSocket, typeof RTCPeerConnection].join())</script>",
    "posts": "<script>fetch('/data', {method: 'POST'}).catch(() => document.body.append('refused'))</script>",
    "posted": "<p>stays</p><form method=post action=/x></form><script>document.forms[0].submit()</script>",
    "frames": "<p>outside</p><iframe src='/frames'></iframe><iframe src='/other'></iframe>",
    "elsewhere": "<script>fetch('//other.test/data').then(a => a.text()).then(t => document.body.append(t))</script>",
    "endless": "<p>before</p><script>while (true) {}</script>",
    "grows": "<p>before</p><script>const a = []; while (true) a.push(new Uint8Array(1e7).fill(1))</script>",
    "many": "<p>before</p><script>for (let i = 0; i < 10000; i++) fetch('/data?' + i).catch(() => 0)</script>",
}
LONG = frozenset({"endless", "grows", "many"})


@pytest.fixture(scope="module", autouse=True)
def chromium() -> None:
    if find_browser() is None:
        missing("chromium-headless-shell is not installed")


class Pages:
    """What the browser made of each page, what it requested, and its processes."""

    def __init__(self) -> None:
        self.results: dict[str, RenderedPage] = {}
        self.requested: list[str] = []
        self.addresses: set[str] = set()
        self.interfaces: list[str] = []
        self.pid = 0

    async def fetch(self, url: str, _is_data: bool) -> BrowserAnswer | None:
        self.requested.append(url)
        path = url.removeprefix("http://h.test").removeprefix("http://other.test")
        if path.startswith("/data"):
            return BrowserAnswer(200, [("Content-Type", "text/plain")], b"from the crawler")
        if path == "/moved":
            return BrowserAnswer(302, [("Location", "/data")], b"")
        return None

    async def render(self, pages: Mapping[str, str]) -> None:
        program = find_browser()
        assert program is not None
        limits = PageLimits(busy_s=20.0, requests=20, paused_requests=300)
        async with Browser(program, BrowserLimits(MEMORY)) as browser:
            self.pid = browser.pid
            for name, markup in pages.items():
                answer = BrowserAnswer(200, [("Content-Type", "text/html")], f"<!doctype html><body>{markup}".encode())
                limit = PageLimits(busy_s=1.0) if name == "endless" else limits
                self.results[name] = await render_page(
                    browser, f"http://h.test/{name}", answer, self.fetch, limit, WallClock(), "teia/0 (+test)"
                )
                assert browser.is_alive, name
            self.addresses, self.interfaces = _open_sockets(browser.pid), _interfaces(browser.pid)


def _open_sockets(pid: int) -> set[str]:
    """The addresses of all internet sockets in the namespace of a browser's processes."""
    found: set[str] = set()
    for name in ("tcp", "tcp6", "udp", "udp6"):
        for each in _below(pid):
            file = Path(f"/proc/{each}/net/{name}")
            if file.exists() and Path(f"/proc/{each}/ns/net").readlink() != Path("/proc/self/ns/net").readlink():
                found |= {line.split()[2] for line in file.read_text().splitlines()[1:]}
    return found


def _interfaces(pid: int) -> list[str]:
    lines = Path(f"/proc/{_below(pid)[-1]}/net/dev").read_text().splitlines()[2:]
    return [line.split(":")[0].strip() for line in lines]


def _below(pid: int) -> list[int]:
    children = [int(each) for file in Path(f"/proc/{pid}/task").glob("*/children") for each in file.read_text().split()]
    return [pid, *(other for child in children for other in _below(child))]


@pytest.fixture(scope="module")
def rendered() -> Pages:
    pages = Pages()
    asyncio.run(pages.render({name: markup for name, markup in PAGES.items() if name not in LONG}))
    return pages


def text_of(pages: Pages, name: str) -> str:
    result = pages.results[name]
    assert result.error == ""
    return result.document.decode()


def test_timers_run_without_waiting(rendered: Pages) -> None:
    assert "late" in text_of(rendered, "timer")


def test_requests_are_answered_by_the_caller_alone(rendered: Pages) -> None:
    assert "from the crawler" in text_of(rendered, "fetch")
    assert "from the crawler" in text_of(rendered, "redirected")
    assert rendered.results["fetch"].requests == ["http://h.test/data"]
    paths = [url for url in rendered.requested if url.startswith("http://h.test/")]
    assert paths == ["http://h.test/data", "http://h.test/moved", "http://h.test/data"]


def test_what_cannot_be_answered_fails_in_the_page(rendered: Pages) -> None:
    assert "undefined,undefined" in text_of(rendered, "sockets")
    assert "refused" in text_of(rendered, "posts")


def test_elements_that_show_more_are_clicked_and_what_a_click_replaced_is_kept(rendered: Pages) -> None:
    assert "shown" in text_of(rendered, "click")
    assert {"first text", "second text"} <= set(text_of(rendered, "tabs").replace("<", ">").split(">"))


def test_a_page_that_leads_elsewhere_is_left_where_it_is(rendered: Pages) -> None:
    assert "stays" in text_of(rendered, "leaves")
    assert rendered.results["leaves"].leads_to == ["http://h.test/other"]


def test_a_form_that_a_script_sends_leaves_the_page_where_it_is(rendered: Pages) -> None:
    assert "stays" in text_of(rendered, "posted")
    assert rendered.results["posted"].leads_to == []


def test_frames_are_neither_the_page_nor_places_where_it_leads(rendered: Pages) -> None:
    assert "outside" in text_of(rendered, "frames")
    assert rendered.results["frames"].leads_to == []
    assert "http://h.test/other" not in rendered.requested


def test_data_of_another_origin_is_shown(rendered: Pages) -> None:
    assert "from the crawler" in text_of(rendered, "elsewhere")


def test_shadow_roots_are_part_of_the_document_and_scripts_are_not(rendered: Pages) -> None:
    assert "<b>inside</b>" in text_of(rendered, "shadow")
    assert "<script" not in text_of(rendered, "shadow")


def test_the_browser_has_no_socket_and_ends_with_all_its_processes(rendered: Pages) -> None:
    assert rendered.addresses == set()
    until(lambda: not Path(f"/proc/{rendered.pid}").exists(), "the browser ends")


def test_the_browser_is_in_a_network_without_interfaces(rendered: Pages) -> None:
    if not find_isolation().has_namespace:
        pytest.skip("this user cannot make a network namespace")
    assert rendered.interfaces == ["lo"]  # which is down there


@pytest.mark.slow
def test_endless_scripts_endless_memory_and_ten_thousand_requests_cost_one_page_each() -> None:
    pages = Pages()
    asyncio.run(pages.render({name: PAGES[name] for name in (*LONG, "fetch")}))
    assert pages.results["endless"].cut == "time"
    assert "before" in text_of(pages, "endless")
    assert pages.results["grows"].error == "its process has ended"
    assert pages.results["many"].cut == "requests"
    assert len(pages.results["many"].requests) == 20
    assert "from the crawler" in text_of(pages, "fetch")
