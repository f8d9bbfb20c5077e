"""A crawler made from a data folder and a configuration, run, and closed again.

Opening is also recovering: the archive is cut at its committed position, outboxes are delivered, and the ledger says
until when servers rest. After a death every place that may have had a request under way rests its full time from now.
"""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import TypeVar

from teia.clock import Clock
from teia.config import Config
from teia.crawl import JOB
from teia.crawl.announced import announcing
from teia.crawl.cells import Cell
from teia.crawl.closing import indexing
from teia.crawl.collector import collecting
from teia.crawl.commit import Committed, Committer
from teia.crawl.crawl import Crawl, rest_of
from teia.crawl.descriptors import PER_CHILD, open_now, raise_limit, share_out
from teia.crawl.engine import Crawler
from teia.crawl.hints import agree_on_kinds
from teia.crawl.logrows import ROLL_OUT_AT_END, roll_out
from teia.crawl.meaning import meaning_of, remove_old_copies, user_agent
from teia.crawl.messages import Focus, with_focus
from teia.crawl.robots import RobotsBook
from teia.crawl.space import DiskSpace
from teia.fetch.curl import CurlFetcher
from teia.fetch.destination import Destinations
from teia.fetch.dns import CaresResolver
from teia.fetch.guard import AddressGuard
from teia.fetch.overrides import Overrides, proxy_of
from teia.frontier.database import check_format
from teia.frontier.hostrules import courtesy_of_all
from teia.frontier.ledger import InForce, Ledger, Rest
from teia.frontier.order import focused, order_named, pagerank
from teia.frontier.politeness import Politeness
from teia.frontier.revisits import hosts_with_pages
from teia.frontier.schedule import Schedule
from teia.frontier.schema import VERSION
from teia.metrics import Metrics
from teia.parse.pool import ChildLimits, ChildPool
from teia.parse.spawn import ZygoteProcess
from teia.store.root import CellFolder, CollectionFolder, Root

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 8
"""Cells of a collection that are opened or closed at a time."""

# ---- files ----------------------------------------------------------------------------------------------------------


def _focus_of(root: Root, config: Config, clock: Clock) -> Focus | None:
    """What a focused crawl looks for; other orders need nothing that learns."""
    if config.collection.order != focused.name:
        return None
    from teia.crawl.learning import focus_of

    return focus_of(root, config, clock)


@contextmanager
def open_crawls(
    root: Root, configs: Sequence[Config], ledger: Ledger, clock: Clock, since_s: Mapping[str, float] | None = None
) -> Iterator[list[Crawl]]:
    """Open the collections for writing, as the last commit left them.

    `since_s` are those whose known pages are all to be visited again, unless they were since then (rounds.py).
    """
    with ExitStack() as stack:
        crawls = []
        for number, config in enumerate(configs):
            folder = root.collection(config.collection.name)
            focus = _focus_of(root, config, clock)
            cells = stack.enter_context(_opened_cells(folder, config, clock))
            starts = folder.starts()
            committer = Committer(cells, starts, ledger, clock)
            if config.collection.order == pagerank.name:
                from teia.crawl.authority import Authority

                committer.authority = Authority(folder.ranks, cells, clock)
            if config.refresh.keep:
                from teia.crawl.refreshing import Refresh
                from teia.crawl.weights import weigher

                weigh = weigher(config.refresh, folder.ranks)
                committer.refresh = Refresh(cells, config, clock, weigh)
                stack.callback(committer.refresh.close)
            elif since_s and folder.name in since_s:
                from teia.crawl.rounds import RevisitAll

                committer.refresh = RevisitAll(cells, since_s[folder.name], config, clock)
            if focus is not None:
                agree_on_kinds(cells, focus)
            meaning = meaning_of(config, folder.lists)
            remove_old_copies(folder.lists, meaning)
            reading = with_focus(meaning.reading, focus)
            crawl = Crawl(number, folder.name, config, committer, starts, reading, meaning)
            crawl.add_seeds(list(meaning.seeds))
            if config.sites.aliases:
                crawl.know_aliases()
            stack.enter_context(announcing(committer.wishes.announced, folder.signals, config, crawl.holds))
            crawls.append(crawl)
        yield crawls
        for crawl in crawls:
            if crawl.committer.aliases is not None:
                crawl.committer.aliases.close()


@contextmanager
def _opened_cells(folder: CollectionFolder, config: Config, clock: Clock) -> Iterator[list[Cell]]:
    """The cells of a collection; they are opened and closed beside each other, since most of that is waiting.

    Opening one may change it, so first it is seen whether all can be.
    """
    for each in folder.cells():
        check_format(each.frontier, VERSION)
    opening = _beside(lambda each: _open_cell(each, folder.name, config, clock), folder.cells())
    opened = [each.result() for each in opening if each.exception() is None]
    try:
        yield [each.result() for each in opening]
        for rolled in _beside(lambda cell: roll_out(cell.frontier, cell.folder.log, ROLL_OUT_AT_END), opened):
            rolled.result()
    finally:
        for closed in _beside(Cell.close, opened):
            closed.result()


def _open_cell(folder: CellFolder, collection: str, config: Config, clock: Clock) -> Cell:
    order = order_named(config.collection.order, config.sydney)
    cell = Cell(folder, collection, order, config.archive.file_bytes, clock)
    if config.sites.traps and config.parse.text:  # without their text all pages look alike
        from teia.frontier.watch import Watch

        cell.frontier.watch = Watch(cell.frontier, config.scope.max_depth)
    return cell


