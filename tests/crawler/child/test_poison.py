"""A page that no child survives: it is kept as it came, the crawl goes on (RELIABILITY 34)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from teia.collections.control_file import CrawlReports
from teia.crawler.lookup import Lookup
from teia.crawler.running_collection import CrawlState
from teia.store.root import Root, open_root
from teia.views.alerts import Alert, Disk, find_alerts
from tests.crawler.poison import POISON
from tests.crawler.webs import ScriptedWeb, crawl_web, html, robots, text_of
from tests.waiting import until


@pytest.mark.parametrize("fault", ["die", "spin"])
def test_a_page_that_kills_its_readers_is_stored_and_costs_nobody_else_anything(tmp_path: Path, fault: str) -> None:
    pages = {f"/{number}": html(text=f"page {number} of many {number * 'words '}") for number in range(12)}
    pages["/bad"] = html("/never", text=POISON.decode())
    pages["/"] = html(*pages)
    crawled = crawl_web(
        ScriptedWeb({"a.test": pages}),
        tmp_path,
        "a.test/",
        parse__processors=[f"text/html=tests.crawler.poison:{fault}"],
        limits__parse_cpu_s=1,
    )
    assert crawled.crawls[0].state is CrawlState.FINISHED
    outcomes = crawled.outcomes()
    assert outcomes.pop("a.test/bad") == "parse_failed"
    assert {outcomes[f"a.test{path}"] for path in pages if path != "/bad"} == {"200"}
    assert "a.test/never" not in outcomes
    assert crawled.requested().count("a.test/bad") == 1, "the page is tried twice, its server is not"
    with Lookup(open_root(crawled.data), "main") as lookup:
        url = next(each for each in lookup.urls_of_host("a.test", 100) if each.endswith("/bad"))
        assert POISON in lookup.capture(url).payload


def test_a_robots_txt_of_any_bytes_is_read(tmp_path: Path) -> None:
    junk = robots("\x00\xff" * 1000)
    crawled = crawl_web(ScriptedWeb({"a.test": {"/robots.txt": junk, "/": html()}}), tmp_path, "a.test/")
    assert crawled.outcomes()["a.test/"] == "200"


def test_a_crawl_whose_pages_cannot_be_read_pauses_says_so_and_goes_on_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After some deaths of children it went on asking servers, stored nothing and said nothing."""
    sick = tmp_path / "sick"
    sick.touch()
    monkeypatch.setenv("TEIA_TEST_SICK", str(sick))
    pages = {f"/{number}": html(text=text_of(number)) for number in range(8)}
    web = ScriptedWeb({"a.test": {"/": html(*pages)} | pages, "b.test": {"/": html(*pages)} | pages})
    paused: list[str] = []
    asked: list[int] = []

    def mend_when_told(root: Root) -> None:
        control = CrawlReports(root.path / "control.sqlite")

        def paused_account() -> dict[str, Any] | None:
            found = control.running_crawl("main")
            return found.account if found is not None and found.account.get("paused_why") else None

        try:
            account = until(paused_account, "the crawl pauses and says why")
            paused.append(account["paused_why"])
            needs.extend(find_alerts(account, None, Disk(1.0, 0.1)))
        finally:
            control.close()
            asked.append(requests_settled(tmp_path))
            asked.append(requests_settled(tmp_path))
            sick.unlink()

    needs: list[Alert] = []
    crawled = crawl_web(
        web,
        tmp_path,
        "a.test/",
        "b.test/",
        meanwhile=mend_when_told,
        parse__processors=["text/html=tests.crawler.poison:sicken"],
    )
    (why,) = paused
    assert why.startswith(
        "pages cannot be parsed: parse processes die (signal 11); check the free memory of the machine"
    )
    assert [need.kind for need in needs] == ["paused"]
    before, after = asked
    assert before == after <= 4, "no server is asked while nothing can be read"
    assert crawled.crawls[0].state is CrawlState.FINISHED
    assert set(crawled.outcomes().values()) == {"200"}
    assert len(crawled.requested()) == len(set(crawled.requested())) == 20, "no page is asked for again"
    said = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("paused: pages cannot be parsed") for line in said)
    assert "pages can be parsed again; the crawl resumes" in said


def requests_settled(folder: Path) -> int:
    """How many requests the lab has seen, once it has written them down; it does so every 0.2 s."""
    time.sleep(0.4)  # no other sign says that all of them are written
    return (folder / "requests.jsonl").read_bytes().count(b"\n")
