"""Crawls of a site in six styles with a real browser: its pages are found as a reader sees them."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.collections.account import empty_summary
from teia.crawler.fetch_rows import fetch_log
from teia.crawler.lookup import Lookup
from teia.crawler.rendering.kinds import BARREN
from teia.crawler.rendering.render_visits import Rendering
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.tables import renderings
from teia.indexer.open_search import CollectionSearch
from teia.indexer.rebuild import rebuild_index
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.render.devtools import CommandFailed
from teia.render.program import find_browser
from teia.store.reader import file_records
from teia.store.root import open_root
from teia.transfer.audits import AuditKind, audit
from teia.transfer.read_all import idle_account
from teia.views.alerts import Disk, find_alerts
from teia.views.reports.outcomes import outcomes
from teia.views.reports.source import open_source
from tests.conftest import missing
from tests.crawler.rendering.script_webs import StyledSite, filler, styled_site
from tests.crawler.webs import Crawled, Page, ScriptedWeb, crawl_web, html, robots
from tests.indexer.test_open_search import follow

FEW = {"static": 2, "single": 2, "scroll": 1, "click": 2, "line": 3, "broken": 2}


@pytest.fixture(scope="module", autouse=True)
def chromium() -> None:
    if find_browser() is None:
        missing("chromium-headless-shell is not installed")


def pages_of(site: StyledSite) -> dict[str, Page]:
    return {
        path: WorldAnswer(200, f"Content-Type: {kind}\r\n".encode(), body) for path, (kind, body) in site.files.items()
    }


def rendering_of(crawled: Crawled) -> Rendering:
    rendering = crawled.crawls[0].rendering
    assert isinstance(rendering, Rendering)
    return rendering


@pytest.fixture(scope="module")
def site() -> StyledSite:
    return styled_site(FEW)


@pytest.fixture(scope="module")
def crawled(site: StyledSite, tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    pages = pages_of(site) | {"/robots.txt": robots("User-agent: *\nDisallow: /js/menu.js\n")}
    web = ScriptedWeb({"h.test": pages})
    return crawl_web(web, tmp_path_factory.mktemp("rendered"), "h.test/", courtesy__delay_s=0.02)


def found(data: Path, word: str) -> list[str]:
    """The paths of the pages that a search finds."""
    root = open_root(data)
    with CollectionSearch(root, ["main"], WallClock()) as search:
        return sorted("/" + hit.url.split("/", 3)[3] for hit in search.search(word).hits)


def test_a_search_finds_every_page_by_what_its_scripts_show(crawled: Crawled, site: StyledSite) -> None:
    follow(open_root(crawled.data))
    for page in site.pages:
        for word in (*page.static_words[:1], *page.scripted_words[-1:]):
            assert found(crawled.data, word) == [page.path], word


def test_only_pages_whose_kind_gains_by_it_are_rendered(crawled: Crawled) -> None:
    counts = rendering_of(crawled).counts
    # All of the three styles that need it; of the others two, one and one as trials.
    needed = FEW["single"] + FEW["scroll"] + FEW["click"]
    assert counts.rendered == needed + 4
    assert counts.failed == 0


def test_what_a_page_requests_is_no_page_when_the_crawl_is_over_either(crawled: Crawled) -> None:
    """`teia status` and the reports counted scripts among the pages; the crawl itself did not."""
    counts, account = crawled.crawls[0].counts, idle_account(open_root(crawled.data), "main")
    assert (account["pages"], account["outcomes"]) == (counts.pages, dict(counts.outcomes.most_common()))
    assert account["requests"] == counts.requests > counts.pages + 10
    with open_source(open_root(crawled.data), "main") as source:
        rows = outcomes(source).rows
    assert sum(row.requests for row in rows) == counts.outcomes.total()


def test_the_requests_of_pages_are_polite_and_obey_robots_and_each_is_in_the_log(crawled: Crawled) -> None:
    root = open_root(crawled.data)
    with fetch_log(root, "main") as log:
        rows = log.query("SELECT url, kind, status FROM fetches").rows
    logged = sorted(url.split("/", 3)[3] for url, _, status in rows if status)
    assert logged == sorted(entry.path.removeprefix("/") for entry in crawled.entries)
    assert "h.test/js/menu.js" not in crawled.requested()
    asked = [url.split("/", 3)[3] for url, kind, _ in rows if kind == "render"]
    assert asked.count("js/app.js") == 1  # the pages of a site share their scripts
    assert {"js/click.js", "api/app/p1"} <= set(asked)
    found_early = audit(root, "main", AuditKind.POLITENESS, WallClock())
    assert found_early.checked >= len(rows) - 1
    assert found_early.violations == 0


def test_the_archive_has_the_answer_and_the_document_that_the_scripts_made(crawled: Crawled) -> None:
    root = open_root(crawled.data)
    records = [
        record
        for cell in root.collection("main").cells()
        for path in cell.archive.glob("*.warc.gz")
        for record in file_records(path)
        if record.url.endswith("/app/p0") and "/api/" not in record.url
    ]
    assert [record.kind for record in records] == ["request", "response", "metadata", "conversion"]
    _, response, metadata, conversion = records
    assert b'<div id="root"></div>' in response.block
    assert b"Page 0" in conversion.block
    assert conversion.headers["warc-refers-to"] == response.headers["warc-record-id"]
    assert b"rendered: yes" in metadata.block
    assert b"/api/app/p0" in metadata.block
    assert audit(root, "main", AuditKind.ARCHIVE, WallClock()).violations == 0


def test_an_index_that_is_rebuilt_from_the_archive_has_the_rendered_text(crawled: Crawled, site: StyledSite) -> None:
    asyncio.run(rebuild_index(open_root(crawled.data), "main", WallClock()))
    page = next(each for each in site.pages if each.path == "/app/p1")
    assert found(crawled.data, page.scripted_words[0]) == [page.path]


def test_what_was_learnt_is_stored_and_pages_are_compared_in_one_form(crawled: Crawled) -> None:
    root = open_root(crawled.data)
    with Lookup(root, "main") as lookup:
        assert sum(map(renderings.count_rendered, lookup.cells)) >= FEW["single"] + FEW["scroll"] + FEW["click"]
    kinds: list[tuple[str, bytes]] = []
    for cell in root.collection("main").cells():
        with closing(FrontierCell(cell.frontier, read_only=True)) as frontier:
            kinds += renderings.all_kinds(frontier)
    assert {host for host, _ in kinds} == {"h.test"}
    assert len(kinds) >= len(FEW)


SHELL = b'<!doctype html><title>App</title><div id="root"></div><script src="/app.js"></script>'
APP = b"fetch('/data').then(a => a.text()).then(t => { document.getElementById('root').textContent = t });"


class ChangingSite:
    """One page whose text its script fetches; the text changes, the page as received does not."""

    def __init__(self) -> None:
        self.text = " ".join(f"{word}rest" for word in ("alpha", "beta", "gamma", "delta") * 10)
        self.requests: list[dict[str, str]] = []

    def web(self) -> ScriptedWeb:
        def page(request: WorldRequest) -> WorldAnswer:
            self.requests.append(dict(request.headers))
            return WorldAnswer(200, b'Content-Type: text/html\r\nETag: "shell"\r\n', SHELL)

        def data(_: WorldRequest) -> WorldAnswer:
            words = " ".join(f"word{chr(97 + at)}{self.text[:5]}" for at in range(25))
            return WorldAnswer(200, b"Content-Type: text/plain\r\n", f"{self.text} {words}".encode())

        app = WorldAnswer(200, b"Content-Type: text/javascript\r\n", APP)
        return ScriptedWeb({"h.test": {"/": page, "/app.js": app, "/data": data}})


def changes_of(crawled: Crawled) -> list[bool | None]:
    """The comparisons of the start page's visits."""
    with Lookup(open_root(crawled.data), "main") as lookup:
        entry = lookup.find(f"http://h.test:{crawled.port}/")
        assert entry is not None
        return [visit.changed for visit in lookup.visits(entry)]


