"""One collection while it is being crawled: its hosts in memory, its visits under way, what it wants committed.

All of it lives on the event loop; the commit thread only ever sees the `Group` taken here and gives back a `Committed`.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from teia.clock import Clock
from teia.config import Config
from teia.crawl.commit import Committed, Committer, Group
from teia.crawl.visits import Visit
from teia.frontier.cell import Found, tail_of
from teia.frontier.ledger import Rest
from teia.frontier.politeness import Place
from teia.frontier.schedule import HostQueue, Queued, Schedule
from teia.frontier.schema import BY_SEED, BY_SITEMAP
from teia.records import Outcome
from teia.urls import cell_of, key_of, resolve, site_of, slot_of, split

MAX_FAILED_SEEDS = 5
REFILL_AT_MOST = 512
REFILLS_PER_GROUP = 512
"""So many buffers are filled with one commit: after a restart all hosts are hungry, and pages must not wait for all."""

SLOW_DOWN_AFTER_FAILURES = 5
DEAD_AFTER_FAILURES = 12
HOST_FAILURES = frozenset({Outcome.CONNECT, Outcome.TIMEOUT, Outcome.TLS})
"""Outcomes that speak of the host rather than of one page. The rest of a failing host doubles, then it is given up."""

REFILL_PAUSE_S = 0.02
"""Buffers are filled at most so often when there is nothing else to commit."""


class State(StrEnum):
    """What a crawl is doing, or why it ended."""

    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    STOPPED = "stopped"
    LIMIT = "limit"

    @property
    def is_going(self) -> bool:
        return self in {State.RUNNING, State.PAUSED}


@dataclass(slots=True)
class Counts:
    """What this run has done; the summary of `teia crawl`."""

    requests: int = 0
    pages: int = 0
    bytes_received: int = 0
    links: int = 0
    archive_records: int = 0
    urls_new: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failed_seeds: list[str] = field(default_factory=list)


class Crawl:
    """One collection under way; see the module's text."""

    def __init__(
        self, number: int, name: str, config: Config, committer: Committer, starts: tuple[int, ...], reading: bytes
    ) -> None:
        self.number = number
        self.name = name
        self.config = config
        self.committer = committer
        self.reading = reading
        self.state = State.RUNNING
        self.paused_why = ""
        self.waits_for_space = False
        self.counts = Counts()
        self.queues: dict[str, HostQueue] = {}
        self.uncommitted: list[Visit] = []
        self.committing = False
        self._starts = starts
        self._group: Group | None = None
        self._seeds: list[Found] = []
        self._hungry: dict[HostQueue, None] = {}
        self._rests: dict[tuple[str, str], Rest] = {}
        self._held: list[HostQueue] = []
        self._parked: list[tuple[HostQueue, str]] = []
        self.site_requests: Counter[str] = Counter()
        self._later: list[tuple[float, int, HostQueue]] = []
        self._order = itertools.count()
        self._open = 0
        self._open_pages = 0
        self._began = 0.0
        self._last_group = 0.0
        self._oldest = 0.0

    # -- beginning and end ---------------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        self._began = now

    def add_seeds(self, seeds: list[str]) -> None:
        """Queue URLs at depth 0; those already known stay as they are."""
        for url in seeds:
            self._seeds.append(_found(url, 0, BY_SEED))

    def add_sitemaps(self, sitemaps: tuple[str, ...], origin: str) -> None:
        """Queue the sitemaps a robots.txt names, as pages one hop from the root."""
        for reference in sitemaps:
            url = resolve(reference, f"{origin}/")
            if url is not None and split(url).host == split(f"{origin}/").host:
                self._seeds.append(_found(url, 1, BY_SITEMAP))

    def pause(self, why: str, *, for_space: bool = False) -> None:
        """Start nothing new. A pause for want of disk space ends by itself when there is some."""
        if self.state is State.RUNNING:
            self.state, self.paused_why, self.waits_for_space = State.PAUSED, why, for_space

    def resume(self, schedule: Schedule) -> None:
        if self.state is State.PAUSED:
            self.state, self.paused_why, self.waits_for_space = State.RUNNING, "", False
            self._release_held(schedule)

    def end(self) -> None:
        if self.state.is_going:
            self.state = State.STOPPED

    def check_end(self, now: float) -> None:
        """Notice that a limit was reached, or that nothing is left to do."""
        limits = self.config.limits
        if not self.state.is_going:
            return
        if (limits.seconds and now - self._began >= limits.seconds) or (
            limits.pages and self.counts.pages >= limits.pages
        ):
            self.state = State.LIMIT
        elif self.state is State.RUNNING and self._is_done():
            self.state = State.FINISHED

    def _is_done(self) -> bool:
        waits = self._open or self._seeds or self._hungry or self.committing or self._later
        return not waits and all(queue.head is None or queue.parked for queue in self.queues.values())

    # -- visits --------------------------------------------------------------------------------------------

    def may_start(self, item: Queued) -> bool:
        """Whether another visit may begin: running, and not beyond the number of pages asked for."""
        if self.state is not State.RUNNING:
            return False
        limit = self.config.limits.pages
        return not limit or item.purpose == "robots" or self.counts.pages + self._open_pages < limit

    def hold(self, queue: HostQueue) -> None:
        """Keep a host that may not start now; it is looked at again after the next commit, or on `resume`."""
        self._held.append(queue)

    def _release_held(self, schedule: Schedule) -> None:
        held, self._held = self._held, []
        for queue in held:
            schedule.wake(queue)

    def refusal(self, queue: HostQueue, item: Queued) -> tuple[Outcome, str] | None:
        """Why a URL is settled without being asked for: its host or site has had its share, or its host is dead."""
        limits = self.config.limits
        if item.purpose == "robots":
            return None
        if queue.requests >= limits.pages_per_host:
            return Outcome.BUDGET, f"{limits.pages_per_host} requests to one host"
        if self.site_requests[site_of(queue.host)] >= limits.pages_per_site:
            return Outcome.BUDGET, f"{limits.pages_per_site} requests to one registered domain"
        if queue.failures >= DEAD_AFTER_FAILURES:
            return queue.last_failure, f"{queue.failures} failures of its host in a row"
        return None

    def park(self, queue: HostQueue, why: str) -> None:
        """Leave a host alone for this run; its URLs stay queued and say why."""
        queue.parked = why
        self._parked.append((queue, why))

    def note_answer(self, visit: Visit, now: float) -> None:
        """Keep account of a host: its share, and how often in a row it did not answer; then it gets a longer rest."""
        queue, fetched = visit.queue, visit.fetched
        assert fetched is not None
        queue.requests += 1
        self.site_requests[site_of(queue.host)] += 1
        if fetched.status or fetched.outcome not in HOST_FAILURES:
            queue.failures = 0
            return
        if visit.item.failures:
            return  # a page that failed before says nothing new of its host
        queue.failures += 1
        queue.last_failure = Outcome(fetched.outcome)
        if queue.failures >= SLOW_DOWN_AFTER_FAILURES:
            doublings = min(queue.failures - SLOW_DOWN_AFTER_FAILURES, 10)
            queue.hold_until = now + self.config.courtesy.retry_wait_s * 2.0**doublings

    def started(self, visit: Visit) -> None:
        self._open += 1
        self._open_pages += visit.item.purpose == "page"

    def _closed(self, visit: Visit) -> None:
        self._open -= 1
        self._open_pages -= visit.item.purpose == "page"

    def abandoned(self, visit: Visit) -> None:
        """Forget a visit that a stop cut off; its URL is still queued on disk."""
        self._closed(visit)

    def concluded(self, visit: Visit, now: float) -> None:
        if not self.uncommitted:
            self._oldest = now
        self.uncommitted.append(visit)

    def note_rest(self, server: Place, address: Place | None, now: float, now_s: float) -> None:
        """Remember rests that have begun or grown, for the ledger."""
        self._rests["server", server.name] = rest_of("server", server, now, now_s)
        if address is not None:
            self._rests["address", address.name] = rest_of("address", address, now, now_s)

    # -- hosts ---------------------------------------------------------------------------------------------

    def host(self, name: str, host_id: int, schedule: Schedule) -> HostQueue:
        """The host's queue, made when it is first needed."""
        queue = self.queues.get(name)
        if queue is None:
            cell = cell_of(slot_of(site_of(name)), self._starts)
            server = schedule.politeness.server(name)
            queue = self.queues[name] = HostQueue(name, host_id, cell, self.number, server)
        elif host_id:
            queue.host_id = host_id
        return queue

    def run_errand(self, errand: Queued, schedule: Schedule) -> None:
        """Send an errand (a redirected robots.txt) to its host, ahead of its pages."""
        queue = self.host(split(errand.url).host, 0, schedule)
        queue.errands.append(errand)
        schedule.wake(queue)

    def notice_hunger(self, queue: HostQueue) -> None:
        if not queue.exhausted and len(queue.buffer) <= queue.refill // 2 and queue.host_id:
            self._hungry[queue] = None

    def wake_due(self, now: float) -> None:
        """Look again at hosts whose next URL has become due."""
        while self._later and self._later[0][0] <= now:
            queue = heapq.heappop(self._later)[2]
            queue.exhausted = False
            self.notice_hunger(queue)

    # -- commits -------------------------------------------------------------------------------------------

    def wants_commit(self, now: float) -> bool:
        commit = self.config.commit
        if len(self.uncommitted) >= commit.every_pages or self._group is not None:
            return True
        nothing_else_is_under_way = self._open == len(self.uncommitted)
        if self.uncommitted and (nothing_else_is_under_way or now - self._oldest >= commit.every_s):
            return True
        return bool(self._hungry or self._seeds or self._parked) and now - self._last_group >= REFILL_PAUSE_S

    @property
    def has_uncommitted(self) -> bool:
        return bool(self.uncommitted or self._seeds or self._rests or self._parked or self._group is not None)

    def take_group(self, now: float) -> Group:
        """Hand over what waits; a group that failed is handed over again, with what came since left for the next."""
        self._last_group = now
        if self._group is None:
            self._group = Group(self.uncommitted, seeds=self._seeds, rests=list(self._rests.values()))
            self._group.parked = self._parked
            self.uncommitted, self._seeds, self._rests, self._parked = [], [], {}, []
        chosen = list(itertools.islice(self._hungry, REFILLS_PER_GROUP))
        for queue in chosen:
            del self._hungry[queue]
        self._group.refills = [(queue, queue.refill, frozenset(queue.loaded)) for queue in chosen]
        return self._group

    def committed(self, done: Committed, schedule: Schedule, clock: Clock) -> None:
        """Take the result of a commit: forget the visits, note new work, fill buffers."""
        assert self._group is not None
        for visit in self._group.settled:
            self._count(visit)
            self._closed(visit)
            visit.queue.loaded.discard(visit.item.key)
            if visit.verdict is not None and visit.verdict.wait_s:
                self._look_again(visit.queue, clock.ticks_s() + visit.verdict.wait_s)
        self._group = None
        self._release_held(schedule)
        self.counts.urls_new += done.new_urls
        self.counts.archive_records += done.records
        for (_, name), host_id in done.hosts.items():
            queue = self.host(name, host_id, schedule)
            queue.exhausted = False
            self.notice_hunger(queue)
        for queue, items, due_s in done.refilled:
            self._fill(queue, items, due_s, schedule, clock)

    def _fill(
        self, queue: HostQueue, items: list[Queued], due_s: float | None, schedule: Schedule, clock: Clock
    ) -> None:
        fresh = [item for item in items if item.key not in queue.loaded]
        if not queue.buffer and len(fresh) == queue.refill:
            queue.refill = min(REFILL_AT_MOST, queue.refill * 2)
        else:
            queue.exhausted = len(items) < queue.refill
        queue.knows_robots = True
        queue.buffer.extend(fresh)
        queue.loaded.update(item.key for item in fresh)
        if due_s is not None:
            self._look_again(queue, clock.ticks_s() + max(0.0, due_s - clock.now_s()))
        schedule.wake(queue)

    def _look_again(self, queue: HostQueue, at: float) -> None:
        heapq.heappush(self._later, (at, next(self._order), queue))

    def _count(self, visit: Visit) -> None:
        counts = self.counts
        if visit.item.purpose != "robots":
            counts.outcomes[visit.outcome] += 1
            if visit.item.depth == 0 and not visit.outcome.isdigit() and len(counts.failed_seeds) < MAX_FAILED_SEEDS:
                counts.failed_seeds.append(f"{visit.item.url}: {visit.outcome}{visit.detail and f' ({visit.detail})'}")
        if visit.fetched is not None:
            counts.requests += 1
            counts.bytes_received += visit.bytes_received
        if visit.result is not None:
            counts.links += visit.result.links_seen
            counts.pages += visit.item.purpose == "page" and bool(visit.result.payload_bytes)


def rest_of(kind: str, place: Place, now: float, now_s: float) -> Rest:
    """A place's rest as the ledger writes it: by the calendar."""
    return Rest(kind, place.name, now_s + place.ready_at - now, place.last_rest_s)


def _found(url: str, depth: int, by: int) -> Found:
    """A URL that no page links to, as far as this says."""
    host = split(url).host
    return Found(host, key_of(url), tail_of(url, host), depth, in_links=0, by=by)
