"""The crawler on small webs written for one question each."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from teia.crawler.ownership import OneMachine
from teia.crawler.running_collection import CrawlState
from teia.lab.server.witness import early_requests
from teia.lab.world.exchange import ServerFault, WorldAnswer, WorldRequest
from teia.parse.document import Document
from teia.store.reader import ArchiveReader
from teia.store.root import open_root
from tests.crawler.webs import HTML, ScriptedWeb, crawl_web, html, redirect, robots, text_of


def test_links_are_followed_to_the_end_and_each_page_once(tmp_path: Path) -> None:
    web = ScriptedWeb({"a.test": {"/": html("/1", "/2"), "/1": html("/2", "/"), "/2": html("/1", "/3"), "/3": html()}})
    crawled = crawl_web(web, tmp_path, "a.test/")
    assert crawled.crawls[0].state is CrawlState.FINISHED
    assert sorted(crawled.requested()) == ["a.test/", "a.test/1", "a.test/2", "a.test/3", "a.test/robots.txt"]


def test_robots_is_requested_first_and_obeyed(tmp_path: Path) -> None:
    pages = {"/robots.txt": robots("User-agent: *\nDisallow: /no"), "/": html("/no", "/yes"), "/yes": html()}
    crawled = crawl_web(ScriptedWeb({"a.test": pages}), tmp_path, "a.test/")
    assert crawled.requested()[0] == "a.test/robots.txt"
    assert "a.test/no" not in crawled.requested()
    assert crawled.outcomes()["a.test/no"] == "robots"


def test_redirected_robots_of_another_host_holds_for_the_first(tmp_path: Path) -> None:
    web = ScriptedWeb(
        {
            "a.test": {"/robots.txt": redirect("http://b.test:{port}/r"), "/": html("/no"), "/no": html()},
            "b.test": {"/r": robots("User-agent: *\nDisallow: /no")},
        }
    )
    crawled = crawl_web(with_port(web), tmp_path, "a.test/")
    assert crawled.requested()[:3] == ["a.test/robots.txt", "b.test/r", "a.test/"]
    assert crawled.outcomes()["a.test/no"] == "robots"


def with_port(web: ScriptedWeb) -> ScriptedWeb:
    """Let redirects name the port they were asked at, which is only known when the lab runs."""

    def filled(answer: WorldAnswer) -> object:
        def page(request: WorldRequest) -> WorldAnswer:
            port = request.headers["host"].rpartition(":")[2]
            return WorldAnswer(answer.status, answer.headers.replace(b"{port}", port.encode()), answer.body)

        return page

    pages = {
        host: {path: filled(page) if isinstance(page, WorldAnswer) else page for path, page in of_host.items()}
        for host, of_host in web.pages.items()
    }
    return ScriptedWeb(pages, web.addresses)  # type: ignore[arg-type]


def test_unreachable_robots_closes_the_host_and_pages_say_why(tmp_path: Path) -> None:
    web = ScriptedWeb({"a.test": {"/robots.txt": WorldAnswer(500, HTML, b""), "/": html()}})
    crawled = crawl_web(web, tmp_path, "a.test/", courtesy__retry_wait_s=0.01)
    assert "a.test/" not in crawled.requested()
    assert crawled.outcomes()["a.test/"] == "robots_unreachable"


def test_unknown_host_is_dns_and_blocked_address_is_never_requested(tmp_path: Path) -> None:
    home = html("http://nowhere.test/", "http://inside.test/")
    web = ScriptedWeb({"a.test": {"/": home}, "inside.test": {"/": html()}}, {"inside.test": "127.66.0.1"})
    crawled = crawl_web(web, tmp_path, "a.test/", courtesy__retry_wait_s=0.01)
    assert crawled.outcomes()["nowhere.test/"] == "dns"
    assert crawled.outcomes()["inside.test/"] == "blocked_address"
    assert not [entry for entry in crawled.entries if entry.host == "inside.test"]


def test_failed_pages_are_tried_again_later_and_given_up(tmp_path: Path) -> None:
    pages = {
        "/": html("/cut", "/gone"),
        "/cut": WorldAnswer(200, HTML, b"x", fault=ServerFault.RESET),
        "/gone": WorldAnswer(410, HTML),
    }
    crawled = crawl_web(ScriptedWeb({"a.test": pages}), tmp_path, "a.test/")
    assert crawled.requested().count("a.test/cut") == 3
    assert crawled.requested().count("a.test/gone") == 1
    assert crawled.outcomes()["a.test/cut"] == "connect"
    assert crawled.outcomes()["a.test/gone"] == "410"


def test_last_page_of_a_host_without_a_delay_is_requested_again_if_its_connection_closed(tmp_path: Path) -> None:
    """The crawl ended with the page in its queue: where there is no delay, nothing looked at the host again."""
    asked: list[int] = []

    def cut_once(_request: WorldRequest) -> WorldAnswer:
        asked.append(1)
        return html() if len(asked) > 1 else WorldAnswer(200, HTML, b"x", fault=ServerFault.RESET)

    web = ScriptedWeb({"a.test": {"/": html("/x"), "/x": cut_once}})
    crawled = crawl_web(web, tmp_path, "a.test/", courtesy__delay_s=0.0, courtesy__retry_wait_s=3_600.0)
    assert crawled.outcomes()["a.test/x"] == "200"
    assert crawled.requested().count("a.test/x") == 2


@pytest.mark.parametrize("stopped", [1, 2])
def test_request_that_a_node_did_not_dare_to_send_is_sent_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: int
) -> None:
    """Its session was silent while it connected. As a failure of robots.txt this closed the host for many minutes."""
    asked = 0

    def may_send(*_: object) -> Callable[[], bool]:
        def ask() -> bool:
            nonlocal asked
            asked += 1
            return asked != stopped  # the request of robots.txt, or that of the first page

        return ask

    monkeypatch.setattr(OneMachine, "may_send", may_send)
    web = ScriptedWeb({"a.test": {"/robots.txt": robots("User-agent: *\nAllow: /"), "/": html("/1"), "/1": html()}})
    crawled = crawl_web(web, tmp_path, "a.test/", within_s=20, courtesy__retry_wait_s=600.0)
    assert crawled.requested() == ["a.test/robots.txt", "a.test/", "a.test/1"]
    assert asked == 4


def test_redirects_are_decisions_and_chains_end(tmp_path: Path) -> None:
    chain = {f"/{n}": redirect(f"/{n + 1}") for n in range(20)}
    pages = {"/": html("/0", "/self", "/a"), "/self": redirect("/self"), "/a": redirect("/b"), "/b": redirect("/a")}
    crawled = crawl_web(ScriptedWeb({"a.test": pages | chain}), tmp_path, "a.test/")
    asked = crawled.requested()
    assert [path for path in chain if f"a.test{path}" in asked] == [f"/{n}" for n in range(6)]
    assert crawled.outcomes()["a.test/5"] == "redirect_loop"
    assert crawled.outcomes()["a.test/self"] == "redirect_loop"
    assert asked.count("a.test/a") == asked.count("a.test/b") == asked.count("a.test/self") == 1


def test_crawl_delay_holds_from_the_robots_answer_on(tmp_path: Path) -> None:
    pages = {"/robots.txt": robots("User-agent: *\nCrawl-delay: 0.4"), "/": html("/1"), "/1": html()}
    crawled = crawl_web(ScriptedWeb({"a.test": pages}), tmp_path, "a.test/")
    assert len(crawled.entries) == 3
    assert early_requests(crawled.entries, 0.4, lambda entry: entry.host) == []


def test_host_that_asks_for_a_day_is_parked_with_its_reason(tmp_path: Path) -> None:
    web = ScriptedWeb(
        {
            "a.test": {"/robots.txt": robots("User-agent: *\nCrawl-delay: 86400"), "/": html()},
            "b.test": {"/": html()},
        }
    )
    crawled = crawl_web(web, tmp_path, "a.test/", "b.test/")
    assert crawled.crawls[0].state is CrawlState.FINISHED
    assert "a.test/" not in crawled.requested()
    assert "b.test/" in crawled.requested()
    assert "86400" in crawled.crawls[0].queues["a.test"].parked
    assert crawled.outcomes()["a.test/"] is None


def test_retry_after_is_waited_for(tmp_path: Path) -> None:
    asked: list[int] = []

    def busy_once(_request: WorldRequest) -> WorldAnswer:
        asked.append(1)
        return html() if len(asked) > 1 else WorldAnswer(503, HTML + b"Retry-After: 1\r\n", b"")

    crawled = crawl_web(ScriptedWeb({"a.test": {"/": html("/x"), "/x": busy_once}}), tmp_path, "a.test/")
    first, second = [entry for entry in crawled.entries if entry.path == "/x"]
    assert second.start_s - first.end_s >= 1.0
    assert crawled.outcomes()["a.test/x"] == "200"


def test_two_collections_share_a_host_without_doubling_its_rate(tmp_path: Path) -> None:
    pages = {"/": html(*[f"/{n}" for n in range(15)])} | {f"/{n}": html() for n in range(15)}
    web = ScriptedWeb({"a.test": pages})
    crawled = crawl_web(web, tmp_path, "a.test/", collections={"one": {}, "two": {}}, courtesy__delay_s=0.1)
    assert [crawl.state for crawl in crawled.crawls] == [CrawlState.FINISHED] * 2
    assert sum(path == "a.test/7" for path in crawled.requested()) == 2
    assert early_requests(crawled.entries, 0.1, lambda entry: entry.host) == []


@pytest.mark.parametrize("names", [("inside", "outside"), ("outside", "inside")])
def test_collections_crawled_together_are_guarded_by_their_own_networks(tmp_path: Path, names: tuple[str, str]) -> None:
    """Whichever is first: neither gets the other's exceptions, nor what the other could not read of robots.txt."""
    web = ScriptedWeb({"a.test": {"/": html("/1"), "/1": html()}})
    own = {"inside": {}, "outside": {"fetch.allow_nets": []}}
    crawled = crawl_web(web, tmp_path, "a.test/", collections={name: own[name] for name in names})
    assert crawled.outcomes("inside") == {"a.test/": "200", "a.test/1": "200"}
    assert crawled.outcomes("outside") == {"a.test/": "blocked_address"}
    assert sorted(crawled.requested()) == ["a.test/", "a.test/1", "a.test/robots.txt"]


