"""A crawl without network and without time: the real frontier, the real reading of pages and the real commit, one page
after the other. So the order in which pages are taken is exact, on any machine.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from teia.clock import VirtualClock
from teia.collections.settings import configure
from teia.config.sections import Config
from teia.crawler.child.messages import decode_result, encode
from teia.crawler.child.read_answer import read
from teia.crawler.commit import CommitGroup, CommitResult
from teia.crawler.running_collection import Crawl
from teia.crawler.start import open_crawls
from teia.crawler.verdicts import task_for
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.alias_evidence import requeue_first
from teia.frontier.cell.rows import FoundUrl, QueuedUrl, tail_of
from teia.frontier.queue.ledger import Ledger
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.retry import verdict
from teia.frontier.queue.schedule import HostQueue
from teia.records import Fetched
from teia.store.root import Root, open_root
from teia.urls import key_of, split

NOW_S = 1_700_000_000.0
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
SITEMAP = b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n\r\n"
FAILED = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html\r\n\r\n"
MOVED = b"HTTP/1.1 302 Found\r\nContent-Type: text/html\r\nLocation: %b\r\n\r\n"
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n"

Web = Mapping[str, str]
"""Markup by URL; `-> URL` leads there, `503` fails."""


class OfflineCrawl:
    """A collection that is crawled page by page; `taken` is what was asked for, in order."""

    def __init__(self, web: Web, crawl: Crawl, clock: VirtualClock) -> None:
        self.web = web
        self.crawl = crawl
        self.clock = clock
        self.taken: list[str] = []

    def begin(self) -> None:
        self._commit(CommitGroup(seeds=[_found(seed) for seed in self.crawl.config.collection.seeds]))

    def run(self, pages: int = 10_000, chance: random.Random | None = None) -> list[str]:
        """Take so many pages, or all there are; between hosts as the order and the waiting times say.

        With `chance` any URL that waits may be next, as if requests took very different times.
        """
        for _ in range(pages):
            waiting = self._waiting(1 if chance is None else 100)
            if not waiting:
                break
            first = min(waiting, key=lambda each: each[:2]) if chance is None else chance.choice(waiting)
            self._visit(*first[2:])
        return self.taken

    def visit_next(self, host: str) -> None:
        """Take the next page of a host."""
        _, _, queue, item = next(each for each in self._waiting(1) if each[2].host == host)
        self._visit(queue, item)

    def next_url(self, host: str) -> str:
        """The URL of a host that is next."""
        return next(url for _, url, queue, _ in self._waiting(1) if queue.host == host)

    def revisit(self, *urls: str) -> None:
        """Visit pages once more, one after the other, with all that follows."""
        for url in urls:
            asyncio.run(self.clock.advance(1.0))
            self.revisit_only(url)
            self.run()

    def revisit_only(self, *urls: str) -> None:
        """Visit pages once more, and nothing else."""
        for url in urls:
            host = split(url).host
            cell = self.crawl.committer.cells[self.crawl.committer.cell_number(host)].frontier
            with cell.transaction():
                assert requeue_first(cell, host, tail_of(url, host), self.clock.now_s()) is not None
            self.visit_next(host)

    def _waiting(self, limit: int) -> list[tuple[tuple[int, float], str, HostQueue, QueuedUrl]]:
        heads: list[tuple[tuple[int, float], str, HostQueue, QueuedUrl]] = []
        for cell in self.crawl.committer.cells:
            for host_id, host, *_ in cell.frontier.hosts_with_work():
                queue = HostQueue(host, host_id, cell.number, 0, DelayTarget(host))
                waiting = cell.frontier.next_urls(host_id, host, limit, (), self.clock.now_s())
                order = cell.frontier.order
                heads += [
                    ((order.precedence(item.lane, item.rank), item.since_s), item.url, queue, item) for item in waiting
                ]
        return heads

    def _visit(self, queue: HostQueue, item: QueuedUrl) -> None:
        self.taken.append(item.url)
        now_s = self.clock.now_s()
        markup = self.web.get(item.url)
        status, head = (404, NOT_FOUND) if markup is None else (200, SITEMAP if markup.startswith("<urlset") else HEAD)
        if markup == "503":
            status, head = 503, FAILED
        elif markup is not None and markup.startswith("-> "):
            status, head = 302, MOVED % markup[3:].encode()
        fetched = Fetched(item.url, str(status), status, now_s, now_s, head=head, body=(markup or "").encode())
        visit = ActiveVisit(queue, item, fetched=fetched)
        visit.result = decode_result(read(encode(task_for(self.crawl.read_settings, "page", item, fetched))))
        visit.outcome = visit.result.outcome
        visit.verdict = verdict(visit.outcome, item.failures, 1.0)
        self._commit(CommitGroup(visits=[visit]))

    def _commit(self, group: CommitGroup) -> CommitResult:
        asyncio.run(self.clock.advance(1.0))
        group.compiled = self.crawl.compiled
        return self.crawl.committer.commit(group)


@contextmanager
def offline_crawl(web: Web, folder: Path, *seeds: str, **settings: Any) -> Iterator[OfflineCrawl]:
    """Open a collection in the folder, as the last time left it; `settings` are dotted keys with `__` for the dot."""
    flags = {"collection.seeds": list(seeds), "collection.cells": 2, "scope.include": ["suffix:.test"]}
    flags |= {key.replace("__", "."): value for key, value in settings.items()}
    root, clock = open_root(folder / "data", create=True), VirtualClock(NOW_S)
    config = configure(root, "main", None, {}, flags).config
    with _opened(root, config, clock) as crawl:
        offline = OfflineCrawl(web, crawl, clock)
        offline.begin()
        yield offline


@contextmanager
def _opened(root: Root, config: Config, clock: VirtualClock) -> Iterator[Crawl]:
    ledger = Ledger(root.path / "ledger.sqlite")
    try:
        with root.locked(), open_crawls(root, [config], ledger, clock) as (crawl,):
            for cell in crawl.committer.cells:
                cell.watch = cell.frontier.watch = (
                    None  # what looks like a trap is held back; here the order alone decides
                )
            crawl.committer.deliver(CommitResult())
            yield crawl
    finally:
        ledger.close(clean=True, now_s=clock.now_s())


def _found(url: str) -> FoundUrl:
    host = split(url).host
    return FoundUrl(host, key_of(url), tail_of(url, host), 0, in_links=0)
