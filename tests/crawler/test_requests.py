"""A page that somebody wants visited now is asked for as soon as its server may be asked, and not before."""

from __future__ import annotations

import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from teia.clock import WallClock
from teia.collections.control_file import Inbox, Request, VisitPage
from teia.crawler.lookup import Lookup
from teia.crawler.requests import VisitRequests
from teia.errors import UsageError
from teia.frontier.cell.cell import FrontierCell
from teia.store.root import Root, open_root
from tests.crawler.webs import ScriptedWeb, crawl_web, html, robots
from tests.waiting import until

HOST = "w.test"


def request_visit(root: Root, url: str) -> None:
    control = Inbox(root.path / "control.sqlite")
    control.send("main", VisitPage(url), time.time())
    control.close()


def pending_visits(root: Root) -> list[Request[VisitPage]]:
    control = Inbox(root.path / "control.sqlite")
    try:
        return control.pending("main", VisitPage)
    finally:
        control.close()


def test_a_known_page_is_visited_again_while_a_crawl_runs(tmp_path: Path) -> None:
    links = [f"/{n}" for n in range(12)]
    pages = {"/": html(*links), **{link: html() for link in links}}

    def ask(root: Root) -> None:
        def visited() -> str:
            with Lookup(root, "main") as lookup:
                urls = lookup.urls_of_host(HOST, 100)
                first = next((url for url in urls if url.endswith("/0")), "")
                entry = lookup.find(first) if first else None
                return first if entry is not None and entry.page is not None else ""

        request_visit(root, until(visited, "the page is visited"))

    done = crawl_web(ScriptedWeb({HOST: pages}), tmp_path, f"{HOST}/", meanwhile=ask, courtesy__delay_s=0.2)
    assert done.requested().count(f"{HOST}/0") == 2
    assert pending_visits(open_root(done.data)) == [], "what was granted is not asked for again"
    own = sorted((entry for entry in done.entries if entry.host == HOST), key=lambda entry: entry.start_s)
    delays = [later.start_s - earlier.end_s for earlier, later in pairwise(own)]
    assert min(delays) >= 0.19, "courtesy is not shortened"


def test_a_visit_request_waits_for_the_next_crawl(tmp_path: Path) -> None:
    web = ScriptedWeb(
        {HOST: {"/": html("/a", "/no"), "/a": html(), "/robots.txt": robots("User-agent: *\nDisallow: /no")}}
    )
    first = crawl_web(web, tmp_path, f"{HOST}/")
    root = open_root(first.data)
    with Lookup(root, "main") as lookup:
        urls = {url.rpartition("/")[2]: url for url in lookup.urls_of_host(HOST, 10)}
    request_visit(root, urls["a"])
    request_visit(root, urls["a"])
    request_visit(root, urls["no"])
    request_visit(root, "http://nowhere.test/")
    assert len(pending_visits(root)) == 3

    def meanwhile(root: Root) -> None:
        until(lambda: pending_visits(root) == [], "the next crawl takes them")

    again = crawl_web(web, tmp_path, f"{HOST}/", port=first.port, meanwhile=meanwhile)
    asked = again.requested()
    assert asked.count(f"{HOST}/a") == 1
    assert f"{HOST}/no" not in asked, "robots.txt still forbids it"
    assert pending_visits(root) == []


@pytest.mark.heavy
def test_a_request_whose_answer_nobody_read_does_not_stand_for_the_next_one(tmp_path: Path) -> None:
    """In a cluster the node that made a request may die; the next one for the same page is another visit."""
    with closing(FrontierCell(tmp_path / "frontier.sqlite")) as frontier:
        cell: Any = SimpleNamespace(frontier=frontier)
        requests = VisitRequests([cell], [0], WallClock())
        assert [requests.accept("http://a.test/", since_s) for since_s in (1.0, 1.0)] == [False, False]
        requests.process()
        assert not requests.accept("http://a.test/", 2.0)
        assert requests.is_waiting
        requests.process()
        assert [requests.accept("http://a.test/", since_s) for since_s in (1.0, 2.0, 2.0)] == [True] * 3
        assert not requests.is_waiting


def test_only_so_many_visit_requests_wait(tmp_path: Path) -> None:
    control = Inbox(tmp_path / "control.sqlite")
    for number in range(VisitPage.MOST_PENDING):
        control.send("main", VisitPage(f"http://w.test/{number}"), 0.0)
    with pytest.raises(UsageError, match="waiting to be checked"):
        control.send("main", VisitPage("http://w.test/one-more"), 0.0)
    control.close()