def test_collections_crawled_together_have_their_own_names(tmp_path: Path) -> None:
    web = ScriptedWeb({"a.test": {"/": html()}, "b.test": {}})
    own = {
        "resolved": {},
        "overridden": {"fetch.resolve": ["a.test=127.77.90.2"]},
        "asking": {"fetch.dns": "127.77.0.1:9"},
    }
    crawled = crawl_web(web, tmp_path, "a.test/", collections=own, limits__seconds=3.0)
    assert crawled.outcomes("resolved") == {"a.test/": "200"}
    assert crawled.outcomes("asking") == {"a.test/": "dns"}
    assert {entry.address for entry in crawled.entries} == {"127.77.90.1", "127.77.90.2"}


@contextmanager
def namesake(pages: Mapping[str, WorldAnswer]) -> Iterator[tuple[str, list[tuple[str, float]]]]:
    """Another server for the names of a web; yields its address with its port, and what was requested when."""
    asked: list[tuple[str, float]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, time.monotonic()))
            answer = pages.get(self.path, WorldAnswer(404, HTML))
            self.send_response_only(answer.status)
            self.wfile.write(b"".join((*self._headers_buffer, answer.headers, b"\r\n", answer.body)))

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.77.91.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.77.91.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


BOTH_ORDERS = pytest.mark.parametrize("names", [("usual", "other"), ("other", "usual")])


