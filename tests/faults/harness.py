"""Crawls of a small web under the shim, each in a forked child: `python -m tests.faults.harness`, JSON lines both ways.

The crawler is the real one, from `open_crawler` to its last commit: frontier, archive, ledger, control. What has no
files is done in this process, so that hundreds of crawls take minutes: pages come from a table, and are read by the
job of the parse children without children. A group counts as *acknowledged* when the crawl has been told that it is
committed; the child writes its URLs into a pipe at that instant.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from teia.clock import Clock, WallClock
from teia.collections import control_file
from teia.collections.poll_requests import drop_stale_requests, serve_requests
from teia.collections.settings import configure
from teia.config.sections import Config
from teia.crawler import commit, loop
from teia.crawler import start as crawler_start
from teia.crawler.child.read_answer import read
from teia.crawler.lookup import Lookup
from teia.crawler.running_collection import Crawl
from teia.crawler.upkeep import closed_files
from teia.errors import TeiaError
from teia.fetch.fetcher import FetchRequest
from teia.frontier import log_mover
from teia.frontier.cell.cell import FrontierCell
from teia.indexer import indexer, process
from teia.indexer.rebuild import audit_index
from teia.parse.children.child import LostAnswer
from teia.records import Fetched
from teia.store.closed_file import Description, describe
from teia.store.root import Root, open_root
from teia.transfer.read_all import audit_archives, audit_fetch_log, known_urls, stored_records
from teia.transfer.removal import remove
from teia.urls import site_of

HOSTS, PAGES = ("a.test", "b.test", "c.test"), 10
FILE_BYTES = 6_000
"""Archive files are small, so that some are closed and begun."""

CRAWL_S = 40.0
"""A crawl of thirty pages that takes longer hangs."""

LOG_BYTES = 60_000, 120_000
"""Sizes from which a log is moved, and at which commits wait for that: in a power loss, some logs are being moved."""

TIDY_EVERY_S, TIDY_BYTES = 0.02, 30_000
"""Interval in which smaller logs are moved or truncated, and their size."""

FEW_CHANGES = 5
REMOVED = ["http://b.test/1", "c.test"]
"""A page, and a whole site."""

PATIENCE = 3
"""Commits that fail until somebody kills a crawl."""

HEAD = b"HTTP/1.1 %d %s\r\nContent-Type: %s\r\n\r\n"


def page(host: str, number: int) -> bytes:
    """A page with words of its own, links to pages of its host and one to another host."""
    others = [f"/{2 * number + 1}", f"/{2 * number + 2}"] if 2 * number + 2 < PAGES else []
    others += [f"http://{HOSTS[(HOSTS.index(host) + 1) % len(HOSTS)]}/{number}"]
    links = " ".join(f'<a href="{url}">on to {url}</a>' for url in others)
    words = " ".join(f"word{host[0]}{number}x{at}" for at in range(40))
    return f"<html><head><title>{host} {number}</title></head><body><p>{words}</p>{links}".encode()


def web() -> dict[str, bytes]:
    """Every page by its URL; the first of a host is number 0."""
    return {f"http://{host}/{number or ''}": page(host, number) for host in HOSTS for number in range(PAGES)}


class TableFetcher:
    """Answers from a table, a moment after they were asked for; `asked` is what was."""

    answer_s = 0.001

    def __init__(self, pages: Mapping[str, bytes], clock: Clock) -> None:
        self._pages, self._clock = pages, clock
        self._under_way: dict[int, asyncio.Task[None]] = {}
        self.asked: list[str] = []

    @property
    def in_flight(self) -> int:
        return len(self._under_way)

    def start(self, request: FetchRequest, done: Callable[[Fetched], None]) -> None:
        self.asked.append(request.url)
        number, began_s = len(self.asked), self._clock.now_s()

        async def answer() -> None:
            await asyncio.sleep(self.answer_s)  # the time that an answer takes
            del self._under_way[number]
            body = self._pages.get(request.url)
            status, words = (404, b"Not Found") if body is None else (200, b"OK")
            head = HEAD % (status, words, b"text/html; charset=utf-8")
            ended_s = self._clock.now_s()
            done(Fetched(request.url, str(status), status, began_s, ended_s, head=head, body=body or b"nothing here"))

        self._under_way[number] = asyncio.get_running_loop().create_task(answer())

    async def close(self) -> None:
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)


class ReadingPool:
    """The job of the parse children, done here."""

    def __init__(self, *_: object) -> None:
        self.waiting = self.waiting_bytes = 0
        self.trouble, self.is_probing = "", False
        self._is_closed = False

    async def start(self) -> None:
        pass

    def submit(self, *parts: bytes, done: Callable[[bytes | LostAnswer], None]) -> None:
        self.waiting += 1

        def answer() -> None:
            self.waiting -= 1
            done(LostAnswer("closed") if self._is_closed else read(b"".join(parts)))

        asyncio.get_running_loop().call_soon(answer)

    async def close(self) -> None:
        self._is_closed = True


async def describe_here(path: Path) -> Description:
    return describe(path)


def config_of(root: Root, name: str = "main") -> Config:
    flags = {
        "collection.seeds": ["http://a.test/"],
        "collection.cells": 2,
        "scope.include": ["suffix:.test"],
        "courtesy.delay_s": 0.0,
        "commit.every_pages": 6,
        "fetch.resolve": ["*.test=127.77.93.1"],
        "fetch.allow_nets": ["127.77.0.0/16"],
        "limits.disk_free_bytes": 0,
        "index.semantics": False,
    }
    config = configure(root, name, None, {}, flags).config
    return replace(config, archive=replace(config.archive, file_bytes=FILE_BYTES))


class JsonLines:
    """The way out of a child: each line is JSON, written at once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __call__(self, **what: Any) -> None:
        os.write(self._descriptor, json.dumps(what).encode() + b"\n")


