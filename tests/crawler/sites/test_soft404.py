"""Pages that say "not found" with a 200 are found by asking for one that cannot exist (RELIABILITY 27)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.config.sections import Config
from teia.crawler.child.messages import ReadResult
from teia.crawler.lookup import Lookup
from teia.crawler.running_collection import CrawlState
from teia.crawler.sites.soft404 import MAX_AGE_S, apply_stored_probe, needs_probe, note_answer
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.rows import ProbeResult, QueuedUrl
from teia.frontier.cell.schema import LANE_DUE
from teia.frontier.cell.soft404 import probe_path
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue
from teia.lab.server.witness import early_requests
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.records import Fetched
from teia.store.root import open_root
from teia.transfer.links_audit import audit_links
from teia.transfer.read_all import known_urls
from teia.views.page import find_entry, page_view
from teia.views.reports.hosts import hosts
from teia.views.reports.outcomes import outcomes
from teia.views.reports.source import open_source
from teia.views.sql_tables import sql_views
from teia.views.trace import trace
from tests.crawler.webs import HTML, Crawled, Page, ScriptedWeb, crawl_web, html, redirect, robots, text_of

MENU = "home news about contact " * 20


@dataclass
class SoftWeb(ScriptedWeb):
    """A web in which some hosts have a page for everything."""

    soft: Mapping[str, Page] | None = None

    def answer(self, request: WorldRequest, now_s: float) -> WorldAnswer:
        page = self.pages.get(request.host, {}).get(request.target)
        instead = (self.soft or {}).get(request.host)
        if page is None and instead is not None and request.target != "/robots.txt":
            return instead(request) if callable(instead) else instead
        return super().answer(request, now_s)


def plain(*links: str) -> WorldAnswer:
    return html(*links, text=f"{MENU} There is no such page here.")


def echo(request: WorldRequest) -> WorldAnswer:
    """Names the path in title and text, as many servers do."""
    words = f"{MENU} Sorry, {request.target} was not found on {request.host}."
    page = f"<title>{request.target} - not found</title><p>{words}</p><a href='{request.target}/more'>more</a>"
    return WorldAnswer(200, HTML, page.encode())


def pages(real: int, dead: int) -> dict[str, Page]:
    """A home page that links to pages, some of which are not there."""
    links = [f"/p{n}" for n in range(real)] + [f"/dead/{n}" for n in range(dead)]
    return {
        "/": html(*links, text=f"{MENU} {text_of(0)}"),
        **{f"/p{n}": html("/", text=f"{MENU} {text_of(n + 1)}") for n in range(real)},
    }


def probes(crawled: Crawled, host: str = "a.test") -> list[str]:
    return [entry.path for entry in crawled.entries if entry.host == host and entry.path == probe_path(host)]


def soft(crawled: Crawled) -> set[str]:
    return {url for url, outcome in crawled.outcomes().items() if outcome == "soft_404"}


@pytest.fixture(scope="module", params=["plain", "echo"])
def softly(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    """A crawl of a host that says 200 to everything."""
    instead = plain("/dead/0/more") if request.param == "plain" else echo
    web = SoftWeb({"a.test": pages(25, 15)}, soft={"a.test": instead})
    return crawl_web(web, tmp_path_factory.mktemp("soft"), "a.test/", courtesy__delay_s=0.03)


def test_pages_like_the_answer_to_the_probe_are_soft_404s(softly: Crawled) -> None:
    assert len(probes(softly)) == 1
    assert {f"a.test/dead/{n}" for n in range(15)} <= soft(softly)
    real = {"a.test/", *(f"a.test/p{n}" for n in range(25))}
    assert {softly.outcomes()[url] for url in real} == {"200"}


def test_soft_404s_are_stored_but_not_to_be_indexed(softly: Crawled) -> None:
    sql = "SELECT noindex, count(*) FROM pages WHERE outcome = 'soft_404' AND warc_file IS NOT NULL GROUP BY noindex"
    with sql_views(open_root(softly.data), "main", sql) as log:
        assert log.query(sql).rows == [(True, len(soft(softly)))]


def test_links_of_soft_404s_are_not_followed(softly: Crawled) -> None:
    """Those that were read before the probe came back may have been; theirs are not."""
    assert sum(entry.path.endswith("/more/more") for entry in softly.entries) == 0


def test_a_probe_is_polite_and_in_the_log_as_what_it_is(softly: Crawled) -> None:
    assert early_requests(softly.entries, 0.03, lambda entry: entry.host) == []
    assert softly.entries[0].path == "/robots.txt"
    sql = "SELECT url, outcome FROM fetches WHERE kind = 'probe'"
    with sql_views(open_root(softly.data), "main", sql) as log:
        assert [(url.endswith(probe_path("a.test")), outcome) for url, outcome in log.query(sql).rows] == [
            (True, "200")
        ]
    assert not any("teia-probe" in url for url in softly.outcomes())


def test_a_soft_404_says_what_it_is(softly: Crawled) -> None:
    with Lookup(open_root(softly.data), "main") as lookup:
        url = next(each for each in lookup.urls_of_host("a.test", 99) if each.endswith("/dead/7"))
        view = page_view(lookup, url, Config(), WallClock())
        assert (view.state, view.outcome, view.why_waiting) == ("done", "soft_404", None)
        assert "a nonexistent page" in view.note
        assert probe_path("a.test") in view.note
        assert any("a soft 404" in step.what for step in trace(lookup, find_entry(lookup, url, Config()), WallClock()))


def test_reports_count_soft_404s_apart(softly: Crawled) -> None:
    with open_source(open_root(softly.data), "main") as source:
        (row,) = hosts(source).rows
        by_outcome = {each.outcome: each.count for each in outcomes(source).rows}
    assert row.soft_404 == by_outcome["soft_404"] == len(soft(softly))


def test_an_honest_host_is_probed_once_and_nothing_is_marked(tmp_path: Path) -> None:
    web = ScriptedWeb({"a.test": pages(25, 5)})
    first = crawl_web(web, tmp_path, "a.test/")
    assert len(probes(first)) == 1
    assert Counter(first.outcomes().values()) == {"200": 26, "404": 5}
    more = pages(60, 0)
    second = crawl_web(ScriptedWeb({"a.test": more, "b.test": more}), tmp_path, "a.test/p30", port=first.port)
    assert "a.test/p30" in second.requested()
    assert probes(second) == [], "what an earlier run learnt holds"


def test_a_small_host_is_not_probed(tmp_path: Path) -> None:
    crawled = crawl_web(ScriptedWeb({"a.test": pages(8, 2)}), tmp_path, "a.test/")
    assert probes(crawled) == []


def test_soft_404s_link_to_nothing_those_that_came_before_the_probe_too(tmp_path: Path) -> None:
    web = SoftWeb({"a.test": pages(2, 6)}, soft={"a.test": plain("/p0")})
    crawled = crawl_web(web, tmp_path, "a.test/")
    assert len(soft(crawled)) == 6
    asked = crawled.requested()
    assert any("/dead/" in url for url in asked[: asked.index("a.test" + probe_path("a.test"))])
    counts = {each["url"].rpartition("/")[2]: each["in_links"] for each in known_urls(open_root(crawled.data), "main")}
    assert (counts["p0"], counts["p1"], counts[""]) == (1, 1, 2)
    assert audit_links(open_root(crawled.data), "main").violations == 0


def test_a_small_host_that_repeats_itself_is_probed(tmp_path: Path) -> None:
    web = SoftWeb({"a.test": pages(1, 6)}, soft={"a.test": plain()})
    crawled = crawl_web(web, tmp_path, "a.test/")
    assert len(probes(crawled)) == 1
    assert soft(crawled) == {f"a.test/dead/{n}" for n in range(6)}, "those before the probe are marked afterwards"


def test_the_home_page_is_never_a_soft_404(tmp_path: Path) -> None:
    """A host with one page for everything still has one page."""
    everything = html(*(f"/{n}" for n in range(30)), text=f"{MENU} This name is for sale.")
    crawled = crawl_web(SoftWeb({"a.test": {"/": everything}}, soft={"a.test": everything}), tmp_path, "a.test/")
    assert Counter(crawled.outcomes().values()) == {"200": 1, "soft_404": 30}


def test_pages_with_a_long_menu_and_few_words_of_their_own_are_no_soft_404s(tmp_path: Path) -> None:
    menu = " ".join(f"entry{n}" for n in range(800))
    pictures: dict[str, Page] = {
        f"/{n}": WorldAnswer(200, HTML, f"<title>Picture {n}</title><p>{menu} picture {n}</p>".encode())
        for n in range(30)
    }
    home = {"/": html(*pictures, text="pictures")}
    nothing = WorldAnswer(200, HTML, f"<title>Nothing here</title><p>{menu} sorry</p>".encode())
    crawled = crawl_web(SoftWeb({"a.test": {**home, **pictures}}, soft={"a.test": nothing}), tmp_path, "a.test/")
    assert len(probes(crawled)) == 1
    assert soft(crawled) == set()


def test_a_trap_of_soft_404s_ends(tmp_path: Path) -> None:
    """Every page links to two more that do not exist, without end."""

    def deeper(request: WorldRequest) -> WorldAnswer:
        here = request.target.rstrip("/")
        return html(f"{here}/left", f"{here}/right", text=f"{MENU} nothing at {request.target}")

    web = SoftWeb({"a.test": {"/": html("/x", text=text_of(0))}}, soft={"a.test": deeper})
    crawled = crawl_web(web, tmp_path, "a.test/", courtesy__delay_s=0.0, courtesy__per_host=1)
    assert crawled.crawls[0].state is CrawlState.FINISHED
    assert len(crawled.entries) < 80


def test_robots_may_forbid_the_probe(tmp_path: Path) -> None:
    rules = {"/robots.txt": robots("User-agent: *\nDisallow: /teia-probe")}
    web = SoftWeb({"a.test": {**pages(25, 5), **rules}}, soft={"a.test": plain()})
    crawled = crawl_web(web, tmp_path, "a.test/")
    assert probes(crawled) == []
    assert soft(crawled) == set()


def test_a_probe_stays_within_the_scope(tmp_path: Path) -> None:
    docs: dict[str, Page] = {"/docs/": html(*(f"/docs/{n}" for n in range(30)), text=text_of(0))}
    web = ScriptedWeb({"a.test": docs | {f"/docs/{n}": html(text=text_of(n)) for n in range(30)}})
    crawled = crawl_web(web, tmp_path, "a.test/docs/", scope__include=["regex:/docs/"])
    assert len(crawled.requested()) == 32
    assert probes(crawled) == []


def test_probes_can_be_switched_off(tmp_path: Path) -> None:
    web = SoftWeb({"a.test": pages(25, 5)}, soft={"a.test": plain()})
    crawled = crawl_web(web, tmp_path, "a.test/", sites__probe_after_pages=0)
    assert probes(crawled) == []
    assert set(crawled.outcomes().values()) == {"200"}


def test_a_host_that_redirects_what_it_does_not_have_has_no_soft_404s(tmp_path: Path) -> None:
    web = SoftWeb({"a.test": pages(25, 5)}, soft={"a.test": redirect("/")})
    crawled = crawl_web(web, tmp_path, "a.test/")
    assert len(probes(crawled)) == 1
    assert Counter(crawled.outcomes().values()) == {"200": 26, "302": 5}


def test_what_was_learnt_outlives_a_restart_in_the_middle(tmp_path: Path) -> None:
    web = SoftWeb({"a.test": pages(25, 40)}, soft={"a.test": echo})
    first = crawl_web(web, tmp_path, "a.test/", limits__pages=35)
    assert first.crawls[0].state is CrawlState.LIMIT
    second = crawl_web(web, tmp_path, port=first.port, limits__pages=0)
    assert (len(probes(first)), len(probes(second))) == (1, 0)
    assert {f"a.test/dead/{n}" for n in range(40)} <= soft(second)


def queue() -> HostQueue:
    return HostQueue("a.test", 1, 0, 0, DelayTarget("a.test"))


@pytest.mark.parametrize(
    ("found", "is_probed", "is_soft"),
    [
        (ProbeResult("u", 0.0, "404"), True, False),
        (ProbeResult("u", 0.0, "200", b"text", 1, "t"), True, True),
        (ProbeResult("u", 0.0, "503"), False, False),
        (ProbeResult("u", 0.0, "timeout"), False, False),
        (ProbeResult("u", -2 * MAX_AGE_S, "200", b"text", 1, "t"), False, True),
    ],
)
def test_a_host_that_did_not_answer_or_long_ago_is_probed_again(
    found: ProbeResult, is_probed: bool, is_soft: bool
) -> None:
    host = queue()
    apply_stored_probe(host, found, now_s=0.0)
    assert (host.is_probed, host.soft404_probe is not None) == (is_probed, is_soft)


def test_a_probe_goes_to_the_same_path_of_a_host_each_time_and_to_another_of_each_host() -> None:
    assert probe_path("a.test") == probe_path("a.test")
    assert len({probe_path(f"{n}.test") for n in range(1000)}) == 1000


# ---- known pages ----------------------------------------------------------------------------------------------------


def answered(before: int, now: int, visits: int = 1) -> HostQueue:
    """A host of two pages, one of which was visited before, and now again."""
    queue = HostQueue("a.test", 1, 0, 0, DelayTarget("a.test"))
    item = QueuedUrl("http://a.test/one", 1, LANE_DUE, 0, 1, 0.0, visits=visits, simhash=before)
    fetched = Fetched(item.url, "200", 200, 0.0, 0.0)
    visit = ActiveVisit(queue, item, fetched=fetched, outcome="200", result=ReadResult("200", simhash=now))
    note_answer(visit, 0.0)
    return queue


def test_a_host_is_probed_when_nothing_is_left_of_a_known_page() -> None:
    """A page of a small host that was taken down, and answers 200, counted as its new content."""
    text, other = 0x0123456789ABCDEF, 0xFEDCBA9876543210
    next_one = QueuedUrl("http://a.test/two", 2, LANE_DUE, 0, 1, 0.0, visits=1)
    assert needs_probe(answered(text, other), next_one, 20)
    assert needs_probe(answered(text - (1 << 64) if text >> 63 else text, other), next_one, 20)
    assert not needs_probe(answered(text, text ^ 0b1011), next_one, 20), "it was only edited"
    assert not needs_probe(answered(0, other, visits=0), next_one, 20), "its first visit"
    assert not needs_probe(answered(text, other), next_one, 0), "no probes are wanted"


@pytest.mark.parametrize("down", ["/p0", "/p1", "/p2"])
def test_a_known_page_that_was_taken_down_becomes_a_soft_404(tmp_path: Path, down: str) -> None:
    """A host too small to be probed for its size, visited again in a second run.

    Whichever page it is: if its answer was read after the host's last URL had gone out, there was no probe.
    """
    here = pages(3, 0)
    first = crawl_web(SoftWeb({"a.test": here}), tmp_path, "a.test/")
    assert not probes(first)
    web = SoftWeb({"a.test": {path: page for path, page in here.items() if path != down}}, soft={"a.test": plain()})
    second = crawl_web(web, tmp_path, "a.test/", port=first.port, again=True)
    assert second.outcomes()[f"a.test{down}"] == "soft_404"
    assert {second.outcomes()[f"a.test{path}"] for path in here if path != down} == {"200"}
    assert len(probes(second)) == 1