@BOTH_ORDERS
def test_collections_for_which_a_name_is_two_servers_obey_the_robots_of_each(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    """Seen: a page was requested that its server disallows, by the rules of the other collection's server."""
    pages = {"/": html("/no", "/yes"), "/no": html(), "/yes": html()}
    rules = {"usual": robots("User-agent: *\nDisallow: /no"), "other": robots("User-agent: *\nDisallow: /yes")}
    with namesake(pages | {"/robots.txt": rules["other"]}) as (address, asked):
        own = {"usual": {}, "other": {"fetch.resolve": [f"a.test={address}"]}}
        web = ScriptedWeb({"a.test": pages | {"/robots.txt": rules["usual"]}})
        crawled = crawl_web(web, tmp_path, "a.test/", collections={name: own[name] for name in names})
    assert crawled.requested() == ["a.test/robots.txt", "a.test/", "a.test/yes"]
    assert [path for path, _ in asked] == ["/robots.txt", "/", "/no"]
    assert crawled.outcomes("usual") == {"a.test/": "200", "a.test/no": "robots", "a.test/yes": "200"}
    assert crawled.outcomes("other") == {"a.test/": "200", "a.test/no": "200", "a.test/yes": "robots"}


@BOTH_ORDERS
def test_crawl_delay_of_a_server_is_not_withdrawn_by_another_server_of_its_name(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    """The other server is the first to be asked, because its name needs no name server."""
    pages = {"/": html("/1", "/2", "/3"), "/1": html(), "/2": html(), "/3": html()}
    with namesake(pages | {"/robots.txt": robots("User-agent: *\nCrawl-delay: 0.4")}) as (address, asked):
        own = {"usual": {}, "other": {"fetch.resolve": [f"a.test={address}"]}}
        web = ScriptedWeb({"a.test": pages})
        crawled = crawl_web(web, tmp_path, "a.test/", collections={name: own[name] for name in names})
    assert len(crawled.entries) == len(asked) == 6, "robots.txt, four pages and a probe"
    assert all(after_s - before_s >= 0.4 for (_, before_s), (_, after_s) in itertools.pairwise(asked))


@BOTH_ORDERS
def test_collection_without_a_name_server_closes_no_host_to_the_others(tmp_path: Path, names: tuple[str, str]) -> None:
    """Seen: where it was the first, the others took its failure for an unreachable robots.txt."""
    own = {"usual": {}, "other": {"fetch.dns": "127.77.0.1:9"}}
    web = ScriptedWeb({"a.test": {"/": html("/1"), "/1": html()}})
    collections = {name: own[name] for name in names}
    crawled = crawl_web(
        web, tmp_path, "a.test/", collections=collections, limits__seconds=5.0, courtesy__retry_wait_s=3_600.0
    )
    assert crawled.outcomes("other") == {"a.test/": "dns"}
    assert crawled.outcomes("usual") == {"a.test/": "200", "a.test/1": "200"}
    assert crawled.requested() == ["a.test/robots.txt", "a.test/", "a.test/1"]


def test_collections_with_the_same_names_read_robots_once(tmp_path: Path) -> None:
    web = ScriptedWeb({"a.test": {"/": html()}})
    crawled = crawl_web(web, tmp_path, "a.test/", collections={"one": {}, "two": {}})
    assert sorted(crawled.requested()) == ["a.test/", "a.test/", "a.test/robots.txt"]


def test_names_on_one_address_share_its_delay(tmp_path: Path) -> None:
    names = [f"n{number}.test" for number in range(6)]
    web = ScriptedWeb({name: {"/": html("/1"), "/1": html()} for name in names}, dict.fromkeys(names, "127.77.90.77"))
    crawled = crawl_web(web, tmp_path, *[f"{name}/" for name in names])
    assert len(crawled.entries) == 18
    assert early_requests(crawled.entries, 0.05, lambda entry: entry.address) == []


def test_budget_of_a_host_stops_what_no_rule_sees(tmp_path: Path) -> None:
    def endless(request: WorldRequest) -> WorldAnswer:
        number = int(request.target.rpartition("-")[2] or 0) + 1 if "-" in request.target else 1
        return html(f"/page-{number}", text=text_of(number))  # or it would be a soft 404

    class Endless(ScriptedWeb):
        def answer(self, request: WorldRequest, now_s: float) -> WorldAnswer:
            return WorldAnswer(404, HTML) if request.target == "/robots.txt" else endless(request)

    crawled = crawl_web(
        Endless({"a.test": {}}),
        tmp_path,
        "a.test/",
        courtesy__delay_s=0.0,
        limits__pages_per_host=20,
        scope__max_depth=999,
        sites__traps=False,
    )
    assert crawled.crawls[0].state is CrawlState.FINISHED
    assert len(crawled.entries) == 20
    assert "budget" in crawled.outcomes().values()


def test_dead_host_is_given_up_and_the_others_go_on(tmp_path: Path) -> None:
    dead = {f"/{n}": WorldAnswer(200, HTML, b"", fault=ServerFault.RESET) for n in range(40)}
    web = ScriptedWeb({"a.test": {"/": html(*dead)} | dead, "b.test": {"/": html()}})
    crawled = crawl_web(web, tmp_path, "a.test/", "b.test/", courtesy__retry_wait_s=0.01)
    assert crawled.crawls[0].state is CrawlState.FINISHED
    assert len([entry for entry in crawled.entries if entry.host == "a.test"]) <= 16
    assert crawled.outcomes()["b.test/"] == "200"


def test_page_limit_counts_pages_and_not_failures(tmp_path: Path) -> None:
    """Hosts held back at the limit must be looked at again when what was under way turns out not to be a page."""
    missing = {f"/missing{n}": WorldAnswer(404, HTML) for n in range(10)}
    there = {f"/there{n}": html() for n in range(10)}
    pages = {"/": html(*missing, *there)} | missing | there
    crawled = crawl_web(ScriptedWeb({"a.test": pages}), tmp_path, "a.test/", courtesy__delay_s=0.0, limits__pages=8)
    assert crawled.crawls[0].state is CrawlState.LIMIT
    assert crawled.crawls[0].counts.pages == 8


def test_requisites_are_fetched_when_requested_even_from_out_of_scope(tmp_path: Path) -> None:
    head = '<link rel=stylesheet href="/style.css"><script src="http://cdn.other:{port}/x.js"></script>'

    def home(request: WorldRequest) -> WorldAnswer:
        port = request.headers["host"].rpartition(":")[2]
        return html("/2", head=head.replace("{port}", port), text='<img src="/p.png">')

    pages = {"/": home, "/2": html(), "/style.css": WorldAnswer(200, b"Content-Type: text/css\r\n", b"p{}")}
    web = ScriptedWeb(
        {"a.test": pages, "cdn.other": {"/x.js": WorldAnswer(200, b"Content-Type: text/javascript\r\n", b"1")}}
    )
    plain = crawl_web(web, tmp_path / "plain", "a.test/")
    assert "a.test/style.css" not in plain.requested()
    faithful = crawl_web(web, tmp_path / "faithful", "a.test/", archive__requisites=True, scope__max_depth=1)
    assert {"a.test/style.css", "a.test/p.png", "cdn.other/x.js", "a.test/2"} <= set(faithful.requested())
    archive = crawl_web(web, tmp_path / "archive", "a.test/", collection__kind="archive")
    assert {"a.test/style.css", "a.test/p.png", "cdn.other/x.js"} <= set(archive.requested()), "by its kind alone"


def heading_words(document: Document) -> dict[str, str]:
    """A processor of a user's own."""
    return {"shouted": document.markup.partition("<p>")[2].partition("</p>")[0].upper()}


def test_users_own_processors_run_in_the_children_and_reach_the_archive(tmp_path: Path) -> None:
    web = ScriptedWeb({"a.test": {"/": html(text="hello")}})
    processors = ["text/html=tests.crawler.test_loop:heading_words"]
    crawled = crawl_web(web, tmp_path, "a.test/", parse__processors=processors)
    records = [
        record
        for folder in open_root(crawled.data).collection("main").cells()
        for record in ArchiveReader(folder.archive).records()
        if record.kind == "metadata"
    ]
    assert any(b"shouted: HELLO" in record.block for record in records)


def test_counts_are_of_what_was_committed(tmp_path: Path) -> None:
    web = ScriptedWeb({"a.test": {"/": html("/1"), "/1": html()}})
    counts = crawl_web(web, tmp_path, "a.test/").crawls[0].counts
    assert (counts.requests, counts.pages, counts.urls_new) == (3, 2, 2)
    assert counts.archive_records > 3
