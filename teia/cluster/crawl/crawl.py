"""One collection on one node: the crawl of a single machine, over the cells owned here.

Three things differ. Links for other cells travel with the commit (mail.py), and those from other cells arrive by the
stream: the next commit merges them and records the last message merged. A request is sent only while the session's
deadline guarantees that the cell is ours. And a cell can be lost: its uncommitted work is dropped, the other cells
continue.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from teia.clock import Clock
from teia.cluster.cells.log import CellLog
from teia.cluster.cells.open_cells import ClusterCells, opened_cell
from teia.cluster.cells.publish import LogJournal
from teia.cluster.cells.site_homes import SiteHomes, long_delays
from teia.cluster.crawl.commit import NodeCommitter
from teia.cluster.crawl.limits import LimitShares
from teia.cluster.crawl.shared_addresses import AddressLeases
from teia.cluster.nats.thread import LoopThread
from teia.cluster.placing.site_analyzer import Analyzer
from teia.config.sections import Config
from teia.crawler.commit import CommitGroup, CommitResult
from teia.crawler.compiled_settings import CompiledSettings, compile_settings, remove_old_copies
from teia.crawler.keep_fresh.keep_fresh import Refresh
from teia.crawler.keep_fresh.visit_all_again import RevisitAll
from teia.crawler.keep_fresh.weights import weigher
from teia.crawler.pagerank_order import CrawlPageRank
from teia.crawler.running_collection import REFILL_PAUSE_S, Crawl
from teia.crawler.signals_in.announcements import open_announcements
from teia.crawler.visit import ActiveVisit
from teia.errors import ClusterError
from teia.frontier.cell import mail
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.host_rules import delay_of
from teia.frontier.queue.ledger import Ledger
from teia.frontier.queue.order import pagerank
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue, HostSchedule
from teia.store.root import Root
from teia.urls import site_of, split

CHECK_AGAIN_S, CHECK_SOON_S = 0.25, 0.05
GATHER_S = 2.0
"""Longest time between two commits of a node that is not busy."""

AHEAD = 2
"""Most uncommitted requests to a host with a delay, for each that may be under way: that one, and the one before it.

A node that dies leaves no more than these to be requested again.
"""

LATE_S = 0.5
"""Time after which a commit that also takes longer than the delay of hosts is late: NATS may be electing.

