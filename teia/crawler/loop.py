"""The crawler: one loop that takes URLs from the frontier, has them fetched and parsed, and commits the results.

A URL's way, with the roles of A1 that do each step:

    HostQueue --Frontier: next host--> serve --Downloader--> fetched --Analyzer: speed; URLScheduler--> parse child
    --LinkExtractor, ContentExtractor, MetadataExtractor--> read --Bulk, Distributor, Take in the commit--> HostQueue

The loop never parses and never waits for the disk: parse children and the commit thread do. Everything between is
bounded: requests under way, pages waiting for a child, visits waiting for their commit. When one of them is full no new
request is started, and the hosts simply wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import math
import random
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from teia.clock import Clock, real_clock
from teia.crawler.child.messages import ReadResult, RenderedDocument, encode_parts, result_of
from teia.crawler.commit import CommitResult
from teia.crawler.compiled_settings import CompiledSettings, other_user_agent
from teia.crawler.own_timeouts import OwnTimeouts
from teia.crawler.resources import ROOM_AGAIN, DiskSpace, quota_complaint
from teia.crawler.robots import RobotsDecision
from teia.crawler.running_collection import AwaitedResource, Crawl
from teia.crawler.sites.identity import (
    AS_OTHER,
    IDENTITY_REQUESTS,
    note_identity_answer,
    queue_identity_request,
    remember_page,
)
from teia.crawler.sites.soft404 import needs_probe, note_answer, queue_probe
from teia.crawler.upkeep.removal import PendingRemoval, remove_from_crawl
from teia.crawler.upkeep.retention import RetentionResult, retain_for_quota
from teia.crawler.verdicts import needs_resend, retry_after_s, task_for, verdict_of
from teia.crawler.visit import RENDER, ActiveVisit
from teia.errors import DiskFull, StoreError, TeiaError
from teia.fetch.destination import Destination
from teia.fetch.fetcher import ACCEPT, Fetcher, FetchRequest
from teia.fetch.robots import RobotsRules
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.host_rules import merge_courtesy
from teia.frontier.queue.ledger import CourtesyInForce
from teia.frontier.queue.schedule import HostQueue, HostSchedule
from teia.lib.message import Message
from teia.parse.children.child import LostAnswer
from teia.parse.children.pool import ChildPool
from teia.records import Command, Fetched, Outcome, RemovedPages
from teia.urls import Parts, split

TICK_S = 0.01
"""Longest time between two ticks: delays that have ended are noticed then. Answers and commits cause a tick earlier."""

MAX_IN_FLIGHT, MAX_UNCOMMITTED, REFUSED_PER_TICK = 2_000, 2_048, 64
GRACE_S, READ_S, SETTLE_S, COMMIT_S = 5.0, 4.0, 6.0, 30.0
"""Time limits of a stop, in real seconds, because a fast clock speeds up no disk.

