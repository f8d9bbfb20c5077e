"""One collection while it is being crawled: its hosts in memory, its visits under way, what it wants committed.

All of it lives on the event loop; the commit thread only ever sees the `Group` taken here and gives back a `Committed`.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil

from teia.clock import Clock
from teia.config import Config
from teia.crawl.aliases import AliasBook
from teia.crawl.budgets import Budgets
from teia.crawl.commit import Committed, Committer, Group
from teia.crawl.live import Live
from teia.crawl.meaning import Meaning
from teia.crawl.messages import decode_reading, with_focus
from teia.crawl.naming import Names
from teia.crawl.soft404 import PROBE, take_up
from teia.crawl.visits import Visit
from teia.frontier.cell import Found
from teia.frontier.hostrules import PAUSED, paused_hosts
from teia.frontier.ledger import InForce, Rest
from teia.frontier.order import order_named
from teia.frontier.politeness import Place
from teia.frontier.schedule import HostQueue, Queued, Schedule
from teia.frontier.schema import AS_SITEMAP, BY_SEED, BY_SITEMAP, LANE_NEW
from teia.frontier.sharing import KEPT_FROM
from teia.frontier.tails import tail_of
from teia.records import Outcome
from teia.urls import key_of, resolve, split

MAX_FAILED_SEEDS = 5
REFILL_AT_LEAST, REFILL_AT_MOST = 2, 512
BRISK_GROWTH = 4
"""Buffers of hosts that need not rest grow faster; the others keep what is to be asked next nearer to the front."""

REFILLS_PER_GROUP = 512
"""So many buffers are filled with one commit: after a restart all hosts are hungry, and pages must not wait for all."""

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
    failed_seeds: dict[str, str] = field(default_factory=dict)


class Crawl:
    """One collection under way; see the module's text."""

    def __init__(
        self,
        number: int,
        name: str,
        config: Config,
        committer: Committer,
        starts: tuple[int, ...],
        reading: bytes,
        meaning: Meaning,
    ) -> None:
        self.number = number
        self.name = name
        self.config = config
        self.committer = committer
        self.reading = reading
        self.meaning = meaning
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
        self._held_back: set[HostQueue] = set()
        self._rests: dict[tuple[str, str], Rest] = {}
        self._held: list[HostQueue] = []
        self._parked: list[tuple[HostQueue, str]] = []
        self.budgets = Budgets()
        self._must_judge = True
        self._must_spread = False
        self._courtesy: InForce | None = None
        self._later: list[tuple[float, int, HostQueue]] = []
        self._order = itertools.count()
        self._open = 0
        self._open_pages = 0
        self._began = 0.0
        self._last_group = 0.0
        self._oldest = 0.0
        self._restless = order_named(config.collection.order).restless
        self.keeps_fresh = config.refresh.keep
        self._paused_hosts = paused_hosts(config.courtesy.paused)
        self.names = Names(None)
        self.live = Live()

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
                self._seeds.append(_found(url, 1, BY_SITEMAP | AS_SITEMAP))

    def reconfigure(self, config: Config, meaning: Meaning, courtesy: InForce, schedule: Schedule) -> None:
        """Go by other settings from now on. What they let in again is found by the next commits."""
        self.add_seeds([seed for seed in meaning.seeds if seed not in self.meaning.seeds])
        self.config, self.meaning = config, meaning
        self._paused_hosts = paused_hosts(config.courtesy.paused)
        self.reading = with_focus(meaning.reading, decode_reading(self.reading).focus)
        self._must_judge, self._courtesy = True, courtesy
        for queue in self.queues.values():
            if queue.parked:
                queue.parked = ""
                schedule.wake(queue)
        self._release_held(schedule)

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
        waits = waits or self._must_judge or self._must_spread or self.committer.wishes.is_waiting
        if self.committer.refresh is not None and not waits:
            waits = self.committer.refresh.has_pages or self.committer.refresh.is_behind
        return not waits and all(queue.head is None or queue.parked for queue in self.queues.values())

    # -- visits --------------------------------------------------------------------------------------------

    def may_start(self, queue: HostQueue, item: Queued) -> bool:
        """Whether another visit may begin: running, of no paused host, and not beyond the pages asked for."""
        if self.state is not State.RUNNING:
            return False
        if queue.host in self._paused_hosts:
            if not queue.parked:
                self.park(queue, PAUSED)
            return False
        limit = self.config.limits.pages
        return not limit or item.purpose == "robots" or self.counts.pages + self._open_pages < limit

    def reaches(self, url: str) -> bool:  # noqa: ARG002  # a node of a cluster reaches the hosts of its cells
        """Whether this crawler may ask a URL's host at all."""
        return True

    def has_turn(self, queue: HostQueue, schedule: Schedule, now: float) -> bool:  # noqa: ARG002
        """Whether a host's address may be asked by this machine now: nodes of a cluster take turns."""
        return True

    def hold(self, queue: HostQueue) -> None:
        """Keep a host that may not start now; it is looked at again after the next commit, or on `resume`.

        One that is left alone is looked at when the settings are others.
        """
        if not queue.parked:
            self._held.append(queue)

    def _release_held(self, schedule: Schedule) -> None:
        held, self._held = self._held, []
        for queue in held:
            schedule.wake(queue)

    def refusal(self, queue: HostQueue, item: Queued) -> tuple[Outcome, str] | None:
        """Why a URL is settled without being asked for: out of scope, its host or site had its share, or is dead."""
        if item.purpose == "robots":
            return None
        if item.purpose == PROBE and not self.holds(item.url):
            return Outcome.OUT_OF_SCOPE, "the collection's settings leave it out"
        if self.names.is_elsewhere(queue, item):
            return Outcome.ALIAS, f"{queue.host} is another name of {queue.alias_of}"
        try:
            if item.purpose == "page" and not self.meaning.admits(item.url, item.depth, item.found_by):
                return Outcome.OUT_OF_SCOPE, "the collection's settings leave it out"
        except Exception as error:  # noqa: BLE001  # a rule that is a function of the user's own
            return Outcome.SYSTEM, f"a scope rule failed: {type(error).__name__}: {error}"
        spent = self.spent(queue)
        if spent and not item.visits:  # budgets are against pages without end, not against known ones
            return Outcome.BUDGET, spent
        failed = self.budgets.failed(queue, self.config.limits)
        return (queue.last_failure, failed) if failed else None

    def spent(self, queue: HostQueue) -> str:
        """Which budget a host has used up, its own or its site's; empty if none."""
        return self.budgets.spent(queue, self.config.limits)

    def holds(self, url: str) -> bool:
        """Whether a URL is in scope, whoever names it."""
        try:
            return self.meaning.scope.holds(url)
        except Exception:  # noqa: BLE001  # a rule that is a function of the user's own
            return False

    def know_aliases(self) -> None:
        """Recognise names that are one site; after everything is opened and before hosts are made."""
        frontiers = [cell.frontier for cell in self.committer.cells]
        courtesy, sites = self.config.courtesy, self.config.sites
        book = AliasBook(frontiers, self._starts, sites, self.holds, obeys_robots=courtesy.robots)
        self.committer.aliases, self.names = book, Names(book)

    def park(self, queue: HostQueue, why: str) -> None:
        """Leave a host alone for this run; its URLs stay queued and say why."""
        queue.parked = why
        self._parked.append((queue, why))

    def note_answer(self, visit: Visit, now: float) -> None:
        """Keep account of a host: what it costs, and how often in a row it did not answer."""
        self.budgets.count(visit, now, self.config.courtesy.retry_wait_s)

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
            cell = self.committer.number_of(name)
            main = self.names.main_of(name)
            server = schedule.politeness.server(main or name)  # two names of one site are one server
            queue = self.queues[name] = HostQueue(name, host_id, cell, self.number, server, alias_of=main)
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
        waits = self._hungry or self._seeds or self._parked or self._must_judge or self._must_spread or self._must_rank
        waits = waits or (self.committer.refresh is not None and self.committer.refresh.is_behind)
        return bool(waits or self.committer.wishes.is_waiting) and now - self._last_group >= REFILL_PAUSE_S

    @property
    def _must_rank(self) -> bool:
        return self.committer.authority is not None and self.committer.authority.is_behind

    @property
    def has_uncommitted(self) -> bool:
        return bool(self.uncommitted or self._seeds or self._rests or self._parked or self._group is not None)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is under way or waits for its commit."""
        return not self._open and not self.committing and not self.has_uncommitted

    def take_group(self, now: float) -> Group:
        """Hand over what waits; a group that failed is handed over again, with what came since left for the next."""
        self._last_group = now
        if self._group is None:
            self._group = Group(self.uncommitted, seeds=self._seeds, rests=list(self._rests.values()))
            self._group.parked, self._group.courtesy = self._parked, self._courtesy
            self.uncommitted, self._seeds, self._rests, self._parked, self._courtesy = [], [], {}, [], None
        if self._group.refills:  # it failed, and they are hungry still
            self._hungry = dict.fromkeys(order[0] for order in self._group.refills) | self._hungry
        self._group.done.refilled.clear()
        chosen = list(itertools.islice(self._hungry, REFILLS_PER_GROUP))
        for queue in chosen:
            del self._hungry[queue]
            queue.refill = self._soon_needed(queue) if self.keeps_fresh else queue.refill
        self._group.refills = [(queue, queue.refill, self._in_use(queue)) for queue in chosen]
        self._group.meaning, self._group.must_judge = self.meaning, self._must_judge
        return self._group

    def _soon_needed(self, queue: HostQueue) -> int:
        """How many URLs a host needs until the next commit but one: what is in memory cannot be overtaken any more."""
        rest_s = max(queue.server.last_rest_s or self.config.courtesy.delay_s, 0.001)
        return max(REFILL_AT_LEAST, min(REFILL_AT_MOST, ceil(2 * self.config.commit.every_s / rest_s)))

    def _in_use(self, queue: HostQueue) -> frozenset[int]:
        """The URLs that are not to be read into a buffer again; where the order is restless, what it holds may be."""
        if not self._restless:
            return frozenset(queue.loaded)
        return frozenset(queue.loaded.difference(item.key for item in queue.buffer))

    def committed(self, done: Committed, schedule: Schedule, clock: Clock) -> None:
        """Take the result of a commit: forget the visits, note new work, fill buffers."""
        assert self._group is not None
        for visit in self._group.settled:
            self._count(visit)
            self._closed(visit)
            visit.queue.loaded.discard(visit.item.key)
            if visit.verdict is not None and visit.verdict.wait_s:
                self._look_again(visit.queue, clock.ticks_s() + visit.verdict.wait_s)
            if visit.queue in self._held_back or self.keeps_fresh:
                self._held_back.discard(visit.queue)
                self._look_now(visit.queue)
        self._group = None
        self._must_judge = self._must_judge and done.judged_by != self.meaning.mark
        self._must_spread = done.some_came_nearer
        self._release_held(schedule)
        self.counts.urls_new += done.new_urls
        self.counts.archive_records += done.records
        self.names.take(done.names, done.checks, self.queues, schedule.politeness)
        for queue, found in done.probes:
            take_up(queue, found, clock.now_s())
        for queue, requests, received in done.spent:
            queue.requests = max(queue.requests, requests)
            queue.received_bytes = max(queue.received_bytes, received)
        for name, patterns in done.shunned.items():
            self._put_back(self.queues[name], patterns)
        for name in self.committer.wishes.take_changed():
            self._forget_buffer(name)
        for (_, name), host_id in done.hosts.items():
            queue = self.host(name, host_id, schedule)
            queue.exhausted = False
            if self._restless:
                self._hungry[queue] = None
            self.notice_hunger(queue)
        for queue, items, due_s in done.refilled:
            self._fill(queue, items, due_s, schedule, clock)
        for queue in done.held:
            if queue.loaded:
                self._held_back.add(queue)
            else:
                self._look_now(queue)
        if done.given_up:
            self.counts.outcomes[Outcome.TRAP] += done.given_up

    def _put_back(self, queue: HostQueue, patterns: set[int]) -> None:
        """Forget URLs of patterns that may not go any more; they wait on disk."""
        shunned = {item.key for item in queue.buffer if item.lane == LANE_NEW and abs(item.pattern) in patterns}
        queue.buffer[:] = [item for item in queue.buffer if item.key not in shunned]
        queue.loaded -= shunned
        self._look_now(queue)

    def _forget_buffer(self, name: str) -> None:
        """Have a host's URLs read anew: what waits on disk, and in which order, is not what it was."""
        queue = self.queues.get(name)
        if queue is not None:
            queue.loaded.difference_update(item.key for item in queue.buffer)
            queue.buffer.clear()

    def _look_now(self, queue: HostQueue) -> None:
        queue.exhausted = False
        self.notice_hunger(queue)

    def _fill(
        self, queue: HostQueue, items: list[Queued], due_s: float | None, schedule: Schedule, clock: Clock
    ) -> None:
        was_empty = not queue.buffer
        if self._restless:
            queue.loaded.difference_update(item.key for item in queue.buffer)
            queue.buffer.clear()
        fresh = [item for item in items if item.key not in queue.loaded]
        if was_empty and len(fresh) == queue.refill and not self.keeps_fresh:
            growth = BRISK_GROWTH if queue.server.needs_no_rest else 2
            queue.refill = min(REFILL_AT_MOST, queue.refill * growth)
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
        if visit.item.purpose == "page":
            counts.outcomes[visit.outcome] += 1
            is_failure = not visit.outcome.isdigit() and visit.outcome != Outcome.ALIAS
            if visit.item.depth == 0:
                self._count_seed(visit, is_failure)
        if visit.was_asked:
            counts.requests += 1
            counts.bytes_received += visit.bytes_received
        self.committer.wishes.announced.note(visit)
        if visit.result is not None:
            counts.links += visit.result.links_seen
            counts.pages += visit.item.purpose == "page" and bool(visit.result.payload_bytes)

    def _count_seed(self, visit: Visit, is_failure: bool) -> None:
        """Remember why a seed failed, by its last try."""
        failed, url = self.counts.failed_seeds, visit.item.url
        if not is_failure:
            failed.pop(url, None)
        elif url in failed or len(failed) < MAX_FAILED_SEEDS:
            failed[url] = f"{visit.outcome}{visit.detail and f' ({visit.detail})'}"


def rest_of(kind: str, place: Place, now: float, now_s: float) -> Rest:
    """A place's rest as the ledger writes it: by the calendar."""
    sites = place.site_count if place.site_count >= KEPT_FROM else 0
    return Rest(kind, place.name, now_s + place.ready_at - now, place.last_rest_s, sites)


def _found(url: str, depth: int, by: int) -> Found:
    """A URL that no page links to, as far as this says."""
    host = split(url).host
    return Found(host, key_of(url), tail_of(url, host), depth, in_links=0, by=by)
