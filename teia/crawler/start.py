"""A crawler made from a data folder and a configuration, run, and closed again.

Opening is also recovery: the archive is cut at its committed position, outboxes are delivered, and the ledger gives the
politeness delays still in force. After a crash every server and address that may have had a request under way gets its
full delay from now.
"""

from __future__ import annotations

import logging
import os
import random
import sqlite3
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from teia.clock import Clock
from teia.config.sections import Config
from teia.crawler.child import answer_reader
from teia.crawler.child.messages import Focus, probe_task, with_focus
from teia.crawler.commit import CommitResult, Committer
from teia.crawler.compiled_settings import (
    check_crawl,
    compile_settings,
    remove_old_copies,
    render_signs,
    user_agent,
)
from teia.crawler.content_seen import ContentSeen
from teia.crawler.fetch_rows import ROLL_OUT_AT_END, roll_out
from teia.crawler.loop import Crawler
from teia.crawler.open_cell import Cell
from teia.crawler.order_hints import agree_on_kinds
from teia.crawler.ownership import KeptElsewhere, OneMachine, Ownership
from teia.crawler.rendering.on_demand import RenderingOnDemand
from teia.crawler.resources import PER_CHILD, DiskSpace, allot_sockets, count_open_files, raise_limit
from teia.crawler.robots import RobotsCache
from teia.crawler.running_collection import Crawl, delay_entry
from teia.crawler.upkeep.closed_files import finishing, running_fixity
from teia.errors import StoreError, TeiaError
from teia.fetch.curl import CurlFetcher
from teia.fetch.destination import AddressOverrides, Destinations, read_caches
from teia.fetch.dns import CaresResolver
from teia.fetch.guard import AddressGuard
from teia.frontier.cell.fetch_now import outcome_of, visit_soon
from teia.frontier.cell.schema import SCHEMA
from teia.frontier.queue.host_rules import merge_courtesy
from teia.frontier.queue.ledger import CourtesyInForce, DelayEntry, Ledger
from teia.frontier.queue.order import focused, order_named, pagerank
from teia.frontier.queue.politeness import Politeness
from teia.frontier.queue.schedule import HostSchedule
from teia.frontier.queue.waiting_hosts import StoredHost
from teia.parse.children.pool import ChildLimits, ChildPool
from teia.parse.children.spawn import ZygoteProcess
from teia.records import AgentMessage, AgentRole, Outcome
from teia.render.program import find_browser
from teia.signals.announce import takes_announcements
from teia.sqlite import check_format, sqlite_errors
from teia.store.root import CellFolder, CollectionFolder, Root
from teia.store.seen_bodies import OPEN_FILES
from teia.urls import split

if TYPE_CHECKING:
    from teia.crawler.keep_fresh.crawl_budget import Elsewhere
    from teia.crawler.rendering.browsers import Browsers
    from teia.crawler.rendering.render_visits import Rendering

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

Park = Callable[[str, TeiaError], None]
"""Callback that receives a collection's name and error; the crawler continues without that collection."""

MAX_RETRIED_SEEDS = 1_000
PARALLEL_CELLS = 8
"""Number of cells of a collection that are opened or closed at a time."""

CACHE_BYTES = 256 << 20
"""Memory for the pages of all cells' databases; in a collection of up to eight cells, each has its 32 MiB."""

# ---- files ----------------------------------------------------------------------------------------------------------


def topic_of(root: Root, config: Config, clock: Clock) -> Focus | None:
    """Return the topic of a focused crawl; other orders do not load the learning code."""
    if config.collection.order != focused.name:
        return None
    from teia.crawler.child.focus import focus_of

    return focus_of(root, config, clock)


@contextmanager
def open_crawls(
    root: Root,
    configs: Sequence[Config],
    ledger: Ledger,
    clock: Clock,
    since_s: Mapping[str, float] | None = None,
    park: Park | None = None,
) -> Iterator[list[Crawl]]:
    """Open the collections for writing, as the last commit left them.

    `since_s` holds the collections whose known pages are all to be visited again, unless they were since then
    (visit_all_again.py). With `park`, a collection whose settings are wrong, or that cannot be opened or closed, is
    reported to it and left out, without delaying the others; StoreError if none is left.
    """
    with ExitStack() as stack:
        crawls: list[Crawl] = []
        for config in configs:
            opening = _open_crawl(root, config, len(crawls), ledger, clock, since_s)
            try:
                if park is not None:
                    check_crawl(config)
                crawls.append(opening.__enter__())
                stack.push(partial(_close, opening, config.collection.name, park))
            except TeiaError as error:
                if park is None:
                    raise
                park(config.collection.name, error)
        if park is not None and not crawls:
            raise StoreError(f"{root.path}: none of its collections can be crawled")
        yield crawls


