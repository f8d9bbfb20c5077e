"""Ownership of the cells of one node: the crawl of a single machine, over the cells owned here.

Three things differ from one machine. Links for other cells travel with the commit (mail.py), and those from other cells
arrive by the stream: the next commit merges them and records the last message merged (commit.py). A request is sent
only while the session's deadline guarantees that the cell is ours. And a cell can be lost: its uncommitted work is
dropped, the other cells continue.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from math import inf

from teia.clock import Clock
from teia.cluster.cells.log import CellLog
from teia.cluster.cells.open_cells import opened_cell
from teia.cluster.cells.publish import LogJournal
from teia.cluster.cells.site_homes import SiteHomes, long_delays
from teia.cluster.crawl.agent_events import AgentEvents
from teia.cluster.crawl.commit import CellExchange, ClusterCells
from teia.cluster.crawl.limits import LimitShares
from teia.cluster.crawl.shared_addresses import AddressLeases
from teia.cluster.nats.thread import LoopThread
from teia.cluster.placing.site_analyzer import Analyzer
from teia.config.sections import Config
from teia.crawler.ownership import VisitObserver
from teia.crawler.running_collection import REFILL_PAUSE_S, Crawl
from teia.crawler.start import build_crawl, topic_of
from teia.crawler.visit import RENDER, ActiveVisit
from teia.errors import ClusterError
from teia.frontier.cell.rows import QueuedUrl
from teia.frontier.queue.host_rules import delay_of
from teia.frontier.queue.ledger import Ledger
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue, HostSchedule
from teia.store.root import Root
from teia.urls import site_of

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


class NodeOwnership:
    """Ownership of the cells of one node (`Ownership` of crawler/ownership.py); `crawl` is its running collection."""

    decides_end = False
    waits_for_every_commit = True
    gets_forwarded_signals = True
    cells_move = True

    def __init__(
        self,
        crawl: Crawl,
        exchange: CellExchange,
        may_fetch: Callable[[int], bool],
        clock: Clock,
        taken_at: Mapping[int, float],
        leases: AddressLeases,
        shares: LimitShares,
        analyzer: Analyzer | None,
    ) -> None:
        self._crawl = crawl
        self.exchange = exchange
        self._may_fetch = may_fetch
        self._clock = clock
        self._taken_at = taken_at
        self._leases = leases
        leases.usual_delay_s = exchange.usual_delay_s = crawl.config.courtesy.delay_s
        delays = [long_delays(cell.frontier, clock.now_s()) for cell in exchange.cells]
        self._long_delays = {host: until_s for each in delays for host, until_s in each.items()}
        self._shares = shares
        self.analyzer = analyzer
        """Analyzer that decides which sites belong to other nodes; None if the circle alone decides."""
        self.observers: Sequence[VisitObserver] = (self,) if analyzer is None else (self, analyzer)
        self.is_over = False
        self._uncommitted_requests: Counter[HostQueue] = Counter()
        """Requests to each host that are under way or not committed yet."""
        self._check_at = 0.0
        self._host_waits_at = -inf
        """Time at which a host with a shorter delay than others (its owner agreed) last had to wait for a commit."""

    @property
    def forgets_hosts(self) -> bool:
        return self.analyzer is None

    # -- before a request ----------------------------------------------------------------------------------

    def owns(self, host: str) -> bool:
        return self.exchange.homes.lives_here(site_of(host))

    def may_start(self, queue: HostQueue, item: QueuedUrl) -> bool:
        if self.analyzer is not None and self.analyzer.is_leaving(queue):
            return False
        return self._may_fetch(queue.cell) and not self._is_commit_late() and self._may_store(item)

    def may_send(self, queue: HostQueue) -> Callable[[], bool]:
        # The process may be stopped between `may_start` and the request, and another node take the cell meanwhile.
        return partial(self._may_fetch, queue.cell)

    def _is_commit_late(self) -> bool:
        late_s = max(LATE_S, min(GATHER_S, self._crawl.config.courtesy.delay_s))
        return self._crawl.is_committing and self._clock.ticks_s() - self._crawl.last_group > late_s

    def _may_store(self, item: QueuedUrl) -> bool:
        """Tell whether this node's share of the remaining pages of the collection allows one more."""
        if not self._crawl.config.limits.pages or item.purpose in {"robots", RENDER}:
            return True
        return self._crawl.open_pages < self._shares.remaining_share(self.exchange.stored)

    def begin_request(self, queue: HostQueue, schedule: HostSchedule, now: float) -> bool:
        """Begin a request to an address that other nodes may share.

        Without its lease the address is delayed a little.
        """
        is_refused = self.analyzer is not None and not self.analyzer.accepts(queue)
        courtesy = self._crawl.config.courtesy
        delay_s = delay_of(courtesy, queue.host)
        is_ahead = bool(delay_s) and self._uncommitted_requests[queue] >= AHEAD * courtesy.per_host
        if is_ahead and delay_s < courtesy.delay_s:
            self._host_waits_at = now
        if is_refused or is_ahead:
            # A short delay, so that other hosts are served meanwhile.
            queue.server.ready_at = max(queue.server.ready_at, now + (CHECK_AGAIN_S if is_refused else CHECK_SOON_S))
            return False
        target = schedule.politeness.address(queue.address)
        again_at = self._leases.begin(queue.address, site_of(queue.host), delay_s)
        target.ready_at = max(target.ready_at, again_at)
        target.known_sites = max(target.known_sites, self._leases.sites_at(queue.address))
        return again_at <= now

    def add_host(self, queue: HostQueue, schedule: HostSchedule) -> None:
        """Delay a host for its full time after its cell was taken: its last owner may just have sent it a request."""
        server, taken_at = queue.server, self._taken_at.get(queue.cell)
        if taken_at is not None:
            schedule.politeness.delay_after_crash([(server.name, "")], taken_at)
        until_s = self._long_delays.get(server.name)
        if until_s is not None:
            server.ready_at = max(server.ready_at, self._clock.ticks_s() + until_s - self._clock.now_s())
        if self.analyzer is not None:
            self.analyzer.add_queue(queue)

    # -- visits --------------------------------------------------------------------------------------------

    def note_start(self, visit: ActiveVisit) -> None:
        # Only a visit with a request has an address.
        self._uncommitted_requests[visit.queue] += bool(visit.address)

    def note_answer(self, visit: ActiveVisit, address: DelayTarget) -> None:  # noqa: ARG002
        self._leases.finish(address.name, address.ready_at, address.last_delay_s)

    def note_end(self, visit: ActiveVisit) -> None:
        self._uncommitted_requests[visit.queue] -= bool(visit.address)
        if not self._uncommitted_requests[visit.queue]:
            del self._uncommitted_requests[visit.queue]

    def tick(self, now: float) -> bool:
        if now < self._check_at:
            return False
        self._check_at = now + CHECK_AGAIN_S
        if self.analyzer is not None:
            self.analyzer.check_nodes()
            self.exchange.departures.extend(self.analyzer.departures(now, self._clock.now_s()))
        return True  # the session may have been silent for a while

    # -- commits -------------------------------------------------------------------------------------------

    def wants_commit(self, now: float) -> bool | None:
        """Gather pages for one commit for at most the delay of their hosts, which need no new URL until then.

        A record and its links cost NATS the same for one page as for ten.
        """
        crawl, since_s = self._crawl, now - self._crawl.last_group
        may_commit = since_s >= REFILL_PAUSE_S
        if self._host_waits_at > crawl.last_group and crawl.uncommitted and may_commit:
            return True
        is_gathering = since_s < min(GATHER_S, crawl.config.courtesy.delay_s)
        if is_gathering and len(crawl.uncommitted) < crawl.config.commit.every_pages:
            return False
        has_mail = may_commit and (self.exchange.inbox or self.exchange.must_merge)
        return True if has_mail or self.exchange.departures else None

    def before_results(self, schedule: HostSchedule) -> None:
        """Delay hosts of sites that arrived as long as where they were, and for their full time from now."""
        arrived, self.exchange.arrived = self.exchange.arrived, {}
        now, now_s = self._clock.ticks_s(), self._clock.now_s()
        schedule.politeness.delay_after_crash([(host, "") for host in arrived], now)
        for host, until_s in arrived.items():
            server = schedule.politeness.server(host)
            server.ready_at = max(server.ready_at, now + min(until_s - now_s, Ledger.MAX_DELAY_S))

    def after_results(self) -> None:
        """Forget hosts of sites that were sent away, and visits of lost cells."""
        departed, self.exchange.departed = self.exchange.departed, []
        for leaving, moved in departed:
            assert self.analyzer is not None
            for queue in self.analyzer.finish_departure(leaving, moved):
                self._crawl.queues.pop(queue.host, None)
                self._crawl.refuse_page_requests(queue)
        # Not settled: the cell's next owner requests these URLs again.
        dropped, self.exchange.dropped = self.exchange.dropped, []
        for visit in dropped:
            self._crawl.forget(visit)

    # -- reports -------------------------------------------------------------------------------------------

    @property
    def unsaved_bytes(self) -> int:
        """Bytes in the logs of the cells owned here that are in no snapshot."""
        return sum(log.unsaved_bytes for log in self._logs())

    def _logs(self) -> list[CellLog]:
        journals = [cell.frontier.journal for cell in self.exchange.cells]
        return [journal.log for journal in journals if isinstance(journal, LogJournal)]

    def sent_totals(self) -> tuple[int, int]:
        """Return messages and bytes sent to NATS: for logs in this shift, for address leases since the node joined."""
        logs = self._logs()
        messages, sent_bytes = sum(log.messages for log in logs), sum(log.sent_bytes for log in logs)
        return messages + self._leases.messages, sent_bytes + self._leases.sent_bytes

    @property
    def is_idle(self) -> bool:
        """True if nothing is left to do here, for now."""
        has_mail = self.exchange.inbox or self.exchange.received or self.exchange.departures
        return not has_mail and self._crawl.is_done


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
    agents: AgentEvents,
) -> Iterator[list[Crawl]]:
    """Open the cells owned here (`Opened` of crawler/start.py); their files are up to their logs."""
    # A node crawls one collection.
    (config,) = configs
    folder = root.collection(config.collection.name)
    with ExitStack() as stack:
        focus = topic_of(root, config, clock)  # the agreed one (shared_files.py)
        cells = {
            each.number: stack.enter_context(opened_cell(each, folder.name, config, clock, logs[each.number], thread))
            for each in folder.cells()
            if each.number in logs
        }
        owned = ClusterCells(cells)

        def own(crawl: Crawl) -> NodeOwnership:
            exchange = CellExchange(crawl.committer, owned, starts, clock, agents)
            analyzer = analyze(exchange.homes)
            return NodeOwnership(crawl, exchange, may_fetch, clock, taken_at, leases, shares, analyzer)

        crawl = build_crawl(
            folder, config, owned, starts, ledger, clock, since_s, stack, focus, own,
            shares.kept_elsewhere, shares.spent_elsewhere,
        )  # fmt: skip
        if config.sites.aliases:
            crawl.load_aliases(within_sites=True)
        yield [crawl]
        if crawl.committer.aliases is not None:
            with suppress(ClusterError):  # this node may have lost a cell
                crawl.committer.aliases.close()


def ownership_of(crawl: Crawl) -> NodeOwnership:
    """Return the ownership of a crawl that `open_owned` opened."""
    assert isinstance(crawl.ownership, NodeOwnership)
    return crawl.ownership


async def receive_links(log: CellLog, ownership: NodeOwnership, after: int) -> None:
    """Put links from the stream into the inbox of the crawl's next commit."""
    inbox = ownership.exchange.inbox
    try:
        async for bulk in log.links(after, lambda: ownership.is_over):
            ownership.exchange.arrivals.note_received(log.cell, bulk)
            inbox.append((log.cell, bulk.seq, bulk.data))
            while len(inbox) > INBOX_BULKS and not ownership.is_over:  # noqa: ASYNC110  # another thread empties it
                await asyncio.sleep(CHECK_AGAIN_S)
    except ClusterError as error:
        _log.info("cell=%d subscription ended: %s", log.cell, error)
