"""The page of a URL that waits."""

from __future__ import annotations

from contextlib import closing

from teia.clock import from_iso
from teia.collections.control_file import CrawlReports
from teia.crawler.lookup import Lookup
from teia.frontier.cell.cell import FrontierCell
from teia.web.access.roles import Role
from tests.frontier.cells import add_links, found
from tests.web.conftest import Web


def test_a_queued_url_has_an_expected_time_while_a_crawl_runs(web: Web) -> None:
    root, client = web.installation.root, web.client(Role.VIEWER)
    base = web.some_url().rpartition("/")[0]
    urls = [f"{base}/later/{number}" for number in range(3)]
    with Lookup(root, "main") as lookup:
        number = lookup.cell_of_host("x.test")
    with closing(FrontierCell(root.collection("main").cells()[number].frontier)) as cell:
        add_links(cell, *(found(url) for url in urls), now_s=web.installation.clock.now_s())
    asked = {"url": urls[2]}
    assert client.get("/api/v1/c/main/page", params=asked).json()["expected"] is None, "no crawl runs"
    assert "When its turn comes." in client.get("/c/main/page", params=asked).text
    with CrawlReports(root.control) as reports:
        reports.begin("main", web.installation.clock.now_s())
    first, last = (
        client.get("/api/v1/c/main/page", params={"url": url}).json()["expected"] for url in (urls[0], urls[2])
    )
    assert from_iso(last) > from_iso(first)
    page = client.get("/c/main/page", params=asked).text
    assert 'data-live="expected"' in page
    assert "When its turn comes." not in page
