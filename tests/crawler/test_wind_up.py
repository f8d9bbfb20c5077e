"""A crawl that is told to stop ends, whatever it waits for, and says what it did not wait for."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import uvloop

from teia.clock import FastClock, WallClock
from teia.collections.settings import configure
from teia.crawler import loop
from teia.crawler.commit import CommitGroup, CommitResult, Committer
from teia.crawler.loop import Crawler
from teia.crawler.open_cell import Cell
from teia.crawler.running_collection import Crawl, CrawlState
from teia.crawler.start import open_crawler
from teia.crawler.visit import ActiveVisit
from teia.errors import DiskFull, StoreError
from teia.frontier.queue.ledger import Ledger
from teia.frontier.queue.schedule import HostQueue
from teia.lab.server.serve import LabServer
from teia.lab.world.exchange import ServerFault, WorldAnswer
from teia.store.archive import Stored
from teia.store.root import open_root
from teia.transfer.read_all import audit_archives, known_urls
from tests.crawler.webs import HTML, ScriptedWeb, html
from tests.waiting import until

SILENT = WorldAnswer(200, HTML, b"", delay_s=60.0, fault=ServerFault.SILENT)


def silent_web(hosts: int) -> ScriptedWeb:
    """Hosts whose servers take every question and answer none."""
    return ScriptedWeb({f"h{number}.test": {"/robots.txt": SILENT, "/": SILENT} for number in range(hosts)})


def crawl_and(
    web: ScriptedWeb, folder: Path, meanwhile: Callable[[Crawler], None], factor: float = 1.0, **settings: Any
) -> Crawler:
    """Crawl all hosts of a web from their roots; `meanwhile` is called every few milliseconds with the crawler."""

    async def work() -> Crawler:
        clock = WallClock() if factor == 1.0 else FastClock(WallClock(), factor)
        root = open_root(folder / "data", create=True)
        async with LabServer(web, clock, port=0, dns="127.77.255.91:0", log=folder / "requests.jsonl") as lab:
            flags = {
                "collection.seeds": [lab.url(host, "/") for host in web.pages],
                "collection.cells": 2,
                "scope.include": ["suffix:.test"],
                "courtesy.delay_s": 0.05,
                "courtesy.retry_wait_s": 0.1,
                "fetch.dns": lab.dns,
                "fetch.allow_nets": ["127.77.0.0/16"],
            }
            named = {key.replace("__", "."): value for key, value in settings.items()}
            config = configure(root, "main", None, {}, {**flags, **named}).config
            with root.locked():
                async with asyncio.timeout(40), open_crawler(root, [config], clock, seed=1) as crawler:
                    running = asyncio.create_task(crawler.run())
                    while not running.done():
                        meanwhile(crawler)
                        await asyncio.wait([running], timeout=0.01)
                    await running
                    return crawler

    folder.mkdir(exist_ok=True)
    return uvloop.run(work())


def when(true: Callable[[Crawler], bool], deed: Callable[[Crawler], None]) -> Callable[[Crawler], None]:
    """Do something once, when something has become true."""
    done: list[bool] = []

    def look(crawler: Crawler) -> None:
        if not done and true(crawler):
            done.append(True)
            deed(crawler)

    return look


@contextmanager
def no_damage(data: Path) -> Iterator[Counter[str]]:
    """Yield the states of a collection's URLs, after its archive was read whole."""
    root = open_root(data)
    audit = audit_archives(root, "main")
    assert not audit.violations, audit.details
    yield Counter(each["state"] for each in known_urls(root, "main"))


