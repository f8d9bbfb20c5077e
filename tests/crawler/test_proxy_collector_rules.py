"""What the collector asks of a proxy, and when it does not: the real crawl and frontier, a proxy that is a list."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from teia.config.sections import CourtesySettings, LimitSettings
from teia.crawler import proxy_collector
from teia.crawler.commit import CommitGroup
from teia.crawler.ownership import HostOwners
from teia.crawler.proxy_collector import AT_ONCE, MISTRUST_TICKS, ProxyCollector, is_from_cache, run_collectors
from teia.crawler.robots import RobotsCache
from teia.crawler.signals_in import announcements
from teia.errors import ConfigError
from teia.fetch.destination import Destinations
from teia.fetch.fetcher import FetchRequest
from teia.fetch.guard import AddressGuard
from teia.frontier.queue.politeness import Politeness
from teia.frontier.queue.schedule import HostSchedule
from teia.records import Fetched
from teia.signals.announce import AnnouncementSocket, Datagram, counts_in
from tests.crawler.offline import OfflineCrawl, offline_crawl
from tests.fetch.resolvers import StaticResolver

HERE = "http://a.test"
WEB = {f"{HERE}/": "<p>one"}
SETTINGS: dict[str, Any] = {
    "signals__indexnow": True,
    "signals__proxy": "127.0.0.1:3128",
    "signals__delay_s": 0.0,
    "signals__max_age_s": 0.0,
    "courtesy__robots": False,
}
FROM_A_SERVER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
FROM_THE_CACHE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nAge: 0\r\n\r\n"


class Proxy:
    """Requests that wait to be answered; and what the crawl was brought."""

    def __init__(self, crawl: OfflineCrawl) -> None:
        self.crawl = crawl
        crawl.crawl.destinations = Destinations(StaticResolver({}), AddressGuard())
        self.waiting: list[tuple[FetchRequest, Callable[[Fetched], None]]] = []
        self.brought: list[str] = []
        courtesy = CourtesySettings()
        crawl.crawl.robots = RobotsCache(courtesy, LimitSettings())
        self.collector = ProxyCollector(
            cast("Any", SimpleNamespace(accept_answer=lambda _, visit, __: self.brought.append(visit.item.url))),
            crawl.crawl,
            cast("Any", SimpleNamespace(start=lambda request, done: self.waiting.append((request, done)))),
            HostSchedule(Politeness(courtesy), 10),
            crawl.clock,
        )

    def announce(self, *urls: str, cache: str = "") -> None:
        self.collector.receive(Datagram({}, urls, cache))
        for _ in range(2):
            self.crawl._commit(CommitGroup())
        self.collector.tick()

    def answer(self, head: bytes) -> None:
        (request, done), now_s = self.waiting.pop(0), self.crawl.clock.now_s()
        done(Fetched(request.url, "200", 200, now_s, now_s, head=head, body=b"<p>two"))
        self.crawl._commit(CommitGroup())

    def turns(self, number: int = 1) -> None:
        for _ in range(number):
            self.collector.tick()

    def counts(self) -> dict[str, int]:
        self.crawl._commit(CommitGroup())
        return counts_in(self.crawl.crawl.committer.cells[0].folder.path.parents[1] / "signals.sqlite")["proxy"]


def pages(number: int) -> list[str]:
    return [f"{HERE}/{each}" for each in range(number)]


@pytest.mark.parametrize(
    ("fields", "is_one"),
    [
        (b"Age: 0", True),
        (b"X-Cache: HIT from squid", True),
        (b"Server: x", False),
        (b"Age: 40\r\nX-Cache: MISS from squid", False),
        (b"X-Cache: Hit from a CDN\r\nAge: 9\r\nX-Cache: MISS from squid", False),
        (b"X-Cache: MISS from a CDN\r\nAge: 9\r\nX-Cache: HIT from squid", True),
    ],
)
def test_an_answer_says_itself_whether_it_comes_from_the_cache(fields: bytes, is_one: bool) -> None:
    assert is_from_cache(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n\r\n") is is_one


def test_a_proxy_that_sends_requests_in_our_name_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """C7: a server is not asked without its rest because a proxy does not keep to only-if-cached."""
    with offline_crawl(WEB, tmp_path, f"{HERE}/", **SETTINGS) as crawl, caplog.at_level(logging.WARNING):
        crawl.run()
        proxy = Proxy(crawl)
        proxy.announce(*pages(20))
        assert len(proxy.waiting) == 1, "one at a time, until it is known to answer from its cache"
        proxy.answer(FROM_A_SERVER)
        proxy.turns(MISTRUST_TICKS - 1)
        assert not proxy.waiting
        proxy.turns()
        assert len(proxy.waiting) == 1
        proxy.answer(FROM_A_SERVER)
        assert proxy.brought == []
        assert proxy.counts()["not_from_cache"] == 2
        assert [each.name for each in caplog.records] == [proxy_collector.__name__], "it is told once"


def test_a_proxy_that_answers_from_its_cache_gets_several_requests_at_once(tmp_path: Path) -> None:
    with offline_crawl(WEB, tmp_path, f"{HERE}/", **SETTINGS) as crawl:
        crawl.run()
        proxy = Proxy(crawl)
        proxy.announce(f"{HERE}/new", *pages(20))
        crawl._commit(CommitGroup())
        proxy.answer(FROM_THE_CACHE)
        proxy.turns()
        assert len(proxy.brought) == 1
        assert len(proxy.waiting) == AT_ONCE


def asked(proxy: Proxy) -> list[tuple[str, str]]:
    """Of each request that waits: the page, and the cache's address."""
    return [
        (request.url.removeprefix(HERE), f"{request.address}:{request.connect_port}") for request, _ in proxy.waiting
    ]


