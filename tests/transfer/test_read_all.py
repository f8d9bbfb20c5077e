"""A collection looked at while nobody crawls it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from teia.collections.control_file import CrawlReports
from teia.crawler.fetch_rows import write_log
from teia.frontier.cell.cell import FrontierCell
from teia.store.fetchlog import FetchRow
from teia.store.root import open_root
from teia.transfer.read_all import audit_archives, idle_account
from tests.crawler.crawled import Crawled
from tests.crawler.webs import ScriptedWeb, crawl_web, html


def test_a_stopped_collection_shows_what_its_crawl_reported(crawled: Crawled) -> None:
    account = idle_account(crawled.root, "main")
    for key in ("requests", "pages", "bytes", "urls_known", "urls_queued", "links", "archive_records"):
        assert account[key] == crawled.summary[key], key
    files = sum(1 for _ in crawled.data.glob("main/cells/*/archive/*.warc.gz"))
    assert account["archive_records"] == audit_archives(crawled.root, "main").checked - files


def test_the_time_between_runs_is_no_crawling_time(tmp_path: Path) -> None:
    root = open_root(crawl_web(ScriptedWeb({"x.test": {"/": html()}}), tmp_path, "x.test/").data)
    before_s = idle_account(root, "main")["seconds"]
    rows = [
        FetchRow(at_s, at_s + 1.0, "http://y.test/", "y.test", "y.test", "200", 200, decoded_bytes=1)
        for at_s in (110.0, 113.0, 1_210.0, 1_215.0)
    ]
    with closing(FrontierCell(root.collection("main").cells()[0].frontier)) as frontier, frontier.transaction():
        write_log(frontier, rows)
    with CrawlReports(root.control) as reports:
        for began_s in (100.0, 1_200.0):
            reports.note_run("main", reports.begin_run("main", began_s), began_s + 50.0, "finished")
    account = idle_account(root, "main")
    assert account["seconds"] == pytest.approx(before_s + 50.0 + 50.0, abs=0.01)
    assert account["pages_per_s"] == pytest.approx(5 / account["seconds"], abs=0.01)
    with CrawlReports(root.control) as reports:
        reports.note_run("main", reports.begin_run("main", 2_000.0), 1_000.0, "finished")
    assert idle_account(root, "main")["seconds"] >= 100.0, "a clock that was set back takes no time away"
