"""The cache parasite with a real Squid: what users ask for is renewed from the cache, at no cost to servers (C7)."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvloop

from teia.clock import WallClock
from teia.collections.settings import configure
from teia.crawler.lookup import Lookup
from teia.crawler.proxy_collector import age_s
from teia.crawler.start import open_crawler
from teia.errors import ConfigError
from teia.frontier.cell.schema import BY_SIGNAL
from teia.lab.server.requestlog import RequestLogEntry, read_log
from teia.lab.server.serve import LabServer
from teia.lab.server.squid import OUTGOING, Squid, squid_process
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.signals.announce import counts_in
from teia.store.root import open_root
from teia.transfer.politeness_audit import audit_politeness
from teia.transfer.read_all import known_urls
from teia.views.reports.source import open_source
from tests.crawler.webs import HTML, ScriptedWeb, html, robots, text_of
from tests.waiting import until_async

CACHEABLE = HTML + b"Cache-Control: max-age=600\r\n"

needs_squid = pytest.mark.skipif(
    shutil.which("squid", path="/usr/sbin:/usr/bin") is None, reason="needs Squid: apt-get install squid"
)


@dataclass
class Web(ScriptedWeb):
    """A site whose page /news changes when it is told to."""

    pages: dict[str, dict[str, Any]] = field(default_factory=dict)
    edition: int = 1
    asked: Counter[str] = field(default_factory=Counter)

    def answer(self, request: WorldRequest, now_s: float) -> WorldAnswer:
        self.asked[request.target] += 1
        return super().answer(request, now_s)

    def __post_init__(self) -> None:
        site = {
            "/": html("/news", "/old"),
            "/robots.txt": robots("User-agent: *\nDisallow: /closed\n"),
            "/news": self._news,
            "/old": html(text=text_of(2)),
            "/hidden": self._cacheable(3),
            "/closed": self._cacheable(4),
            "/hidden?person=1": self._cacheable(5),
        }
        other = {"/": self._cacheable(7), "/robots.txt": robots("")}
        self.pages = {"a.test": site, "c.test": other, "b.elsewhere": {"/": self._cacheable(6)}}
        super().__post_init__()

    def _news(self, _: WorldRequest) -> WorldAnswer:
        return WorldAnswer(200, CACHEABLE, f"<title>N</title><p>{text_of(100 + self.edition)}</p>".encode())

    @staticmethod
    def _cacheable(number: int) -> WorldAnswer:
        return WorldAnswer(200, CACHEABLE, f"<title>P</title><p>{text_of(number)}</p>".encode())


def ask(squid: Squid, url: str) -> int:
    """One request of a user's; returns the status."""
    host = url.split("/")[2]
    with socket.create_connection(("127.0.0.1", squid.port), timeout=20) as connection:
        head = f"GET {url} HTTP/1.1\r\nHost: {host}\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())
        answer = b""
        while data := connection.recv(65_536):
            answer += data
    return int(answer.split(b" ")[1])


@dataclass
class Seen:
    """What is there when the crawl has ended."""

    counts: dict[str, int]
    urls: dict[str, dict[str, Any]]
    entries: list[RequestLogEntry]
    violations: int
    kinds: list[tuple[str, str]]

    @property
    def ours(self) -> list[str]:
        return [entry.host + entry.path for entry in self.entries if entry.peer != OUTGOING]


Story = Callable[[Web, Squid, Callable[[str], str], Callable[[str, int], Awaitable[None]]], Awaitable[None]]


def crawl_beside_squid(folder: Path, story: Story, **settings: Any) -> Seen:
    return uvloop.run(_crawl(folder, story, {key.replace("__", "."): value for key, value in settings.items()}))