SEVERAL = SETTINGS | {"signals__caches": ["rio=10.0.0.1:3128", "lisboa=10.0.0.2:8080"]}


def test_a_page_is_requested_from_the_cache_that_announced_it(tmp_path: Path) -> None:
    with offline_crawl(WEB, tmp_path, f"{HERE}/", **SEVERAL) as crawl:
        crawl.run()
        proxy = Proxy(crawl)
        for number, cache in enumerate(["lisboa", "", "rio", "porto"]):
            proxy.announce(f"{HERE}/{number}", cache=cache)
        assert asked(proxy) == [("/0", "10.0.0.2:8080"), ("/1", "127.0.0.1:3128"), ("/2", "10.0.0.1:3128")]
        assert proxy.counts()["unknown_cache"] == 1
        assert proxy.counts()["in_scope"] == 3


def test_a_cache_that_cannot_be_used_does_not_hold_up_the_pages_of_another(tmp_path: Path) -> None:
    with offline_crawl(WEB, tmp_path, f"{HERE}/", **SEVERAL) as crawl:
        crawl.run()
        proxy = Proxy(crawl)
        proxy.announce(*pages(70), cache="rio")
        proxy.answer(FROM_A_SERVER)  # it is not used for a while
        for _ in range(3):
            proxy.announce(f"{HERE}/other", cache="lisboa")
        assert asked(proxy) == [("/other", "10.0.0.2:8080")]
        assert proxy.counts()["not_from_cache"] == 1
        assert proxy.counts()["unreachable"] == 69


def test_pages_of_a_busy_cache_wait_for_it_and_are_requested_in_their_order(tmp_path: Path) -> None:
    with offline_crawl(WEB, tmp_path, f"{HERE}/", **SEVERAL) as crawl:
        crawl.run()
        proxy = Proxy(crawl)
        proxy.announce(*pages(5), cache="rio")
        proxy.announce(f"{HERE}/other", cache="lisboa")
        proxy.turns(7)
        assert asked(proxy) == [("/0", "10.0.0.1:3128"), ("/other", "10.0.0.2:8080")]
        proxy.answer(FROM_THE_CACHE)
        proxy.turns()
        assert [page for page, _ in asked(proxy)] == ["/other", "/1", "/2", "/3", "/4"]


