"""A web written line by line for one test, served by the lab's server, and a crawl of it in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from teia.clock import WallClock
from teia.collections.poll_requests import drop_stale_requests, serve_requests
from teia.collections.settings import configure
from teia.config.sections import Config
from teia.crawler.loop import Crawler
from teia.crawler.running_collection import Crawl
from teia.crawler.start import open_crawler
from teia.lab.server.requestlog import RequestLogEntry, read_log
from teia.lab.server.serve import LabServer
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.store.root import Root, open_root
from teia.transfer.read_all import known_urls

Page = WorldAnswer | Callable[[WorldRequest], WorldAnswer]
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"]
HTML = b"Content-Type: text/html; charset=utf-8\r\n"


@dataclass(frozen=True)
class Server:
    """What the lab's server needs to know of a name."""

    address: str


@dataclass
class ScriptedWeb:
    """Hosts and their pages; everything else is 404. Hosts without an own /robots.txt have none."""

    pages: Mapping[str, Mapping[str, Page]]
    addresses: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        hosts = enumerate(self.pages, 1)
        self.names = {host: Server(self.addresses.get(host, f"127.77.90.{number}")) for number, host in hosts}
        self.unreachable: dict[str, Server] = {}

    def answer(self, request: WorldRequest, now_s: float) -> WorldAnswer:
        page = self.pages.get(request.host, {}).get(request.target)
        if page is None:
            return WorldAnswer(404, HTML, b"<p>nothing here")
        return page(request) if callable(page) else page


def html(*links: str, text: str = "Some words about something.", head: str = "") -> WorldAnswer:
    anchors = "".join(f'<a href="{link}">to {link}</a> ' for link in links)
    return WorldAnswer(200, HTML, f"<html><head><title>T</title>{head}</head><body><p>{text}</p>{anchors}".encode())


def text_of(number: int) -> str:
    """A text that no other number has."""
    return " ".join(f"{word}{number * 100 + at}" for at, word in enumerate(WORDS * 3))


def robots(text: str) -> WorldAnswer:
    return WorldAnswer(200, b"Content-Type: text/plain\r\n", text.encode())


def redirect(to: str, status: int = 302) -> WorldAnswer:
    return WorldAnswer(status, HTML + f"Location: {to}\r\n".encode(), b"<p>moved")


@dataclass
class Crawled:
    """What came of a crawl: the crawls as they ended, what the server saw, and what is on disk."""

    crawls: list[Crawl]
    entries: list[RequestLogEntry]
    data: Path
    port: int = 0

    def outcomes(self, collection: str = "main") -> dict[str, str | None]:
        """Outcome by URL, without scheme and port."""
        urls = known_urls(open_root(self.data), collection)
        return {_short(each["url"]): each["outcome"] for each in urls}

    def requested(self) -> list[str]:
        return [entry.host + entry.path for entry in self.entries]


def _short(url: str) -> str:
    host, slash, path = url.partition("://")[2].partition("/")
    return host.partition(":")[0] + slash + path


def crawl_web(
    web: ScriptedWeb,
    folder: Path,
    *seeds: str,
    collections: Mapping[str, Mapping[str, Any]] | None = None,
    port: int = 0,
    meanwhile: Callable[[Root], None] | None = None,
    within_s: float = 110.0,
    again: bool = False,
    **settings: Any,
) -> Crawled:
    """Crawl a scripted web to the end; `settings` are dotted keys with `__` for the dot.

    To go on with the same URLs, a second crawl takes the `port` of the first. `meanwhile` is called in a thread of its
    own, with a crawler that listens to commands; what it raises is raised here. `again` visits all known pages.
    """
    folder.mkdir(exist_ok=True)
    flags = {key.replace("__", "."): value for key, value in settings.items()}
    return uvloop.run(_crawl(web, folder, seeds, collections or {"main": {}}, flags, port, meanwhile, within_s, again))


async def _crawl(
    web: ScriptedWeb,
    folder: Path,
    seeds: tuple[str, ...],
    collections: Mapping[str, Mapping[str, Any]],
    flags: Mapping[str, Any],
    port: int,
    meanwhile: Callable[[Root], None] | None,
    within_s: float,
    again: bool,
) -> Crawled:
    clock, log = WallClock(), folder / "requests.jsonl"
    root = open_root(folder / "data", create=True)
    async with LabServer(web, clock, port=port, dns="127.77.255.90:0", log=log) as lab:
        configs: list[Config] = []
        drop_stale_requests(root, clock)
        for name, own in collections.items():
            shared = {
                "collection.seeds": [lab.url(*_host_and_path(seed)) for seed in seeds],
                "collection.cells": 2,
                "scope.include": ["suffix:.test"],
                "courtesy.delay_s": 0.05,
                "courtesy.retry_wait_s": 0.1,
                "fetch.dns": lab.dns,
                "fetch.allow_nets": ["127.77.0.0/16"],
            }
            configs.append(configure(root, name, None, {}, {**shared, **flags, **own}).config)
        with root.locked():
            since_s = dict.fromkeys(collections, clock.now_s()) if again else {}
            async with open_crawler(root, configs, clock, seed=1, since_s=since_s) as crawler:
                async with asyncio.timeout(within_s), listening(crawler, root, clock, meanwhile):
                    await crawler.run()
                crawls = list(crawler.crawls)
    return Crawled(crawls, read_log(log), folder / "data", lab.port)


@asynccontextmanager
async def listening(
    crawler: Crawler, root: Root, clock: WallClock, meanwhile: Callable[[Root], None] | None
) -> AsyncIterator[None]:
    """Let somebody talk to a crawler while it runs."""
    if meanwhile is None:
        yield
        return
    listener = asyncio.create_task(serve_requests(crawler, root, clock))
    talker = asyncio.create_task(asyncio.to_thread(meanwhile, root))
    try:
        yield
        await talker
    finally:
        listener.cancel()
        await asyncio.wait([listener, talker])


def _host_and_path(seed: str) -> tuple[str, str]:
    host, slash, path = seed.partition("/")
    return host, slash + path or "/"