async def crawl(root: Root, told: JsonLines, *, dies: bool) -> None:
    """Crawl to the end. With `dies` a commit that fails is the last thing this process does, as if it were killed.

    A crawl waits for room as long as there is none; the third commit in a row that finds none is its last here.
    """
    clock, config = WallClock(), config_of(root)
    drop_stale_requests(root, clock)
    fetchers: list[TableFetcher] = []

    def fetcher(_guard: object, _limits: object, clock: Clock, *_: object, **__: object) -> TableFetcher:
        fetchers.append(TableFetcher(web(), clock))
        return fetchers[-1]

    crawler_start.CurlFetcher, crawler_start.ChildPool = fetcher, ReadingPool  # type: ignore[assignment,misc]
    closed_files._describe, closed_files.CHECK_S = describe_here, 0.01  # type: ignore[assignment]
    loop.DISK_RETRY_S = loop.DISK_CHECK_S = 0.05
    control_file.SPARE_BYTES = 16_384  # hundreds of writes that differ in nothing
    committed, failed, failures = Crawl.apply_commit, loop.Crawler._handle_commit, list[str]()
    acknowledged: list[int] = []

    def acknowledge(self: Crawl, *given: Any) -> Any:
        assert self._group is not None
        told(acknowledged=[[each.item.url, each.outcome, each.item.purpose] for each in self._group.settled])
        acknowledged.append(len(self._group.settled))
        ctypes.CDLL(None).trace_mark(ctypes.c_long(sum(acknowledged)))
        return committed(self, *given)

    def look(self: loop.Crawler, crawl: Crawl, done: asyncio.Future[Any]) -> None:
        error = done.exception()
        if error is not None:
            failures.append(f"{type(error).__name__}: {error}")
            told(failed=failures[-1])
            if dies or len(failures) >= PATIENCE:
                os._exit(9)
        failed(self, crawl, done)

    Crawl.apply_commit, loop.Crawler._handle_commit = acknowledge, look  # type: ignore[method-assign]
    try:
        async with asyncio.timeout(CRAWL_S), crawler_start.open_crawler(root, [config], clock, seed=1) as crawler:
            listening = asyncio.create_task(serve_requests(crawler, root, clock))
            try:
                await crawler.run()
            finally:
                listening.cancel()
                (heard,) = await asyncio.gather(listening, return_exceptions=True)
                if isinstance(heard, TeiaError):
                    told(deaf=str(heard))
            told(state=crawler.crawls[0].state)
    finally:
        told(asked=[url for each in fetchers for url in each.asked])