@pytest.mark.slow
def test_rendered_pages_are_compared_with_rendered_pages(tmp_path: Path) -> None:
    site = ChangingSite()

    def visit(port: int, **settings: str) -> Crawled:
        return crawl_web(site.web(), tmp_path, "h.test/", port=port, again=port > 0, **settings)

    port = visit(0).port
    assert changes_of(visit(port)) == [None, False]
    site.text = "other" + site.text
    assert changes_of(visit(port)) == [None, False, True]
    # As received, the page is the same as ever: it is not compared with what was rendered.
    crawled = visit(port, render__never=["host:h.test"])
    assert changes_of(crawled) == [None, False, True, None]
    assert not any("if-none-match" in {name.lower() for name in headers} for headers in site.requests)


@pytest.mark.slow
def test_a_known_page_that_cannot_be_rendered_keeps_its_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = ChangingSite()
    port = crawl_web(site.web(), tmp_path, "h.test/").port
    monkeypatch.setattr("teia.render.page._Page._open", fail_to_open)
    for _ in range(BARREN + 1):
        crawled = crawl_web(site.web(), tmp_path, "h.test/", port=port, again=True)
    with Lookup(open_root(crawled.data), "main") as lookup:
        entry = lookup.find(f"http://h.test:{port}/")
        assert entry is not None
        assert entry.page is not None
        assert entry.page.visits == BARREN + 2
        assert entry.outcome == "not_rendered"
        assert entry.page.digest != hashlib.sha256(SHELL).digest()


