"""What a person sees while a crawl runs, and when it has ended. All of it goes to standard error."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from teia.clock import Clock
from teia.collections.account import Summary, summarize
from teia.collections.run_log import in_words
from teia.crawler.loop import Crawler
from teia.indexer.companion import Companion

REFRESH_S = 0.5
PLAIN_REFRESH_S = 10.0


async def show_progress(crawler: Crawler, clock: Clock, console: Console) -> None:
    """Show how the crawl stands until cancelled: a live table on a terminal, a line now and then elsewhere."""
    began = clock.ticks_s()
    if not console.is_terminal:
        while True:
            await clock.sleep(PLAIN_REFRESH_S)
            for crawl in crawler.crawls:
                console.print(one_line(summarize(crawl, clock.ticks_s() - began)), soft_wrap=True, markup=False)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            live.update(as_table(crawler, clock.ticks_s() - began), refresh=True)
            await asyncio.sleep(REFRESH_S)


async def finish_index(companion: Companion, console: Console) -> None:
    """Wait for the index, saying how much is left of it."""
    finishing = asyncio.create_task(companion.finish())
    with console.status("indexing") as status:
        try:
            while not finishing.done():
                status.update(f"indexing, {companion.behind:,} pages left")
                await asyncio.wait([finishing], timeout=REFRESH_S)
        finally:
            finishing.cancel()  # the user does not wait for it
    await finishing
    if companion.error:
        console.print(f"[red]not everything is indexed:[/red] {escape(companion.error)}")


def one_line(now: Summary) -> str:
    return (
        f"{now.collection}  {duration(now.seconds)}  {now.pages:,} pages  {now.pages_per_s:,.1f}/s  {size(now.bytes)}"
        f"  {now.hosts:,} hosts  {now.urls_queued:,} queued{'  paused: ' + now.paused_why if now.paused_why else ''}"
    )


def as_table(crawler: Crawler, seconds: float) -> Table:
    table = Table.grid(padding=(0, 2))
    for crawl in crawler.crawls:
        _add_crawl(table, summarize(crawl, seconds))
    table.add_row(
        "under way", f"{crawler.metrics.in_flight:.0f} requests", f"{crawler.metrics.waiting_parse:.0f} to read"
    )
    for host, wait_s in crawler.slowest(3):
        table.add_row("slow", host, f"answers in {wait_s:.1f} s")
    return table


def _add_crawl(table: Table, now: Summary) -> None:
    table.add_row("teia", f"[bold]{now.collection}[/bold] {now.state}", duration(now.seconds))
    table.add_row("pages", f"{now.pages:,}", f"{now.pages_per_s:,.1f}/s, {size(now.bytes)}, {now.hosts:,} hosts")
    table.add_row("queue", f"{now.urls_queued:,}", f"of {now.urls_known:,} URLs known{eta(now)}")
    table.add_row("answers", *_two_parts(now.outcomes))
    if now.freshness:
        table.add_row("freshness", freshness(now.freshness))
    if now.paused_why:
        table.add_row("[red]paused[/red]", escape(now.paused_why))


def eta(now: Summary) -> str:
    """How long the known queue would take at the rate so far; more may yet be found."""
    if not now.urls_queued or not now.requests or not now.seconds:
        return ""
    return f", {duration(now.urls_queued / (now.requests / now.seconds))} at this rate"


def freshness(found: Mapping[str, float]) -> str:
    """How fresh the copies are as far as is known, and how fresh they could be."""
    at_most = f", never above {found['possible']:.1%}" if "possible" in found else ""
    said = f"{found['fresh']:.1%} ± {found['fresh_error']:.1%} fresh"
    return f"{said}; at these delays {found['best']:.1%} can be kept in the long run{at_most}"


def _two_parts(outcomes: Mapping[str, int]) -> tuple[str, str]:
    shown = [f"{name} {count:,}" for name, count in list(outcomes.items())[:8]]
    return "  ".join(shown[:3]), "  ".join(shown[3:])


def print_summary(account: Mapping[str, Any], console: Console) -> None:
    """Say what a crawl did, in a few lines."""
    outcomes = "  ".join(f"{name} {count:,}" for name, count in account["outcomes"].items()) or "none"
    console.print(
        f"[bold]{account['collection']}[/bold]: {_ENDS.get(account['state'], account['state'])}"
        f" after {duration(account['seconds'])}"
    )
    console.print(
        f"  {account['pages']:,} pages ({account['pages_per_s']:,.1f}/s), {size(account['bytes'])},"
        f" {account['hosts']:,} hosts, {account['requests']:,} requests"
    )
    console.print(f"  answers: {outcomes}")
    console.print(f"  {account['urls_known']:,} URLs known, {account['urls_queued']:,} still queued")
    console.print(
        f"  {account['archive_records']:,} archive records, {account['indexed']:,} pages indexed,"
        f" {account['politeness_violations']} politeness violations"
    )
    if account.get("index_behind"):
        who = "the indexer is at work" if account["index_writing"] else "the next crawl indexes them"
        console.print(f"  {account['index_behind']:,} more pages are not in the index yet; {who}")
    if account.get("index_unreadable"):
        console.print(f"  {account['index_unreadable']:,} pages are not in the index: their copies cannot be read")
    if account.get("freshness"):
        console.print(f"  {freshness(account['freshness'])}")
    if account.get("run"):
        run = account["run"]
        state = f"ended ({run['why']})" if run["ended"] else "is open"
        what = in_words(run["known"], run["visited"], run["new"], is_over=bool(run["ended"]))
        console.print(f"  run {run['number']} {state}: {what}")
    if account.get("next_run"):
        console.print(f"  next run: {account['next_run'][:16].replace('T', ' ')} UTC")
    if account["paused_why"]:
        console.print(f"  [red]paused:[/red] {escape(account['paused_why'])}", soft_wrap=True)
    for failed in account.get("failed_seeds", ()):
        console.print(f"  [red]seed failed:[/red] {escape(failed)}", soft_wrap=True)


_ENDS = {
    "finished": "finished, nothing left to fetch",
    "limit": "stopped at its limit",
    "stopped": "stopped; the same command goes on",
    "paused": "paused",
    "waiting": "waiting for its next run",
}


def duration(seconds: float) -> str:
    """`4.2 s`, `3 min 20 s`, `5 h 12 min`, `3 d 4 h`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest_s = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest_s} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"


def size(octets: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if octets < 1000:
            return f"{octets:.0f} {unit}" if unit == "B" else f"{octets:.1f} {unit}"
        octets /= 1000
    return f"{octets:.1f} TB"
