"""URLs that somebody adds while a crawl runs (UX 2.8, A10)."""

from __future__ import annotations

from pathlib import Path

from teia.clock import WallClock
from teia.collections.add_urls import AddedUrls, add_urls
from teia.collections.settings import saved
from teia.crawler.lookup import Lookup
from teia.store.root import Root
from tests.collections.test_settings_of_running_crawl import Gate, keep_open, paths, site
from tests.crawler.webs import ScriptedWeb, crawl_web, html


def test_urls_that_are_added_to_a_crawl_that_runs_are_visited_by_it(tmp_path: Path) -> None:
    gate, done = Gate(["/1"]), list[AddedUrls]()
    web = ScriptedWeb({"a.test": {**site(pages=2), "/": gate, "/alone": html(text="Nobody links here.")}})

    def meanwhile(root: Root) -> None:
        gate.wait()
        config = saved(root, "main").config
        home = next(seed for seed in config.collection.seeds if "a.test" in seed)
        with Lookup(root, "main") as lookup:
            done.append(add_urls(root, "main", [f"{home}alone", home], config, lookup, WallClock()))

    crawled = crawl_web(web, tmp_path, "a.test/", "keep.test/", meanwhile=keep_open(web, meanwhile))
    assert [each.fate for each in done[0].urls] == ["added", "known"]
    assert done[0].is_running
    assert "/alone" in paths(crawled.requested(), "a.test")