def _close(
    opening: AbstractContextManager[Crawl],
    name: str,
    park: Park | None,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> bool | None:
    """Close a collection; an error in closing is reported to `park`, if given, instead of raised."""
    try:
        return opening.__exit__(kind, error, trace)
    except (TeiaError, sqlite3.Error) as trouble:
        if park is None or trouble is error:
            raise
        park(name, trouble if isinstance(trouble, TeiaError) else StoreError(str(trouble)))
    return None


@contextmanager
def _open_crawl(
    root: Root, config: Config, number: int, ledger: Ledger, clock: Clock, since_s: Mapping[str, float] | None
) -> Iterator[Crawl]:
    """Open one collection for writing."""
    folder = root.collection(config.collection.name)
    with ExitStack() as stack:
        with sqlite_errors(folder.path):
            focus = topic_of(root, config, clock)
            cells = stack.enter_context(_open_cells(folder, config, clock))
            crawl = build_crawl(folder, config, cells, folder.starts(), ledger, clock, since_s, stack, focus)
            crawl.number = number
            _retry_seeds(crawl, clock.now_s())
            if config.sites.aliases:
                crawl.load_aliases()
        yield crawl
        if crawl.committer.aliases is not None:
            crawl.committer.aliases.close()


def build_crawl(
    folder: CollectionFolder,
    config: Config,
    cells: Sequence[Cell],
    starts: tuple[int, ...],
    ledger: Ledger,
    clock: Clock,
    since_s: Mapping[str, float] | None,
    stack: ExitStack,
    focus: Focus | None = None,
    own: Callable[[Crawl], Ownership] = lambda _: OneMachine(),
    kept_elsewhere: Callable[[], KeptElsewhere] = KeptElsewhere,
    spent_elsewhere: Callable[[], Elsewhere] | None = None,
) -> Crawl:
    """Make a crawl over open cells; `stack` closes its files.

    A node passes its ownership, the number of pages that others keep, and what they would spend of the budget.
    """
    if focus is not None:
        agree_on_kinds(cells, focus)
    committer = Committer(cells, starts, ledger, clock)
    if config.collection.order == pagerank.name:
        from teia.crawler.pagerank_order import CrawlPageRank

        committer.pagerank = CrawlPageRank(folder.ranks, cells, clock)
    if config.refresh.keep:
        from teia.crawler.keep_fresh.keep_fresh import Refresh
        from teia.crawler.keep_fresh.weights import weigher

        weigh = weigher(config.refresh, folder.ranks)
        others = {} if spent_elsewhere is None else {"spent_elsewhere": spent_elsewhere}
        committer.refresh = Refresh(cells, config, clock, weigh, kept_elsewhere, **others)
        stack.callback(committer.refresh.close)
    elif since_s and folder.name in since_s:
        from teia.crawler.keep_fresh.visit_all_again import RevisitAll

        committer.refresh = RevisitAll(cells, since_s[folder.name], config, clock)
    compiled = compile_settings(config, folder.lists)
    remove_old_copies(folder.lists, compiled)
    crawl = Crawl(folder.name, committer, starts, compiled)
    crawl.read_settings = with_focus(compiled.read_settings, focus)
    crawl.ownership = own(crawl)
    if config.archive.content_seen and config.archive.answers:
        cells_move = crawl.ownership.cells_move
        seen = ContentSeen(folder, cells_move=cells_move, archives_move=cells_move and config.cluster.ship_archive)
        stack.callback(seen.close)
        crawl.content_seen = committer.content_seen = seen
    crawl.add_seeds([seed for seed in compiled.seeds if crawl.ownership.owns(split(seed).host)])
    # A node has made its own, because others may forward some to it.
    if committer.announced is not None or takes_announcements(folder.signals, config.signals):
        from teia.crawler.signals_in.announcements import Announcements, open_announcements

        committer.announced = committer.announced or Announcements(cells, starts, clock)
        stack.enter_context(open_announcements(committer.announced, folder.signals, config, crawl.is_in_scope))
    return crawl


@contextmanager
def _open_cells(folder: CollectionFolder, config: Config, clock: Clock) -> Iterator[list[Cell]]:
    """Open the cells of a collection; opening and closing run in parallel, since most of it is waiting.

    Opening a cell may change it, so the formats of all cells are checked first.
    """
    for each in folder.cells():
        check_format(each.frontier, SCHEMA)
    opening = _run_parallel(lambda each: open_cell(each, folder.name, config, clock), folder.cells())
    # Cells that did open are closed even if another one failed.
    opened = [each.result() for each in opening if each.exception() is None]
    try:
        yield [each.result() for each in opening]
        # One after the other: each needs some 50 MB for a moment, and most of it is no waiting.
        for cell in opened:
            roll_out(cell.frontier, cell.log_folder, ROLL_OUT_AT_END)
    finally:
        for closed in _run_parallel(Cell.close, opened):
            closed.result()


def open_cell(folder: CellFolder, collection: str, config: Config, clock: Clock, **of_node: Any) -> Cell:
    """Open a cell for writing; `of_node` are the arguments of `Cell` that a node adds."""
    order = order_named(config.collection.order, config.sydney, config.collection.prefer)
    cell = Cell(folder, collection, order, config.archive.file_bytes, clock, **of_node)
    cell.frontier.limit_cache(CACHE_BYTES // config.collection.cells)
    if config.sites.traps and config.parse.text:  # without their text all pages look alike
        from teia.frontier.traps.watch import TrapWatch

        cell.watch = cell.frontier.watch = TrapWatch(cell.frontier, config.scope.max_depth)
    return cell


def _run_parallel(action: Callable[[T], R], items: Sequence[T]) -> list[Future[R]]:
    """Run a function for each item in parallel; all runs have ended, well or not, when this returns."""
    with ThreadPoolExecutor(PARALLEL_CELLS, "cells") as threads:
        return [threads.submit(action, each) for each in items]


# ---- recovery -------------------------------------------------------------------------------------------------------


def recover(
    crawls: Sequence[Crawl], schedule: HostSchedule, ledger: Ledger, clock: Clock, park: Park | None = None
) -> None:
    """Continue where the last run ended: undelivered links, delays still in force, hosts with work."""
    was_clean = ledger.open()
    now, now_s = clock.ticks_s(), clock.now_s()
    politeness = schedule.politeness
    for entry in ledger.delays(now_s) if was_clean else ledger.all_entries():
        target = politeness.server(entry.name) if entry.kind == "server" else politeness.address(entry.name)
        remaining_s = max(0.0, min(entry.ready_at_s - now_s, Ledger.MAX_DELAY_S))
        # After a clean stop the recorded time is exact; after a crash each delay begins again.
        target.ready_at = now + (remaining_s if was_clean else max(remaining_s, entry.delay_s))
        # As if a request had ended then: a Crawl-delay that is read later lengthens this delay.
        target.last_end, target.last_delay_s = target.ready_at - entry.delay_s, entry.delay_s
    for address, sites in ledger.shared_addresses().items():
        politeness.address(address).known_sites = sites
    for crawl in crawls:
        try:
            _recover_hosts(crawl, schedule, now, was_clean=was_clean)
        except TeiaError as error:
            if park is None:
                raise
            crawl.fail(error)
            park(crawl.name, error)
    if not was_clean and any(crawl.waiting_hosts for crawl in crawls):
        politeness.delay_all_after_crash(now)


def _note_start(crawl: Crawl, new_urls: int) -> None:
    """Note for `teia trace` that this machine has the cells now; a node notes itself how it got each cell."""
    agents, cells = crawl.committer.agents, [cell.number for cell in crawl.committer.cells]
    if agents.node:
        return
    agents.note(cells, AgentRole.JOIN, "this machine crawls alone", AgentMessage.JOIN)
    agents.note(cells, AgentRole.DISTRIBUTOR, f"all {len(cells)} cells belong to this machine")
    what = f"links that the last run had not delivered brought {new_urls:,} new URLs"
    agents.note(cells, AgentRole.SYNCHRONIZER, what, AgentMessage.KEY, values={"new_urls": new_urls})


def _recover_hosts(crawl: Crawl, schedule: HostSchedule, now: float, *, was_clean: bool) -> None:
    cells = crawl.committer.cells
    with sqlite_errors(next(iter(cells)).folder.path.parent):
        # Links that were on their way at the crash come in before any URL is read.
        delivered = CommitResult()
        crawl.committer.deliver(delivered)
        _note_start(crawl, delivered.new_urls)
    for position, cell in enumerate(cells):
        with sqlite_errors(cell.frontier.path):
            crawl.budgets.load(cell.frontier)
            # Each cell has its part of the room in memory; the other hosts wait on disk.
            room = max(1, crawl.room // (len(cells) - position)) if crawl.ownership.forgets_hosts else sys.maxsize
            for host_id, host, address, requests in cell.frontier.hosts_with_work(or_requests=crawl.keeps_fresh):
                if room <= 0:
                    crawl.await_turn(cell.number, host, host_id)
                    continue
                room -= 1
                if not was_clean:
                    schedule.politeness.delay_after_crash([(host, address)], now)
                crawl.load_host(StoredHost(cell.number, host_id, host, address, requests), schedule)


def _retry_seeds(crawl: Crawl, now_s: float) -> None:
    """Make seeds whose names had no address due: the user may have fixed that before crawling again."""
    if crawl.keeps_fresh:
        return
    for url in crawl.compiled.seeds[:MAX_RETRIED_SEEDS]:
        host = split(url).host
        cell = crawl.committer.cells[crawl.committer.cell_number(host)]
        if outcome_of(cell.frontier, url) == Outcome.DNS:
            with cell.frontier.transaction() as frontier:
                visit_soon(frontier, url, now_s)


def delays_in_force(politeness: Politeness, clock: Clock) -> list[DelayEntry]:
    """Return every delay still in force, by the current Unix time: the clock may have been set since it began."""
    now, now_s = clock.ticks_s(), clock.now_s()
    return [
        delay_entry(kind, target, now, now_s)
        for kind, targets in (("server", politeness.servers), ("address", politeness.addresses))
        for target in targets.values()
        if target.ready_at > now
    ]


def _close_ledger(
    ledger: Ledger, crawls: Sequence[Crawl], politeness: Politeness, clock: Clock, *, is_clean: bool
) -> None:
    """Write the delays still in force, even after a failure, and close; a commit that hangs keeps the file open."""
    if any(cell.is_in_commit for crawl in crawls for cell in crawl.committer.cells):
        return
    try:
        with suppress(StoreError):
            ledger.write(delays_in_force(politeness, clock))
    finally:
        ledger.close(clean=is_clean, now_s=clock.now_s())


# ---- the whole ------------------------------------------------------------------------------------------------------

OpenCrawls = Callable[
    [Root, Sequence[Config], Ledger, Clock, Mapping[str, float] | None], AbstractContextManager[Sequence[Crawl]]
]
"""Function that opens collections: all their cells, or those that this node owns."""


def _collectors(
    crawler: Crawler, fetcher: CurlFetcher, schedule: HostSchedule, clock: Clock, park: Park | None
) -> AbstractAsyncContextManager[None]:
    """Listen for announcements while the block runs, if a collection wants them; other crawls do not load the code."""
    if not any(crawl.config.signals.socket for crawl in crawler.crawls):
        return nullcontext()
    from teia.crawler.proxy_collector import run_collectors

    return run_collectors(crawler, fetcher, schedule, clock, park)


@asynccontextmanager
async def _rendering(crawler: Crawler, clock: Clock) -> AsyncIterator[None]:
    """Render pages of the collections that want it while the block runs; the code is loaded with the first page."""
    browsers: list[Browsers] = []

    def make(crawl: Crawl) -> Rendering:
        from teia.crawler.rendering.browsers import Browsers
        from teia.crawler.rendering.render_visits import Rendering

        program, render = find_browser(), crawl.config.render
        if not browsers:
            browsers.append(Browsers(program or "", render.parallel, render.memory_bytes, clock))
        crawl.rendering = made = Rendering(
            crawl, browsers[0], clock, crawler.accept_static, crawler.reread_rendered,
            partial(crawler.queue_page_request, crawl),
        )  # fmt: skip
        return made

    for crawl in crawler.crawls:
        render = crawl.config.render
        if (render.mode == "always" or render.always) and find_browser() is None:
            crawl.not_rendered = "Chromium is not installed"
            logger.warning("%s: pages are not rendered: %s", crawl.name, crawl.not_rendered)
        if render_signs(crawl.config) != "never":
            crawl.rendering, crawl.committer.renders = RenderingOnDemand(partial(make, crawl)), True
    try:
        yield
    finally:
        for each in browsers:
            await each.close()


@asynccontextmanager
async def _destinations(
    crawls: Sequence[Crawl], caches: Sequence[tuple[str, int]], clock: Clock
) -> AsyncIterator[None]:
    """Give each collection the networks, names and name server of its own settings while the block runs.

    Collections share what they know of robots.txt if all names are the same servers to them.
    """
    shared = crawls[0].config
    robots: defaultdict[tuple[str, ...], RobotsCache] = defaultdict(lambda: RobotsCache(shared.courtesy, shared.limits))
    resolvers = {dns: CaresResolver(clock, dns or None) for dns in {crawl.config.fetch.dns for crawl in crawls}}
    for crawl in crawls:
        fetch = crawl.config.fetch
        guard, overrides = AddressGuard(fetch.allow_nets, caches=caches), AddressOverrides.parse(fetch.resolve)
        crawl.destinations = Destinations(resolvers[fetch.dns], guard, overrides)
        crawl.robots = robots[fetch.dns, *fetch.resolve]
    try:
        yield
    finally:
        for resolver in resolvers.values():
            await resolver.close()


@asynccontextmanager
async def _care_for_files(root: Root, crawls: Sequence[Crawl], clock: Clock) -> AsyncIterator[None]:
    """Index and sign the archive files that are closed, and compare them now and then, until the block ends."""
    cells = [cell for crawl in crawls for cell in crawl.committer.cells]
    days = {root.collection(crawl.name).path: crawl.config.archive.fixity_days for crawl in crawls}
    cells_move = any(crawl.ownership.cells_move for crawl in crawls)
    async with finishing(cells, clock, cells_move=cells_move), running_fixity(days, clock):
        yield


@asynccontextmanager
async def open_crawler(
    root: Root,
    configs: Sequence[Config],
    clock: Clock,
    seed: int,
    zygote: ZygoteProcess | None = None,
    since_s: Mapping[str, float] | None = None,
    open_collections: OpenCrawls = open_crawls,
    park: Park | None = None,
) -> AsyncIterator[Crawler]:
    """Yield a crawler for collections of a data folder that the caller has locked; they share delays and fetcher.

    Settings of the machine rather than of a collection (parse children, sockets, courtesy) are taken from the first
    configuration; each collection has the networks, names and name server of its own. A `zygote` that was started
    before for `answer_reader` is taken over. `since_s`: see `open_crawls`; a node of a cluster passes its own version
    of that function as `open_collections`. With `park`, a collection with an error is reported to it and does not delay
    the others.
    """
    open_collections = open_collections if park is None else partial(open_crawls, park=park)
    descriptors = raise_limit()
    ledger, politeness, is_clean = Ledger(root.path / "ledger.sqlite"), Politeness(merge_courtesy(configs)), False
    opened_crawls: list[Crawl] = []
    try:
        with open_collections(root, configs, ledger, clock, since_s) as crawls:
            opened_crawls.extend(crawls)
            configs = configs if park is None else [crawl.config for crawl in crawls]
            shared = configs[0]
            politeness.courtesy = merge_courtesy(configs)
            schedule = HostSchedule(politeness, shared.courtesy.max_hosts)
            recover(crawls, schedule, ledger, clock, park)
            ledger.note_courtesy(CourtesyInForce.from_settings(clock.now_s(), merge_courtesy(configs)))
            signals = [each.signals for each in configs]
            caches = [cache for each in signals for cache in read_caches(each.proxy, each.caches).values()]
            children = shared.parse.children or os.cpu_count() or 1
            used = count_open_files() + PER_CHILD * children + OPEN_FILES * len(crawls)
            sockets = allot_sockets(descriptors, used, shared.fetch.at_once, shared.fetch.keep_alive)
            async with AsyncExitStack() as ending:  # closed in reverse order even if one fails
                limits, probe = ChildLimits.from_settings(shared.limits), probe_task(crawls[0].read_settings)
                pool = ChildPool(answer_reader, children, limits, clock, zygote, probe)
                ending.push_async_callback(pool.close)
                await ending.enter_async_context(_destinations(crawls, caches, clock))
                fetcher = CurlFetcher(
                    AddressGuard(caches=caches), shared.limits, clock, user_agent(shared.courtesy),
                    keep_alive=sockets.keep_alive, concurrency=sockets.at_once, bind=shared.fetch.bind,
                    http2=shared.fetch.http2,
                )  # fmt: skip
                ending.push_async_callback(fetcher.close)
                await pool.start()
                rng = random.Random(seed)
                disk = DiskSpace(root.path, shared.limits.disk_free_bytes)
                async with _care_for_files(root, crawls, clock):
                    crawler = Crawler(crawls, schedule, fetcher, pool, clock, rng, disk, sockets.at_once)
                    async with _rendering(crawler, clock), _collectors(crawler, fetcher, schedule, clock, park):
                        yield crawler
                # Reached only without an error. Otherwise the ledger stays open, and the next start delays every
                # server and address.
                is_clean = all(not crawl.has_uncommitted for crawl in crawls)
    finally:
        _close_ledger(ledger, opened_crawls, politeness, clock, is_clean=is_clean)
