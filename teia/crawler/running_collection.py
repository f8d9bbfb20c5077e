"""One collection while it is being crawled: its hosts in memory, its visits under way, its uncommitted results.

All of it lives on the event loop; the commit thread only ever sees the `CommitGroup` taken here and returns a
`CommitResult`.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil, inf
from operator import itemgetter
from typing import NamedTuple, Protocol

from teia.clock import Clock
from teia.crawler.budgets import Budgets
from teia.crawler.child.messages import ReadResult, decode_settings, with_focus
from teia.crawler.commit import CommitGroup, CommitResult, Committer, PostponedRecord, RefillOrder
from teia.crawler.compiled_settings import CompiledSettings
from teia.crawler.content_seen import ContentSeen
from teia.crawler.links import SITEMAP_DEPTH
from teia.crawler.live_activity import LiveRequests
from teia.crawler.ownership import OneMachine, Ownership
from teia.crawler.robots import RobotsCache
from teia.crawler.sites.aliases import AliasBook, AliasNames
from teia.crawler.sites.identity import IDENTITY_REQUESTS, ended_check
from teia.crawler.sites.soft404 import PROBE, apply_stored_probe
from teia.crawler.upkeep.removal import PendingRemoval
from teia.crawler.visit import RENDER, ActiveVisit
from teia.errors import TeiaError
from teia.fetch.destination import Destinations
from teia.frontier.cell.rows import FoundUrl, QueuedUrl, tail_of
from teia.frontier.cell.schema import AS_SITEMAP, BY_REQUISITE, BY_SEED, BY_SITEMAP, LANE_NEW, STATE_QUEUED
from teia.frontier.queue.host_rules import PAUSED, paused_hosts
from teia.frontier.queue.ledger import CourtesyInForce, DelayEntry
from teia.frontier.queue.order import order_named
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue, HostSchedule, HostState
from teia.frontier.queue.shared_addresses import RECORDED_FROM
from teia.frontier.queue.waiting_hosts import HostNumber, HostsOnDisk, StoredHost, WaitingHosts
from teia.lib.message import message_of
from teia.records import Outcome, RemovedPages
from teia.urls import key_of, resolve, site_of, slot_of, split

MAX_FAILED_SEEDS = 5
FIRST_GUESS_BYTES = 65_536
"""Size of an answer in the archive, as long as a run has none."""

QUOTA_STEP = 0.01
"""Part of its quota that a crawl requests between two looks at the archive's size, at most."""

REFILL_AT_LEAST, REFILL_AT_MOST = 2, 512
BRISK_GROWTH = 4
"""Growth of buffers of hosts without a delay; smaller buffers of other hosts follow changes of the order sooner."""

REFILLS_PER_GROUP = 512
"""Number of buffers filled per commit: after a restart all hosts need URLs, and commits must not wait for all."""

LOADS_PER_GROUP = 2_048
"""Number of hosts that come from disk per commit, at most."""

MAKE_ROOM_EVERY_S = 5.0
"""Interval at which hosts in memory are looked through for some that may wait on disk, where others wait for room."""

LONG_WAIT_S = 60.0
"""A host that can not be requested for so long waits on disk, where others wait for its place."""

TURN_S, IDLE_TURN_S = 300.0, 10.0
"""Time after which a host in memory gives its place to another one, if it still has work.

The second if fewer than `FEW_VISITS` visits are under way: the hosts in memory wait for each other, at a few addresses.
"""

FEW_VISITS = 32

REFILL_PAUSE_S = 0.02
"""Shortest interval at which commits fill buffers that are nearly empty, or do other work, before their time."""

NEARLY_EMPTY = 8
"""A commit is made before its time for a buffer that holds no more than this fraction of what it is filled with.

Other buffers that are low wait for the next commit. Large commits are cheaper: 256 pages together take three quarters
of the time of 80 and 80 and 80.
"""


class CrawlState(StrEnum):
    """Activity of a crawl, or the reason why it ended."""

    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    STOPPED = "stopped"
    LIMIT = "limit"

    @property
    def is_active(self) -> bool:
        return self in {CrawlState.RUNNING, CrawlState.PAUSED}


class AwaitedResource(StrEnum):
    """Resource that a crawl which paused by itself waits for."""

    SPACE = "disk space"
    QUOTA = "quota"
    REMOVAL = "removal of pages"
    CHILDREN = "parse children"


@dataclass(slots=True)
class RunCounts:
    """Counts of this run; the summary of `teia crawl`."""

    requests: int = 0
    pages: int = 0
    bytes_received: int = 0
    links: int = 0
    archive_records: int = 0
    urls_new: int = 0
    hosts: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failed_seeds: dict[str, str] = field(default_factory=dict)


class PageRendering(Protocol):
    """The rendering of pages (crawler/rendering/render_visits.py), which only crawls load that want it."""

    @property
    def held(self) -> int:
        """Number of pages that wait for a moment in which the crawl has nothing else to do."""

    @property
    def wants_idle_time(self) -> bool:
        """True if there are trials to make in a moment in which the crawl has nothing else to do."""

    def use_idle_time(self) -> None:
        """Begin trials: the crawl has nothing else to do."""

    def postpone_held(self) -> None:
        """Continue with the pages that are held, as received: the crawl waits until no visit is under way."""

    def is_full(self, host: str) -> bool:
        """Tell whether too many pages wait for another one of this host to be requested."""

    def take(self, visit: ActiveVisit, result: ReadResult) -> bool:
        """Take a page that was read and may need rendering; return False if it is to continue as it is."""

    def note_read(self, visit: ActiveVisit, result: ReadResult | None) -> None:
        """Learn from a page that was rendered and read again; None if that killed its parse child."""

    def note_committed(self, visits: Sequence[ActiveVisit]) -> None:
        """Request pages again that turned out to need rendering after they had gone on as received."""

    def note_request(self, visit: ActiveVisit) -> None:
        """Take the answer to a request of a page."""

    def is_awaited(self, url: str) -> bool:
        """Tell whether a page waits for the answer to a request."""

    def refuse_host(self, host: str) -> None:
        """Fail the requests of pages to a host that gets none any more."""

    def load(self, host: str, records: list[bytes]) -> None:
        """Take what earlier runs have learnt about a host."""

    def forget(self, host: str) -> None:
        """Drop a host that has left memory."""

    def apply_settings(self) -> None:
        """Use the settings that the crawl has now."""

    def abandon(self) -> list[ActiveVisit]:
        """Give up all pages that wait, because the crawl ends; those that are read again are not among them."""


