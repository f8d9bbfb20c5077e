"""What tells a page from others: its near copies, and the line of robots.txt that is about it (UX 2.2)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from teia.clock import WallClock, iso_utc
from teia.collections.settings import saved
from teia.crawler.lookup import Lookup
from teia.frontier.cell.schema import BY_REQUISITE, BY_SIGNAL
from teia.lab.world.exchange import WorldAnswer
from teia.store.root import open_root
from teia.views.page import PageDetail, page_detail
from tests.crawler.webs import HTML, ScriptedWeb, crawl_web, html, robots, text_of

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


def test_after_a_failed_visit_the_last_good_capture_has_its_own_time_and_every_source_is_named(tmp_path: Path) -> None:
    root = open_root(crawl_web(ScriptedWeb({HOST: {"/": html(text=text_of(1))}}), tmp_path, f"{HOST}/").data)
    config, clock = saved(root, "main").config, WallClock()
    path = next(folder.frontier for folder in root.collection("main").cells() if has_host(folder.frontier))
    with sqlite3.connect(path) as db:
        ((captured_s,),) = db.execute("SELECT last_visit_s FROM pages").fetchall()
        db.execute("UPDATE pages SET last_visit_s = last_visit_s + 1000, visits = 2")
        db.execute(
            "INSERT INTO visits SELECT slot, host_id, key, time_s + 1000, '503', x'', NULL, '', 0, 0, NULL FROM visits"
        )
        db.execute("UPDATE urls SET found_by = ?", (BY_SIGNAL | BY_REQUISITE,))
    with Lookup(root, "main") as lookup:
        (url,) = lookup.urls_of_host(HOST, 10)
        detail = page_detail(lookup, url, config, clock)
    assert detail.last_good == iso_utc(captured_s)
    assert detail.found_by == ("requisite", "signal")


def test_a_page_that_is_gone_keeps_its_title_and_the_time_of_its_last_good_capture(tmp_path: Path) -> None:
    pages = {"/": html("/went", text=text_of(1)), "/went": html(text=text_of(2))}
    web = ScriptedWeb({HOST: pages})
    first = crawl_web(web, tmp_path, f"{HOST}/")
    pages["/went"] = WorldAnswer(404, HTML, b"<title>404 Not Found</title><p>Nothing here.")
    crawl_web(web, tmp_path, port=first.port, again=True)
    root = open_root(first.data)
    with Lookup(root, "main") as lookup:
        url = next(url for url in lookup.urls_of_host(HOST, 10) if url.endswith("/went"))
        detail = page_detail(lookup, url, saved(root, "main").config, WallClock())
    good, gone = detail.marks
    assert (good.outcome, gone.outcome) == ("200", "404")
    assert (detail.last_good, detail.title) == (good.time, "T")


def has_host(path: Path) -> bool:
    with sqlite3.connect(path) as db:
        return bool(db.execute("SELECT count(*) FROM pages").fetchone()[0])