def test_a_stop_while_no_server_answers_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Rests were all that was left, nobody committed them and nobody left: minutes of nothing, SIGTERM ignored."""
    asked = when(lambda crawler: crawler._fetcher.in_flight == 40, Crawler.stop_now)
    crawler = crawl_and(silent_web(40), tmp_path, asked, courtesy__delay_s=60.0)
    assert "stopped without waiting for 40 requests in progress and 0 pages that were not parsed yet" in caplog.text
    (crawl,) = crawler.crawls
    assert crawl.state is CrawlState.STOPPED
    assert not crawl.has_uncommitted
    ledger = Ledger(tmp_path / "data" / "ledger.sqlite")
    assert {rest.name for rest in ledger.all_entries() if rest.kind == "server"} >= {f"h{n}.test" for n in range(40)}
    assert ledger.open(), "it was closed cleanly"
    ledger.close(clean=True, now_s=time.time())


@pytest.mark.parametrize("stop", [Crawler.stop, Crawler.stop_now])
def test_a_stop_with_one_host_on_a_long_retry_after_and_nothing_else_to_do_ends(
    tmp_path: Path, stop: Callable[[Crawler], None]
) -> None:
    """SIGINT once, SIGTERM once and SIGINT twice each left the crawl running for minutes."""
    busy = WorldAnswer(503, HTML + b"Retry-After: 80000\r\n", b"busy")
    web = ScriptedWeb({"a.test": {"/": busy}})

    def waits(crawler: Crawler) -> bool:
        return crawler._schedule.politeness.server("a.test").last_delay_s > 79_000 and not crawler._fetcher.in_flight

    crawler = crawl_and(web, tmp_path, when(waits, stop))
    assert crawler.crawls[0].state is CrawlState.STOPPED
    with no_damage(tmp_path / "data") as states:
        assert states == {"queued": 1}
    ledger = Ledger(tmp_path / "data" / "ledger.sqlite")
    (delay,) = [each for each in ledger.all_entries() if each.kind == "server"]
    ledger.close(clean=True, now_s=time.time())
    assert delay.ready_at_s > time.time() + 79_000, "the next start waits as long"


def test_a_commit_of_a_stop_makes_true_what_was_learnt_and_begins_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[bool] = []
    planned: list[bool] = []
    commit, plan, refill = Committer.commit, Committer._plan, Committer._refill

    def note_commit(self: Committer, group: CommitGroup) -> CommitResult:
        commits.append(self.is_winding_up)
        return commit(self, group)

    def noted(deed: Callable[..., Any]) -> Callable[..., Any]:
        def do(*arguments: Any) -> Any:
            planned.append(commits[-1])
            return deed(*arguments)

        return do

    monkeypatch.setattr(Committer, "commit", note_commit)
    monkeypatch.setattr(Committer, "_plan", noted(plan))
    monkeypatch.setattr(Committer, "_refill", noted(refill))
    links = html(*[f"/{n}" for n in range(300)])
    web = ScriptedWeb({f"h{n}.test": {"/": links} | {f"/{n}": html() for n in range(300)} for n in range(10)})
    has_read = when(
        lambda crawler: crawler.crawls[0].counts.pages > 20 and crawler._fetcher.in_flight > 0, Crawler.stop
    )
    crawler = crawl_and(web, tmp_path, has_read)
    assert True in commits, "something was learnt"
    assert planned.count(False) > 10
    assert True not in planned
    assert not crawler.crawls[0].has_uncommitted


def test_a_stop_that_waits_for_nothing_names_what_it_has_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Every request that servers have seen is committed, or named; with nothing to name there is no line."""
    started: list[str] = []
    start = Crawler._start

    def note(self: Crawler, crawl: Crawl, queue: HostQueue, *others: Any) -> None:
        started.append(queue.host)
        start(self, crawl, queue, *others)

    monkeypatch.setattr(Crawler, "_start", note)
    pages = {"/": html(*[f"/{n}" for n in range(50)])} | {f"/{n}": html() for n in range(50)}
    web = ScriptedWeb({f"good{n}.test": pages for n in range(20)} | dict(silent_web(5).pages))
    has_read = when(
        lambda crawler: crawler.crawls[0].counts.pages > 20 and crawler._fetcher.in_flight >= 5, Crawler.stop_now
    )
    crawler = crawl_and(web, tmp_path / "cut", has_read, courtesy__delay_s=0.01)
    (line,) = [each.getMessage() for each in caplog.records if "without waiting" in each.getMessage()]
    unanswered, unread = map(int, re.findall(r"\d+", line))
    assert unanswered >= 5
    assert len(started) == crawler.crawls[0].counts.requests + unanswered + unread
    caplog.clear()
    crawl_and(ScriptedWeb({"a.test": {"/": html()}}), tmp_path / "whole", lambda _: None)
    assert "without waiting" not in caplog.text


def test_a_commit_that_does_not_end_is_left_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop, "COMMIT_S", 0.3)
    is_stuck, may_go = Event(), Event()
    archive, left = Committer._archive, list[Committer]()

    def hang(self: Committer, cell: Cell, visits: Iterable[ActiveVisit]) -> dict[ActiveVisit, tuple[Stored, ...]]:
        """Append a group and sync it, which takes long; then go on as if nothing had been."""
        stored = archive(self, cell, visits)
        if cell.frontier.known > 3 and not is_stuck.is_set():
            is_stuck.set()
            may_go.wait(30)
            left.append(self)
        return stored

    monkeypatch.setattr(Committer, "_archive", hang)
    pages = {"/": html(*[f"/{n}" for n in range(50)])} | {f"/{n}": html() for n in range(50)}
    web = ScriptedWeb(dict.fromkeys(("a.test", "b.test", "c.test"), pages))
    try:
        with pytest.raises(StoreError, match=r"a commit did not complete within .* check the disk"):
            crawl_and(web, tmp_path, when(lambda _: is_stuck.is_set(), Crawler.stop))
        assert "may_go.wait(30)" in caplog.text, "the log says where the commit hangs"
        may_go.set()
        until(lambda: not any(each.name.startswith("commit") for each in threading.enumerate()))
    finally:
        may_go.set()
    (committer,) = left  # it went on after the crawl had left it
    for cell in committer.cells:
        cell.close()
    committer._ledger.close(clean=False, now_s=time.time())
    with no_damage(tmp_path / "data") as known:
        assert known["done"] > 1, "what the late commit made true is there, and its records too"