class HostOnDisk(NamedTuple):
    """A host that has left memory, and is loaded when its next URL is due or its delay has ended."""

    number: HostNumber
    is_unresolved: bool


LaterCheck = tuple[float, int, HostQueue | HostOnDisk]
"""The time at which a host is looked at again, a number that breaks ties, the host."""


class Crawl:
    """One collection under way; see the module docstring."""

    is_winding_up = False
    """True once a stop has begun: nothing new is started or planned, and results are committed at once."""

    number = 0
    """Its place among the crawls of its crawler."""

    is_retaining = False
    """True while records are removed from the archive: because of the quota, or because a user wants it."""

    removal: PendingRemoval | None = None
    """The removal of pages that was requested last."""

    _read_bytes = _read_visits = _unwritten_bytes = _unchecked_bytes = 0

    destinations: Destinations
    """The way to addresses, by the networks, names and name server of this collection's settings."""

    robots: RobotsCache
    """The robots.txt of the servers that names are by these settings; other crawls may share it."""

    def __init__(self, name: str, committer: Committer, starts: tuple[int, ...], compiled: CompiledSettings) -> None:
        self.name = name
        self.committer = committer
        self.compiled = compiled
        self.config = config = compiled.config
        self.read_settings = compiled.read_settings
        self.ownership: Ownership = OneMachine()
        self.state = CrawlState.RUNNING
        self.paused_why = ""
        self.lost_here = self.parallel_requests = 0
        """Documents lost to time-outs of this machine, and its parallel requests since then (own_timeouts.py)."""
        self.waits_for: AwaitedResource | None = None
        self.full_quota, self.retains_after = 0, 0.0
        """Quota that the archive exceeds even without all captures that may go, if known; time of the next removal."""
        self.failure: TeiaError | None = None
        """Error that ended the crawl, if only the user can fix it."""
        self.counts = RunCounts()
        self.queues: dict[str, HostQueue] = {}
        """The hosts in memory: those that have URLs, visits under way, or something to wait for."""
        self._on_disk = HostsOnDisk()
        self.uncommitted: list[ActiveVisit] = []
        self.is_committing = False
        self._starts = starts
        self._group: CommitGroup | None = None
        self._seeds: list[FoundUrl] = []
        self._low_buffers: dict[HostQueue, None] = {}
        self._is_short_of_urls = False
        self._held_back: set[HostQueue] = set()
        self._delays: dict[tuple[str, str], DelayTarget] = {}
        self._held: list[HostQueue] = []
        self._parked: list[tuple[HostQueue, str]] = []
        self.budgets = Budgets()
        self._must_reevaluate = True
        self._must_propagate = False
        self._courtesy: CourtesyInForce | None = None
        self._later: list[LaterCheck] = []
        self._later_if_active: list[LaterCheck] = []
        self._order = itertools.count()
        self._open_visits = 0
        self.open_pages = 0
        """Number of pages that are under way or not committed yet."""
        self._started_at = 0.0
        self.last_group = 0.0
        """Time in ticks at which the last commit began."""
        self._oldest = 0.0
        self._host_order = order_named(config.collection.order, None, config.collection.prefer)
        self._rereads_buffers = self._host_order.rereads_buffers
        self.keeps_fresh = config.refresh.keep
        self._paused_hosts = paused_hosts(config.courtesy.paused)
        self.aliases = AliasNames(None)
        self.live = LiveRequests()
        self.content_seen: ContentSeen | None = None
        """The content-seen test, if the settings want one."""
        self.not_rendered = ""
        """Reason why no page can be rendered, though the settings want it."""
        self.rendering: PageRendering | None = None
        """The rendering of pages, if the settings want it and a browser is installed."""
        self.unrendered = 0
        """Number of pages whose rendering the end of the crawl has cut off; they are requested again."""
        self._postponed: list[PostponedRecord] = []

    # -- beginning and end ---------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        self._started_at = now

    def add_seeds(self, seeds: list[str]) -> None:
        """Queue URLs at depth 0; those already known stay as they are."""
        for url in seeds:
            self._seeds.append(_found_url(url, 0, BY_SEED))

    def add_sitemaps(self, sitemaps: tuple[str, ...], origin: str) -> None:
        """Queue the sitemaps that a robots.txt names, as pages one hop from the root."""
        for reference in sitemaps:
            url = resolve(reference, f"{origin}/")
            if url is not None and split(url).host == split(f"{origin}/").host:
                self._seeds.append(_found_url(url, SITEMAP_DEPTH, BY_SITEMAP | AS_SITEMAP))

    def reconfigure(self, compiled: CompiledSettings, courtesy: CourtesyInForce, schedule: HostSchedule) -> None:
        """Apply new settings from now on; the next commits find URLs that they let in again."""
        self.add_seeds([seed for seed in compiled.seeds if seed not in self.compiled.seeds])
        has_new_budget = compiled.config.refresh.budget != self.config.refresh.budget
        self.config, self.compiled = compiled.config, compiled
        if has_new_budget and self.committer.refresh is not None:
            self.committer.refresh.wanted_budget = self.config.refresh.budget
            # Hosts that wait for their part of the old budget ask for their part of the new one.
            self._check_all_later()
        for former in self.counts.failed_seeds.keys() - compiled.seed_set:
            del self.counts.failed_seeds[former]
        self._paused_hosts = paused_hosts(self.config.courtesy.paused)
        self.read_settings = with_focus(compiled.read_settings, decode_settings(self.read_settings).focus)
        self._must_reevaluate, self._courtesy = True, courtesy
        if self.rendering is not None:
            self.rendering.apply_settings()
        for queue in self.queues.values():
            if queue.parked:
                queue.parked = ""
                schedule.wake(queue)
        for number in self._on_disk.parked.values():
            self.waiting_hosts.add(number)
        self._on_disk.parked.clear()
        self._release_held(schedule)

    def pause(self, why: str, until: AwaitedResource | None = None) -> None:
        """Start nothing new. A pause that waits for a resource ends by itself, unless the user pauses too."""
        if self.state is CrawlState.RUNNING or (self.waits_for is not None and until is None and self.state.is_active):
            self.state, self.paused_why, self.waits_for = CrawlState.PAUSED, why, until

    def resume(self, schedule: HostSchedule) -> None:
        """Start visits again; during a removal, when it has ended, because they might refer to a record that goes."""
        if self.state is CrawlState.PAUSED and self.is_retaining:
            self.waits_for = AwaitedResource.QUOTA
        elif self.state is CrawlState.PAUSED:
            self.state, self.paused_why, self.waits_for = CrawlState.RUNNING, "", None
            self._release_held(schedule)

    def request_removal(self, number: int, rules: tuple[str, ...]) -> RemovedPages | None:
        """Have pages removed as soon as no visit is under way; return the result of this request if it is done."""
        if self.failure is not None:
            raise self.failure
        if self.removal is None or (self.removal.number != number and self.removal.is_done):
            self.removal = PendingRemoval(number, rules)
        return self.removal.result if self.removal.number == number else None

    def note_removal(self, result: RemovedPages | None, schedule: HostSchedule) -> None:
        """Continue after a removal; a page in memory may name a record that has gone, so all are read again."""
        self.is_retaining, self.full_quota = False, 0
        if self.removal is not None:
            self.removal.result = result
        if self.content_seen is not None:
            self.content_seen.forget_recent()
        for name, queue in self.queues.items():
            self._forget_buffer(name)
            self._check_now(queue)
        if self.waits_for is AwaitedResource.REMOVAL:
            self.resume(schedule)

    def end(self) -> None:
        if self.state.is_active:
            self.state = CrawlState.STOPPED
        self._abandon_rendering()

    def _abandon_rendering(self) -> None:
        """Give up the pages that are being rendered: their requests would be refused, and their texts be wrong."""
        for visit in () if self.rendering is None else self.rendering.abandon():
            self.unrendered += 1
            self.forget(visit)

    def fail(self, error: TeiaError) -> None:
        """End because of an error that no retry in this run can fix; uncommitted visits are left to the next start."""
        self.failure = error
        self.state, self.paused_why, self.waits_for = CrawlState.STOPPED, message_of(error), None
        self._abandon_rendering()

    def wind_up(self) -> None:
        """Start and plan nothing more; from now on a commit only stores results."""
        self.is_winding_up = self.committer.is_winding_up = True
        self._abandon_rendering()
        if self.content_seen is not None:
            self.content_seen.release_all()

    @property
    def is_ending(self) -> bool:
        """True if the crawl has ended or is ending: buffers are not filled before the next run."""
        return self.is_winding_up or not self.state.is_active

    def check_end(self, now: float) -> None:
        """End the crawl if a limit was reached, or if nothing is left to do."""
        limits = self.config.limits
        if not self.state.is_active or not self.ownership.decides_end:
            return
        if (limits.seconds and now - self._started_at >= limits.seconds) or (
            limits.pages and self.counts.pages >= limits.pages
        ):
            self.state = CrawlState.LIMIT
            self._abandon_rendering()
        elif self.state is CrawlState.RUNNING and self.is_done:
            self.state = CrawlState.FINISHED

    @property
    def is_done(self) -> bool:
        """True if nothing is left to do, under way or worth waiting for."""
        waits = self._open_visits or self._seeds or self._low_buffers or self.is_committing or self._has_later()
        waits = waits or self._must_reevaluate or self._must_propagate or bool(self.committer.pending_work())
        waits = waits or bool(self.waiting_hosts)
        waits = waits or (self.rendering is not None and self.rendering.wants_idle_time)
        if self.committer.refresh is not None and not waits:
            waits = self.committer.refresh.has_pages or self.committer.refresh.has_pending_work
        return not waits and all(queue.head is None or queue.parked for queue in self.queues.values())

    def use_idle_time(self) -> None:
        """Try pages in the browser if nothing else is to be done now: all hosts wait for delays, or are finished.

        A crawl whose records are to be removed tries none: they are removed once no visit is under way.
        """
        if self.rendering is None or not self.rendering.wants_idle_time:
            return
        if self._must_become_quiet:
            self.rendering.postpone_held()
        if self.state is not CrawlState.RUNNING:
            return
        is_busy = self._open_visits > self._waiting_visits or self._seeds or self._low_buffers or self.is_committing
        if not (is_busy or self._must_reevaluate or self.committer.pending_work()):
            self.rendering.use_idle_time()

    @property
    def _must_become_quiet(self) -> bool:
        """True if the crawl has paused until records are removed, which waits for the end of all visits."""
        is_awaited = self.waits_for in {AwaitedResource.QUOTA, AwaitedResource.REMOVAL}
        return self.state is CrawlState.PAUSED and is_awaited and not self.is_retaining

    @property
    def _waiting_visits(self) -> int:
        """Number of visits that wait for the commit of others, or for a moment in which no others are under way."""
        seen, rendering = self.content_seen, self.rendering
        return (0 if seen is None else seen.waiting) + (0 if rendering is None else rendering.held)

    def store_postponed(self, url: str, host: str, records: list[tuple[int, bytes]]) -> None:
        """Have pages of a host stored that wait for the verdict on their scripts, and one of them requested again."""
        self._postponed.append((url, host, records))

    def _has_later(self) -> bool:
        """Tell whether a URL that becomes due is worth waiting for.

        URLs of names that do not exist are not: they are fetched when they are due if the crawl still runs, or in the
        next run. Until a first request could be sent, names that no name server answered for are not worth waiting for
        either: then the user must look at this machine. A scheduled run waits for them.
        """
        if self.counts.requests or self.config.schedule.start:
            return bool(self._later)
        return any(not host.is_unresolved for _, _, host in self._later)

    # -- visits --------------------------------------------------------------------------------------------

    def may_start(self, queue: HostQueue, item: QueuedUrl) -> bool:
        """Tell whether another visit may begin: crawl running, host not paused and owned, page limit not reached."""
        # A page in the browser ends sooner with its requests, and removals wait for its end.
        is_for_browser = item.purpose == RENDER and self._must_become_quiet
        if (self.state is not CrawlState.RUNNING and not is_for_browser) or self.is_winding_up:
            return False
        if queue.host in self._paused_hosts:
            if not queue.parked:
                self.park(queue, PAUSED)
            return False
        limit = self.config.limits.pages
        # A page that is being rendered is counted already, and needs its requests.
        if limit and item.purpose not in {"robots", RENDER} and self.counts.pages + self.open_pages >= limit:
            return False
        if self.rendering is not None and item.purpose == "page" and self.rendering.is_full(queue.host):
            return False
        return self.ownership.may_start(queue, item)

    def hold(self, queue: HostQueue) -> None:
        """Keep a host that may not start now; it is tried again after the next commit, or on `resume`.

        A parked host is tried again when the settings change.
        """
        if not queue.parked:
            self._held.append(queue)

    def _release_held(self, schedule: HostSchedule) -> None:
        held, self._held = self._held, []
        for queue in held:
            schedule.wake(queue)

    def refusal(self, queue: HostQueue, item: QueuedUrl) -> tuple[Outcome, str] | None:
        """Return why a URL is settled without a request: out of scope, budget used up, or host dead."""
        if item.purpose == "robots":
            return None
        if item.purpose in {PROBE, *IDENTITY_REQUESTS} and not self.is_in_scope(item.url):
            return Outcome.OUT_OF_SCOPE, "excluded by the settings of the collection"
        if item.purpose == RENDER and not self.compiled.wants_link(item.url, 0, BY_REQUISITE):
            return Outcome.OUT_OF_SCOPE, "excluded by the settings of the collection"
        if queue.alias_of and self.aliases.stands_for_other(queue, item):
            return Outcome.ALIAS, f"{queue.host} is an alias of {queue.alias_of}"
        try:
            by = item.found_by if item.visits else self.compiled.sources_in_force(item.url, item.found_by)
            if item.purpose == "page" and not self.compiled.admits(item.url, item.depth, by):
                return Outcome.OUT_OF_SCOPE, "excluded by the settings of the collection"
        except Exception as error:  # noqa: BLE001  # a rule that is a function written by the user
            return Outcome.SYSTEM, f"a scope rule failed: {type(error).__name__}: {error}"
        exhausted = self.budgets.exhausted(queue, self.config.limits)
        if exhausted and not item.visits:  # budgets protect from endless pages, not from known ones
            return Outcome.BUDGET, exhausted
        failed = self.budgets.failure_reason(queue, self.config.limits)
        return (queue.last_failure, failed) if failed else None

    def is_in_scope(self, url: str) -> bool:
        """Tell whether a URL is in scope, independent of the page that names it."""
        try:
            return self.compiled.scope.allows(url)
        except Exception:  # noqa: BLE001  # a rule that is a function written by the user
            return False

    def load_aliases(self, *, within_sites: bool = False) -> None:
        """Recognise names that are one site; call after all cells are open and before hosts are made."""
        frontiers = {cell.number: cell.frontier for cell in self.committer.cells}
        book = AliasBook(
            frontiers, self._starts, self.config.sites, self.is_in_scope, obeys_robots=self.config.courtesy.robots,
            cell_number=self.committer.cell_number, within_sites=within_sites,
        )  # fmt: skip
        self.committer.aliases, self.aliases = book, AliasNames(book)

    def park(self, queue: HostQueue, why: str) -> None:
        """Park a host for this run; its URLs stay queued with the reason."""
        queue.parked = why
        self._parked.append((queue, why))
        self.refuse_page_requests(queue)

    def refuse_page_requests(self, queue: HostQueue) -> None:
        """Fail the requests of pages that are being rendered to a host that gets none any more."""
        if self.rendering is not None:
            self.rendering.refuse_host(queue.host)

    def note_answer(self, visit: ActiveVisit, address: DelayTarget, now: float) -> None:
        """Count a host's cost and its consecutive failures."""
        self.budgets.count(visit, now, self.config.courtesy.retry_wait_s)
        for each in self.ownership.observers:
            each.note_answer(visit, address)

    def note_start(self, visit: ActiveVisit) -> None:
        self._open_visits += 1
        self._unchecked_bytes += self._mean_bytes
        visit.queue.users += 1
        self.open_pages += visit.item.purpose == "page"
        for each in self.ownership.observers:
            each.note_start(visit)

    def forget(self, visit: ActiveVisit) -> None:
        """Forget a visit that was committed, or that a stop cut off; the URL of the latter is still queued on disk."""
        self._open_visits -= 1
        visit.queue.users -= 1
        self.open_pages -= visit.item.purpose == "page"
        self._unwritten_bytes -= visit.archive_bytes  # 0 unless `conclude` has added it
        if self.content_seen is not None:
            self.content_seen.end(visit)
        for each in self.ownership.observers:
            each.note_end(visit)

    def conclude(self, visit: ActiveVisit, now: float) -> None:
        if not self.uncommitted:
            self._oldest = now
        self.uncommitted.append(visit)
        self._read_visits += 1
        self._read_bytes += visit.archive_bytes
        self._unwritten_bytes += visit.archive_bytes
        self._unchecked_bytes += max(0, visit.archive_bytes - self._mean_bytes)

    def note_delay(self, server: DelayTarget, address: DelayTarget | None) -> None:
        """Remember delays that have begun or grown; the next group writes them to the ledger."""
        self._delays["server", server.name] = server
        if address is not None:
            self._delays["address", address.name] = address

    # -- hosts ---------------------------------------------------------------------------------------------

    def host_queue(self, name: str, host_id: int, schedule: HostSchedule) -> HostQueue:
        """Return the host's queue, made when it is first needed."""
        queue = self.queues.get(name)
        if queue is None:
            cell = self.committer.cell_number(name)
            main = self.aliases.main_name(name)
            server = schedule.politeness.server(main or name)  # two names of one site are one server
            queue = HostQueue(name, 0, cell, self.number, server, alias_of=main, order=self._host_order)
            queue.came_at = self.last_group
            self.queues[name] = queue
            self.ownership.add_host(queue, schedule)
        if host_id and host_id != queue.host_id:
            queue.host_id = host_id
            self.counts.hosts += self._on_disk.met.add(queue.cell, host_id)
            self._on_disk.parked.pop((queue.cell, host_id), None)
            if self._on_disk.failing and (failing := self._on_disk.failing.pop((queue.cell, host_id), None)):
                queue.failures, queue.last_failure, queue.hold_until = failing
            if self._on_disk.checked.has(queue.cell, host_id):
                queue.identity = ended_check()
        return queue

    @property
    def finished_hosts(self) -> int:
        """Number of hosts that had work in this run and have left memory; those that wait on disk are not finished."""
        on_disk = len(self.waiting_hosts) + len(self._on_disk.parked)
        return max(0, self.counts.hosts - len(self.queues) - on_disk)

    def _forget_finished(self, hosts: Iterable[HostQueue]) -> list[str]:
        """Let hosts without work leave memory; return their names. New URLs bring a host back, as a restart does."""
        if not self.ownership.forgets_hosts:
            return []
        finished = []
        for queue in hosts:
            is_awaited = queue in self._low_buffers or queue in self._held_back
            if queue.is_finished and not is_awaited and self.queues.get(queue.host) is queue:
                self._drop_host(queue)
                finished.append(queue.host)
        return finished

    def _drop_host(self, queue: HostQueue) -> None:
        del self.queues[queue.host]
        self.budgets.forget(queue.host)
        if self.rendering is not None:
            self.rendering.forget(queue.host)

    # -- hosts that wait on disk ---------------------------------------------------------------------------

    @property
    def waiting_hosts(self) -> WaitingHosts:
        """Hosts with work that wait on disk until there is room in memory."""
        return self._on_disk.waiting

    @property
    def room(self) -> int:
        """Number of hosts that may come into memory."""
        if not self.ownership.forgets_hosts:
            return LOADS_PER_GROUP
        return self.config.limits.hosts_in_memory - len(self.queues)

    def await_turn(self, cell: int, host: str, host_id: int) -> None:
        """Let a host that has work, and is not in memory, wait on disk until others have left memory."""
        self._on_disk.parked.pop((cell, host_id), None)
        self.waiting_hosts.add(HostNumber(cell, slot_of(site_of(host)), host_id))
        self.counts.hosts += self._on_disk.met.add(cell, host_id)

    def load_host(self, stored: StoredHost, schedule: HostSchedule) -> HostQueue:
        """Bring a host that has work into memory."""
        queue = self.host_queue(stored.host, stored.host_id, schedule)
        queue.requests = max(queue.requests, stored.requests)
        # Rows about a host come with its requests: without one there is nothing more to read.
        queue.knows_robots = queue.knows_robots or not stored.requests
        self._check_now(queue)
        return queue

    def _is_time_to_load(self, now: float) -> bool:
        """Tell whether hosts that wait on disk should be loaded now.

        They come with the next commits, which are cheaper if they are few, unless memory is half empty.
        """
        if not self.waiting_hosts or self.room <= 0:
            return False
        return self.room > len(self.queues) or now - self.last_group >= self.config.commit.every_s

    def make_room(self, schedule: HostSchedule, now: float) -> list[str]:
        """Let some hosts leave memory, because others wait on disk for their room; return their names.

        These are hosts that were parked or given up, that wait long, that had their turn, or that never had a URL. A
        host that comes back is read from disk again.
        """
        if not self.waiting_hosts or self.room > 0 or now < self._on_disk.next_look or self._group is not None:
            return []  # a commit under way refers to hosts
        if self.state is not CrawlState.RUNNING:
            return []
        self._on_disk.next_look = now + MAKE_ROOM_EVERY_S
        awaited = {*self._held, *self._low_buffers, *self._held_back}
        checks: dict[HostQueue, list[float]] = defaultdict(list)
        for at, _, queue in (*self._later, *self._later_if_active):
            if isinstance(queue, HostQueue):
                checks[queue].append(at)
        turn_s = TURN_S if self._open_visits >= FEW_VISITS else IDLE_TURN_S
        turns = ceil(self.config.limits.hosts_in_memory / 4)
        chosen: dict[HostQueue, float] = {}
        for queue in self.queues.values():
            is_used = queue.users > len(checks.get(queue, ())) or queue.prerequisites
            if is_used or queue in awaited:
                continue
            free_at = max(queue.server.ready_at, queue.hold_until)
            has_had_its_turn = turns > 0 and now - max(queue.came_at, self._started_at) >= turn_s
            if not queue.host_id:
                # Only a prerequisite of others led to it: it has no URL, and no row to come back from.
                if not queue.users:
                    chosen[queue] = inf
            elif queue.head is None and queue.exhausted:
                # It has failed, or its next URL is due later; the time of that is known.
                if min(checks.get(queue, ()), default=inf) > now + LONG_WAIT_S or has_had_its_turn:
                    chosen[queue] = inf
                    turns -= has_had_its_turn
            elif queue.parked:
                chosen[queue] = inf
            elif free_at > now + LONG_WAIT_S:
                chosen[queue] = free_at
            elif has_had_its_turn:
                chosen[queue] = -inf
                turns -= 1
        waiting = [queue for queue in chosen if queue.state is HostState.WAITING]
        may_leave = {queue for queue in chosen if queue.state is HostState.IDLE} | set(schedule.withdraw(waiting))
        self._leave_memory({queue: at for queue, at in chosen.items() if queue in may_leave})
        return [queue.host for queue in may_leave]

    def _leave_memory(self, leaving: Mapping[HostQueue, float]) -> None:
        """Let hosts wait on disk until a time: infinity if another event or check brings them back."""
        on_disk = {
            queue: HostOnDisk(HostNumber(queue.cell, slot_of(site_of(queue.host)), queue.host_id), queue.is_unresolved)
            for queue in leaving
        }
        for later in (self._later, self._later_if_active):
            later[:] = [
                (at, number, on_disk.get(host, host) if isinstance(host, HostQueue) else host)
                for at, number, host in later
            ]
        for queue, at in leaving.items():
            number = on_disk[queue].number
            if not queue.host_id:
                self._drop_host(queue)
                continue
            if queue.identity is not None and queue.identity.was_begun:
                self._on_disk.checked.add(queue.cell, queue.host_id)
            if queue.failures or queue.hold_until:
                self._on_disk.failing[queue.cell, queue.host_id] = (
                    queue.failures,
                    queue.last_failure,
                    queue.hold_until,
                )
            if queue.parked:
                self._on_disk.parked[queue.cell, queue.host_id] = number
            elif at == -inf:
                self.waiting_hosts.add(number)
            elif at < inf:
                heapq.heappush(self._later, (at, next(self._order), on_disk[queue]))
            self._drop_host(queue)

    def queue_prerequisite(self, request: QueuedUrl, schedule: HostSchedule) -> None:
        """Queue a prerequisite (a redirected robots.txt) at its host, ahead of its pages."""
        queue = self.host_queue(split(request.url).host, 0, schedule)
        queue.prerequisites.append(request)
        schedule.wake(queue)

    def refill_if_low(self, queue: HostQueue) -> None:
        if not queue.exhausted and self._is_low(queue):
            self._low_buffers[queue] = None
            self._is_short_of_urls |= len(queue.buffer) <= queue.refill // NEARLY_EMPTY

    @staticmethod
    def _is_low(queue: HostQueue) -> bool:
        # A host without a number is not in the frontier: there is nothing to read.
        return len(queue.buffer) <= queue.refill // 2 and bool(queue.host_id)

    def wake_due(self, schedule: HostSchedule, now: float) -> None:
        """Check hosts again whose next URL has become due, or that may start now."""
        for later in (self._later, self._later_if_active):
            while later and later[0][0] <= now:
                queue = heapq.heappop(later)[2]
                if isinstance(queue, HostOnDisk):
                    self.waiting_hosts.add(queue.number)
                else:
                    queue.users -= 1
                    self._check_now(queue)
        if self.ownership.tick(now):
            self._release_held(schedule)

    # -- commits -------------------------------------------------------------------------------------------

    def wants_commit(self, now: float) -> bool:
        """Tell whether a commit should begin now.

        A crawl that is over commits whenever `has_uncommitted`, and for requests of the user.
        """
        commit = self.config.commit
        if self.is_ending:
            # Requests of the user are applied even if the crawl itself has nothing to do.
            may_request = not self.is_winding_up and now - self.last_group >= REFILL_PAUSE_S
            return self.has_uncommitted or (may_request and bool(self.committer.pending_work()))
        # A failed group is tried again before anything else.
        wanted = True if self._group is not None else self.ownership.wants_commit(now)
        if wanted is not None:
            return wanted
        if self.has_whole_group or (self.uncommitted and now - self._oldest >= commit.every_s):
            return True
        waits = self._seeds or self._parked or self._must_reevaluate or self._must_propagate
        is_time_to_fill = bool(self._low_buffers) and now - self.last_group >= commit.every_s
        waits = waits or self._is_short_of_urls or is_time_to_fill or self._is_time_to_load(now)
        for planner in (self.committer.pagerank, self.committer.refresh):
            waits = waits or (planner is not None and planner.has_pending_work)
        return bool(waits or self.committer.pending_work()) and now - self.last_group >= REFILL_PAUSE_S

    @property
    def has_whole_group(self) -> bool:
        """True if nothing would be gained by waiting for more visits: they are many, or no others are under way."""
        is_last = self._open_visits - self._waiting_visits == len(self.uncommitted)
        return bool(self.uncommitted) and (is_last or len(self.uncommitted) >= self.config.commit.every_pages)

    @property
    def has_uncommitted(self) -> bool:
        """True if there are results that no commit has stored: a stop waits for these, and for nothing else.

        While the crawl runs, delays are committed with the visits that caused them. At its end, requests of pages that
        are to be rendered count: they are in memory only.
        """
        learnt = self.uncommitted or self._seeds or self._delays or self._parked or self._courtesy is not None
        has_requests = self.is_ending and self.committer.renders and self.committer.visit_requests.is_waiting
        return bool(learnt or self._postponed or has_requests) or self._group is not None

    @property
    def uncommitted_visits(self) -> int:
        """Number of visits that wait for their commit, including those of a commit that failed or is under way."""
        return len(self.uncommitted) + (0 if self._group is None else len(self._group.visits))

    @property
    def is_settled(self) -> bool:
        """True if nothing is under way or waits for its commit."""
        return self.failure is not None or (
            not self._open_visits and not self.is_committing and not self.has_uncommitted
        )

    @property
    def is_quiet(self) -> bool:
        """True if no visit is under way or waits for its commit, so that captures may be removed."""
        return not self._open_visits and not self.is_committing and not self.uncommitted and self._group is None

    @property
    def awaited_bytes(self) -> int:
        """Bytes that the visits under way will add to the archive, if they are as large as those before them."""
        return self._unwritten_bytes + (self._open_visits - self.uncommitted_visits) * self._mean_bytes

    @property
    def _mean_bytes(self) -> int:
        """Mean size of an answer in the archive; a first guess counts as one answer."""
        return (self._read_bytes + FIRST_GUESS_BYTES) // (self._read_visits + 1)

    def needs_quota_check(self) -> bool:
        """Tell whether so much was requested since the last call that the archive may come near its quota."""
        is_much = self._unchecked_bytes > self.config.retention.quota_bytes * QUOTA_STEP
        if is_much:
            self._unchecked_bytes = 0
        return is_much and bool(self.config.retention.quota_bytes)

    def take_group(self, now: float, now_s: float) -> CommitGroup:
        """Hand over the waiting results; a failed group is handed over again, and newer results wait for the next."""
        self.last_group = now
        if self._group is None:
            # A place without a delay has nothing to keep: an older entry, if there is one, can only be longer.
            delays = [
                delay_entry(kind, target, now, now_s)
                for (kind, _), target in self._delays.items()
                if target.last_delay_s or target.ready_at > now or target.site_count >= RECORDED_FROM
            ]
            self._group = CommitGroup(self.uncommitted, seeds=self._seeds, delays=delays)
            self._group.parked, self._group.courtesy = self._parked, self._courtesy
            self._group.postponed = self._postponed
            self.uncommitted, self._seeds, self._delays, self._parked, self._courtesy = [], [], {}, [], None
            self._postponed = []
        if self._group.refills:  # the last commit failed, so these hosts still need URLs
            self._low_buffers = dict.fromkeys(order[0] for order in self._group.refills) | self._low_buffers
        self._group.only_settles = self.is_ending
        most = 0 if self._group.only_settles else REFILLS_PER_GROUP
        chosen = dict.fromkeys(itertools.islice(self._low_buffers, most))
        self._is_short_of_urls = len(chosen) < len(self._low_buffers)
        for queue in chosen:
            del self._low_buffers[queue]
            queue.refill = self._refill_size(queue) if self.keeps_fresh else queue.refill
        self._group.refills = [(queue, queue.refill, self._keys_in_use(queue)) for queue in chosen]
        if self.waiting_hosts and not self._group.loads and not self._group.only_settles:
            room = min(self.room, LOADS_PER_GROUP)
            self._group.loads = self.waiting_hosts.take(max(0, room))
        others = (visit.queue for visit in self._group.visits if visit.queue not in chosen)
        self._group.refills_if_new = [] if self._group.only_settles else self._exhausted_refills(others)
        self._group.compiled, self._group.must_reevaluate = self.compiled, self._must_reevaluate
        return self._group

    def _exhausted_refills(self, queues: Iterable[HostQueue]) -> list[RefillOrder]:
        """Return the low buffers of hosts that had no more URLs; the visits of the group may bring some.

        Without these, a host would get its new URLs with the next commit, and wait for it without work.
        """
        low = [queue for queue in dict.fromkeys(queues) if queue.exhausted and self._is_low(queue)]
        return [(queue, queue.refill, self._keys_in_use(queue)) for queue in low]

    def _refill_size(self, queue: HostQueue) -> int:
        """Return the number of URLs a host needs for two commits: a URL in memory cannot be overtaken any more."""
        delay_s = max(queue.server.last_delay_s or self.config.courtesy.delay_s, 0.001)
        return max(REFILL_AT_LEAST, min(REFILL_AT_MOST, ceil(2 * self.config.commit.every_s / delay_s)))

    def _keys_in_use(self, queue: HostQueue) -> frozenset[int]:
        """Return the URLs not to be read into a buffer again; an order that rereads buffers may read them again."""
        if not self._rereads_buffers:
            return frozenset(queue.loaded)
        return frozenset(queue.loaded.difference(item.key for item in queue.buffer))

    def apply_commit(self, result: CommitResult, schedule: HostSchedule, clock: Clock) -> list[str]:
        """Apply the result of a commit: forget the visits, note new work, fill buffers.

        Return the hosts that have left memory, because they have no more work.
        """
        assert self._group is not None
        settled = self._group.settled
        self.ownership.before_results(schedule)
        for visit in settled:
            self._count(visit)
            self.forget(visit)
            visit.queue.loaded.discard(visit.item.key)
            if visit.verdict is not None and visit.verdict.state == STATE_QUEUED:
                self._check_later(visit.queue, clock.ticks_s() + visit.verdict.wait_s)
            # More URLs of this host were held back until these visits were read.
            if visit.queue in self._held_back or self.keeps_fresh:
                self._held_back.discard(visit.queue)
                self._check_now(visit.queue)
        refilled = {queue for queue, _, _ in result.refilled}
        left = [order[0] for order in self._group.refills if order[0] not in refilled]
        if left:  # the commit had no time for them
            self._low_buffers = dict.fromkeys(left) | self._low_buffers
            self._is_short_of_urls = True
        self._group = None
        self._note_evaluation(result)
        self._release_held(schedule)
        self.counts.urls_new += result.new_urls
        self.counts.archive_records += result.records
        self.aliases.apply(result.names, result.checks, self.queues, schedule.politeness)
        for queue, found in result.probes:
            apply_stored_probe(queue, found, clock.now_s())
        for queue, requests, received in result.usage:
            # This run may have requested the host since the row was read.
            queue.requests = max(queue.requests, requests)
            queue.received_bytes = max(queue.received_bytes, received)
        self._apply_to_rendering(result, settled)
        for queue in result.large_hosts:
            queue.server.is_small = False
        for name, patterns in result.blocked_patterns.items():
            if name in self.queues:
                self._drop_blocked(self.queues[name], patterns)
        for name in self.committer.bulk.take_changed_hosts():
            self._forget_buffer(name)
        self._note_new_work(result, schedule)
        for queue, items, due_s in result.refilled:
            self._fill(queue, items, due_s, schedule, clock)
        for queue in result.held:
            if queue.loaded:
                self._held_back.add(queue)
            else:
                # With no visit under way, nothing else would cause another look.
                self._check_now(queue)
        if result.given_up:
            self.counts.outcomes[Outcome.TRAP] += result.given_up
        self.ownership.after_results()
        touched = dict.fromkeys([*(visit.queue for visit in settled), *(queue for queue, _, _ in result.refilled)])
        return self._forget_finished(touched)

    def _note_new_work(self, result: CommitResult, schedule: HostSchedule) -> None:
        """Note hosts that have new URLs, and bring those that have waited on disk into memory."""
        filled = {queue for queue, _, _ in result.refilled}  # with the new URLs, which were stored before
        for stored in result.loaded:
            self.load_host(stored, schedule)
        for (cell, name), host_id in result.hosts.items():
            must_wait = name not in self.queues and (self.room <= 0 or self.waiting_hosts)
            if must_wait and name not in result.urgent_hosts:
                self.await_turn(cell, name, host_id)
                continue
            queue = self.host_queue(name, host_id, schedule)
            queue.exhausted = False
            # New URLs may come before those in memory, so the buffer is read again.
            if self._rereads_buffers:
                self._low_buffers[queue] = None
                self._is_short_of_urls = True
            if queue not in filled:
                self.refill_if_low(queue)

    def _apply_to_rendering(self, result: CommitResult, settled: Sequence[ActiveVisit]) -> None:
        if self.rendering is not None:
            for host, records in result.kinds:
                self.rendering.load(host, records)
            self.rendering.note_committed(settled)

    def _drop_blocked(self, queue: HostQueue, patterns: set[int]) -> None:
        """Drop buffered URLs of patterns that may not be fetched any more; they wait on disk."""
        blocked = {item.key for item in queue.buffer if item.lane == LANE_NEW and abs(item.pattern) in patterns}
        queue.buffer[:] = [item for item in queue.buffer if item.key not in blocked]
        queue.loaded -= blocked
        self._check_now(queue)

    def _forget_buffer(self, name: str) -> None:
        """Drop a host's buffer so that it is read anew: its URLs on disk, or their order, have changed."""
        queue = self.queues.get(name)
        if queue is not None:
            queue.loaded.difference_update(item.key for item in queue.buffer)
            queue.buffer.clear()

    def _check_now(self, queue: HostQueue) -> None:
        queue.exhausted = False
        self.refill_if_low(queue)

    def _fill(
        self, queue: HostQueue, items: list[QueuedUrl], due_s: float | None, schedule: HostSchedule, clock: Clock
    ) -> None:
        was_empty = not queue.buffer
        if self._rereads_buffers:
            queue.loaded.difference_update(item.key for item in queue.buffer)
            queue.buffer.clear()
        fresh = [item for item in items if item.key not in queue.loaded]
        # The buffer ran empty and was filled whole: it is too small for this host.
        if was_empty and len(fresh) == queue.refill and not self.keeps_fresh:
            growth = BRISK_GROWTH if queue.server.needs_no_delay else 2
            queue.refill = min(REFILL_AT_MOST, queue.refill * growth)
        else:
            queue.exhausted = len(items) < queue.refill
        queue.knows_robots = True
        queue.buffer.extend(fresh)
        queue.loaded.update(item.key for item in fresh)
        if due_s is not None:
            self._check_later(queue, clock.ticks_s() + max(0.0, due_s - clock.now_s()))
        schedule.head_changed(queue)
        schedule.wake(queue)

    def _note_evaluation(self, result: CommitResult) -> None:
        """Note whether all URLs have been evaluated by the current settings."""
        self._must_propagate = result.has_shorter_paths
        if self._must_reevaluate and result.evaluated_by == self.compiled.mark:
            self._must_reevaluate = False
            # The URLs that hosts wait for may have left.
            self._check_all_later()

    def _check_all_later(self) -> None:
        self._later = [(-inf, number, queue) for _, number, queue in sorted(self._later, key=itemgetter(1))]

    def _check_later(self, queue: HostQueue, at: float) -> None:
        later = self._later_if_active if queue.is_unresolvable else self._later
        queue.users += 1
        heapq.heappush(later, (at, next(self._order), queue))

    def _count(self, visit: ActiveVisit) -> None:
        counts = self.counts
        if visit.item.purpose == "page":
            counts.outcomes[visit.outcome] += 1
            is_failure = not visit.outcome.isdigit() and visit.outcome != Outcome.ALIAS
            if visit.item.depth == 0:
                self._count_seed(visit, is_failure)
        if visit.was_requested:
            counts.requests += 1
            counts.bytes_received += visit.bytes_received
        if self.committer.announced is not None:
            self.committer.announced.note_visit(visit)
        if visit.result is not None:
            counts.links += visit.result.links_seen
            counts.pages += visit.item.purpose == "page" and bool(visit.result.payload_bytes)

    def _count_seed(self, visit: ActiveVisit, is_failure: bool) -> None:
        """Remember why a seed failed, by its last try."""
        failed, url = self.counts.failed_seeds, visit.item.url
        # A seed that was removed while it was being fetched has no one to report to.
        if not is_failure or not self.compiled.sources_in_force(url, visit.item.found_by):
            failed.pop(url, None)
        elif url in failed or len(failed) < MAX_FAILED_SEEDS:
            failed[url] = f"{visit.outcome}{visit.detail and f' ({visit.detail})'}"


def delay_entry(kind: str, target: DelayTarget, now: float, now_s: float) -> DelayEntry:
    """Return the delay of a server or address as the ledger stores it: in Unix time."""
    sites = target.site_count if target.site_count >= RECORDED_FROM else 0
    return DelayEntry(kind, target.name, now_s + target.ready_at - now, target.last_delay_s, sites)


def _found_url(url: str, depth: int, by: int) -> FoundUrl:
    """Return a `FoundUrl` for a URL without links to it."""
    host = split(url).host
    return FoundUrl(host, key_of(url), tail_of(url, host), depth, in_links=0, by=by)
