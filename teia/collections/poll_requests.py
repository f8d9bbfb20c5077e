"""The crawler's side of `control.sqlite`: it polls the inbox, and the handler of each kind does what was requested.

`HANDLERS` has a handler for every kind of request (control_file.py). What a request acts on is a `RequestTarget`: the
crawls of `teia crawl`, the coordinator's collections, or the agreement of a cluster's nodes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, NamedTuple, Protocol

from teia.clock import Clock
from teia.collections.account import SeriesWriter, summarize
from teia.collections.control_file import (
    ACCOUNT_S,
    ChangeSettings,
    CrawlReports,
    FetchRobots,
    GiveCommand,
    Inbox,
    JudgeHubCall,
    RemovePages,
    Request,
    RequestAnswer,
    RequestBody,
    RunBulkAction,
    VisitPage,
)
from teia.collections.settings import LIVE, SHARED, apply_edits
from teia.crawler.compiled_settings import compile_settings
from teia.crawler.loop import Crawler
from teia.crawler.running_collection import Crawl
from teia.crawler.upkeep.removal import remove_from_closed
from teia.errors import DiskFull, StoreError, TeiaError
from teia.frontier.cell.bulk import BulkSelection
from teia.lib.message import encoded
from teia.records import Command, Edit, RemovedPages
from teia.signals.websub import HubCall, HubVerdict
from teia.store.root import Root

POLL_S = 0.2
_log = logging.getLogger(__name__)


class UrlActions(Protocol):
    """A crawl that carries out requests about URLs. Each method is called again until it says that it is done."""

    async def visit(self, url: str, since_s: float) -> bool:
        """Queue a known page for a visit, requested at `since_s`; return True if it is queued by now."""

    async def reread_robots(self, origin: str, since_s: float) -> bool:
        """Fetch a robots.txt again; return True if it was read since `since_s`."""

    async def run_bulk(self, mark: str, selection: BulkSelection) -> int | None:
        """Run a bulk action; return the number of its URLs if it is done by now."""

    async def remove(self, number: int, wanted: RemovePages) -> RemovedPages | None:
        """Remove the pages that rules exclude; return the result of this request if it is done by now."""

    async def judge_hub_call(self, mark: str, call: HubCall) -> HubVerdict | None:
        """Return the verdict on a hub's call, if the machine that has the subscription answered by now."""


class OpenCrawl(NamedTuple):
    """A crawl that this process runs, and its crawler (`UrlActions`)."""

    crawler: Crawler
    crawl: Crawl

    async def visit(self, url: str, since_s: float) -> bool:
        return self.crawl.committer.visit_requests.accept(url, since_s)

    async def reread_robots(self, origin: str, since_s: float) -> bool:
        return self.crawler.reread_robots(self.crawl, origin, since_s)

    async def run_bulk(self, mark: str, selection: BulkSelection) -> int | None:
        return self.crawl.committer.bulk.accept(mark, selection)

    async def remove(self, number: int, wanted: RemovePages) -> RemovedPages | None:
        return self.crawl.request_removal(number, wanted.rules)

    async def judge_hub_call(self, mark: str, call: HubCall) -> HubVerdict | None:  # noqa: ARG002
        return None  # no other machine has subscriptions


class RequestTarget(Protocol):
    """Crawler, coordinator or node that carries out requests."""

    def open_crawl(self, name: str) -> UrlActions | None:
        """Return the open crawl of a collection, or all nodes of the cluster that crawls it."""

    async def execute(self, name: str, command: Command) -> bool:
        """Execute a command; return False if the collection is not served here, so that the command stays pending."""

    async def change(self, name: str, edits: Sequence[Edit]) -> RequestAnswer | None:
        """Apply edits to the settings in use; return None if the collection is not served here."""

    async def run_bulk_offline(self, name: str) -> None:
        """Continue the bulk actions on a collection without an open crawl, if this process may."""

    async def remove_offline(self, name: str, rules: tuple[str, ...]) -> RemovedPages | None:
        """Remove pages from a collection without an open crawl, if this process may."""


# ---- handlers: return None while the request is pending; they are then called again with the next poll ---------------


async def _give_command(target: RequestTarget, request: Request[GiveCommand], _: Inbox) -> RequestAnswer | None:
    return RequestAnswer() if await target.execute(request.collection, request.body.command) else None


