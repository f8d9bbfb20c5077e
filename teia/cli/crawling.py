"""What `teia crawl` does when it has read its flags: the crawl with its display, signals and summary."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import typer
import uvloop

from teia.cli.advice import about_contact, got_nowhere, next_steps
from teia.cli.crawl import When
from teia.cli.exits import FAILED, INTERRUPTED
from teia.cli.output import print_json, progress_console
from teia.cli.progress import finish_index, print_summary, show_progress
from teia.clock import WallClock
from teia.config import Config
from teia.crawl.collections import choose, configure, configure_all, saved
from teia.crawl.companion import Companion
from teia.crawl.courier_keeper import CourierKeeper
from teia.crawl.opening import open_crawler
from teia.crawl.reading import audit_of
from teia.crawl.reporting import last_change, listen
from teia.crawl.summary import Summary, summarize
from teia.errors import UsageError
from teia.parse.spawn import ZygoteProcess
from teia.store.root import Root


def crawl_and_report(
    root: Root,
    name: str | None,
    file: Path | None,
    flags: dict[str, Any],
    as_json: bool,
    zygote: ZygoteProcess,
    when: When = When.AS_CONFIGURED,
) -> None:
    """Crawl one collection of a root with these flags, or all of them where nothing says which; and report."""
    since = last_change(root)
    if when is When.SCHEDULED:
        _check_scheduled(root, name)
        _serve(root, partial(_scheduled, root, name), flags, as_json, zygote, when)
        return
    if when is When.AS_ORDERED:
        _serve(root, root.collections, flags, as_json, zygote, when)
        return
    configs = configure_all(root, name, file, os.environ, flags)
    if when is When.NOW or any(config.schedule.start for config in configs):
        _serve(root, lambda: [config.collection.name for config in configs], flags, as_json, zygote, when)
        return
    summaries, interrupted = uvloop.run(_crawl_and_index(root, configs, zygote, since))
    audits = [audit_of(root, config.collection.name, config.courtesy) for config in configs]
    accounts = [
        {**asdict(summary), "politeness_violations": audit.violations}
        for summary, audit in zip(summaries, audits, strict=True)
    ]
    console = progress_console()
    for config, account in zip(configs, accounts, strict=True):
        print_summary(account, console)
        for line in next_steps(root, config, account):
            console.print(f"  next: {line}", soft_wrap=True, markup=False)
    for line in filter(None, {about_contact(config.courtesy) for config in configs}):
        console.print(f"note: {line}", soft_wrap=True, markup=False)
    if as_json:
        print_json(accounts[0] if len(accounts) == 1 else {"collections": accounts})
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if any(map(got_nowhere, accounts)):
        raise typer.Exit(FAILED)


def _serve(
    root: Root,
    names: Callable[[], Sequence[str]],
    flags: dict[str, Any],
    as_json: bool,
    zygote: ZygoteProcess,
    when: When,
) -> None:
    """Let a coordinator crawl; flags hold for all it does, but for seeds, which the collections have by now."""
    from teia.cli.scheduled import serve_and_report  # loads numpy, which a plain crawl does without

    def read(name: str) -> Config:
        return configure(root, name, None, os.environ, {**flags, "collection.seeds": None}).config

    is_resident = when is When.AS_ORDERED
    serve_and_report(root, names, read, as_json, zygote, at_once=when is When.NOW, is_resident=is_resident)


def _scheduled(root: Root, name: str | None) -> list[str]:
    """The collections with a schedule, of all there are or of the one that is named."""
    names = [choose(root, name)] if name is not None else root.collections()
    return [each for each in names if saved(root, each).config.schedule.start]


def _check_scheduled(root: Root, name: str | None) -> None:
    if not _scheduled(root, name):
        raise UsageError(
            f"no collection in {root.path} has a schedule;"
            f' `teia set schedule.start="2026-11-21 02:00" --data {root.path}` gives it one'
        )


async def _crawl_and_index(
    root: Root, configs: list[Config], zygote: ZygoteProcess, since: int
) -> tuple[list[Summary], bool]:
    """Crawl with an indexer beside; when the crawl has ended by itself, wait until all of it can be searched."""
    companion = await Companion.start(root, configs)
    courier = CourierKeeper(root, WallClock())
    courier.start()
    is_hurried = True
    try:
        summaries, signals = await _crawl(root, configs, zygote, since)
        interrupted, is_hurried = signal.SIGINT in signals, bool(signals)
        if companion is None:
            return summaries, interrupted
        clock = WallClock()
        ended = clock.ticks_s()
        if not interrupted:
            await finish_index(companion, progress_console())
        index_s = round(clock.ticks_s() - ended, 3)
        indexed = companion.indexed
        accounts = [replace(each, indexed=indexed.get(each.collection, 0), index_seconds=index_s) for each in summaries]
        return accounts, interrupted
    finally:
        if companion is not None:
            await companion.leave()
        await asyncio.to_thread(courier.stop, is_hurried=is_hurried)  # now that all of it can be searched


async def _crawl(
    root: Root, configs: list[Config], zygote: ZygoteProcess, since: int
) -> tuple[list[Summary], list[int]]:
    """Crawl with a live display; returns the summaries and the signals by which somebody ended it.

    `since` is the newest change of settings when these were read.
    """
    clock = WallClock()
    began = clock.ticks_s()
    signals: list[int] = []
    async with open_crawler(root, configs, clock, seed=int(clock.now_s()), zygote=zygote) as crawler:
        loop = asyncio.get_running_loop()

        def interrupted(number: int) -> None:
            signals.append(number)
            if len(signals) == 1:
                crawler.stop()
            else:
                crawler.hurry()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupted, number)
        beside = [
            loop.create_task(show_progress(crawler, clock, progress_console())),
            loop.create_task(listen(crawler, root, clock, since)),
        ]
        try:
            await crawler.run()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
        seconds = clock.ticks_s() - began
        return [summarize(crawl, seconds) for crawl in crawler.crawls], signals
