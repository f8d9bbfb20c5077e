"""A page that no child survives: it is kept as it came, the crawl goes on (RELIABILITY 34)."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.crawl.crawl import State
from teia.crawl.lookup import Lookup
from teia.store.root import open_root

from .poison import POISON
from .webs import ScriptedWeb, crawl_web, html, robots


@pytest.mark.parametrize("fault", ["die", "spin"])
def test_a_page_that_kills_its_readers_is_stored_and_costs_nobody_else_anything(tmp_path: Path, fault: str) -> None:
    pages = {f"/{number}": html(text=f"page {number} of many {number * 'words '}") for number in range(12)}
    pages["/bad"] = html("/never", text=POISON.decode())
    pages["/"] = html(*pages)
    crawled = crawl_web(
        ScriptedWeb({"a.test": pages}),
        tmp_path,
        "a.test/",
        parse__processors=[f"text/html=tests.crawl.poison:{fault}"],
        limits__parse_cpu_s=1,
    )
    assert crawled.crawls[0].state is State.FINISHED
    outcomes = crawled.outcomes()
    assert outcomes.pop("a.test/bad") == "parse_failed"
    assert {outcomes[f"a.test{path}"] for path in pages if path != "/bad"} == {"200"}
    assert "a.test/never" not in outcomes
    assert crawled.asked().count("a.test/bad") == 1, "the page is tried twice, its server is not"
    assert crawled.metrics.parse_children_lost == 1, "one page was lost"
    with Lookup(open_root(crawled.data), "main") as lookup:
        url = next(each for each in lookup.urls_of_host("a.test", 100) if each.endswith("/bad"))
        assert POISON in lookup.copy(url).payload


def test_a_robots_txt_of_any_bytes_is_read(tmp_path: Path) -> None:
    junk = robots("\x00\xff" * 1000)
    crawled = crawl_web(ScriptedWeb({"a.test": {"/robots.txt": junk, "/": html()}}), tmp_path, "a.test/")
    assert crawled.outcomes()["a.test/"] == "200"
