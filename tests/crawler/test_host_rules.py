"""What a person decides about one host holds in a running crawl: paused, a longer rest, robots.txt anew (C2, T5)."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

from teia.clock import WallClock
from teia.collections.control_file import FetchRobots, Inbox
from teia.collections.settings import change
from teia.crawler.lookup import Lookup
from teia.errors import StoreError
from teia.frontier.queue.ledger import read_courtesy_history
from teia.records import Edit, Operator
from teia.store.root import Root
from teia.transfer.politeness_audit import audit_politeness
from teia.views.reports.source import open_source
from tests.crawler.webs import ScriptedWeb, crawl_web, html, robots, text_of
from tests.waiting import until

A, B = "a.test", "b.test"
LINKS = [f"/{number}" for number in range(8)]
PAGES = {"/": html(*LINKS), **{link: html(text=text_of(number)) for number, link in enumerate(LINKS)}}


def set_to(root: Root, key: str, *values: str) -> None:
    assert change(root, "main", [Edit(key, Operator.SET, list(values))], WallClock()).now == (key,)


def visited(root: Root, host: str) -> int:
    try:
        with Lookup(root, "main") as lookup:
            found = [lookup.find(url) for url in lookup.urls_of_host(host, 100)]
            return sum(entry is not None and entry.page is not None for entry in found)
    except StoreError:
        return 0


def test_a_small_host_is_given_more_time_than_a_large_one(tmp_path: Path) -> None:
    """A7, over the known URLs of each host: the large one has the usual delay once so many are known."""
    web = ScriptedWeb({A: PAGES, B: {"/": html("/1"), "/1": html(text=text_of(50))}})
    small = {"courtesy__small_site_factor": 4.0, "courtesy__small_site_urls": 5, "sites__aliases": False}
    crawled = crawl_web(web, tmp_path, f"{A}/", f"{B}/", courtesy__delay_s=0.1, **small)
    gaps: dict[str, list[float]] = {}
    for host in (A, B):
        entries = sorted((each for each in crawled.entries if each.host == host), key=lambda each: each.start_s)
        gaps[host] = [later.start_s - first.end_s for first, later in pairwise(entries)]
    assert min(gaps[B]) >= 0.399
    assert len(gaps[B]) >= 2
    assert 0.099 <= min(gaps[A]) < 0.399
    assert gaps[A][0] >= 0.399, "before its home page was read it might have been small"


def test_a_paused_host_gets_no_request_until_it_is_resumed(tmp_path: Path) -> None:
    seen: dict[str, int] = {}

    def meanwhile(root: Root) -> None:
        until(lambda: visited(root, A) >= 2 and visited(root, B) >= 1)
        set_to(root, "courtesy.paused", A)
        seen["paused"] = visited(root, A)
        until(lambda: visited(root, B) >= 6)
        seen["after"] = visited(root, A)
        set_to(root, "courtesy.paused")

    many = [f"/{number}" for number in range(24)]
    web = ScriptedWeb({A: PAGES, B: {"/": html(*many), **{link: html(text=link) for link in many}}})
    done = crawl_web(web, tmp_path, f"{A}/", f"{B}/", meanwhile=meanwhile, courtesy__delay_s=0.25, sites__aliases=False)
    assert seen["after"] <= seen["paused"] + 2, "at most what was under way"
    assert seen["after"] < 9
    asked = done.requested()
    assert {f"{A}{link}" for link in LINKS} <= set(asked), "then it is asked for the rest"


def test_a_host_has_a_longer_delay_than_the_others_and_its_robots_txt_is_fetched_again(tmp_path: Path) -> None:
    def meanwhile(root: Root) -> None:
        until(lambda: visited(root, A) >= 2)
        control = Inbox(root.path / "control.sqlite")
        with Lookup(root, "main") as lookup:
            ((cell, host_id),) = [
                (cell, row[0])
                for cell in lookup.cells
                if (row := cell.db.execute("SELECT host_id FROM hosts WHERE name = ?", (A,)).fetchone())
            ]
            ((origin, *_),) = cell.robots_of(host_id, A)
        control.send("main", FetchRobots(origin), time.time())
        until(lambda: not control.pending("main", FetchRobots))
        control.close()
        set_to(root, "courtesy.host_delays", f"{A}=0.6")

    pages = {**PAGES, "/robots.txt": robots("User-agent: *\nDisallow: /no")}
    done = crawl_web(ScriptedWeb({A: pages}), tmp_path, f"{A}/", meanwhile=meanwhile, courtesy__delay_s=0.1)
    assert done.requested().count(f"{A}/robots.txt") == 2
    own = sorted((entry for entry in done.entries if entry.host == A), key=lambda entry: entry.start_s)
    delays = [later.start_s - earlier.end_s for earlier, later in pairwise(own)]
    assert min(delays) >= 0.09
    assert min(delays[-2:]) >= 0.55, "from then on it rests as long as was said"


def test_a_host_whose_owner_agreed_is_requested_sooner_and_one_with_a_budget_no_more_than_that(tmp_path: Path) -> None:
    """UX 2.7: both hold in the crawl that runs, and the audit of its requests finds nothing."""

    def meanwhile(root: Root) -> None:
        until(lambda: visited(root, A) >= 2 and visited(root, B) >= 2)
        set_to(root, "limits.host_budgets", f"{B}=5")
        set_to(root, "courtesy.agreed_delays", f"{A}=0.1 Ana Souza")

    web = ScriptedWeb({A: PAGES, B: PAGES})
    done = crawl_web(web, tmp_path, f"{A}/", f"{B}/", meanwhile=meanwhile, courtesy__delay_s=0.8, sites__aliases=False)
    own = {host: sorted((each.start_s, each.end_s) for each in done.entries if each.host == host) for host in (A, B)}
    delays = [later[0] - earlier[1] for earlier, later in pairwise(own[A])]
    assert min(delays[:2]) >= 0.79
    assert min(delays[-3:]) < 0.7, "as was agreed"
    assert min(delays) >= 0.09
    assert len(own[B]) <= 6, "one request may have been under way"
    assert len(own[A]) == 1 + len(PAGES)
    with open_source(Root(done.data), "main") as source:
        audit = audit_politeness(source.log, source.config.courtesy, read_courtesy_history(done.data / "ledger.sqlite"))
    assert (audit.violations, audit.details) == (0, ())
