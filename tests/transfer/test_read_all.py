"""A collection looked at while nobody crawls it."""

from __future__ import annotations

from teia.transfer.read_all import audit_archives, idle_account
from tests.crawler.crawled import Crawled


def test_a_stopped_collection_shows_what_its_crawl_reported(crawled: Crawled) -> None:
    account = idle_account(crawled.root, "main")
    for key in ("requests", "pages", "bytes", "urls_known", "urls_queued", "links", "archive_records"):
        assert account[key] == crawled.summary[key], key
    files = sum(1 for _ in crawled.data.glob("main/cells/*/archive/*.warc.gz"))
    assert account["archive_records"] == audit_archives(crawled.root, "main").checked - files