No request is sent until it is done, because another node might have to repeat requests sent meanwhile.
"""

INBOX_BULKS = 2_000
"""Most bulks of links that wait for their commit; beyond that the stream is not read."""

_log = logging.getLogger(__name__)


class NodeCrawl(Crawl):
    """A running collection on a node. It never ends by itself: links may come from other nodes."""

    committer: NodeCommitter
    waits_for_every_commit = True

    def __init__(
        self,
        name: str,
        config: Config,
        committer: NodeCommitter,
        starts: tuple[int, ...],
        compiled: CompiledSettings,
        may_fetch: Callable[[int], bool],
        clock: Clock,
        taken_at: Mapping[int, float],
        leases: AddressLeases,
    ) -> None:
        super().__init__(0, name, config, committer, starts, compiled.read_settings, compiled)
        committer.usual_delay_s = config.courtesy.delay_s
        self._may_fetch = may_fetch
        self._clock = clock
        self._taken_at = taken_at
        self._leases = leases
        leases.usual_delay_s = config.courtesy.delay_s
        delays = [long_delays(cell.frontier, clock.now_s()) for cell in committer.cells]
        self._long_delays = {host: until_s for each in delays for host, until_s in each.items()}
        self.shares: LimitShares | None = None
        """Shares of the page limit among nodes (limits.py); set when the cells are opened."""
        self.is_over = False
        self.analyzer: Analyzer | None = None
        """Analyzer that decides which sites belong to other nodes; None if the circle alone decides."""
        self._uncommitted_requests: Counter[HostQueue] = Counter()
        """Requests to each host that are under way or not committed yet."""
        self._schedule: HostSchedule | None = None
        self._check_at = 0.0
        self._has_waiting_host = False
        """True if a host with a shorter delay than others (its owner agreed) waits for a commit."""

    def may_start(self, queue: HostQueue, item: QueuedUrl) -> bool:
        if self.analyzer is not None and self.analyzer.is_leaving(queue):
            return False
        may_fetch = self._may_fetch(queue.cell) and not self._is_commit_late()
        return may_fetch and super().may_start(queue, item) and self._may_store(item)

    def _is_ahead(self, queue: HostQueue) -> bool:
        courtesy = self.config.courtesy
        return bool(delay_of(courtesy, queue.host)) and self._uncommitted_requests[queue] >= AHEAD * courtesy.per_host

    def _is_commit_late(self) -> bool:
        late_s = max(LATE_S, min(GATHER_S, self.config.courtesy.delay_s))
        return self.is_committing and self._clock.ticks_s() - self._last_group > late_s

    def _may_store(self, item: QueuedUrl) -> bool:
        """Tell whether this node's share of the remaining pages of the collection allows one more."""
        most = self.config.limits.pages
        if not most or self.shares is None or item.purpose == "robots":
            return True
        return self._open_pages < self.shares.remaining_share(self.committer.stored)

    @property
    def open_pages(self) -> int:
        """Number of pages that are under way or not committed yet."""
        return self._open_pages

    def check_end(self, now: float) -> None:
        """Do nothing: the cluster checks the limits, and links may always come."""

    def has_lease(self, queue: HostQueue, schedule: HostSchedule, now: float) -> bool:
        """Begin a request to an address that other nodes may share.

        Without its lease the address is delayed a little.
        """
        is_refused = self.analyzer is not None and not self.analyzer.accepts(queue)
        is_ahead, courtesy = self._is_ahead(queue), self.config.courtesy
        delay_s = delay_of(courtesy, queue.host)
        self._has_waiting_host = self._has_waiting_host or (is_ahead and delay_s < courtesy.delay_s)
        if is_refused or is_ahead:
            # A short delay, so that other hosts are served meanwhile.
            queue.server.ready_at = max(queue.server.ready_at, now + (CHECK_AGAIN_S if is_refused else CHECK_SOON_S))
            return False
        target = schedule.politeness.address(queue.address)
        again_at = self._leases.begin(queue.address, site_of(queue.host), delay_s)
        target.ready_at = max(target.ready_at, again_at)
        target.known_sites = max(target.known_sites, self._leases.sites_at(queue.address))
        return again_at <= now

    def note_delay(self, server: DelayTarget, address: DelayTarget | None, now: float, now_s: float) -> None:
        super().note_delay(server, address, now, now_s)
        if address is not None:
            self._leases.finish(address.name, address.ready_at, address.last_delay_s)

    def may_request(self, url: str) -> bool:
        return self.committer.homes.lives_here(site_of(split(url).host))

    def host_queue(self, name: str, host_id: int, schedule: HostSchedule) -> HostQueue:
        self._schedule = schedule
        is_new = name not in self.queues
        queue = super().host_queue(name, host_id, schedule)
        if is_new:
            self._delay_new_host(queue, schedule)
            if self.analyzer is not None:
                self.analyzer.add_queue(queue)
        return queue

    def note_start(self, visit: ActiveVisit) -> None:
        super().note_start(visit)
        # Only a visit with a request has an address.
        self._uncommitted_requests[visit.queue] += bool(visit.address)
        if self.analyzer is not None:
            self.analyzer.note_start(visit)

    def _note_end(self, visit: ActiveVisit) -> None:
        super()._note_end(visit)
        self._uncommitted_requests[visit.queue] -= bool(visit.address)
        if not self._uncommitted_requests[visit.queue]:
            del self._uncommitted_requests[visit.queue]
        if self.analyzer is not None:
            self.analyzer.note_end(visit)

    def note_answer(self, visit: ActiveVisit, now: float) -> None:
        super().note_answer(visit, now)
        if self.analyzer is not None and not visit.from_cache:
            self.analyzer.measure(visit)

    def _delay_new_host(self, queue: HostQueue, schedule: HostSchedule) -> None:
        """Delay a host for its full time after its cell was taken: its last owner may just have sent it a request."""
        server, taken_at = queue.server, self._taken_at.get(queue.cell)
        if taken_at is not None:
            schedule.politeness.delay_after_crash([(server.name, "")], taken_at)
        until_s = self._long_delays.get(server.name)
        if until_s is not None:
            server.ready_at = max(server.ready_at, self._clock.ticks_s() + until_s - self._clock.now_s())

    def wake_due(self, now: float) -> None:
        super().wake_due(now)
        if now >= self._check_at and self._schedule is not None:
            self._check_at = now + CHECK_AGAIN_S
            self._release_held(self._schedule)  # the session may have been silent for a while
            if self.analyzer is not None:
                self.analyzer.check_nodes()
                self.committer.departures.extend(self.analyzer.departures(now, self._clock.now_s()))

    def wants_commit(self, now: float) -> bool:
        if self.is_ending:
            return self.has_uncommitted
        since_s = now - self._last_group
        if self._has_waiting_host and self.uncommitted and since_s >= REFILL_PAUSE_S:
            return True
        # More pages may join the same record.
        if since_s < self._gather_s() and len(self.uncommitted) < self.config.commit.every_pages:
            return False
        has_mail = bool(self.committer.inbox) or self.committer.must_merge
        has_mail = has_mail and since_s >= REFILL_PAUSE_S
        return has_mail or bool(self.committer.departures) or super().wants_commit(now)

    def _gather_s(self) -> float:
        """Return the time for which pages are gathered for one commit: at most the delay of their hosts.

        Until that delay is over the hosts need no new URL. A record and its links cost NATS the same for one page as
        for ten.
        """
        return 0.0 if self._group is not None else min(GATHER_S, self.config.courtesy.delay_s)

    def take_group(self, now: float) -> CommitGroup:
        self._has_waiting_host = False
        return super().take_group(now)

    def apply_commit(self, result: CommitResult, schedule: HostSchedule, clock: Clock) -> None:
        dropped, self.committer.dropped = self.committer.dropped, []
        self._delay_arrived(schedule)
        super().apply_commit(result, schedule, clock)
        self._forget_departed()
        # Not settled: the cell's next owner requests these URLs again.
        for visit in dropped:
            self._note_end(visit)

    def _delay_arrived(self, schedule: HostSchedule) -> None:
        """Delay hosts of sites that arrived as long as where they were, and for their full time from now."""
        arrived, self.committer.arrived = self.committer.arrived, {}
        now, now_s = self._clock.ticks_s(), self._clock.now_s()
        schedule.politeness.delay_after_crash([(host, "") for host in arrived], now)
        for host, until_s in arrived.items():
            server = schedule.politeness.server(host)
            server.ready_at = max(server.ready_at, now + min(until_s - now_s, Ledger.MAX_DELAY_S))

    def _forget_departed(self) -> None:
        """Forget hosts of sites that were sent away."""
        departed, self.committer.departed = self.committer.departed, []
        for leaving, moved in departed:
            assert self.analyzer is not None
            for queue in self.analyzer.finish_departure(leaving, moved):
                self.queues.pop(queue.host, None)

    @property
    def unsaved_bytes(self) -> int:
        """Bytes in the logs of the cells owned here that are in no snapshot."""
        return sum(log.unsaved_bytes for log in self._logs())

    def _logs(self) -> list[CellLog]:
        journals = [cell.frontier.journal for cell in self.committer.cells]
        return [journal.log for journal in journals if isinstance(journal, LogJournal)]

    def sent_totals(self) -> tuple[int, int]:
        """Return messages and bytes sent to NATS: for logs in this shift, for address leases in this session."""
        logs = self._logs()
        messages, sent_bytes = sum(log.messages for log in logs), sum(log.sent_bytes for log in logs)
        return messages + self._leases.messages, sent_bytes + self._leases.sent_bytes

    @property
    def is_idle(self) -> bool:
        """True if nothing is left to do here, for now."""
        has_mail = self.committer.inbox or self.committer.received or self.committer.departures
        return not has_mail and super()._is_done()

    def _is_done(self) -> bool:
        return False