async def look_at(root: Root, told: JsonLines) -> None:
    """Everything that can be said of the folder: its URLs, what every copy is, its audits."""
    clock = WallClock()
    following = process.CollectionFollower(root, "main", clock)
    try:
        await following.finish()
    finally:
        await following.close()
    urls = {each["url"]: [each["state"], each["outcome"], each["digest"]] for each in known_urls(root, "main")}
    with Lookup(root, "main") as lookup:
        copies = {url: lookup.capture(url).status for url, (state, *_) in urls.items() if state == "done"}
    records = 0
    for folder in root.collection("main").cells():
        cell = FrontierCell(folder.frontier, read_only=True)
        records += stored_records(cell)
        cell.close()
    audits = {
        "archive": audit_archives(root, "main"),
        "politeness": audit_fetch_log(root, "main", config_of(root).courtesy),
        "index": audit_index(root, "main"),
    }
    complaints = {kind: list(audit.details[:5]) for kind, audit in audits.items() if audit.violations}
    told(urls=urls, copies=copies, complaints=complaints, records=records, checked=audits["archive"].checked)


async def make_index(root: Root) -> None:
    """Index a crawl, with a commit after every few pages."""
    indexer.STEP_CHANGES = FEW_CHANGES
    following = process.CollectionFollower(root, "main", WallClock())
    try:
        while await following.step():
            following.commit()
        await following.finish()
    finally:
        await following.close()


# ---- the process ----------------------------------------------------------------------------------------------------


def child(order: Mapping[str, Any], told: JsonLines) -> None:
    """Do one order in a process of its own."""
    shim, fault = ctypes.CDLL(None), order.get("fault")
    if fault is not None:
        texts = [fault[key].encode() for key in ("path", "deeds", "log")]
        shim.fault_set(texts[0], texts[1], ctypes.c_long(fault["nth"]), fault["error"], fault["sticky"], texts[2])
    if "trace" in order:
        folder = next(order[each] for each in ("crawl", "index", "remove") if each in order)
        shim.trace_set(folder.encode(), order["trace"].encode())
        log_mover.MOVE_FROM_BYTES, log_mover.MAX_LOG_BYTES = LOG_BYTES
        commit.TIDY_EVERY_S, commit.LOG_BYTES = TIDY_EVERY_S, TIDY_BYTES
    try:
        if "crawl" in order:
            root = open_root(Path(order["crawl"]), create=True)
            with root.locked():
                asyncio.run(crawl(root, told, dies=order.get("dies", False)))
        if "index" in order:
            asyncio.run(make_index(open_root(Path(order["index"]))))
            told(state="finished")
        if "remove" in order:
            root = open_root(Path(order["remove"]))
            done = remove(root, "main", REMOVED, "a power loss", WallClock(), dry_run=False)
            told(state="finished", is_proven=done.is_proven)
    except TeiaError as error:
        told(error=str(error), kind=type(error).__name__)
    except BaseException as error:  # noqa: BLE001  # it is what the bench looks for
        told(crash="".join(traceback.format_exception(error))[-4_000:])
    finally:
        told(count=shim.fault_count(), fired=shim.fault_fired())
        shim.fault_set(b"", b"", 0, 0, 0, b"")
    if "look" in order:
        try:
            asyncio.run(look_at(open_root(Path(order["look"])), told))
        except Exception as error:  # noqa: BLE001
            told(crash="".join(traceback.format_exception(error))[-4_000:])


def done_in_child(order: Mapping[str, Any]) -> dict[str, Any]:
    """Fork, wait, and put together what the child told."""
    mine, its = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(mine)
        try:
            child(order, JsonLines(its))
        finally:
            os._exit(0)
    os.close(its)
    text, result = b"", dict[str, Any](acknowledged=[], failed=[])
    while True:
        ready, _, _ = select.select([mine], [], [], 2 * CRAWL_S)
        if not ready:
            os.kill(pid, signal.SIGKILL)
            result["crash"] = "it hangs"
        if not (some := os.read(mine, 1 << 20)):
            break
        text += some
    os.close(mine)
    os.waitpid(pid, 0)
    for line in text.splitlines():
        for key, value in json.loads(line).items():
            if key == "acknowledged":
                result[key] += value
            elif key == "failed":
                result[key].append(value)
            else:
                result[key] = value
    return result


NEEDED_LATER = (
    "nacl.bindings", "teia.collections.calendar", "teia.frontier.traps.watch", "teia.index._stems",
    "teia.parse.text.folding", "tomlkit",
)  # fmt: skip
"""Modules that a crawl, an indexer or a removal imports when it comes to them."""


def prepare() -> None:
    """Have at hand what every child would read anew: half of its work is to import modules and to build tables."""
    for name in NEEDED_LATER:
        importlib.import_module(name)
    site_of(HOSTS[0])
    gc.collect()
    gc.freeze()


def main() -> None:
    prepare()
    for line in sys.stdin:
        print(json.dumps(done_in_child(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
