"""What tells a page from others: its near copies, and the line of robots.txt that is about it (UX 2.2)."""

from __future__ import annotations

from pathlib import Path

from teia.clock import WallClock
from teia.collections.stored import saved
from teia.crawler.lookup import Lookup
from teia.store.root import open_root
from teia.views.page import PageDetail, page_detail
from tests.crawler.webs import ScriptedWeb, crawl_web, html, robots, text_of

HOST = "p.test"


def test_near_copies_and_the_line_that_applies(tmp_path: Path) -> None:
    pages = {
        "/": html("/a", "/copy", "/other", "/no", text=text_of(1)),
        "/a": html(text=text_of(2)),
        "/copy": html(text=text_of(2)),
        "/other": html(text=text_of(3)),
        "/robots.txt": robots("User-agent: *\nDisallow: /no\n"),
    }
    root = open_root(crawl_web(ScriptedWeb({HOST: pages}), tmp_path, f"{HOST}/").data)
    config, clock = saved(root, "main").config, WallClock()
    with Lookup(root, "main") as lookup:
        details: dict[str, PageDetail] = {
            url.rpartition("/")[2]: page_detail(lookup, url, config, clock) for url in lookup.urls_of_host(HOST, 10)
        }
    near = details["a"].near_copies
    assert near is not None
    assert (near.number, [url.rpartition("/")[2] for url in near.urls]) == (1, ["copy"])
    assert details["other"].near_copies is not None
    assert details["other"].near_copies.number == 0
    assert details["no"].near_copies is None, "it was not read"
    words = {name: detail.robots for name, detail in details.items()}
    assert words["a"] is not None
    assert (words["a"].line, words["a"].allows) == ("", True)
    assert words["no"] is not None
    assert (words["no"].line, words["no"].allows) == ("Disallow: /no", False)