@contextmanager
def open_owned(
    root: Root,
    configs: Sequence[Config],
    ledger: Ledger,
    clock: Clock,
    since_s: Mapping[str, float] | None,
    *,
    logs: Mapping[int, CellLog],
    starts: tuple[int, ...],
    thread: LoopThread,
    may_fetch: Callable[[int], bool],
    taken_at: Mapping[int, float],
    leases: AddressLeases,
    analyze: Callable[[SiteHomes], Analyzer | None],
    shares: LimitShares,
) -> Iterator[list[Crawl]]:
    """Open the cells owned here (`Opened` of crawler/start.py); their files are up to their logs."""
    # A node crawls one collection.
    (config,) = configs
    folder = root.collection(config.collection.name)
    with ExitStack() as stack:
        cells = {
            each.number: stack.enter_context(opened_cell(each, folder.name, config, clock, logs[each.number], thread))
            for each in folder.cells()
            if each.number in logs
        }
        committer = NodeCommitter(ClusterCells(cells), starts, ledger, clock)
        if config.collection.order == pagerank.name:
            committer.pagerank = CrawlPageRank(folder.ranks, committer.cells, clock)
        if config.refresh.keep:
            weigh = weigher(config.refresh, folder.ranks)
            committer.refresh = Refresh(committer.cells, config, clock, weigh, shares.refreshed_elsewhere)
            stack.callback(committer.refresh.close)
        elif since_s:
            committer.refresh = RevisitAll(committer.cells, since_s[folder.name], config, clock)
        compiled = compile_settings(config, folder.lists)
        remove_old_copies(folder.lists, compiled)
        crawl = NodeCrawl(folder.name, config, committer, starts, compiled, may_fetch, clock, taken_at, leases)
        crawl.analyzer = analyze(committer.homes)
        crawl.shares = shares
        crawl.add_seeds([seed for seed in compiled.seeds if crawl.may_request(seed)])
        with open_announcements(committer.visit_requests.announced, folder.signals, config, crawl.is_in_scope):
            yield [crawl]


def last_merged(crawl: NodeCrawl, cell: int) -> int:
    """Return the last message of other cells that a cell has merged."""
    frontier: FrontierCell = crawl.committer.cells[cell].frontier
    return mail.last_received(frontier, mail.THE_STREAM)


async def receive_links(log: CellLog, crawl: NodeCrawl, after: int) -> None:
    """Put links from the stream into the inbox of the crawl's next commit."""
    inbox = crawl.committer.inbox
    try:
        async for bulk in log.links(after, lambda: crawl.is_over):
            inbox.append((log.cell, bulk.seq, bulk.data))
            while len(inbox) > INBOX_BULKS and not crawl.is_over:  # noqa: ASYNC110  # another thread empties it
                await asyncio.sleep(CHECK_AGAIN_S)
    except ClusterError as error:
        _log.info("cell=%d subscription ended: %s", log.cell, error)
