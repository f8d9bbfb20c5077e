"""Two names of one site are recognised by their pages, and crawled as one (A7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.config.sections import Config, SitesSettings
from teia.crawler.child.messages import FoundLink
from teia.crawler.lookup import Lookup
from teia.crawler.running_collection import CrawlState
from teia.crawler.sites import aliases
from teia.crawler.sites.aliases import AliasBook
from teia.errors import DiskFull, StoreError
from teia.frontier.cell.cell import FrontierCell
from teia.lab.server.witness import early_requests
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.store.root import open_root
from teia.urls import cell_of, cell_starts, site_of, slot_of
from teia.views.page import find_entry, page_view
from teia.views.reports.hosts import hosts
from teia.views.reports.source import open_source
from teia.views.sql_tables import sql_views
from teia.views.trace import trace
from tests.crawler.webs import Crawled, Page, ScriptedWeb, crawl_web, html, redirect, robots, text_of
from tests.frontier.queues import make_schedule

SHARED = "127.77.90.200"
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"]


# ---- webs -----------------------------------------------------------------------------------------------------------


def site(pages: int, *outside: str, first: int = 0) -> dict[str, Page]:
    """A site whose home page links to all its pages and elsewhere; sites with another `first` have other texts."""
    found: dict[str, Page] = {"/": html(*(f"/{n}" for n in range(1, pages)), *outside, text=text_of(first))}
    for number in range(1, pages):
        found[f"/{number}"] = html("/", text=text_of(first + number))
    return found


def at_one_address(pages: Mapping[str, Mapping[str, Page]]) -> ScriptedWeb:
    return ScriptedWeb(pages, dict.fromkeys(pages, SHARED))


def cell_number(host: str) -> int:
    return cell_of(slot_of(site_of(host)), cell_starts(2))


def name_in(cell: int) -> str:
    return next(f"site{n}.test" for n in range(100) if cell_number(f"site{n}.test") == cell)


def paths(crawled: Crawled, host: str) -> list[str]:
    return [entry.path for entry in crawled.entries if entry.host == host]


def pages_asked(crawled: Crawled, host: str) -> set[str]:
    return {path for path in paths(crawled, host) if path != "/robots.txt" and "teia-probe" not in path}


def links_with_port(*hosts_and_paths: str) -> Page:
    """A page that links to other hosts at the port it was asked at."""

    def page(request: WorldRequest) -> WorldAnswer:
        port = request.headers["host"].rpartition(":")[2]
        urls = [each.partition("/") for each in hosts_and_paths]
        return html(*(f"http://{host}:{port}/{path}" for host, _, path in urls), text=f"links {hosts_and_paths}")

    return page


# ---- one site -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def www(tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    """A crawl of a site under two names, at two addresses.

    The delay leaves a commit time to be made before the next page is requested, on a busy machine too.
    """
    pages, folder = site(30), tmp_path_factory.mktemp("www")
    web = ScriptedWeb({"www.x.test": pages, "x.test": pages})
    return crawl_web(web, folder, "www.x.test/", "x.test/", courtesy__delay_s=0.2)


def test_www_and_the_bare_name_are_one_site(www: Crawled) -> None:
    assert www.crawls[0].state is CrawlState.FINISHED
    assert pages_asked(www, "x.test") == {"/", *(f"/{n}" for n in range(1, 30))}
    assert len(paths(www, "www.x.test")) <= 6, "robots.txt, three pages that prove it, and what was under way"


def test_every_url_of_an_alias_says_where_it_went(www: Crawled) -> None:
    outcomes = www.outcomes()
    left_out = [url for url, outcome in outcomes.items() if outcome == "alias"]
    assert len(left_out) >= 25
    assert all(url.startswith("www.x.test/") for url in left_out)
    assert all(outcomes[url.removeprefix("www.")] == "200" for url in left_out)
    with Lookup(open_root(www.data), "main") as lookup:
        for url in left_out:
            found = next(each for each in lookup.urls_of_host("www.x.test", 99) if each.endswith(url.partition("/")[2]))
            view = page_view(lookup, found, Config(), WallClock())
            there = found.replace("//www.", "//")
            assert (view.state, view.why_waiting) == ("excluded", f"its host is an alias of x.test: see {there}")


def test_trace_and_an_unknown_url_tell_of_the_main_name(www: Crawled) -> None:
    with Lookup(open_root(www.data), "main") as lookup:
        alias = next(url for url in lookup.urls_of_host("www.x.test", 99) if url.endswith("/29"))
        steps = trace(lookup, find_entry(lookup, alias, Config()), WallClock())
        assert any("an alias of x.test" in step.what for step in steps)
        unknown = alias.replace("//www.x", "//www.x").replace("/29", "/1?q")
        with pytest.raises(StoreError, match="is not known") as refused:
            find_entry(lookup, unknown, Config())
        assert "alias of" not in str(refused.value), "the main name has no such page either"


def test_reports_and_sql_name_the_aliases(www: Crawled) -> None:
    root = open_root(www.data)
    with open_source(root, "main") as source:
        found = hosts(source)
    assert found.aliases == 1
    assert {row.host: row.alias_of for row in found.rows} == {"x.test": "", "www.x.test": "x.test"}
    sql = "SELECT host, alias_of FROM hosts WHERE alias_of IS NOT NULL"
    with sql_views(root, "main", sql) as log:
        assert log.query(sql).rows == [("www.x.test", "x.test")]


def test_aliases_of_a_cell_that_was_lost_are_forgotten_and_those_of_other_nodes_rewrite_links(www: Crawled) -> None:
    """A node of a cluster: its cells come and go, and other nodes tell it their decisions."""
    root = open_root(www.data)
    folder = root.collection("main")
    cells = {each.number: FrontierCell(each.frontier, read_only=True) for each in folder.cells()}
    book = AliasBook(cells, folder.starts(), SitesSettings(), lambda _: True, within_sites=True)
    lost = cell_of(slot_of("x.test"), folder.starts())
    link = FoundLink("www.x.test", 0, "/1", 1, "", 0)
    assert book.rewrite(link).host == "x.test"
    told = book.own_aliases()
    assert list(told) == ["www.x.test"]
    book.reload(lost)  # a site was sent to the cell, or away
    assert (book.main_name("www.x.test"), book.changes) == ("x.test", 1)
    book.forget_cell(lost)
    assert (book.has_aliases, book.rewrite(link), book.own_aliases()) == (False, link, {})
    book.elsewhere = told  # its new owner says so
    assert book.rewrite(link).host == "x.test"
    assert book.own_aliases() == {}
    for cell in cells.values():
        cell.close()


def test_an_alias_shares_the_delay_of_its_main_name(www: Crawled) -> None:
    crawl, schedule = www.crawls[0], make_schedule()
    # Both have left memory; this is how their next URL would bring them back.
    alias, main = (crawl.host_queue(name, 0, schedule) for name in ("www.x.test", "x.test"))
    assert (alias.alias_of, alias.server) == ("x.test", main.server)
    assert early_requests(www.entries, 0.05, lambda entry: entry.host) == []


def test_a_second_domain_at_the_same_address_is_one_site_too(tmp_path: Path) -> None:
    """The two names lie in different cells; what only one of them links to is handed on from cell to cell."""
    main, other = name_in(0), name_in(1)
    shared = site(12)
    pages = {main: {**shared}, other: {**shared, "/deep": html(text="never asked for here")}}
    pages[main]["/deep"] = html(text="only known by a link to the other name")
    pages["start.test"] = {"/": links_with_port(f"{main}/", f"{other}/", f"{other}/deep")}
    web = ScriptedWeb(pages, {main: SHARED, other: SHARED})
    crawled = crawl_web(web, tmp_path, "start.test/", courtesy__delay_s=0.1)
    asked = {host: pages_asked(crawled, host) for host in (main, other)}
    alias = min(asked, key=lambda host: len(asked[host]))
    assert len(asked[alias]) <= 5
    assert asked[main if alias == other else other] == {"/", "/deep", *(f"/{n}" for n in range(1, 12))}
    assert early_requests(crawled.entries, 0.1, lambda entry: entry.address) == []


def test_links_to_an_alias_lead_to_the_main_name_from_then_on(tmp_path: Path) -> None:
    pages = site(8)
    web = ScriptedWeb({"www.x.test": pages, "x.test": pages})
    first = crawl_web(web, tmp_path, "x.test/", "www.x.test/")
    more = {**pages, "/late": html(text="late")}
    web = ScriptedWeb({"www.x.test": more, "x.test": more, "new.test": {"/": links_with_port("www.x.test/late")}})
    again = crawl_web(web, tmp_path, "new.test/", port=first.port)
    assert paths(again, "x.test") == ["/late"]
    assert paths(again, "www.x.test") == []
    with Lookup(open_root(again.data), "main") as lookup, pytest.raises(StoreError, match=r"see http://x\.test"):
        find_entry(lookup, f"http://www.x.test:{first.port}/late", Config())


def test_a_name_that_only_redirects_gets_no_request_for_every_page(tmp_path: Path) -> None:
    main = site(30)

    def moved(request: WorldRequest) -> WorldAnswer:
        port = request.headers["host"].rpartition(":")[2]
        return redirect(f"http://www.x.test:{port}{request.target}", 301)

    bare: dict[str, Page] = dict.fromkeys([*main, "/robots.txt"], moved)
    start = {"/": links_with_port(*(f"x.test/{n}" for n in range(1, 30)))}
    web = ScriptedWeb({"www.x.test": main, "x.test": bare, "start.test": start})
    crawled = crawl_web(web, tmp_path, "start.test/", "www.x.test/")
    assert len(paths(crawled, "x.test")) <= 6
    assert pages_asked(crawled, "www.x.test") == {"/", *(f"/{n}" for n in range(1, 30))}
    assert crawled.outcomes()["x.test/29"] == "alias"


def test_pages_that_name_their_own_host_are_still_the_same(tmp_path: Path) -> None:
    def echoing(number: int) -> Page:
        def page(request: WorldRequest) -> WorldAnswer:
            links = [f"/{n}" for n in range(1, 20)] if not number else []
            return html(*links, text=f"Welcome to {request.host}. {text_of(number)}")

        return page

    pages = {"/": echoing(0), **{f"/{n}": echoing(n) for n in range(1, 20)}}
    web = at_one_address({"a.test": pages, "b.test": pages})
    crawled = crawl_web(web, tmp_path, "a.test/", "b.test/")
    assert min(len(paths(crawled, host)) for host in ("a.test", "b.test")) <= 6


def test_home_pages_that_nobody_links_to_are_requested_before_a_decision(tmp_path: Path) -> None:
    """The only requests that are made for this alone: two.

    Who answers late is left alone for longer. On a busy machine all do: no more is asked there between two commits.
    The name whose home page comes first goes on until the other's has come, with tries of the trap detector, which
    begin with the last URL. If it gets far ahead, it becomes the main name.
    """
    deep = {f"/{n}": html(text=text_of(n)) for n in range(1, 50)}
    pages = {"/": html(text=text_of(0)), **deep}
    hub = links_with_port(*(f"{host}{path}" for path in deep for host in ("www.x.test", "x.test")))
    web = ScriptedWeb({"start.test": {"/": html("/hub"), "/hub": hub}, "www.x.test": pages, "x.test": pages})
    crawled = crawl_web(web, tmp_path, "start.test/", courtesy__response_factor=20.0)
    assert crawled.requested().count("x.test/") == crawled.requested().count("www.x.test/") == 1
    asked = {host: pages_asked(crawled, host) for host in ("www.x.test", "x.test")}
    alias, main = sorted(asked, key=lambda host: len(asked[host]))
    assert asked[main] == set(pages)
    assert len(asked[alias]) <= 30
    outcomes = crawled.outcomes()
    assert {path for path in pages if outcomes[f"{alias}{path}"] == "alias"} == set(pages) - asked[alias]


# ---- two sites ------------------------------------------------------------------------------------------------------


def test_virtual_hosts_with_different_pages_stay_distinct(tmp_path: Path) -> None:
    web = at_one_address({"a.test": site(8), "b.test": site(8, first=100)})
    crawled = crawl_web(web, tmp_path, "a.test/", "b.test/")
    assert len(pages_asked(crawled, "a.test")) == len(pages_asked(crawled, "b.test")) == 8
    assert "alias" not in crawled.outcomes().values()


def test_the_same_default_page_and_no_robots_do_not_make_one_site(tmp_path: Path) -> None:
    """One page, however often it is shown, is one page."""
    default = html("/1", "/2", "/3", "/4", text=text_of(0))
    everywhere = {"/": default, **{f"/{n}": html(text=text_of(0)) for n in range(1, 5)}}
    own = {"/": default, **{f"/{n}": html(text=text_of(50 + n)) for n in range(1, 5)}}
    web = at_one_address({"a.test": everywhere, "b.test": everywhere, "c.test": own})
    crawled = crawl_web(web, tmp_path, "a.test/", "b.test/", "c.test/")
    assert all(len(pages_asked(crawled, host)) == 5 for host in ("a.test", "b.test", "c.test"))
    assert "alias" not in crawled.outcomes().values()


def test_equal_pages_under_another_robots_txt_are_two_sites(tmp_path: Path) -> None:
    other = {**site(8), "/robots.txt": robots("User-agent: *\nDisallow: /secret")}
    crawled = crawl_web(at_one_address({"a.test": site(8), "b.test": other}), tmp_path, "a.test/", "b.test/")
    assert len(pages_asked(crawled, "a.test")) == len(pages_asked(crawled, "b.test")) == 8


def test_robots_that_name_their_own_host_are_the_same(tmp_path: Path) -> None:
    def with_map(host: str) -> dict[str, Page]:
        return {**site(20), "/robots.txt": robots(f"User-agent: *\nDisallow:\nSitemap: https://{host}/map.xml")}

    web = at_one_address({"a.test": with_map("a.test"), "b.test": with_map("b.test")})
    crawled = crawl_web(web, tmp_path, "a.test/", "b.test/")
    assert min(len(pages_asked(crawled, host)) for host in ("a.test", "b.test")) <= 5


def test_a_mirror_on_another_server_is_kept_page_by_page(tmp_path: Path) -> None:
    """Another site at another address is another server; its pages are stored, and their digests tell search (C6)."""
    crawled = crawl_web(ScriptedWeb({"a.test": site(8), "b.test": site(8)}), tmp_path, "a.test/", "b.test/")
    assert len(pages_asked(crawled, "a.test")) == len(pages_asked(crawled, "b.test")) == 8
    sql = "SELECT count(*), count(DISTINCT digest) FROM pages"
    with sql_views(open_root(crawled.data), "main", sql) as log:
        assert log.query(sql).rows == [(16, 8)]


def test_brands_that_share_legal_pages_stay_distinct(tmp_path: Path) -> None:
    legal = {f"/{n}": html("/", text=text_of(n)) for n in range(1, 5)}
    brands = {
        host: {"/": html(*legal, *(f"/p{n}" for n in range(6)), text=text_of(own)), **legal}
        | {f"/p{n}": html(text=text_of(own + n + 1)) for n in range(6)}
        for host, own in (("a.test", 100), ("b.test", 200))
    }
    crawled = crawl_web(at_one_address(brands), tmp_path, "a.test/", "b.test/")
    assert "alias" not in crawled.outcomes().values()


def test_sites_made_with_the_same_program_stay_distinct(tmp_path: Path) -> None:
    """Their styles and scripts are the same, byte for byte."""
    files = {
        f"/s{n}.css": WorldAnswer(200, b"Content-Type: text/css\r\n", f"p {{ top: {n}px }}".encode()) for n in range(12)
    }
    head = "".join(f'<link rel=stylesheet href="{path}">' for path in files)
    blogs = {
        host: {"/": html("/1", "/2", text=text_of(own), head=head), **files}
        | {f"/{n}": html(text=text_of(own + n)) for n in (1, 2)}
        for host, own in (("a.test", 100), ("b.test", 200))
    }
    crawled = crawl_web(at_one_address(blogs), tmp_path, "a.test/", "b.test/", archive__requisites=True)
    assert all(len(pages_asked(crawled, host)) == 15 for host in ("a.test", "b.test"))


def test_aliases_can_be_switched_off(tmp_path: Path) -> None:
    web = ScriptedWeb({"www.x.test": site(8), "x.test": site(8)})
    crawled = crawl_web(web, tmp_path, "www.x.test/", "x.test/", sites__aliases=False)
    assert len(pages_asked(crawled, "x.test")) == len(pages_asked(crawled, "www.x.test")) == 8


def test_a_main_name_out_of_scope_is_nobodys_main_name(tmp_path: Path) -> None:
    pages = site(8)
    web = ScriptedWeb({"www.x.test": pages, "x.test": pages})
    include = ["host:www.x.test", "regex:x\\.test:[0-9]+/[1-3]?$"]
    crawled = crawl_web(web, tmp_path, "www.x.test/", "x.test/", scope__include=include)
    assert {"www.x.test/5", "www.x.test/7"} <= set(crawled.requested())


# ---- over time ------------------------------------------------------------------------------------------------------


def test_a_decision_outlives_a_restart(tmp_path: Path) -> None:
    pages = site(40)
    web = ScriptedWeb({"www.x.test": pages, "x.test": pages})
    first = crawl_web(web, tmp_path, "www.x.test/", "x.test/", limits__pages=16)
    assert first.crawls[0].state is CrawlState.LIMIT
    assert len(pages_asked(first, "www.x.test")) < len(pages_asked(first, "x.test"))
    second = crawl_web(web, tmp_path, port=first.port, limits__pages=0)
    assert second.crawls[0].state is CrawlState.FINISHED
    assert paths(second, "www.x.test") == []
    book = second.crawls[0].committer.aliases
    assert book is not None
    assert book.main_name("www.x.test") == "x.test"
    assert pages_asked(first, "x.test") | pages_asked(second, "x.test") == set(pages)


def test_evidence_outlives_a_restart(tmp_path: Path) -> None:
    """Some pages agree in the first run, the last one that is needed in the second."""
    pages = site(12)
    web = ScriptedWeb({"www.x.test": pages, "x.test": pages})
    first = crawl_web(web, tmp_path, "www.x.test/", "x.test/", limits__pages=4)
    second = crawl_web(web, tmp_path, port=first.port, limits__pages=0)
    asked = {host: pages_asked(first, host) | pages_asked(second, host) for host in ("www.x.test", "x.test")}
    assert (len(asked["www.x.test"]) <= 5, asked["x.test"]) == (True, set(pages))


def changing_site(pages: int, state: dict[str, int]) -> dict[str, Page]:
    """A site whose texts are those of `state["first"]`."""

    def page(path: str) -> Page:
        return lambda _request: site(pages, first=state["first"])[path]  # type: ignore[return-value]  # no function

    return {path: page(path) for path in site(pages)}


def test_an_alias_that_differs_later_is_itself_again(tmp_path: Path) -> None:
    state = {"first": 0}
    of_hosts = {"www.x.test": changing_site(12, state), "x.test": site(12)}
    news = {"new.test": {"/": links_with_port("www.x.test/3", "x.test/3")}}
    first = crawl_web(ScriptedWeb(of_hosts), tmp_path, "x.test/", "www.x.test/")
    assert len(pages_asked(first, "www.x.test")) <= 5
    state["first"] = 500
    again = {"port": first.port, "sites__alias_check_s": 0.0}
    second = crawl_web(ScriptedWeb(of_hosts | news), tmp_path, "new.test/", **again)
    both = pages_asked(first, "www.x.test") | pages_asked(second, "www.x.test")
    assert both == {"/", *(f"/{n}" for n in range(1, 12))}
    assert "alias" not in second.outcomes().values()
    third = crawl_web(ScriptedWeb(of_hosts | news), tmp_path, "new.test/", **again)
    assert third.entries == [], "they are distinct for good"


def test_an_alias_that_still_agrees_stays_one(tmp_path: Path) -> None:
    of_hosts = {"www.x.test": site(12), "x.test": site(12)}
    news = {"new.test": {"/": links_with_port("www.x.test/3")}}
    first = crawl_web(ScriptedWeb(of_hosts), tmp_path, "x.test/", "www.x.test/")
    second = crawl_web(ScriptedWeb(of_hosts | news), tmp_path, "new.test/", port=first.port, sites__alias_check_s=0.0)
    assert len(pages_asked(second, "www.x.test")) == len(pages_asked(second, "x.test")) == 2, "what proved it"
    assert list(second.outcomes().values()).count("alias") >= 7


def test_a_full_disk_while_names_are_learnt_loses_no_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, failures = aliases.AliasBook._save, []  # where the disk would say so

    def full_once(book: aliases.AliasBook) -> None:
        if book._mains and not failures:  # the moment of the decision
            failures.append(1)
            raise DiskFull("no room")
        whole(book)

    monkeypatch.setattr(aliases.AliasBook, "_save", full_once)
    monkeypatch.setattr("teia.crawler.loop.DISK_RETRY_S", 0.1)
    pages = site(20)
    web = ScriptedWeb({"www.x.test": pages, "x.test": pages})
    crawled = crawl_web(web, tmp_path, "www.x.test/", "x.test/", limits__disk_free_bytes=0)
    assert failures
    assert min(len(pages_asked(crawled, host)) for host in ("www.x.test", "x.test")) <= 6
    assert "alias" in crawled.outcomes().values()


# ---- wildcard DNS ---------------------------------------------------------------------------------------------------


def test_names_that_are_made_up_cost_one_page_each(tmp_path: Path) -> None:
    """Once enough names of a site are aliases, the next one is recognised by its home page alone (RELIABILITY 27)."""
    pages, names = site(8), [f"n{number}.wild.test" for number in range(40)]
    web = ScriptedWeb(
        {
            "www.wild.test": pages,
            **dict.fromkeys(names, pages),
            "start.test": {"/": links_with_port(*(f"{name}/" for name in names[:20]))},
            "more.test": {"/": links_with_port(*(f"{name}/" for name in names[20:]))},
        },
        dict.fromkeys(["www.wild.test", *names], SHARED),
    )
    first = crawl_web(web, tmp_path, "www.wild.test/", "start.test/", courtesy__delay_s=0.02)
    assert sum(len(paths(first, name)) for name in names) <= 20 * 5
    second = crawl_web(web, tmp_path, "more.test/", courtesy__delay_s=0.0, port=first.port)
    assert [paths(second, name) for name in names[20:]] == [["/robots.txt", "/"]] * 20
    aliases_of = [outcome for url, outcome in second.outcomes().items() if ".wild.test" in url and outcome == "alias"]
    assert len(aliases_of) >= 20 * 7


@pytest.mark.parametrize("subdomains", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_the_budget_of_a_domain_holds_for_all_its_subdomains(tmp_path: Path, subdomains: int) -> None:
    """RELIABILITY 27: 10,000 subdomains of one domain with equal pages."""
    names = [f"n{number}.wild.test" for number in range(subdomains)]
    start = [f"/{number}" for number in range(10)]
    parts = {path: links_with_port(*(f"{name}/" for name in names[at::10])) for at, path in enumerate(start)}
    everyone = {"/": html("/1", text=text_of(0)), "/1": html(text=text_of(1))}
    web = ScriptedWeb(
        {"start.test": {"/": html(*start), **parts}, **dict.fromkeys(names, everyone)}, dict.fromkeys(names, SHARED)
    )
    crawled = crawl_web(web, tmp_path, "start.test/", courtesy__delay_s=0.0, limits__pages_per_site=60)
    assert crawled.crawls[0].state is CrawlState.FINISHED
    of_domain = [entry for entry in crawled.entries if entry.host.endswith(".wild.test")]
    assert len(of_domain) <= 60 + 1, "the budget, and what was under way when it was used up"
    outcomes = Counter(crawled.outcomes().values())
    assert outcomes["budget"] >= subdomains - 60
    assert None not in outcomes