In order: for requests under way; then for pages that children still read; then for commits that fail, as on a full
disk; and for a commit that does not end.
"""

COMMIT_THREAD = "commit"
DISK_RETRY_S, DISK_CHECK_S, RETAIN_RETRY_S = 5.0, 1.0, 60.0
FORGET_EVERY_S = 10.0
"""Interval at which servers and addresses whose delay has ended are dropped from memory; there may be 20,000."""

CHILDREN_ADVICE = (
    "check the free memory of the machine, its log for killed processes, the limit of open files and the setting"
    " parse.processors; the crawl resumes when parsing works again, and no page is lost"
)

_PURPOSES = {"robots": "robots", RENDER: RENDER}
"""Tasks of parse children by the purpose of a request; all others are read as pages."""

_log = logging.getLogger(__name__)


class Crawler:
    """All crawls of one data folder, in one event loop."""

    def __init__(
        self,
        crawls: Sequence[Crawl],
        schedule: HostSchedule,
        fetcher: Fetcher,
        pool: ChildPool,
        clock: Clock,
        rng: random.Random,
        disk: DiskSpace,
        max_in_flight: int = MAX_IN_FLIGHT,
    ) -> None:
        self.crawls = crawls
        self._schedule = schedule
        self._fetcher = fetcher
        self._pool = pool
        self._clock, self._real_clock = clock, real_clock(clock)
        self._rng = rng
        self._disk = disk
        self.own_timeouts = OwnTimeouts(max_in_flight)
        self._check_disk_at = 0.0
        self._forget_at = 0.0
        self._stopping = False
        self._resolving: set[asyncio.Task[None]] = set()
        self._failure: TeiaError | None = None
        self._disk_retry_at = 0.0
        self._next_tick: asyncio.Future[None] | None = None
        self._is_dispatch_planned = False
        self._grace_s, self._read_s = GRACE_S, READ_S
        self._has_trouble = False
        self._is_stuck = False
        self._commit_complaint = ""
        self._unanswered = self._unread = self._commits = 0

    @property
    def in_flight(self) -> int:
        """Number of requests without an answer."""
        return self._fetcher.in_flight

    @property
    def waiting_parse(self) -> int:
        """Number of answers that wait to be parsed."""
        return self._pool.waiting

    # -- the loop ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Crawl until every crawl has ended or `stop` was called; then commit everything.

        A crawl that fails ends alone, with its `failure`. If all crawls have failed, the last failure is raised.
        """
        # One thread: commits of all crawls follow each other, and no cell is written by two.
        self._thread = ThreadPoolExecutor(1, COMMIT_THREAD)
        try:
            for crawl in self.crawls:
                crawl.start(self._clock.ticks_s())
            while not self._stopping and any(crawl.state.is_active for crawl in self.crawls):
                self._tick()
                await self._pause()
            await self._wind_up()
        finally:
            # A commit that hangs would keep the process from ending.
            self._thread.shutdown(wait=not self._is_stuck)
        if self._failure is not None:
            raise self._failure

    async def _pause(self) -> None:
        """Wait for the next tick."""
        self._next_tick = asyncio.get_running_loop().create_future()
        timer = asyncio.get_running_loop().call_later(TICK_S, self._wake)
        try:
            await self._next_tick
        finally:
            timer.cancel()

    def _wake(self) -> None:
        """Tick now: something has happened that the next tick would find."""
        if self._next_tick is not None and not self._next_tick.done():
            self._next_tick.set_result(None)

    def _wake_if_idle(self) -> None:
        """Tick now for a host that can be requested, unless an answer comes soon, which has the same effect."""
        if not self._fetcher.in_flight:
            self._wake()

    def stop(self) -> None:
        """Start no more requests, let those under way end, commit, return from `run`."""
        self._stopping = True

    def stop_now(self) -> None:
        """Stop without waiting for requests under way and pages that wait for a child; commit pages already read."""
        self.stop()
        self._grace_s = self._read_s = 0.0

    def slowest_hosts(self, number: int) -> list[tuple[str, float]]:
        """Return the hosts whose last answer took longest, with its duration."""
        servers = self._schedule.politeness.servers.values()
        slow = heapq.nlargest(number, servers, key=lambda server: server.last_response_s)
        return [(server.name, server.last_response_s) for server in slow if server.last_response_s >= 1]

    def _tick(self) -> None:
        now = self._clock.ticks_s()
        if now >= self._check_disk_at:
            self._check_disk_at = now + DISK_CHECK_S
            self._check_disk()
        if now >= self._forget_at:
            self._forget_at = now + FORGET_EVERY_S
            self._schedule.politeness.forget_expired(now)
        if self._pool.trouble or self._has_trouble:
            self._check_children()
        self._dispatch(now)
        for crawl in self.crawls:
            if crawl.removal is not None and not crawl.removal.is_begun:
                self._maybe_remove(crawl, crawl.removal)
            crawl.wake_due(self._schedule, now)
            self._forget_robots(crawl, crawl.make_room(self._schedule, now))
            self._maybe_commit(crawl, now)
            crawl.use_idle_time()
            crawl.check_end(now)

    def _check_disk(self) -> None:
        complaint = self._disk.complaint()
        for crawl in self.crawls:
            folders = [cell.folder.archive for cell in crawl.committer.cells]
            if crawl.is_retaining:  # nothing begins before it has ended: a visit might refer to a record that goes
                continue
            is_waiting = crawl.waits_for is AwaitedResource.QUOTA
            over_quota = quota_complaint(
                folders, crawl.config.retention.quota_bytes, crawl.awaited_bytes, is_waiting=is_waiting
            )
            if complaint:
                crawl.pause(complaint, AwaitedResource.SPACE)
            elif over_quota:
                if crawl.waits_for is AwaitedResource.SPACE:
                    crawl.resume(self._schedule)  # there is space again, and it waits for something else
                crawl.pause(over_quota, AwaitedResource.QUOTA)
                self._maybe_retain(crawl)
            elif crawl.waits_for is AwaitedResource.QUOTA or (
                crawl.waits_for is AwaitedResource.SPACE
                and self._clock.ticks_s() >= self._disk_retry_at
                and self._disk.has_enough()
            ):
                crawl.resume(self._schedule)

    def _maybe_retain(self, crawl: Crawl) -> None:
        """Remove captures by the rules of a crawl that waits at its quota, in the commit thread."""
        settings = crawl.config.retention
        is_useless = crawl.full_quota == settings.quota_bytes or crawl.ownership.cells_move
        if is_useless or crawl.waits_for is not AwaitedResource.QUOTA or not crawl.is_quiet or self._stopping:
            return
        cells = crawl.committer.cells
        if self._clock.ticks_s() < crawl.retains_after or any(cell.is_read for cell in cells):
            return
        for cell in cells:
            cell.is_read = True
        crawl.is_committing = crawl.is_retaining = True
        work = partial(
            retain_for_quota, crawl.name, crawl.committer.cells, settings, self._clock, lambda: self._stopping
        )
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        future.add_done_callback(lambda done: self._handle_retained(crawl, done))

    def _handle_retained(self, crawl: Crawl, done: asyncio.Future[RetentionResult]) -> None:
        crawl.is_committing = crawl.is_retaining = False
        for cell in crawl.committer.cells:
            cell.is_read = False
        self._check_disk_at = 0.0
        self._wake()
        if crawl.content_seen is not None:
            crawl.content_seen.forget_recent()
        error = done.exception()
        if isinstance(error, DiskFull):  # there is no room for the copy of a file; the crawl stays paused
            crawl.retains_after = self._clock.ticks_s() + RETAIN_RETRY_S
            _log.warning("%s: captures cannot be removed: %s", crawl.name, error)
            return
        if error is not None:
            crawl.fail(error if isinstance(error, TeiaError) else StoreError(f"retention failed: {error!r}"))
            return
        result = done.result()
        if result.was_stopped:
            return
        is_full = result.archive_bytes >= result.quota_bytes * ROOM_AGAIN
        crawl.full_quota = result.quota_bytes if is_full else 0
        _log.warning(
            "%s: %d captures were removed because of the quota; the archive takes %d MiB",
            crawl.name, result.removed, result.archive_bytes >> 20,
        )  # fmt: skip

    def _maybe_remove(self, crawl: Crawl, removal: PendingRemoval) -> None:
        """Remove the pages that a user wants removed, in the commit thread, once nothing of the crawl is under way."""
        crawl.pause(Message("pages are being removed"), AwaitedResource.REMOVAL)
        cells = crawl.committer.cells
        if crawl.is_retaining or not crawl.is_quiet or self._stopping or any(cell.is_read for cell in cells):
            return
        for cell in cells:
            cell.is_read = True
        crawl.is_committing = crawl.is_retaining = removal.is_begun = True
        work = partial(remove_from_crawl, cells, removal, self._clock, lambda: self._stopping)
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        future.add_done_callback(lambda done: self._handle_removed(crawl, done))

    def _handle_removed(self, crawl: Crawl, done: asyncio.Future[RemovedPages | None]) -> None:
        crawl.is_committing = False
        for cell in crawl.committer.cells:
            cell.is_read = False
        self._check_disk_at = 0.0
        self._wake()
        error = done.exception()
        crawl.note_removal(None if error is not None else done.result(), self._schedule)
        if isinstance(error, DiskFull):
            crawl.removal = None  # the request is repeated, and with it the removal
            _log.warning("%s: pages cannot be removed: %s", crawl.name, error)
        elif error is not None:
            crawl.fail(error if isinstance(error, TeiaError) else StoreError(f"removal failed: {error!r}"))

    def _check_children(self) -> None:
        """Pause and report while no page can be parsed; resume when parse children work again."""
        trouble = self._pool.trouble
        for crawl in self.crawls:
            if trouble:
                crawl.pause(f"pages cannot be parsed: {trouble}; {CHILDREN_ADVICE}", AwaitedResource.CHILDREN)
            elif crawl.waits_for is AwaitedResource.CHILDREN:
                crawl.resume(self._schedule)
        if bool(trouble) != self._has_trouble:
            self._has_trouble = bool(trouble)
            if trouble:
                _log.warning("paused: pages cannot be parsed: %s; %s", trouble, CHILDREN_ADVICE)
            else:
                _log.warning("pages can be parsed again; the crawl resumes")

    def apply_commands(self, commands: Iterable[Command], crawl: Crawl) -> None:
        """Apply the commands that the user gave for one crawl."""
        for command in commands:
            if command is Command.PAUSE:
                crawl.pause(Message("asked to"))
            elif command is Command.RESUME:
                crawl.resume(self._schedule)
            elif command is Command.STOP:
                crawl.end()

    def reconfigure(self, crawl: Crawl, compiled: CompiledSettings) -> None:
        """Apply new settings to one crawl; settings that crawls share are taken from the first crawl."""
        configs = [compiled.config if each is crawl else each.config for each in self.crawls]
        shared, courtesy = configs[0], merge_courtesy(configs)
        in_force = CourtesyInForce.from_settings(self._clock.now_s(), courtesy)
        crawl.reconfigure(compiled, in_force, self._schedule)
        self._schedule.apply_courtesy(courtesy)
        for each in self.crawls:
            each.robots.apply_settings(shared.courtesy, shared.limits)
        self._disk.low_bytes = shared.limits.disk_free_bytes
        # Of an excluded host not even robots.txt is fetched; another crawl may still request it.
        for queue in crawl.queues.values():
            if queue.prerequisites and compiled.blocks(f"http://{queue.host}/"):
                crawl.robots.awaited.difference_update(request.origin for request in queue.prerequisites)
                queue.prerequisites.clear()
                crawl.refuse_page_requests(queue)

    def _dispatch_soon(self) -> None:
        self._is_dispatch_planned = False
        self._dispatch(self._clock.ticks_s())

    def _dispatch(self, now: float) -> None:
        parse, pool = self.crawls[0].config.parse, self._pool
        # Requests that are started here change nothing in the pool.
        if pool.is_probing or pool.waiting >= parse.waiting_pages or pool.waiting_bytes >= parse.waiting_bytes:
            return
        while self._has_room():
            queue = self._schedule.next_host(now)
            if queue is None:
                return
            self._serve(queue, now)

    def _has_room(self) -> bool:
        if self._stopping or self._fetcher.in_flight >= self.own_timeouts.cap:
            return False
        uncommitted = 0
        for crawl in self.crawls:
            if crawl.failure is None:
                uncommitted += len(crawl.uncommitted)
        return uncommitted < MAX_UNCOMMITTED

    # -- a URL goes out ------------------------------------------------------------------------------------

    def _serve(self, queue: HostQueue, now: float) -> None:
        """Start the host's next request; URLs that may not be fetched are settled on the way."""
        crawl = self.crawls[queue.collection]
        held = False
        # Bounded, so that a long run of refused URLs does not block the loop.
        for _ in range(REFUSED_PER_TICK):
            item = queue.head
            if item is None:
                break
            if item.purpose == "robots" and not item.hops and crawl.budgets.exhausted(queue, crawl.config.limits):
                self._drop_robots_request(queue)
                continue
            if item.purpose == RENDER and (crawl.rendering is None or not crawl.rendering.is_awaited(item.url)):
                queue.pop()  # its page has ended
                continue
            if crawl.needs_quota_check():
                self._check_disk()
            if not crawl.may_start(queue, item):
                crawl.hold(queue)
                held = True
                break
            refusal = crawl.refusal(queue, item)
            if refusal is not None:
                self._refuse(crawl, queue, *refusal)
                continue
            if needs_probe(queue, item, crawl.config.sites.probe_after_pages):
                queue_probe(queue, item)
                continue
            if queue_identity_request(queue, item, crawl.config.sites.identity_after_pages):
                continue
            parts = split(item.url)
            destination = crawl.destinations.find_cached(queue.host, parts.port)
            # Before robots.txt: the settings of this collection decide, and another collection may read that file.
            if destination is not None and destination.outcome is Outcome.BLOCKED_ADDRESS:
                if item.purpose == "robots" and not item.hops:
                    self._drop_robots_request(queue)
                else:
                    self._refuse(crawl, queue, destination.outcome, destination.detail)
                continue
            permission = self._check_robots(crawl, queue, item, parts)
            if permission is RobotsDecision.LATER:
                held = True
                break
            if permission is RobotsDecision.SETTLED:
                continue
            if destination is None:
                self._resolve(crawl, queue, parts.port)
                # The host returns to the schedule when its name is resolved.
                return
            if destination.outcome is not None:
                self._refuse(crawl, queue, destination.outcome, destination.detail)
                continue
            queue.address = destination.address
            # The address may have become known just now: other hosts may be in line for it, or another node may
            # hold it.
            if self._schedule.is_free(queue, now) and crawl.ownership.begin_request(queue, self._schedule, now):
                self._start(crawl, queue, destination, now)
                return
            break
        self._schedule.put_back(queue, held=held)
        crawl.refill_if_low(queue)

    def _check_robots(self, crawl: Crawl, queue: HostQueue, item: QueuedUrl, parts: Parts) -> RobotsDecision:
        """Check robots.txt for the next URL of this host; if it is unknown, queue its fetch first."""
        if item.purpose == "robots" or not crawl.config.courtesy.robots:
            return RobotsDecision.GO
        origin = f"{parts.scheme}://{parts.authority}"
        known = crawl.robots.rules_of(origin, self._clock.now_s())
        if known is None:
            # Another crawl, or another prerequisite of this one, is fetching the file.
            if origin in crawl.robots.awaited:
                return RobotsDecision.LATER
            crawl.robots.awaited.add(origin)
            queue.prerequisites.insert(0, crawl.robots.prerequisite(origin, item.since_s))
        elif self._is_delay_too_long(known.rules):
            crawl.park(queue, Message("robots.txt asks for a Crawl-delay of {n:g} s", n=known.rules.crawl_delay_s))
            return RobotsDecision.LATER
        elif known.rules.unreachable:
            known.was_used = True
            self._refuse(crawl, queue, known.refusal, known.reason)
        elif not known.rules.allows(item.url):
            self._refuse(crawl, queue, Outcome.ROBOTS, "")
        else:
            return RobotsDecision.GO
        return RobotsDecision.SETTLED

    def reread_robots(self, crawl: Crawl, origin: str, since_s: float) -> bool:
        """Fetch a robots.txt again, ahead of its host's pages; return whether it was read since `since_s`."""
        request = crawl.robots.refetch(origin, since_s)
        if request is not None:
            crawl.queue_prerequisite(request, self._schedule)
        return request is None and origin not in crawl.robots.awaited

    def _drop_robots_request(self, queue: HostQueue) -> None:
        """Drop a robots.txt request: the budget of its host or site is used up, so no page would follow it."""
        self.crawls[queue.collection].robots.awaited.discard(queue.pop().origin)
        for each in self.crawls:
            if queue.host in each.queues and each.queues[queue.host] is not queue:
                self._schedule.wake(each.queues[queue.host])

    def _refuse(self, crawl: Crawl, queue: HostQueue, outcome: Outcome, detail: str) -> None:
        """Settle the host's next URL without a request."""
        visit = ActiveVisit(queue, queue.pop(), outcome=outcome, detail=detail)
        crawl.note_start(visit)
        if visit.item.purpose == "robots":
            self._learn_robots(crawl, visit, 0, b"")
        self._conclude(crawl, visit)

    def _resolve(self, crawl: Crawl, queue: HostQueue, port: int) -> None:
        """Resolve the host's address without blocking other hosts; then return the host to the schedule."""

        async def find() -> None:
            try:
                await crawl.destinations.find(queue.host, port)
            finally:
                self._schedule.put_back(queue)
                self._wake_if_idle()

        task = asyncio.get_running_loop().create_task(find())
        self._resolving.add(task)
        task.add_done_callback(self._resolving.discard)

    def _start(self, crawl: Crawl, queue: HostQueue, destination: Destination, now: float) -> None:
        item = queue.pop()
        visit = ActiveVisit(queue, item, address=destination.address, started=now)
        if queue.server.last_end > float("-inf"):
            visit.delay_before_s, visit.waited_s = queue.server.last_delay_s, now - queue.server.last_end
        crawl.note_start(visit)
        crawl.live.note_start(visit)
        is_robots = item.purpose == "robots"
        self._schedule.begin_request(queue, is_followed=is_robots)
        limits = crawl.config.limits
        request = FetchRequest(
            item.url,
            destination.address,
            destination.port,
            item.etag or None,
            item.last_modified or None,
            limits.robots_bytes if is_robots else limits.body_bytes,
            accept="*/*" if item.purpose == RENDER else ACCEPT,
            user_agent=other_user_agent(crawl.config.courtesy) if item.purpose == AS_OTHER else "",
            guard=crawl.destinations.guard,
            is_followed=is_robots,
            may_send=crawl.ownership.may_send(queue),
        )
        self._fetcher.start(request, partial(self._handle_fetched, crawl, visit))
        crawl.refill_if_low(queue)

    # -- an answer comes back ------------------------------------------------------------------------------

    def _handle_fetched(self, crawl: Crawl, visit: ActiveVisit, fetched: Fetched) -> None:
        now = self._clock.ticks_s()
        crawl.live.note_end(visit)
        # Before the host's counts change: a host that never answered, or failed just before, accuses only itself.
        if visit.queue.requests and not visit.queue.failures:
            is_timeout = fetched.outcome == Outcome.TIMEOUT
            in_flight = self._fetcher.in_flight
            self.own_timeouts.note_answer(visit.address, visit.started, now, in_flight, is_timeout=is_timeout)
            crawl.lost_here, crawl.parallel_requests = self.own_timeouts.lost, self.own_timeouts.cap
        visit.fetched, visit.bytes_received = fetched, fetched.bytes_received
        back_off_s = retry_after_s(fetched, self._clock.now_s())
        # The server named no time: the crawler's own back-off applies.
        if fetched.status in {429, 503} and back_off_s == 0:
            back_off_s = self._schedule.politeness.back_off(visit.queue.server, now, self._rng.random())
        visit.delay_s = self._schedule.end_request(visit.queue, visit.address, visit.started, now, back_off_s)
        address = self._schedule.politeness.address(visit.address)
        # For the ledger: written with the next group, before the visit itself.
        crawl.note_delay(visit.queue.server, address)
        crawl.note_answer(visit, address, now)
        # Cut off by the stop itself: the URL is still queued on disk.
        if self._stopping and fetched.outcome == Outcome.SYSTEM:
            self._unanswered += 1
            crawl.forget(visit)
        elif fetched.status == 0:
            visit.outcome, visit.detail = fetched.outcome, fetched.detail
            if visit.item.purpose == "robots" and needs_resend(visit):
                self._request_robots_again(crawl, replace(visit.item, failures=1))
            elif visit.item.purpose == "robots":
                self._learn_robots(crawl, visit, 0, b"")
            self._conclude(crawl, visit)
        else:
            self._submit(crawl, visit, _PURPOSES.get(visit.item.purpose, "page"))
        # A host without a delay is requested again at once; one dispatch serves all answers that came together.
        if not self._is_dispatch_planned:
            self._is_dispatch_planned = True
            asyncio.get_running_loop().call_soon(self._dispatch_soon)

    def accept_answer(self, crawl: Crawl, visit: ActiveVisit, fetched: Fetched) -> None:
        """Accept an answer that did not come from the page's own server (proxy_collector.py)."""
        visit.fetched, visit.bytes_received = fetched, fetched.bytes_received
        self._submit(crawl, visit, "page")

    def _submit(self, crawl: Crawl, visit: ActiveVisit, purpose: str) -> None:
        """Give an answer to the parse children, unless it waits for the commit of one with the same body."""
        assert visit.fetched is not None
        seen = crawl.content_seen if purpose == "page" else None
        if seen is not None and not seen.begin(visit, may_wait=not self._stopping):
            return
        record = None if seen is None else seen.record_of(visit)
        task = task_for(crawl.read_settings, purpose, visit.item, visit.fetched, record)
        self._pool.submit(*encode_parts(task), done=partial(self._handle_read, crawl, visit, purpose))

    def _submit_released(self, crawl: Crawl) -> None:
        for visit in () if crawl.content_seen is None else crawl.content_seen.pop_released():
            self._submit(crawl, visit, "page")

    def _handle_read(self, crawl: Crawl, visit: ActiveVisit, purpose: str, answer: bytes | LostAnswer) -> None:
        """Process a parse child's result; store a page unread as `parse_failed` if it crashed the children."""
        result = result_of(answer)
        if isinstance(result, LostAnswer) and result.reason == "closed":
            self._unread += 1
            crawl.forget(visit)
            return
        if isinstance(result, LostAnswer) and visit.static is not None and crawl.rendering is not None:
            crawl.rendering.note_read(visit, None)
            return
        if isinstance(result, LostAnswer):
            # A page that kills its child is stored unread. If even that fails, it is fetched again later.
            if purpose == "store":
                visit.outcome, visit.detail = Outcome.SYSTEM, result.reason
                if visit.item.purpose == "robots":
                    self._learn_robots(crawl, visit, 0, b"")
                self._conclude(crawl, visit)
            else:
                visit.outcome, visit.detail = Outcome.PARSE_FAILED, result.reason
                self._submit(crawl, visit, "store")
            return
        if crawl.rendering is not None and visit.static is not None:
            crawl.rendering.note_read(visit, result)
        elif crawl.rendering is None or not self._may_render(visit, result) or not crawl.rendering.take(visit, result):
            self._accept_result(crawl, visit, result)

    @staticmethod
    def _may_render(visit: ActiveVisit, result: ReadResult) -> bool:
        """Tell whether an answer is a page whose scripts may show more; probes are compared as received."""
        return result.signs is not None and visit.item.purpose == "page"

    def reread_rendered(self, crawl: Crawl, visit: ActiveVisit, rendered: RenderedDocument) -> None:
        """Have a page read again, in the form that its scripts gave it (rendering/)."""
        assert visit.fetched is not None
        task = task_for(crawl.read_settings, "page", visit.item, visit.fetched, rendered=rendered)
        self._pool.submit(*encode_parts(task), done=partial(self._handle_read, crawl, visit, "page"))

    def accept_static(self, crawl: Crawl, visit: ActiveVisit, result: ReadResult) -> None:
        """Continue with the result of a page that waited to be rendered."""
        self._accept_result(crawl, visit, result)

    def queue_page_request(self, crawl: Crawl, request: QueuedUrl) -> None:
        """Queue a request of a page that is being rendered, ahead of its host's pages."""
        crawl.queue_prerequisite(request, self._schedule)
        self._wake_if_idle()

    def _accept_result(self, crawl: Crawl, visit: ActiveVisit, result: ReadResult) -> None:
        """Process the result of a child that has read an answer."""
        assert visit.fetched is not None
        visit.result, visit.parsed_s = result, self._clock.now_s()
        if visit.item.purpose == RENDER and crawl.rendering is not None:
            visit.outcome = visit.outcome or result.outcome
            crawl.rendering.note_request(visit)
        visit.drop_bytes()
        visit.outcome = visit.outcome or visit.result.outcome
        visit.detail = visit.detail or visit.fetched.detail
        if visit.item.purpose == "robots":
            self._read_robots(crawl, visit)
        elif visit.item.purpose in IDENTITY_REQUESTS:
            note_identity_answer(visit)
        elif visit.item.purpose != RENDER:
            note_answer(visit, self._clock.now_s())
            if crawl.config.sites.identity_after_pages:
                remember_page(visit)
        if visit.queue.head is None and not crawl.is_ending:
            self._check_site_at_its_end(crawl, visit)
        self._conclude(crawl, visit)
        # After `_conclude`: a visit that refers to this one comes after it in its group.
        if crawl.content_seen is not None:
            crawl.content_seen.note_read(visit)
            self._submit_released(crawl)

    def _check_site_at_its_end(self, crawl: Crawl, visit: ActiveVisit) -> None:
        """Queue a check of a site after the last URL of a host: `_serve` puts it before another, and there is none."""
        queue, item, sites = visit.queue, visit.item, crawl.config.sites
        if needs_probe(queue, item, sites.probe_after_pages):
            queue_probe(queue, item)
        elif not queue_identity_request(queue, item, sites.identity_after_pages):
            return
        self._schedule.wake(queue)

    def _read_robots(self, crawl: Crawl, visit: ActiveVisit) -> None:
        assert visit.fetched is not None
        assert visit.result is not None
        to = visit.result.redirect_to
        if to and crawl.compiled.blocks(to):
            visit.outcome, visit.detail = Outcome.OUT_OF_SCOPE, f"it redirects to {to}, which is excluded"
            self._learn_robots(crawl, visit, 0, b"")
        elif to and not crawl.ownership.owns(split(to).host):
            visit.outcome, visit.detail = (
                Outcome.ROBOTS_UNREACHABLE,
                f"it redirects to {to}, which belongs to another node",
            )
            self._learn_robots(crawl, visit, 0, b"")
        elif to and visit.item.hops < crawl.config.limits.redirects:
            self._request_robots_again(crawl, crawl.robots.next_hop(visit.item, to))
        else:
            self._learn_robots(crawl, visit, visit.fetched.status, visit.result.payload)

    def _request_robots_again(self, crawl: Crawl, request: QueuedUrl) -> None:
        """Request a robots.txt once more; if the crawl is ending, leave it to the other crawls that wait for it."""
        if crawl.is_ending:
            crawl.robots.awaited.discard(request.origin)
            self._wake_all(split(f"{request.origin}/").host)
        else:
            crawl.queue_prerequisite(request, self._schedule)

    def _wake_all(self, host: str) -> None:
        for each in self.crawls:
            if host in each.queues:
                self._schedule.wake(each.queues[host])

    def _learn_robots(self, crawl: Crawl, visit: ActiveVisit, status: int, body: bytes) -> None:
        """Apply a robots.txt answer, and wake the hosts that waited for it."""
        visit.is_final_robots = True
        origin = visit.item.origin
        host = split(f"{origin}/").host
        is_stored = host == visit.queue.host and bool(visit.queue.host_id)
        rules = crawl.robots.learn(
            origin, visit.outcome, status, body, self._clock.now_s(), visit.detail, is_stored=is_stored
        )
        self._apply_crawl_delay(crawl, origin, rules)
        crawl.note_delay(self._schedule.politeness.server(host), None)
        crawl.add_sitemaps(rules.sitemaps, origin)
        self._wake_all(host)
        self._wake_if_idle()

    def _load_robots(
        self, crawl: Crawl, origin: str, requested_s: float, outcome: str, status: int, body: bytes
    ) -> None:
        """Apply a robots.txt that an earlier run stored, unless this run has fetched it from the server.

        A failed name lookup is not an answer of the server, so the name is looked up again.
        """
        if outcome == Outcome.DNS:
            return
        if crawl.robots.rules_of(origin, requested_s) is None and origin not in crawl.robots.awaited:
            rules = crawl.robots.learn(origin, outcome, status, body, requested_s, is_stored=True)
            self._apply_crawl_delay(crawl, origin, rules)

    def _apply_crawl_delay(self, crawl: Crawl, origin: str, rules: RobotsRules) -> None:
        """Lengthen a server's delay to its Crawl-delay; if that is too long, it is parked when next served."""
        politeness = self._schedule.politeness
        if not self._is_delay_too_long(rules):
            server = politeness.server(split(f"{origin}/").host)
            politeness.apply_crawl_delay(server, rules.crawl_delay_s or 0.0, (crawl.robots, origin))

    def _is_delay_too_long(self, rules: RobotsRules) -> bool:
        return (rules.crawl_delay_s or 0.0) > self._schedule.politeness.courtesy.max_crawl_delay_s

    def _conclude(self, crawl: Crawl, visit: ActiveVisit) -> None:
        self._note_resolution(crawl, visit)
        if visit.item.purpose == RENDER and visit.result is None and crawl.rendering is not None:
            crawl.rendering.note_request(visit)
        visit.verdict = verdict_of(visit, crawl.config, self._rng)
        crawl.live.conclude(visit)
        crawl.conclude(visit, self._clock.ticks_s())
        if crawl.has_whole_group and not crawl.is_committing:
            self._wake()

    @staticmethod
    def _note_resolution(crawl: Crawl, visit: ActiveVisit) -> None:
        """Note whether a host has an address: the end of the crawl need not wait for a host without one."""
        queue, failed = visit.queue, visit.outcome == Outcome.DNS
        queue.is_unresolved = failed
        known = crawl.destinations.find_cached(queue.host, split(visit.item.url).port) if failed else None
        is_sure = known is not None and known.outcome is Outcome.DNS and not known.is_temporary
        queue.is_unresolvable = is_sure and not queue.requests  # a host that has answered will resolve again

    # -- commits -------------------------------------------------------------------------------------------

    def _maybe_commit(self, crawl: Crawl, now: float) -> None:
        if crawl.is_committing or crawl.failure is not None or now < self._disk_retry_at or not crawl.wants_commit(now):
            return
        crawl.is_committing = True
        group = crawl.take_group(now, self._clock.now_s())
        future = asyncio.get_running_loop().run_in_executor(self._thread, crawl.committer.commit, group)
        # The callback runs on the loop again, so that no lock is needed.
        future.add_done_callback(lambda done: self._handle_commit(crawl, done))

    def _handle_commit(self, crawl: Crawl, done: asyncio.Future[CommitResult]) -> None:
        crawl.is_committing = False
        self._wake()
        error = done.exception()
        if error is None:
            self._commits += 1
            result = done.result()
            for row in result.robots:
                self._load_robots(crawl, *row)
            self._forget_robots(crawl, crawl.apply_commit(result, self._schedule, self._clock))
            self._submit_released(crawl)
            return
        if isinstance(error, DiskFull):
            self._disk_retry_at = self._clock.ticks_s() + DISK_RETRY_S
            self._commit_complaint = str(error)
            crawl.pause(str(error), AwaitedResource.SPACE)
        else:
            if not isinstance(error, TeiaError):  # a fault of ours, which only its place explains
                _log.error("commit failed", exc_info=error)
            crawl.fail(error if isinstance(error, TeiaError) else StoreError(f"commit failed: {error!r}"))
            for queue in crawl.queues.values():
                while queue.prerequisites:  # other crawls may wait for them
                    self._drop_robots_request(queue)
            if all(each.failure is not None for each in self.crawls):
                self._failure = crawl.failure
                self._stopping = True

    def _forget_robots(self, crawl: Crawl, hosts: Iterable[str]) -> None:
        """Forget the robots.txt of hosts that have left memory, unless another crawl has them there."""
        for host in hosts:
            if not any(host in each.queues for each in self.crawls if each.robots is crawl.robots):
                crawl.robots.forget(host)

    async def _wind_up(self) -> None:
        """Let requests and parsing under way end, then commit everything that was read; each step has a time limit."""
        self._stopping = True
        for crawl in self.crawls:
            crawl.wind_up()
            self._submit_released(crawl)
        # 1. Requests under way end, or are cut off.
        await self._commit_while(lambda: self._fetcher.in_flight > 0, lambda: self._grace_s)
        await self._fetcher.close()
        for task in list(self._resolving):
            task.cancel()
        # 2. Children read the pages that wait.
        await self._commit_while(lambda: self._pool.waiting > 0 and self._failure is None, lambda: self._read_s)
        with contextlib.suppress(asyncio.CancelledError):
            await self._pool.close()
        # 3. All results are committed.
        await self._commit_while(self._has_uncommitted, self._settle_s)
        self._report_unfinished()
        for crawl in self.crawls:
            crawl.end()

    async def _commit_while(self, waits: Callable[[], bool], limit_s: Callable[[], float]) -> None:
        """Commit pending visits while `waits()` is true, for a limited time; `stop_now` may shorten it."""
        began, commits = self._real_clock.ticks_s(), self._commits
        while waits():
            # Before the time is compared: one has succeeded, so the next may too.
            if self._commits > commits and waits == self._has_uncommitted:
                began, commits = self._real_clock.ticks_s(), self._commits
            if self._real_clock.ticks_s() >= began + limit_s():
                return
            for crawl in self.crawls:
                self._maybe_commit(crawl, self._clock.ticks_s())
            await self._pause()

    def _has_uncommitted(self) -> bool:
        if any(crawl.is_committing for crawl in self.crawls):
            return True
        return self._failure is None and any(crawl.has_uncommitted for crawl in self.crawls if crawl.failure is None)

    def _settle_s(self) -> float:
        """Return the time limit for commits: longer for a commit at work than for those that fail and are retried.

        It is counted from the last commit that succeeded.
        """
        if any(crawl.is_committing and crawl.ownership.waits_for_every_commit for crawl in self.crawls):
            return math.inf
        return COMMIT_S if any(crawl.is_committing for crawl in self.crawls) else SETTLE_S

    def _report_unfinished(self) -> None:
        """Report the work that a stop did not wait for; it is not lost, because uncommitted URLs are fetched again."""
        self._unread += sum(crawl.unrendered for crawl in self.crawls)
        if self._unanswered or self._unread:
            _log.warning(
                "stopped without waiting for %d requests in progress and %d pages that were not parsed yet; they are"
                " requested again next time",
                self._unanswered,
                self._unread,
            )
        self._is_stuck = any(crawl.is_committing for crawl in self.crawls)
        if self._is_stuck:
            _log.error("the commit that does not end is here:\n%s", _commit_stack())
        if self._is_stuck and self._failure is None:
            self._failure = StoreError(
                f"a commit did not complete within {COMMIT_S:g} s of a stop; check the disk of the data folder,"
                " then run the same command again: what was committed before is safe, the rest is fetched again"
            )
        elif self._failure is None:
            for crawl in self.crawls:
                if crawl.uncommitted_visits or (crawl.has_uncommitted and crawl.failure is None):
                    _log.warning(
                        "%s: stopped with %d pages uncommitted: %s; they will be fetched again next time",
                        crawl.name,
                        crawl.uncommitted_visits,
                        crawl.failure or self._commit_complaint or "commits fail",
                    )


def _commit_stack() -> str:
    """Return what the commit thread is doing, for the log of a commit that does not end."""
    frames = sys._current_frames()  # the only way to see another thread
    threads = [each for each in threading.enumerate() if each.name.startswith(COMMIT_THREAD) and each.ident in frames]
    return "".join(line for each in threads for line in traceback.format_stack(frames[each.ident or 0]))