async def _change_settings(target: RequestTarget, request: Request[ChangeSettings], _: Inbox) -> RequestAnswer | None:
    return await target.change(request.collection, request.body.edits)


async def _visit_page(target: RequestTarget, request: Request[VisitPage], _: Inbox) -> RequestAnswer | None:
    found = target.open_crawl(request.collection)
    return RequestAnswer() if found is not None and await found.visit(request.body.url, request.requested_s) else None


async def _run_bulk_action(
    target: RequestTarget, request: Request[RunBulkAction], inbox: Inbox
) -> RequestAnswer | None:
    # One after the other: until the end of an action is recorded here, the next would overwrite its progress in cells.
    # Those that ran offline in this poll are recorded by now.
    if request.id not in [each.id for each in inbox.pending(request.collection, RunBulkAction)[:1]]:
        return None
    found = target.open_crawl(request.collection)
    if found is None:
        await target.run_bulk_offline(request.collection)
        return None
    urls = await found.run_bulk(request.body.mark, request.body.selection)
    return None if urls is None else RequestAnswer(urls=urls)


async def _fetch_robots(target: RequestTarget, request: Request[FetchRobots], _: Inbox) -> RequestAnswer | None:
    found = target.open_crawl(request.collection)
    is_read = found is not None and await found.reread_robots(request.body.origin, request.requested_s)
    return RequestAnswer() if is_read else None


async def _judge_hub_call(target: RequestTarget, request: Request[JudgeHubCall], _: Inbox) -> RequestAnswer | None:
    found = target.open_crawl(request.collection)
    verdict = None if found is None else await found.judge_hub_call(request.body.mark, request.body.call)
    return None if verdict is None else RequestAnswer(hub=verdict)


async def _remove_pages(target: RequestTarget, request: Request[RemovePages], _: Inbox) -> RequestAnswer | None:
    found = target.open_crawl(request.collection)
    if found is None:
        removed = await target.remove_offline(request.collection, request.body.rules)
    else:
        removed = await found.remove(request.id, request.body)
    return None if removed is None else RequestAnswer(removed=removed)


Handler = Callable[[RequestTarget, Request[Any], Inbox], Awaitable[RequestAnswer | None]]
HANDLERS: Mapping[type[RequestBody], Handler] = {
    GiveCommand: _give_command,
    ChangeSettings: _change_settings,
    VisitPage: _visit_page,
    RunBulkAction: _run_bulk_action,
    FetchRobots: _fetch_robots,
    JudgeHubCall: _judge_hub_call,
    RemovePages: _remove_pages,
}


async def poll_requests(inbox: Inbox, target: RequestTarget, clock: Clock) -> None:
    """Pass every pending request to its handler, oldest first, and acknowledge those that are done.

    A failure is the answer to its request; after a temporary one the request stays pending. The others go on.
    """
    held: set[tuple[str, type[RequestBody]]] = set()
    for request in inbox.all_pending():
        kind = (request.collection, type(request.body))
        if kind in held:
            continue
        done = await _handle(target, request, inbox)
        if done is None and not 0 < request.body.WAITS_S < clock.now_s() - request.requested_s:
            if not request.body.WAITS_S:  # a later command or change must not overtake it
                held.add(kind)
            continue
        # A request whose end cannot be recorded is done again, which does no harm.
        with suppress(DiskFull):
            inbox.finish(request.id, clock.now_s(), done)


async def _handle(target: RequestTarget, request: Request[Any], inbox: Inbox) -> RequestAnswer | None:
    """Call the handler of a request; return its answer, an error included, or None while the request is pending."""
    try:
        if request.unreadable:
            raise StoreError(request.unreadable)
        return await HANDLERS[type(request.body)](target, request, inbox)
    except TeiaError as error:
        if request.id not in inbox.failed:
            _log.warning("request %d for %s failed: %s", request.id, request.collection, error)
            inbox.failed.add(request.id)
        return None if error.is_temporary else RequestAnswer(error=encoded(error.message))


# ---- a crawler with a fixed set of crawls ----------------------------------------------------------------------------


def drop_stale_requests(root: Root, clock: Clock) -> None:
    """Drop requests that were for an earlier crawl. The holder of the folder lock calls it before settings are read."""
    with suppress(DiskFull), Inbox(root.control) as inbox:
        inbox.drop_stale(clock.now_s())