def _beside(deed: Callable[[T], R], of: Sequence[T]) -> list[Future[R]]:
    """Do something for each at the same time; all of it is over, well or not, when this returns."""
    with ThreadPoolExecutor(AT_ONCE, "cells") as threads:
        return [threads.submit(deed, each) for each in of]


# ---- recovery -------------------------------------------------------------------------------------------------------


def recover(crawls: Sequence[Crawl], schedule: Schedule, ledger: Ledger, clock: Clock) -> None:
    """Take up where the last run ended: undelivered links, rests that are not over, hosts with work."""
    was_clean = ledger.open()
    now, now_s = clock.ticks_s(), clock.now_s()
    politeness = schedule.politeness
    for rest in ledger.rests(now_s) if was_clean else ledger.all_places():
        place = politeness.server(rest.name) if rest.kind == "server" else politeness.address(rest.name)
        rests_s = max(0.0, min(rest.ready_at_s - now_s, Ledger.MAX_REST_S))
        place.ready_at = now + (rests_s if was_clean else max(rests_s, rest.rest_s))
        place.last_end, place.last_rest_s = place.ready_at - rest.rest_s, rest.rest_s
    for address, sites in ledger.shared().items():
        politeness.address(address).known_sites = sites
    for crawl in crawls:
        crawl.committer.deliver(Committed())
        for cell in crawl.committer.cells:
            crawl.budgets.recall(cell.frontier)
            hosts = cell.frontier.hosts_with_work()
            if crawl.keeps_fresh:
                hosts = list(dict.fromkeys([*hosts, *hosts_with_pages(cell.frontier.db)]))
            for host_id, host, address, requests in hosts:
                queue = crawl.host(host, host_id, schedule)
                queue.requests = requests
                if not was_clean:
                    politeness.rest_after_death([(host, address)], now)
                crawl.notice_hunger(queue)


def running_rests(politeness: Politeness, clock: Clock) -> list[Rest]:
    """Every rest that is not over, by the calendar of this moment: it may have been set since the rest began."""
    now, now_s = clock.ticks_s(), clock.now_s()
    return [
        rest_of(kind, place, now, now_s)
        for kind, places in (("server", politeness.servers), ("address", politeness.addresses))
        for place in places.values()
        if place.ready_at > now
    ]


# ---- the whole ------------------------------------------------------------------------------------------------------

Opened = Callable[
    [Root, Sequence[Config], Ledger, Clock, Mapping[str, float] | None], AbstractContextManager[Sequence[Crawl]]
]
"""How collections are opened: all their cells, or those that this node keeps."""


@asynccontextmanager
async def open_crawler(
    root: Root,
    configs: Sequence[Config],
    clock: Clock,
    seed: int,
    zygote: ZygoteProcess | None = None,
    since_s: Mapping[str, float] | None = None,
    opened: Opened = open_crawls,
) -> AsyncIterator[Crawler]:
    """Yield a crawler for collections of a root, which the caller has locked. They share courtesy and fetcher.

    What concerns the machine rather than a collection (resolver, networks, parse children, courtesy) is taken from the
    first configuration. A `zygote` that was started before for `JOB` is taken over. `since_s`: see `open_crawls`, which
    a node of a cluster has its own kind of (`opened`).
    """
    shared = configs[0]
    descriptors = raise_limit()
    ledger = Ledger(root.path / "ledger.sqlite")
    is_clean = False
    try:
        with opened(root, configs, ledger, clock, since_s) as crawls:
            schedule = Schedule(Politeness(courtesy_of_all(configs)), shared.courtesy.max_hosts)
            recover(crawls, schedule, ledger, clock)
            ledger.note_courtesy(InForce.of(clock.now_s(), courtesy_of_all(configs)))
            caches = [proxy for each in configs if (proxy := proxy_of(each.signals.proxy)) is not None]
            guard = AddressGuard(shared.fetch.allow_nets, caches=caches)
            children = shared.parse.children or os.cpu_count() or 1
            used = open_now() + PER_CHILD * children
            sockets = share_out(descriptors, used, shared.fetch.at_once, shared.fetch.keep_alive)
            async with AsyncExitStack() as ending:  # the last that was opened first, whatever fails
                pool = ChildPool(JOB, children, ChildLimits.of(shared.limits), clock, zygote)
                ending.push_async_callback(pool.close)
                resolver = CaresResolver(clock, shared.fetch.dns or None)
                ending.push_async_callback(resolver.close)
                fetcher = CurlFetcher(
                    guard, shared.limits, clock, user_agent(shared.courtesy), keep_alive=sockets.keep_alive,
                    concurrency=sockets.at_once, bind=shared.fetch.bind,
                )  # fmt: skip
                ending.push_async_callback(fetcher.close)
                await pool.start()
                destinations = Destinations(resolver, guard, Overrides.parse(shared.fetch.resolve))
                robots = RobotsBook(shared.courtesy, shared.limits)
                disk = DiskSpace(root.path, shared.limits.disk_free_bytes)
                chance = random.Random(seed)
                cells = [cell for crawl in crawls for cell in crawl.committer.cells]
                async with indexing(cells, clock):
                    metrics, at_once = Metrics(), sockets.at_once
                    crawler = Crawler(
                        crawls, schedule, fetcher, destinations, pool, robots, clock, metrics, chance, disk, at_once
                    )
                    async with collecting(crawler, fetcher, robots, schedule, clock):
                        yield crawler
                is_clean = all(not crawl.has_uncommitted for crawl in crawls)
                if is_clean:
                    ledger.write(running_rests(schedule.politeness, clock))
    finally:
        ledger.close(clean=is_clean, now_s=clock.now_s())
