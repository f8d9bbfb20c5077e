"""One collection on one node: the crawl of a single machine, over the cells that are kept here.

Three things are different. Links for other cells travel with the commit (frontier/mail.py), and those from other cells
come in by the stream: they are merged by the next commit, which notes how far it has heard. A request is sent only
while the cell is ours by the clock. And a cell can be lost: what was not committed of it is dropped, the others go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from teia.clock import Clock
from teia.cluster.addresses import AddressTurns
from teia.cluster.analyzer import Analyzer
from teia.cluster.cells import KeptCells, opened_cell
from teia.cluster.committing import NodeCommitter
from teia.cluster.homes import Homes, long_rests
from teia.cluster.journal import CellLog
from teia.cluster.keeping import NodeRefresh
from teia.cluster.limiting import Shares
from teia.cluster.publishing import LogJournal
from teia.cluster.thread import LoopThread
from teia.config import Config
from teia.crawl.announced import announcing
from teia.crawl.authority import Authority
from teia.crawl.commit import Committed, Group
from teia.crawl.crawl import REFILL_PAUSE_S, Crawl
from teia.crawl.meaning import Meaning, meaning_of, remove_old_copies
from teia.crawl.rounds import RevisitAll
from teia.crawl.visits import Visit
from teia.crawl.weights import weigher
from teia.errors import ClusterError
from teia.frontier import mail
from teia.frontier.cell import FrontierCell
from teia.frontier.hostrules import delay_of
from teia.frontier.ledger import Ledger
from teia.frontier.order import pagerank
from teia.frontier.politeness import Place
from teia.frontier.schedule import HostQueue, Queued, Schedule
from teia.store.root import Root
from teia.urls import site_of, split

LOOK_AGAIN_S, LOOK_SOON_S = 0.25, 0.05
GATHER_S = 2.0
"""The longest time between two commits of a node that has time."""

AHEAD = 2
"""Requests to a host that rests, at most, beyond what is committed, for each that may be under way at a time: one, and
the one before it. A node that dies leaves no more to be asked again."""

LATE_S = 0.5
"""A commit that takes longer than this, and than hosts rest, is late: NATS may be electing. Nothing is asked for until
it is done, for whatever was asked meanwhile might have to be asked again by another node."""

INBOX_BULKS = 2_000
"""So many bulks of links may wait for their commit; while they do, the stream is not read on."""

_log = logging.getLogger(__name__)


class NodeCrawl(Crawl):
    """A collection under way on a node. It never ends by itself: links may come from others."""

    committer: NodeCommitter

    def __init__(
        self,
        name: str,
        config: Config,
        committer: NodeCommitter,
        starts: tuple[int, ...],
        meaning: Meaning,
        may_ask: Callable[[int], bool],
        clock: Clock,
        taken_at: Mapping[int, float],
        turns: AddressTurns,
    ) -> None:
        super().__init__(0, name, config, committer, starts, meaning.reading, meaning)
        committer.usual_s = config.courtesy.delay_s
        self._may_ask = may_ask
        self._clock = clock
        self._taken_at = taken_at
        self._turns = turns
        turns.usual_s = config.courtesy.delay_s
        rests = [long_rests(cell.frontier, clock.now_s()) for cell in committer.cells]
        self._long_rests = {host: until_s for each in rests for host, until_s in each.items()}
        self.shares: Shares | None = None
        """Who knows what other nodes have stored, where the collection may only have so many pages."""
        self.is_over = False
        self.is_ending = False
        self.analyzer: Analyzer | None = None
        """Who says which sites are for other nodes; nobody where the circle alone does."""
        self._asked_of: Counter[HostQueue] = Counter()
        """Requests to each host that are under way or not committed yet."""
        self._schedule: Schedule | None = None
        self._look_at = 0.0
        self._is_waited_for = False
        """Whether a host that rests less than others (its owner agreed) may be asked nothing before a commit."""

    def may_start(self, queue: HostQueue, item: Queued) -> bool:
        if self.analyzer is not None and self.analyzer.is_leaving(queue):
            return False
        may_ask = self._may_ask(queue.cell) and not self._is_commit_late()
        return may_ask and super().may_start(queue, item) and self._may_store(item)

    def _is_ahead(self, queue: HostQueue) -> bool:
        courtesy = self.config.courtesy
        return bool(delay_of(courtesy, queue.host)) and self._asked_of[queue] >= AHEAD * courtesy.per_host

    def _is_commit_late(self) -> bool:
        late_s = max(LATE_S, min(GATHER_S, self.config.courtesy.delay_s))
        return self.committing and self._clock.ticks_s() - self._last_group > late_s

    def _may_store(self, item: Queued) -> bool:
        """Whether this node's part of the pages that the collection may still have allows for one more."""
        most = self.config.limits.pages
        if not most or self.shares is None or item.purpose == "robots":
            return True
        return self._open_pages < self.shares.left(self.committer.stored)

    @property
    def open_pages(self) -> int:
        """Pages that are under way or not committed yet."""
        return self._open_pages

    def check_end(self, now: float) -> None:
        """Notice nothing: limits are the cluster's to notice, and links may always come."""

    def has_turn(self, queue: HostQueue, schedule: Schedule, now: float) -> bool:
        """Begin a request to an address that may be other nodes' too; without its turn it rests a little longer."""
        is_refused = self.analyzer is not None and not self.analyzer.accepts(queue)
        is_ahead, courtesy = self._is_ahead(queue), self.config.courtesy
        rest_s = delay_of(courtesy, queue.host)
        self._is_waited_for = self._is_waited_for or (is_ahead and rest_s < courtesy.delay_s)
        if is_refused or is_ahead:
            queue.server.ready_at = max(queue.server.ready_at, now + (LOOK_AGAIN_S if is_refused else LOOK_SOON_S))
            return False
        place = schedule.politeness.address(queue.address)
        again_at = self._turns.begin(queue.address, site_of(queue.host), rest_s)
        place.ready_at = max(place.ready_at, again_at)
        place.known_sites = max(place.known_sites, self._turns.sites_at(queue.address))
        return again_at <= now

    def note_rest(self, server: Place, address: Place | None, now: float, now_s: float) -> None:
        super().note_rest(server, address, now, now_s)
        if address is not None:
            self._turns.finished(address.name, address.ready_at, address.last_rest_s)

    def reaches(self, url: str) -> bool:
        return self.committer.homes.lives_here(site_of(split(url).host))

    def host(self, name: str, host_id: int, schedule: Schedule) -> HostQueue:
        self._schedule = schedule
        is_new = name not in self.queues
        queue = super().host(name, host_id, schedule)
        if is_new:
            self._rest_as_asked(queue, schedule)
            if self.analyzer is not None:
                self.analyzer.met(queue)
        return queue

    def started(self, visit: Visit) -> None:
        super().started(visit)
        self._asked_of[visit.queue] += bool(visit.address)
        if self.analyzer is not None:
            self.analyzer.started(visit)

    def _closed(self, visit: Visit) -> None:
        super()._closed(visit)
        self._asked_of[visit.queue] -= bool(visit.address)
        if not self._asked_of[visit.queue]:
            del self._asked_of[visit.queue]
        if self.analyzer is not None:
            self.analyzer.closed(visit)

    def note_answer(self, visit: Visit, now: float) -> None:
        super().note_answer(visit, now)
        if self.analyzer is not None and not visit.from_cache:
            self.analyzer.measure(visit)

    def _rest_as_asked(self, queue: HostQueue, schedule: Schedule) -> None:
        """Let a host rest its full time from the moment its cell was taken: its last keeper may just have asked it."""
        server, taken_at = queue.server, self._taken_at.get(queue.cell)
        if taken_at is not None:
            schedule.politeness.rest_after_death([(server.name, "")], taken_at)
        until_s = self._long_rests.get(server.name)
        if until_s is not None:
            server.ready_at = max(server.ready_at, self._clock.ticks_s() + until_s - self._clock.now_s())

    def wake_due(self, now: float) -> None:
        super().wake_due(now)
        if now >= self._look_at and self._schedule is not None:
            self._look_at = now + LOOK_AGAIN_S
            self._release_held(self._schedule)  # the session may have been silent for a while
            if self.analyzer is not None:
                self.analyzer.look()
                self.committer.departures.extend(self.analyzer.departures(now, self._clock.now_s()))

    def wants_commit(self, now: float) -> bool:
        if self.is_ending:
            return self.has_uncommitted
        since_s = now - self._last_group
        if self._is_waited_for and self.uncommitted and since_s >= REFILL_PAUSE_S:
            return True
        if since_s < self._gather_s() and len(self.uncommitted) < self.config.commit.every_pages:
            return False
        has_mail = bool(self.committer.inbox) or self.committer.must_hear
        has_mail = has_mail and since_s >= REFILL_PAUSE_S
        return has_mail or bool(self.committer.departures) or super().wants_commit(now)

    def _gather_s(self) -> float:
        """How long pages are gathered for one commit: no longer than their hosts rest, which need no URL before that.

        A record and its links cost NATS the same for one page as for ten.
        """
        return 0.0 if self._group is not None else min(GATHER_S, self.config.courtesy.delay_s)

    def take_group(self, now: float) -> Group:
        self._is_waited_for = False
        return super().take_group(now)

    def committed(self, done: Committed, schedule: Schedule, clock: Clock) -> None:
        dropped, self.committer.dropped = self.committer.dropped, []
        self._let_arrive(schedule)
        super().committed(done, schedule, clock)
        self._let_go()
        for visit in dropped:
            self._closed(visit)

    def _let_arrive(self, schedule: Schedule) -> None:
        """Let hosts of sites that came rest as long as they did where they were, and their full time from now."""
        arrived, self.committer.arrived = self.committer.arrived, {}
        now, now_s = self._clock.ticks_s(), self._clock.now_s()
        schedule.politeness.rest_after_death([(host, "") for host in arrived], now)
        for host, until_s in arrived.items():
            server = schedule.politeness.server(host)
            server.ready_at = max(server.ready_at, now + min(until_s - now_s, Ledger.MAX_REST_S))

    def _let_go(self) -> None:
        """Forget hosts of sites that were sent away."""
        departed, self.committer.departed = self.committer.departed, []
        for leaving, moved in departed:
            assert self.analyzer is not None
            for queue in self.analyzer.gone(leaving, moved):
                self.queues.pop(queue.host, None)

    @property
    def unsaved_bytes(self) -> int:
        """What the logs of the cells kept here hold that is in no snapshot."""
        return sum(log.unsaved_bytes for log in self._logs())

    def _logs(self) -> list[CellLog]:
        journals = [cell.frontier.journal for cell in self.committer.cells]
        return [journal.log for journal in journals if isinstance(journal, LogJournal)]

    def sent(self) -> tuple[int, int]:
        """Messages and bytes sent to NATS in this shift, and for turns at addresses since the session began."""
        logs = self._logs()
        messages, sent_bytes = sum(log.messages for log in logs), sum(log.sent_bytes for log in logs)
        return messages + self._turns.messages, sent_bytes + self._turns.sent_bytes

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do here, for now."""
        has_mail = self.committer.inbox or self.committer.hearing or self.committer.departures
        return not has_mail and super()._is_done()

    def _is_done(self) -> bool:
        return False


@contextmanager
def open_kept(
    root: Root,
    configs: Sequence[Config],
    ledger: Ledger,
    clock: Clock,
    since_s: Mapping[str, float] | None,
    *,
    logs: Mapping[int, CellLog],
    starts: tuple[int, ...],
    thread: LoopThread,
    may_ask: Callable[[int], bool],
    taken_at: Mapping[int, float],
    turns: AddressTurns,
    analyze: Callable[[Homes], Analyzer | None],
    shares: Shares,
) -> Iterator[list[Crawl]]:
    """Open the cells that are kept here (`Opened` of crawl/opening.py); their files are up to their logs."""
    (config,) = configs
    folder = root.collection(config.collection.name)
    with ExitStack() as stack:
        cells = {
            each.number: stack.enter_context(opened_cell(each, folder.name, config, clock, logs[each.number], thread))
            for each in folder.cells()
            if each.number in logs
        }
        committer = NodeCommitter(KeptCells(cells), starts, ledger, clock)
        if config.collection.order == pagerank.name:
            committer.authority = Authority(folder.ranks, committer.cells, clock)
        if config.refresh.keep:
            weigh = weigher(config.refresh, folder.ranks)
            committer.refresh = NodeRefresh(committer.cells, config, clock, weigh, shares.kept_elsewhere)
            stack.callback(committer.refresh.close)
        elif since_s:
            committer.refresh = RevisitAll(committer.cells, since_s[folder.name], config, clock)
        meaning = meaning_of(config, folder.lists)
        remove_old_copies(folder.lists, meaning)
        crawl = NodeCrawl(folder.name, config, committer, starts, meaning, may_ask, clock, taken_at, turns)
        crawl.analyzer = analyze(committer.homes)
        crawl.shares = shares
        crawl.add_seeds([seed for seed in meaning.seeds if crawl.reaches(seed)])
        with announcing(committer.wishes.announced, folder.signals, config, crawl.holds):
            yield [crawl]


def heard_by(crawl: NodeCrawl, cell: int) -> int:
    """How far a cell has heard what others sent."""
    frontier: FrontierCell = crawl.committer.cells[cell].frontier
    return mail.heard(frontier, mail.THE_STREAM)


async def listen(log: CellLog, crawl: NodeCrawl, after: int) -> None:
    """Bring links from the stream to the crawl's next commit."""
    inbox = crawl.committer.inbox
    try:
        async for bulk in log.links(after, lambda: crawl.is_over):
            inbox.append((log.cell, bulk.seq, bulk.data))
            while len(inbox) > INBOX_BULKS and not crawl.is_over:  # noqa: ASYNC110  # another thread empties it
                await asyncio.sleep(LOOK_AGAIN_S)
    except ClusterError as error:
        _log.info("cell=%d no longer listened to: %s", log.cell, error)