def stop_on_a_slow_disk(monkeypatch: pytest.MonkeyPatch, commit_s: float) -> Callable[[Crawler], None]:
    """Return a function that stops a crawl; every commit after that takes so long."""
    stopped, commit = Event(), Committer.commit

    def take_long(self: Committer, group: CommitGroup) -> CommitResult:
        if stopped.is_set():
            time.sleep(commit_s)  # a slow disk
        return commit(self, group)

    def stop(crawler: Crawler) -> None:
        stopped.set()
        crawler.stop()

    monkeypatch.setattr(Committer, "commit", take_long)
    return stop


def test_commits_that_succeed_slowly_are_all_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit for commits that fail was counted from the stop: pages and delays were dropped on a slow disk."""
    monkeypatch.setattr(loop, "SETTLE_S", 0.2)
    stop = stop_on_a_slow_disk(monkeypatch, 0.4)
    pages = {"/": html(*[f"/{n}" for n in range(50)])} | {f"/{n}": html() for n in range(50)}
    web = ScriptedWeb(dict.fromkeys(("a.test", "b.test", "c.test"), pages))
    crawler = crawl_and(web, tmp_path, when(lambda crawler: crawler.crawls[0].counts.pages > 5, stop))
    assert not crawler.crawls[0].has_uncommitted


def test_a_fast_clock_leaves_the_disk_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock 16,000 times as fast a commit of 2 ms after a stop "did not complete within 30 s" (experiment C7)."""
    stop = stop_on_a_slow_disk(monkeypatch, 0.2)
    factor = 16_000.0
    # Time-outs that are as long as on a slow clock.
    slow = {"limits__slow_s": 15 * factor, "limits__parse_cpu_s": 10 * factor, "commit__every_s": 0.05 * factor}
    web = ScriptedWeb({"a.test": {"/": html(*[f"/{n}" for n in range(50)])} | {f"/{n}": html() for n in range(50)}})

    def has_read(crawler: Crawler) -> bool:
        (crawl,) = crawler.crawls
        return crawl.uncommitted_visits > 0 and not crawl.is_committing

    crawler = crawl_and(web, tmp_path, when(has_read, stop), factor, **slow, courtesy__delay_s=0.01 * factor)
    assert not crawler.crawls[0].has_uncommitted


def test_delays_are_kept_when_a_commit_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that asked to be left alone for an hour was requested again after a few seconds."""
    commit = Committer.commit

    def refuse(self: Committer, group: CommitGroup) -> CommitResult:
        if any(visit.outcome == "503" for visit in group.visits):
            raise StoreError("the disk failed")
        return commit(self, group)

    monkeypatch.setattr(Committer, "commit", refuse)
    busy = WorldAnswer(503, HTML + b"Retry-After: 3600\r\n", b"busy")
    web = ScriptedWeb({"a.test": {"/": busy}})
    with pytest.raises(StoreError, match="the disk failed"):
        crawl_and(web, tmp_path, lambda _: None)
    ledger = Ledger(tmp_path / "data" / "ledger.sqlite")
    (rest,) = [each for each in ledger.all_entries() if each.kind == "server"]
    ledger.close(clean=False, now_s=time.time())
    assert rest.ready_at_s > time.time() + 3_000


def test_commits_that_fail_are_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop, "SETTLE_S", 0.3)
    full = Event()
    commit = Committer.commit

    def refuse(self: Committer, group: CommitGroup) -> CommitResult:
        if full.is_set() and group.visits:
            raise DiskFull("no room in the data folder; make some")
        return commit(self, group)

    monkeypatch.setattr(Committer, "commit", refuse)

    def stop(crawler: Crawler) -> None:
        crawler.crawls[0].state = CrawlState.LIMIT  # a crawl at its limit does not pause

    web = ScriptedWeb({"a.test": {"/": html(*[f"/{n}" for n in range(50)])} | {f"/{n}": html() for n in range(50)}})
    got_pages = when(lambda crawler: crawler.crawls[0].counts.pages > 3, lambda _: full.set())
    stopping = when(lambda crawler: full.is_set() and crawler.crawls[0].uncommitted_visits > 0, stop)

    def meanwhile(crawler: Crawler) -> None:
        got_pages(crawler)
        stopping(crawler)

    with caplog.at_level(logging.WARNING):
        crawler = crawl_and(web, tmp_path, meanwhile)
    assert crawler.crawls[0].has_uncommitted
    (said,) = [each.getMessage() for each in caplog.records if "stopped with" in each.getMessage()]
    assert "no room in the data folder" in said
    monkeypatch.undo()
    states = Counter(each["state"] for each in known_urls(open_root(tmp_path / "data"), "main"))
    assert states["done"] == crawler.crawls[0].counts.pages
    assert states["queued"] == 51 - states["done"], "what was not committed is still queued"
