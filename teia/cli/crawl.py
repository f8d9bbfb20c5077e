"""`teia crawl`: seeds in, an archive and a frontier out; interrupted or killed, the same command goes on."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop

from teia.cli.exits import FAILED, INTERRUPTED
from teia.cli.options import AsJson, Data
from teia.cli.output import print_json, progress_console
from teia.cli.progress import print_summary, show_progress
from teia.clock import WallClock
from teia.config import Config
from teia.crawl.collections import configure_all
from teia.crawl.opening import open_crawler
from teia.crawl.reading import audit_of
from teia.crawl.reporting import listen
from teia.crawl.summary import Summary, summarize
from teia.store.root import Root, open_root

Rules = Annotated[list[str] | None, typer.Option(metavar="RULE", help="What belongs to it, like domain:example.org.")]
Excluded = Annotated[list[str] | None, typer.Option(metavar="RULE", help="What does not.")]
File = Annotated[Path | None, typer.Option("--config", metavar="FILE.toml", help="Settings of a new collection.")]
Name = Annotated[str | None, typer.Option("--name", "--collection", help="The collection; made if it is new.")]
MaxPages = Annotated[int | None, typer.Option(help="Stop after so many pages.")]
MaxDepth = Annotated[int | None, typer.Option(help="Follow links so many hops from a seed.")]
MaxSeconds = Annotated[float | None, typer.Option(help="Stop after so long.")]
Delay = Annotated[float | None, typer.Option(help="Seconds a server rests; 0 only for hosts that are yours.")]
OrderName = Annotated[str | None, typer.Option(help="breadth, depth or backlinks.")]
PerHost = Annotated[int | None, typer.Option(help="Requests at once to one host; more only for your own.")]
MaxHosts = Annotated[int | None, typer.Option(help="Servers visited at the same time.")]
Requisites = Annotated[bool | None, typer.Option("--requisites", help="Also fetch what pages need to be shown.")]
Resolve = Annotated[
    list[str] | None, typer.Option(metavar="PATTERN=ADDRESS[:PORT]", help="Where matching names are reached.")
]
Dns = Annotated[str | None, typer.Option(metavar="ADDRESS[:PORT]", help="The resolver to ask.")]
AllowNet = Annotated[list[str] | None, typer.Option(metavar="CIDR", help="A network the guard would refuse.")]
Cells = Annotated[int | None, typer.Option(help="Parts a new collection is split into.")]


def crawl(
    data: Data,
    seeds: Annotated[list[str] | None, typer.Argument(metavar="SEED...", help="Where to begin.")] = None,
    config: File = None,
    name: Name = None,
    max_pages: MaxPages = None,
    max_depth: MaxDepth = None,
    max_seconds: MaxSeconds = None,
    delay: Delay = None,
    order: OrderName = None,
    scope: Rules = None,
    exclude: Excluded = None,
    per_host: PerHost = None,
    max_hosts: MaxHosts = None,
    requisites: Requisites = None,
    resolve: Resolve = None,
    dns: Dns = None,
    allow_net: AllowNet = None,
    cells: Cells = None,
    as_json: AsJson = False,
) -> None:
    """Crawl from SEEDs, politely, into --data; run it again to go on where it stopped.

    RULE: host:NAME domain:NAME suffix:.br prefix:URL regex:EXPR type:text/html lang:pt query:no py:MODULE.NAME, and
    not(RULE), and(RULE, RULE). Repeated rules are "or". Example:
    teia crawl https://example.org/ --data archive --max-pages 1000
    """
    flags: dict[str, Any] = {
        "collection.seeds": seeds or None,
        "collection.cells": cells,
        "collection.order": order,
        "limits.pages": max_pages,
        "limits.seconds": max_seconds,
        "scope.max_depth": max_depth,
        "scope.include": scope or None,
        "scope.exclude": exclude or None,
        "courtesy.delay_s": delay,
        "courtesy.per_host": per_host,
        "courtesy.max_hosts": max_hosts,
        "archive.requisites": requisites,
        "fetch.resolve": resolve or None,
        "fetch.dns": dns,
        "fetch.allow_nets": allow_net or None,
    }
    crawl_with(open_root(data, create=True), name, config, flags, as_json)


def crawl_with(root: Root, name: str | None, file: Path | None, flags: dict[str, Any], as_json: bool) -> None:
    """Crawl one collection of a root with these flags, or all of them where nothing says which; and report."""
    with root.locked():
        configs = configure_all(root, name, file, os.environ, flags)
        summaries, interrupted = uvloop.run(_crawl(root, configs))
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


async def _crawl(root: Root, configs: list[Config]) -> tuple[list[Summary], bool]:
    """Crawl with a live display; returns the summaries and whether it was interrupted."""
    clock = WallClock()
    began = clock.ticks_s()
    signals: list[int] = []
    async with open_crawler(root, configs, clock, seed=int(clock.now_s())) as crawler:
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
            loop.create_task(listen(crawler, root, clock)),
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
