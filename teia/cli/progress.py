"""Display of a running crawl, and its summary at the end. All of it goes to standard error."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from teia.cli.output import PlainConsole, count_of
from teia.clock import Clock
from teia.collections.account import Summary, summarize
from teia.crawler.loop import Crawler
from teia.indexer.keep_process import IndexerProcess

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

REFRESH_S = 0.5
PLAIN_REFRESH_S = 10.0


async def show_progress(crawler: Crawler, clock: Clock, console: Console | PlainConsole) -> None:
    """Show the state of a crawl until cancelled: a live table on a terminal, a line now and then elsewhere."""
    began = clock.ticks_s()
    # In a file, a table that is drawn again and again would be noise.
    if isinstance(console, PlainConsole) or not console.is_terminal:
        while True:
            await clock.sleep(PLAIN_REFRESH_S)
            for crawl in crawler.crawls:
                now = summarize(crawl, clock.ticks_s() - began)
                console.print(progress_line(now, crawl.config.limits.pages), soft_wrap=True, markup=False)
    from rich.live import Live  # of no use where there is no terminal

    # Transient: the summary takes the place of the table.
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            live.update(as_table(crawler, clock.ticks_s() - began), refresh=True)
            await asyncio.sleep(REFRESH_S)


async def finish_index(indexer: IndexerProcess, console: Console | PlainConsole) -> None:
    """Wait for the index, and show how much is left."""
    finishing = asyncio.create_task(indexer.finish())
    with console.status("indexing") as status:
        try:
            while not finishing.done():
                status.update(f"indexing, {count_of(indexer.lag, 'page')} left")
                await asyncio.wait([finishing], timeout=REFRESH_S)
        finally:
            finishing.cancel()  # the user does not wait for it
    # Raises the error of an index that could not be finished.
    await finishing
    if indexer.error:
        console.print(f"[red]not all pages could be indexed:[/red] {_escaped(indexer.error)}")


def _escaped(text: str) -> str:
    """Return text that is shown as it is, whatever brackets it has."""
    if "[" not in text:
        return text
    from rich.markup import escape  # takes a tenth of a start

    return escape(text)


def progress_line(now: Summary, max_pages: int = 0) -> str:
    paused = f"  paused: {now.paused_why}" if now.paused_why else ""
    return (
        f"{now.collection}  {duration(now.seconds)}  {count_of(now.pages, 'page')}  {now.pages_per_s:,.1f}/s"
        f"  {size(now.bytes)}  {count_of(now.hosts, 'host')}  {now.urls_queued:,} queued"
        f"{eta(now, max_pages)}{paused}"
    )


def as_table(crawler: Crawler, seconds: float) -> Table:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for crawl in crawler.crawls:
        _add_crawl(table, summarize(crawl, seconds), crawl.config.limits.pages)
    table.add_row(
        "in progress",
        count_of(crawler.in_flight, "request"),
        f"{count_of(crawler.waiting_parse, 'page')} to parse",
    )
    for host, wait_s in crawler.slowest_hosts(3):
        table.add_row("slow", host, f"response time {wait_s:.1f} s")
    return table


def _add_crawl(table: Table, now: Summary, max_pages: int) -> None:
    table.add_row("teia", f"[bold]{now.collection}[/bold] {now.state}", duration(now.seconds))
    table.add_row(
        "pages", f"{now.pages:,}", f"{now.pages_per_s:,.1f}/s, {size(now.bytes)}, {count_of(now.hosts, 'host')}"
    )
    table.add_row("queue", f"{now.urls_queued:,}", f"of {count_of(now.urls_known, 'URL')} known{eta(now, max_pages)}")
    table.add_row("answers", *_split_outcomes(now.outcomes))
    if now.freshness:
        table.add_row("freshness", freshness(now.freshness))
    if now.paused_why:
        table.add_row("[red]paused[/red]", _escaped(now.paused_why))


def eta(now: Summary, max_pages: int = 0) -> str:
    """Return the time for the known queue at the rate so far, or until `--max-pages`; more URLs may be found."""
    if not now.urls_queued or not now.requests or not now.seconds:
        return ""
    left_s = now.urls_queued / (now.requests / now.seconds)
    if not max_pages:
        return f", {duration(left_s)} at this rate"
    share = f", {min(1.0, now.pages / max_pages):.0%} of --max-pages {max_pages:,}"
    # Without a page so far there is no rate at which the limit would be reached.
    to_limit_s = (max_pages - now.pages) / (now.pages / now.seconds) if now.pages else left_s
    return f"{share}, {duration(max(0.0, min(left_s, to_limit_s)))} at this rate"


def freshness(found: Mapping[str, float]) -> str:
    """Return the estimated freshness of the captures, and the best possible."""
    at_most = f", at most {found['possible']:.1%}" if "possible" in found else ""
    current = f"{found['fresh']:.1%} ± {found['fresh_error']:.1%} fresh"
    # With a budget, the optimum is that of the requests it has.
    limits = f"{found['budget']:,.0f} a day" if "budget" in found else "these delays"
    return f"{current}; long-run optimum with {limits} {found['best']:.1%}{at_most}"


def _split_outcomes(outcomes: Mapping[str, int]) -> tuple[str, str]:
    shown = [f"{name} {count:,}" for name, count in list(outcomes.items())[:8]]
    return "  ".join(shown[:3]), "  ".join(shown[3:])


def print_summary(account: Mapping[str, Any], console: Console | PlainConsole) -> None:
    """Print the result of a crawl in a few lines."""
    outcomes = "  ".join(f"{name} {count:,}" for name, count in account["outcomes"].items()) or "none"
    console.print(f"[bold]{account['collection']}[/bold]: {_end(account)}")
    console.print(
        f"  {count_of(account['pages'], 'page')} fetched ({account['pages_per_s']:,.1f}/s), {size(account['bytes'])},"
        f" {count_of(account['hosts'], 'host')}, {count_of(account['requests'], 'request')},"
        f" {count_of(account['archive_records'], 'archive record')}"
    )
    console.print(f"  responses: {outcomes}")
    console.print(f"  {count_of(account['urls_known'], 'known URL')}, {account['urls_queued']:,} still queued")
    console.print(
        f"  {count_of(account.get('captures', 0), 'capture')} in all,"
        f" {count_of(account['indexed'], 'searchable page')},"
        f" {count_of(account['politeness_violations'], 'politeness violation')}"
    )
    if account.get("index_behind"):
        who = "indexing continues" if account["index_writing"] else "the next crawl will index them"
        console.print(f"  {account['index_behind']:,} pages are not indexed yet; {who}")
    if account.get("index_unreadable"):
        console.print(f"  {account['index_unreadable']:,} pages are not indexed: their captures cannot be read")
    if account.get("freshness"):
        console.print(f"  {freshness(account['freshness'])}")
    if account.get("run"):
        from teia.collections.scheduled_runs import describe_visits  # a plain crawl has no runs

        run = account["run"]
        state = f"ended ({run['why']})" if run["ended"] else "is in progress"
        what = describe_visits(run["known"], run["visited"], run["new"], is_over=bool(run["ended"]))
        console.print(f"  run {run['number']} {state}: {what}")
    if account.get("next_run"):
        console.print(f"  next run: {account['next_run'][:16].replace('T', ' ')} UTC")
    if account.get("lost_here"):
        lost, cap = account["lost_here"], account["parallel_requests"]
        console.print(f"  {lost:,} documents lost to time-outs of this machine; at most {cap:,} requests at once now")
    if account["paused_why"]:
        console.print(f"  [red]paused:[/red] {_escaped(account['paused_why'])}", soft_wrap=True)
    for failed in account.get("failed_seeds", ()):
        console.print(f"  [red]seed failed:[/red] {_escaped(failed)}", soft_wrap=True)


def _end(account: Mapping[str, Any]) -> str:
    """Return how a crawl ended. Failed URLs that are not worth waiting for stay queued for the next run."""
    state, queued = str(account["state"]), account["urls_queued"]
    text = _ENDS.get(state, state + " after {span}")
    if state == "finished" and queued:
        text = "finished after {span}, except for " + count_of(queued, "URL") + " that failed and can be tried again"
    return text.format(span=duration(account["seconds"]))


_ENDS = {
    "finished": "finished after {span}, nothing left to fetch",
    "limit": "stopped at its limit after {span}",
    "stopped": "stopped after {span}; run the same command to continue",
    "paused": "paused after {span}",
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