async def fail_to_open(_: object) -> None:
    raise CommandFailed("cannot be opened")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_hostile_pages_cost_one_render_each_and_no_other_page(tmp_path: Path) -> None:
    hostile = {
        "/endless": "while (true) {}",
        "/grows": "const a = []; while (true) a.push(new Uint8Array(1e7).fill(1))",
        "/many": "for (let i = 0; i < 10000; i++) fetch('/x' + i).catch(() => 0)",
    }
    pages: dict[str, Page] = {"/": html(*hostile, "/app")}
    for path, code in hostile.items():
        pages[path] = html(head=f"<script>{code}</script>", text=f"{path[1:]} {filler(3)}")
    pages["/app"] = WorldAnswer(200, b"Content-Type: text/html\r\n", SHELL)
    pages["/app.js"] = WorldAnswer(200, b"Content-Type: text/javascript\r\n", APP)
    pages["/data"] = WorldAnswer(200, b"Content-Type: text/plain\r\n", filler(1).encode())
    crawled = crawl_web(
        ScriptedWeb({"h.test": pages}), tmp_path, "h.test/", courtesy__delay_s=0.0, within_s=250.0,
        render__memory_bytes=400 * 2**20,
    )  # fmt: skip
    counts = rendering_of(crawled).counts
    assert counts.rendered == 4
    assert counts.gained == 1
    assert sum(path.startswith("h.test/x") for path in crawled.requested()) <= 50
    assert {crawled.outcomes()[f"h.test{path}"] for path in (*hostile, "/app")} == {"200"}


@pytest.mark.slow
def test_a_budget_and_rules_limit_rendering(tmp_path: Path, site: StyledSite) -> None:
    crawled = crawl_web(
        ScriptedWeb({"h.test": pages_of(site)}), tmp_path, "h.test/", courtesy__delay_s=0.0, render__budget=1,
        render__never=["prefix:http://h.test/line/", "regex:/(click|scroll|broken)/"],
    )  # fmt: skip
    counts = rendering_of(crawled).counts
    assert counts.rendered == 1
    assert counts.over_budget > 0


def test_a_missing_browser_is_reported_if_all_pages_are_to_be_rendered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("teia.crawler.compiled_settings", "teia.crawler.start"):
        monkeypatch.setattr(f"{module}.find_browser", lambda: None)
    web = ScriptedWeb({"h.test": {"/": html()}})
    crawled = crawl_web(web, tmp_path, "h.test/", render__mode="always")
    assert crawled.crawls[0].not_rendered == "Chromium is not installed"
    assert crawled.crawls[0].rendering is None
    account = asdict(empty_summary("main")) | {"not_rendered": crawled.crawls[0].not_rendered}
    assert [alert.kind for alert in find_alerts(account, None, Disk(0.5, 0.01))] == ["rendering"]
