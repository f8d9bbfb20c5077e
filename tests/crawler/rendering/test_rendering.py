"""Crawls of a site in six styles with a real browser: its pages are found as a reader sees them."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.crawler.fetch_rows import fetch_log
from teia.crawler.lookup import Lookup
from teia.crawler.rendering.rendering import Rendering
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.tables import renderings
from teia.indexer.open_search import CollectionSearch
from teia.indexer.rebuild import rebuild_index
from teia.lab.world.exchange import WorldAnswer
from teia.render.program import find_browser
from teia.store.reader import file_records
from teia.store.root import open_root
from teia.transfer.audits import AuditKind, audit
from tests.crawler.rendering.script_webs import StyledSite, styled_site
from tests.crawler.webs import Crawled, Page, ScriptedWeb, crawl_web, robots
from tests.indexer.test_open_search import follow

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium")

FEW = {"static": 2, "single": 2, "scroll": 1, "click": 2, "line": 3, "broken": 2}


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
    for cell in root.collection("main").cells():
        with closing(FrontierCell(cell.frontier, read_only=True)) as frontier:
            hosts = {host for host, _ in renderings.all_kinds(frontier)}
            assert hosts <= {"h.test"}