async def _crawl(folder: Path, story: Story, settings: dict[str, Any]) -> Seen:
    web, clock, log = Web(), WallClock(), folder / "requests.jsonl"
    root = open_root(folder / "data", create=True)
    async with LabServer(web, clock, port=0, dns="127.77.255.91:0", log=log) as lab:
        with squid_process({name: server.address for name, server in web.names.items()}) as squid:
            flags = {
                "collection.seeds": [lab.url("a.test", "/")],
                "collection.cells": 2,
                "scope.include": ["suffix:.test"],
                "courtesy.delay_s": 0.05,
                "fetch.dns": lab.dns,
                "fetch.allow_nets": ["127.77.0.0/16"],
                "refresh.keep": True,
                "sites.probe_after_pages": 0,
                "index.enabled": False,
                "signals.socket": str(squid.socket),
                "signals.proxy": f"127.0.0.1:{squid.port}",
                "signals.delay_s": 0.3,
                "signals.max_age_s": 1.0,
            }
            config = configure(root, "main", None, {}, {**flags, **settings}).config
            path = root.collection("main").signals

            async def counted(what: str, number: int) -> None:
                await until_async(lambda: counts_in(path).get("proxy", {}).get(what, 0) >= number, f"{number} {what}")

            with root.locked():
                async with open_crawler(root, [config], clock, seed=1) as crawler:
                    running = asyncio.create_task(crawler.run())
                    await until_async(lambda: crawler.crawls[0].counts.pages >= 3, "the crawl begins")
                    async with asyncio.timeout(40):
                        await story(web, squid, lambda path: lab.url("a.test", path), counted)
                    crawler.stop()
                    await running
    urls = {each["url"].partition("a.test")[2].partition("/")[2]: each for each in known_urls(root, "main")}
    with open_source(root, "main") as source:
        kinds = source.log.query("SELECT url, kind FROM fetches WHERE kind = 'cached'").rows
        violations = audit_politeness(source.log, config.courtesy).violations
    return Seen(counts_in(path)["proxy"], urls, read_log(log), violations, kinds)


@needs_squid
def test_pages_that_users_request_are_renewed_from_the_cache_without_requests_to_servers(tmp_path: Path) -> None:
    async def story(
        web: Web, squid: Squid, url: Callable[[str], str], counted: Callable[[str, int], Awaitable[None]]
    ) -> None:
        await asyncio.sleep(2.2)  # our copies are older than signals.max_age_s, and than what an Age leaves out
        web.edition = 2
        assert await asyncio.to_thread(ask, squid, url("/news")) == 200
        assert await asyncio.to_thread(ask, squid, url("/hidden")) == 200
        await counted("updated", 1)
        await counted("new", 1)
        for path in ("/closed", "/hidden?person=1", "/old"):
            assert await asyncio.to_thread(ask, squid, url(path)) == 200
        other = url("/").replace("a.test", "b.elsewhere")
        assert await asyncio.to_thread(ask, squid, other) == 200
        await counted("refused", 1)
        await counted("private", 1)
        await counted("not_cached", 1)
        await counted("out_of_scope", 1)

    seen = crawl_beside_squid(tmp_path, story)
    assert seen.counts["updated"] == 1
    assert seen.counts["new"] == 1
    assert seen.counts["served_within_1s"] >= 2
    assert seen.urls["news"]["visits"] == 2
    assert seen.urls["news"]["changes"] == 1
    assert seen.urls["hidden"]["outcome"] == "200"
    assert "closed" not in seen.urls
    assert not any("person" in path for path in seen.urls)
    # The servers saw each page asked for once by us, and nothing for what came from the cache.
    assert sorted(seen.ours) == ["a.test/", "a.test/news", "a.test/old", "a.test/robots.txt"]
    assert {url.rpartition("/")[2] for url, _ in seen.kinds} == {"news", "hidden"}
    assert seen.violations == 0


@needs_squid
def test_what_the_cache_does_not_have_is_visited_courteously_where_that_is_wanted(tmp_path: Path) -> None:
    async def story(
        web: Web, squid: Squid, url: Callable[[str], str], counted: Callable[[str, int], Awaitable[None]]
    ) -> None:
        await asyncio.sleep(1.2)  # our capture is older than signals.max_age_s
        await asyncio.to_thread(ask, squid, url("/old"))  # it may not be cached
        await counted("not_cached", 1)
        await until_async(lambda: web.asked["/old"] == 3, "the crawler visits it again")
        await asyncio.sleep(0.3)  # nothing more happens for a while

    seen = crawl_beside_squid(tmp_path, story, signals__not_cached="visit")
    assert seen.urls["old"]["visits"] == 2
    assert seen.ours.count("a.test/old") == 2
    assert seen.violations == 0


