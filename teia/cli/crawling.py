"""What `teia crawl` does when it has read its flags: the crawl with its display, signals and summary."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer
import uvloop

from teia.cli.exits import FAILED, INTERRUPTED
from teia.cli.output import print_json, progress_console
from teia.cli.progress import finish_index, print_summary, show_progress
from teia.clock import WallClock
from teia.config import Config
from teia.crawl.collections import configure_all
from teia.crawl.companion import Companion
from teia.crawl.opening import open_crawler
from teia.crawl.reading import audit_of
from teia.crawl.reporting import last_change, listen
from teia.crawl.summary import Summary, summarize
from teia.parse.spawn import ZygoteProcess
from teia.store.root import Root


def crawl_and_report(
    root: Root, name: str | None, file: Path | None, flags: dict[str, Any], as_json: bool, zygote: ZygoteProcess
) -> None:
    """Crawl one collection of a root with these flags, or all of them where nothing says which; and report."""
    since = last_change(root)
    configs = configure_all(root, name, file, os.environ, flags)
    summaries, interrupted = uvloop.run(_crawl_and_index(root, configs, zygote, since))
    audits = [audit_of(root, config.collection.name, config.courtesy) for config in configs]
    accounts = [
        {**asdict(summary), "politeness_violations": audit.violations}
        for summary, audit in zip(summaries, audits, strict=True)
    ]
    for account in accounts:
        print_summary(account, progress_console())
    if as_json:
        print_json(accounts[0] if len(accounts) == 1 else {"collections": accounts})
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if any(account["failed_seeds"] and not account["requests"] for account in accounts):
        raise typer.Exit(FAILED)


async def _crawl_and_index(
    root: Root, configs: list[Config], zygote: ZygoteProcess, since: int
) -> tuple[list[Summary], bool]:
    """Crawl with an indexer beside; when the crawl has ended by itself, wait until all of it can be searched."""
    companion = await Companion.start(root, configs)
    try:
        summaries, interrupted = await _crawl(root, configs, zygote, since)
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


async def _crawl(root: Root, configs: list[Config], zygote: ZygoteProcess, since: int) -> tuple[list[Summary], bool]:
    """Crawl with a live display; returns the summaries and whether it was interrupted.

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
        return [summarize(crawl, seconds) for crawl in crawler.crawls], signal.SIGINT in signals