class RunningCrawls:
    """The crawls of one crawler, as a target of requests; they are open as long as it runs."""

    def __init__(self, crawler: Crawler, root: Root, clock: Clock) -> None:
        self._clock = clock
        self._crawls, self._root = {crawl.name: OpenCrawl(crawler, crawl) for crawl in crawler.crawls}, root

    def open_crawl(self, name: str) -> OpenCrawl | None:
        return self._crawls.get(name)

    async def execute(self, name: str, command: Command) -> bool:
        if name in self._crawls:
            self._crawls[name].crawler.apply_commands([command], self._crawls[name].crawl)
        return name in self._crawls

    async def change(self, name: str, edits: Sequence[Edit]) -> RequestAnswer | None:
        return await reconfigure_crawl(*self._crawls[name], self._root, edits) if name in self._crawls else None

    async def run_bulk_offline(self, name: str) -> None:
        """Leave them to a process that serves the collection."""

    async def remove_offline(self, name: str, rules: tuple[str, ...]) -> RemovedPages | None:
        """Remove pages from a collection of this folder that is not crawled: this process holds its lock."""
        return await asyncio.to_thread(remove_from_closed, self._root.collection(name), rules, self._clock)


async def serve_requests(crawler: Crawler, root: Root, clock: Clock) -> None:
    """Do what is requested and write accounts until cancelled; then the runs end."""
    with Inbox(root.control) as inbox:
        target, started, series = RunningCrawls(crawler, root, clock), clock.ticks_s(), SeriesWriter(inbox)
        try:
            for crawl in crawler.crawls:
                await announce(inbox, crawl.name, clock)
            accounts_at, failure = started, ""
            while True:
                try:
                    await poll_requests(inbox, target, clock)
                    if clock.ticks_s() >= accounts_at:
                        accounts_at = clock.ticks_s() + ACCOUNT_S
                        for crawl in crawler.crawls:
                            write_account(inbox, series, crawl, clock, clock.ticks_s() - started)
                    failure = ""
                except TeiaError as error:  # such as a locked database; the next round may succeed
                    if str(error) != failure:
                        failure = str(error)
                        _log.warning("requests not read: %s", error)
                await clock.sleep(POLL_S)
        finally:
            for crawl in crawler.crawls:
                with suppress(DiskFull):
                    series.note_run(crawl, clock.now_s())
                    inbox.end(crawl.name)


async def announce(reports: CrawlReports, name: str, clock: Clock) -> None:
    """Announce a crawl, as soon as the disk has room for a row."""
    while True:
        try:
            reports.begin(name, clock.now_s())
        except DiskFull:
            await clock.sleep(POLL_S)
        else:
            return


def write_account(
    reports: CrawlReports,
    series: SeriesWriter,
    crawl: Crawl,
    clock: Clock,
    seconds: float,
    *,
    is_scheduled: bool = False,
) -> None:
    """Write a crawl's account and its current activity; on a full disk the last one stays until there is room.

    The run of a schedule has its own record (scheduled_runs.py).
    """
    summary = summarize(crawl, seconds)
    live = crawl.live.account(crawl.queues.values(), clock, crawl.finished_hosts, len(crawl.waiting_hosts))
    account = {**asdict(summary), "live": live}
    with suppress(DiskFull):
        reports.write_account(crawl.name, account, clock.now_s())
        series.note(summary, clock.now_s())
        if not is_scheduled:
            series.note_run(crawl, clock.now_s())


async def reconfigure_crawl(
    crawler: Crawler, crawl: Crawl, root: Root, edits: Sequence[Edit], also_live: Collection[str] = ()
) -> RequestAnswer:
    """Apply edits to the settings of a running crawl, as far as it can do so now; return the answer.

    `also_live` are settings that the caller itself applies at once.
    """
    # Shared settings are those of the first crawl.
    live = [edit for edit in edits if edit.key in LIVE and (crawl.number == 0 or edit.key not in SHARED)]
    live += [edit for edit in edits if edit.key in also_live]
    try:
        config = apply_edits(crawl.config, live)
        # A long list of rules takes a second to read: not on the loop.
        compiled = await asyncio.to_thread(compile_settings, config, root.collection(crawl.name).lists)
    except TeiaError as error:
        return RequestAnswer(error=encoded(error.message))
    crawler.reconfigure(crawl, compiled)
    return RequestAnswer(now=tuple(edit.key for edit in live))