@needs_squid
def test_a_page_of_a_host_that_nobody_knew_is_taken_from_the_cache(tmp_path: Path) -> None:
    async def story(
        _web: Web, squid: Squid, url: Callable[[str], str], counted: Callable[[str, int], Awaitable[None]]
    ) -> None:
        assert await asyncio.to_thread(ask, squid, url("/").replace("a.test", "c.test")) == 200
        await counted("new", 1)

    seen = crawl_beside_squid(tmp_path, story)
    assert [page.partition("//")[2].partition(":")[0] for page, _ in seen.kinds] == ["c.test"]
    assert [path for path in seen.ours if path.startswith("c.test")] == ["c.test/robots.txt"]
    assert seen.violations == 0


@needs_squid
def test_a_flood_of_messages_does_no_harm_and_young_copies_are_kept(tmp_path: Path) -> None:
    async def story(
        _web: Web, squid: Squid, url: Callable[[str], str], counted: Callable[[str, int], Awaitable[None]]
    ) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as anybody:
            for number in range(3_000):
                lines = [b"teia-announce 1", b"http://other.example/%d" % number, b"javascript:alert(1)", b"http://["]
                payload = b"\n".join(lines) if number % 2 else b"\x00\xff" * 500
                while True:
                    try:
                        anybody.sendto(payload, str(squid.socket))
                        break
                    except BlockingIOError:
                        await asyncio.sleep(0.01)  # the receiver is full: it reads meanwhile
        await counted("malformed", 1_500 + 2 * 1_500)
        await counted("out_of_scope", 1_500)
        await asyncio.to_thread(ask, squid, url("/hidden"))
        await counted("new", 1)
        await asyncio.to_thread(ask, squid, url("/news"))
        await counted("discarded", 1)

    seen = crawl_beside_squid(tmp_path, story, signals__max_age_s=86_400.0)
    assert seen.counts["asked"] == 1, "the cache is not asked for what we have from today"
    assert set(seen.urls) == {"", "news", "old", "hidden"}
    assert seen.violations == 0
    with Lookup(open_root(tmp_path / "data"), "main") as lookup:
        news = lookup.find(seen.urls["news"]["url"])
    assert news is not None
    assert news.found_by & BY_SIGNAL, "coverage compares links with what proxies announce, also of young copies"


def test_a_proxy_without_a_port_is_refused_in_a_line(tmp_path: Path) -> None:
    from teia.collections.settings import check

    root = open_root(tmp_path / "data", create=True)
    flags = {"collection.seeds": ["https://example.org/"], "signals.proxy": "127.0.0.1"}
    with pytest.raises(ConfigError, match=r"signals\.proxy: '127.0.0.1' has no port"):
        check(configure(root, "main", None, {}, flags).config)


@pytest.mark.parametrize(
    ("caches", "problem"),
    [
        ("10.0.0.1:3128", "has no name"),
        ("Rio=10.0.0.1:3128", "has no name"),
        ("rio=10.0.0.1", "has no port"),
        ("rio=squid.test:3128", "is not an address"),
    ],
)
def test_a_cache_without_a_name_or_a_port_is_refused_in_a_line(tmp_path: Path, caches: str, problem: str) -> None:
    from teia.collections.settings import check

    root = open_root(tmp_path / "data", create=True)
    flags = {"collection.seeds": ["https://example.org/"], "signals.caches": [caches]}
    with pytest.raises(ConfigError, match=rf"signals\.caches: .* {problem}"):
        check(configure(root, "main", None, {}, flags).config)


def test_an_age_counts_the_second_that_it_leaves_out() -> None:
    assert age_s(b"HTTP/1.1 200 OK\r\nDate: x\r\nAge: 30\r\n\r\n") == 31.0
    assert age_s(b"HTTP/1.1 200 OK\r\n\r\n") == 1.0
    assert age_s(b"HTTP/1.1 200 OK\r\nAge: -4\r\nX-Age: 9\r\n\r\n") == 1.0
