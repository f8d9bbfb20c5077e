"""Main part of `teia crawl`, after its flags were read: the crawl with its display, signals and summary."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import typer
import uvloop

from teia.cli.advice import contact_hint, fetched_nothing, next_steps, what_now
from teia.cli.exits import FAILED, INTERRUPTED
from teia.cli.options import RunMode
from teia.cli.output import print_json, progress_console
from teia.cli.progress import finish_index, print_summary, show_progress
from teia.clock import WallClock
from teia.collections.account import Summary, empty_summary, summarize, with_index
from teia.collections.index_state import read_index_state
from teia.collections.poll_requests import drop_stale_requests, serve_requests
from teia.collections.settings import choose, configure, configure_all, saved
from teia.config.sections import Config
from teia.crawler.loop import Crawler
from teia.crawler.running_collection import CrawlState
from teia.crawler.start import Park, open_crawler
from teia.errors import StoreError, TeiaError, UsageError
from teia.indexer.keep_process import IndexerProcess
from teia.lib import free_memory
from teia.notify.keep_process import NotifierSupervisor
from teia.parse.children.spawn import ZygoteProcess
from teia.store.root import Root
from teia.transfer.read_all import audit_fetch_log

INDEX_S = 3.0
"""Time that a stopped crawl waits for its index."""


def crawl_and_report(
    root: Root,
    name: str | None,
    file: Path | None,
    flags: dict[str, Any],
    as_json: bool,
    zygote: ZygoteProcess,
    when: RunMode = RunMode.AS_CONFIGURED,
    *,
    is_kept: bool = True,
) -> None:
    """Crawl one collection of a root with these flags, or all if none is named; then report.

    `is_kept`: the folder stays, so that other commands on it can be proposed.
    """
    # Before the settings are read: a change in between is then applied during the crawl and not lost.
    drop_stale_requests(root, WallClock())
    if when is RunMode.SCHEDULED:
        _check_scheduled(root, name)
        _serve(root, partial(_scheduled, root, name), flags, as_json, zygote, when)
        return
    if when is RunMode.AS_ORDERED:
        _serve(root, root.collections, flags, as_json, zygote, when)
        return
    parked: dict[str, str] = {}

    def park(name: str, error: TeiaError) -> None:
        if name not in parked:
            progress_console().print(f"{name}: skipped: {error}", soft_wrap=True, markup=False)
        parked.setdefault(name, str(error))

    configs = configure_all(root, name, file, os.environ, flags, park)
    # Runs need a coordinator; a plain crawl does without.
    if when is RunMode.NOW or any(config.schedule.start for config in configs):
        _serve(root, lambda: [config.collection.name for config in configs], flags, as_json, zygote, when)
        if parked:
            raise typer.Exit(FAILED)
        return
    # The error of a single collection ends the command; of several, a broken one is parked.
    is_one = len(configs) + len(parked) == 1
    summaries, interrupted = uvloop.run(_crawl_and_index(root, configs, zygote, None if is_one else park))
    crawled = {summary.collection for summary in summaries}
    configs = [config for config in configs if config.collection.name in crawled]
    # The crawler and the page caches of its cells are gone; the audit needs room, too.
    free_memory.give_back()
    # The fetch log is replayed: the summary does not trust the crawler's own counters.
    audits = [_count_violations(root, config, parked) for config in configs]
    accounts: list[dict[str, Any]] = [
        {**asdict(summary), "politeness_violations": violations}
        for summary, violations in zip(summaries, audits, strict=True)
    ]
    console = progress_console()
    for config, account in zip(configs, accounts, strict=True):
        print_summary(account, console)
        for line in _steps(root, config, account, is_kept=is_kept):
            console.print(f"  next: {line}", soft_wrap=True, markup=False)
    for line in filter(None, {contact_hint(config.courtesy) for config in configs}):
        console.print(f"note: {line}", soft_wrap=True, markup=False)
    accounts += [{**asdict(empty_summary(each)), "paused_why": parked[each]} for each in parked if each not in crawled]
    if as_json:
        print_json(accounts[0] if len(accounts) == 1 else {"collections": accounts})
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if parked or any(map(fetched_nothing, accounts)):
        raise typer.Exit(FAILED)


def _steps(root: Root, config: Config, account: Mapping[str, Any], *, is_kept: bool) -> list[str]:
    """Return what to do next: about seeds that failed, and with the pages that were fetched."""
    steps = list(next_steps(root, config, account))
    return [*steps, what_now(root, account)] if is_kept and (account["pages"] or not steps) else steps


def _count_violations(root: Root, config: Config, parked: Mapping[str, str]) -> int:
    """Return the number of impolite requests of a collection; 0 for a parked one that cannot be read."""
    try:
        return audit_fetch_log(root, config.collection.name, config.courtesy).violations
    except StoreError:
        if config.collection.name not in parked:
            raise
        return 0


def _serve(
    root: Root,
    names: Callable[[], Sequence[str]],
    flags: dict[str, Any],
    as_json: bool,
    zygote: ZygoteProcess,
    when: RunMode,
) -> None:
    """Let a coordinator crawl; the flags apply to all its runs, except the seeds, which are saved by now."""
    from teia.cli.crawl.run_scheduled import serve_and_report  # loads numpy, which a plain crawl does without

    def read(name: str) -> Config:
        return configure(root, name, None, os.environ, {**flags, "collection.seeds": None}).config

    is_resident = when is RunMode.AS_ORDERED
    serve_and_report(root, names, read, as_json, zygote, run_now=when is RunMode.NOW, is_resident=is_resident)


def _scheduled(root: Root, name: str | None) -> list[str]:
    """Return the collections with a schedule, among all or the named one."""
    names = [choose(root, name)] if name is not None else root.collections()
    return [each for each in names if _has_schedule(root, each)]


def _has_schedule(root: Root, name: str) -> bool:
    """Tell whether a collection has a schedule; True for invalid settings, which the coordinator reports."""
    try:
        return bool(saved(root, name).config.schedule.start)
    except TeiaError:
        return True


def _check_scheduled(root: Root, name: str | None) -> None:
    if not _scheduled(root, name):
        raise UsageError(
            f'no collection in {root.path} has a schedule; set one with `teia set schedule.start="2026-11-21'
            f' 02:00" --data {root.path}`'
        )


async def _crawl_and_index(
    root: Root, configs: list[Config], zygote: ZygoteProcess, park: Park | None
) -> tuple[list[Summary], bool]:
    """Crawl with an indexer beside; when the crawl has ended by itself, wait until all of it can be searched.

    A crawl that was stopped waits for a moment only, and one that was interrupted not at all: the rest is indexed next
    time.
    """
    indexer = await IndexerProcess.start(root, configs)
    notifier = NotifierSupervisor(root, WallClock())
    notifier.start()
    signals = StopSignals()
    # Until the crawl has ended well: after an exception the notifier is not waited for.
    is_hurried = True
    try:
        summaries = await _crawl(root, configs, zygote, signals, park)
        clock = WallClock()
        ended = clock.ticks_s()
        if indexer is not None and not signals.received:
            is_stopped = all(each.state == CrawlState.STOPPED for each in summaries)
            finishing = asyncio.create_task(finish_index(indexer, progress_console()))
            await signals.wait_for(finishing, INDEX_S if is_stopped else None)
        interrupted, is_hurried = signal.SIGINT in signals.received, bool(signals.received)
        if indexer is None:
            return summaries, interrupted
        index_s = round(clock.ticks_s() - ended, 3)
        # Before the state of the index is read: the indexer must have ended.
        await indexer.kill()
        return [_with_index(root, each, index_s) for each in summaries], interrupted
    finally:
        if indexer is not None:
            await indexer.kill()
        await asyncio.to_thread(
            notifier.stop, is_hurried=is_hurried
        )  # after the index: watched searches find all pages
        signals.remove_handlers()


class StopSignals:
    """SIGINT and SIGTERM while a crawl runs, is closed and is indexed: the first stops it, the second hurries it."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self._arrived = asyncio.Event()
        self._crawler: Crawler | None = None

    def install_handlers(self, crawler: Crawler) -> None:
        """Stop this crawler at the first signal; until this call, signals have their default effect."""
        self._crawler = crawler
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, number)

    def remove_handlers(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(number)

    async def wait_for(self, task: asyncio.Task[None], limit_s: float | None = None) -> None:
        """Wait for a task until a limit or a signal; a task that is not done by then is cancelled."""
        arrival = asyncio.create_task(self._arrived.wait())
        await asyncio.wait([task, arrival], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        arrival.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
        else:
            task.result()

    def _on_signal(self, number: int) -> None:
        self.received.append(number)
        self._arrived.set()
        if self._crawler is not None and len(self.received) == 1:
            self._crawler.stop()
        elif self._crawler is not None:
            self._crawler.stop_now()


def _with_index(root: Root, summary: Summary, index_s: float) -> Summary:
    if not saved(root, summary.collection).config.index.enabled:
        return summary
    return with_index(summary, read_index_state(root.collection(summary.collection)), index_s)


async def _crawl(
    root: Root, configs: list[Config], zygote: ZygoteProcess, signals: StopSignals, park: Park | None
) -> list[Summary]:
    """Crawl with a live display."""
    clock = WallClock()
    began = clock.ticks_s()
    async with open_crawler(root, configs, clock, seed=int(clock.now_s()), zygote=zygote, park=park) as crawler:
        loop = asyncio.get_running_loop()
        signals.install_handlers(crawler)
        background_tasks = [
            loop.create_task(show_progress(crawler, clock, progress_console())),
            loop.create_task(serve_requests(crawler, root, clock)),
        ]
        try:
            await crawler.run()
        finally:
            # The display must end before the summary is printed.
            for task in background_tasks:
                task.cancel()
            await asyncio.gather(*background_tasks, return_exceptions=True)
        seconds = clock.ticks_s() - began
        for crawl in crawler.crawls:
            # Reported like a collection that could not be opened.
            if crawl.failure is not None and park is not None:
                park(crawl.name, crawl.failure)
        return [summarize(crawl, seconds) for crawl in crawler.crawls]