def test_a_new_page_whose_host_moved_to_another_node_during_the_cache_request_is_dropped(tmp_path: Path) -> None:
    """Else it is under way for ever, and a crawl that ends when nothing is never does."""
    with offline_crawl(WEB, tmp_path, f"{HERE}/", **SETTINGS) as crawl:
        crawl.run()
        proxy, is_here = Proxy(crawl), [True]
        elsewhere = HostOwners(lambda _: 0, lambda _: is_here[0])
        assert crawl.crawl.committer.announced is not None
        crawl.crawl.committer.announced.owners = elsewhere
        proxy.announce(f"{HERE}/new")
        crawl._commit(CommitGroup())
        proxy.turns()
        assert crawl.crawl._open_visits == crawl.crawl.open_pages == 1
        is_here[0] = False
        proxy.answer(FROM_THE_CACHE)
        proxy.turns()
        assert crawl.crawl._open_visits == crawl.crawl.open_pages == 0
        assert not crawl.crawl.queues["a.test"].loaded
        assert (proxy.brought, proxy.counts()["refused"]) == ([], 1)


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        ({}, 1),
        ({"limits__pages_kept": 1, "refresh__keep": True}, 0),
        ({"limits__pages": 1}, 0),
        ({"courtesy__paused": ["a.test"]}, 0),
    ],
)
def test_the_collector_keeps_to_the_limits_of_the_crawl(tmp_path: Path, limits: dict[str, Any], asked: int) -> None:
    with offline_crawl(WEB, tmp_path, f"{HERE}/", **SETTINGS, **limits) as crawl:
        crawl.run()
        crawl.crawl.counts.pages = 1
        proxy = Proxy(crawl)
        proxy.announce(f"{HERE}/new")
        assert len(proxy.waiting) == asked
        assert proxy.counts().get("refused", 0) == 1 - asked


def test_signals_without_room_are_counted_and_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "MAX_RECEIVED", 10)
    looked_at: list[str] = []
    monkeypatch.setattr(proxy_collector, "canonicalize", lambda url, _: looked_at.append(url) or url)
    with offline_crawl(WEB, tmp_path, f"{HERE}/", **SETTINGS) as crawl:
        crawl.run()
        proxy = Proxy(crawl)
        proxy.collector.receive(Datagram({}, tuple(pages(30))))
        proxy.collector.receive(Datagram({}, tuple(pages(30))))
        assert len(looked_at) == 10
        assert proxy.counts()["dropped"] == 50


def test_a_node_goes_on_where_another_listens_and_nowhere_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder that is missing is no reason to hear nothing in silence."""
    with tempfile.TemporaryDirectory(prefix="teia-") as folder:
        ear = AnnouncementSocket(Path(folder) / "taken")
        for name, is_node, refusal in (
            ("taken", True, ""),
            ("taken", False, "another crawler is listening"),
            ("missing/s", True, "cannot be created"),
        ):
            settings = SETTINGS | {"signals__socket": f"{folder}/{name}"}
            with offline_crawl(WEB, tmp_path, f"{HERE}/", **settings) as crawl:
                proxy = Proxy(crawl)
                crawl.crawl.ownership = cast("Any", SimpleNamespace(gets_forwarded_signals=is_node))

                async def listen(proxy: Proxy = proxy, crawl: OfflineCrawl = crawl) -> None:
                    crawler = cast("Any", SimpleNamespace(crawls=[crawl.crawl]))
                    each = proxy.collector
                    async with run_collectors(crawler, each._fetcher, each._schedule, crawl.clock):
                        pass

                if refusal:
                    with pytest.raises(ConfigError, match=refusal):
                        asyncio.run(listen())
                else:
                    asyncio.run(listen())
                    assert "signals received by other nodes are still forwarded" in caplog.text
        ear.close()
