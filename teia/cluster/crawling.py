"""One collection on one node: the crawl of a single machine, over the cells that are kept here.

Three things are different. Links for other cells travel with the commit (frontier/mail.py), and those from other cells
come in by the stream: they are merged by the next commit, which notes how far it has heard. A request is sent only
while the cell is ours by the clock. And a cell can be lost: what was not committed of it is dropped, the others go on.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from teia.clock import Clock
from teia.cluster.addresses import AddressTurns
from teia.cluster.analyzer import Analyzer
from teia.cluster.cells import KeptCells, opened_cell
from teia.cluster.homes import REST, Departure, Homes, Said, long_rests, said_in
from teia.cluster.journal import CellLog, CellLost, TooLarge
from teia.cluster.keeping import NodeRefresh
from teia.cluster.limiting import STORED, Shares
from teia.cluster.publishing import LogJournal
from teia.cluster.thread import LoopThread
from teia.config import Config
from teia.crawl.authority import Authority
from teia.crawl.cells import Cell
from teia.crawl.commit import Committed, Committer, Group
from teia.crawl.crawl import REFILL_PAUSE_S, Crawl
from teia.crawl.meaning import Meaning, meaning_of, remove_old_copies
from teia.crawl.rounds import RevisitAll
from teia.crawl.visits import Visit
from teia.crawl.weights import weigher
from teia.frontier import mail
from teia.frontier.ledger import Ledger, Rest
from teia.frontier.moving import URLS_MOST, Moved, Part, SiteTooLarge, urls_of
from teia.frontier.order import pagerank
from teia.frontier.politeness import Place
from teia.frontier.schedule import HostQueue, Queued, Schedule
from teia.store.archive import Stored
from teia.store.root import Root
from teia.urls import site_of, split

HEARD_AT_ONCE = 200
"""Bulks of links that one commit merges."""

HEARD_WITHIN_S = 2.0
"""How long links from others wait for a commit of pages of their cell, which then holds both; in a cell where nothing
else is to be done they do not."""

LOOK_AGAIN_S, LOOK_SOON_S = 0.25, 0.05
GATHER_S = 2.0
"""The longest time between two commits of a node that has time."""

AHEAD = 2
"""Requests to a host that rests, at most, beyond what is committed, for each that may be under way at a time: one, and
the one before it. A node that dies leaves no more to be asked again."""

LATE_S = 0.5
"""A commit that takes longer than this, and than hosts rest, is late: NATS may be electing. Nothing is asked for until
it is done, for whatever was asked meanwhile might have to be asked again by another node."""

_log = logging.getLogger(__name__)


class NodeCommitter(Committer):
    """Commits to the cells that are kept here. `inbox` is filled by another thread with (cell, number, links)."""

    cells: KeptCells

    def __init__(self, cells: KeptCells, starts: Sequence[int], ledger: Ledger, clock: Clock) -> None:
        super().__init__(cells, starts, ledger, clock)
        self.inbox: deque[tuple[int, int, bytes]] = deque()
        self.homes = Homes(starts, [(cell.number, cell.frontier) for cell in cells])
        self.number_of = self.homes.number_of
        self.departures: deque[Departure] = deque()
        """Sites to be sent to other cells with the next commit; filled by the crawl's loop."""
        self.departed: list[tuple[Departure, Moved | None]] = []
        """Those that were, or could not be."""
        self.arrived: dict[str, float] = {}
        """Hosts of sites that came, and until when they rest."""
        self.hearing: dict[int, list[tuple[int, int, Said]]] = {}
        """By cell: links taken from the inbox whose commit has not come yet; a failed one finds them again."""
        self._waiting_since: dict[int, float] = {}
        self._from_others = 0
        """URLs that the transaction under way got with sites that another cell knew before."""
        self.heard: dict[int, int] = {}
        self.lost: set[int] = set()
        self.dropped: list[Visit] = []
        self.stored = {cell.number: stored_in(cell) for cell in cells}
        """How many pages each cell has stored, ever."""
        self.usual_s = 0.0
        """Rests that are longer are written into the cell, for whoever keeps it next."""
        self._rests: dict[str, Rest] = {}

    def commit(self, group: Group) -> Committed:
        """Make a group true; what belongs to a cell that was lost is left out."""
        while True:
            self._leave_out_lost(group)
            self._rests = {rest.name: rest for rest in group.rests if rest.kind == "server"}
            try:
                self._hear({visit.queue.cell for visit in group.visits}, group.done)
                done = super().commit(group)
                self._send_sites()
                return done
            except TooLarge:
                if len(group.visits) <= 1:
                    raise
                self._commit_half(group)
            except CellLost as error:
                self.cells.drop(error.cell)
                self.lost.add(error.cell)
                if isinstance(self.refresh, NodeRefresh):
                    self.refresh.drop_cell(error.cell)

    def _commit_half(self, group: Group) -> None:
        """Commit some of a group's pages, whose links lead to more cells than one batch reaches, before the others."""
        half = len(group.visits) // 2
        part = Group(group.visits[:half], group.settled, rests=group.rests, done=group.done)
        others = group.visits[half:]
        try:
            self.commit(part)
        finally:
            group.visits = part.visits + others

    def _leave_out_lost(self, group: Group) -> None:
        self.dropped += [visit for visit in group.visits if not self.cells.keeps(visit.queue.cell)]
        group.visits = [visit for visit in group.visits if self.cells.keeps(visit.queue.cell)]
        group.parked = [each for each in group.parked if self.cells.keeps(each[0].cell)]
        group.refills = [each for each in group.refills if self.cells.keeps(each[0].cell)]
        group.seeds = [seed for seed in group.seeds if self._finds(site_of(seed.host))]

    def _finds(self, site: str) -> bool:
        """Whether a site's cell is kept here, or its home, which knows where it is."""
        return self.cells.keeps(self.homes.guests.get(site, self.homes.home_of(site)))

    def _send_sites(self) -> None:
        """Send sites on their way; one whose commit fails stays and is tried again with the next."""
        while self.departures:
            leaving, moved = self.departures[0], None
            if self.cells.keeps(leaving.cell):
                frontier = self.cells[leaving.cell].frontier
                if urls_of(frontier, leaving.site) <= URLS_MOST:
                    try:
                        with frontier.transaction():
                            moved = self.homes.send(frontier, leaving)
                    except SiteTooLarge as error:
                        _log.info("%s", error)
                    except BaseException:
                        self.homes.read(leaving.cell, frontier)
                        raise
            self.departures.popleft()
            self.departed.append((leaving, moved))
            if moved is not None and isinstance(self.refresh, NodeRefresh):
                self.refresh.drop_hosts(leaving.cell, moved.hosts)

    def _take(self, cell: Cell, bulks: Iterable[tuple[int, int, Said]], done: Committed) -> None:
        """Merge what others sent, in a commit of its own."""
        known_before = cell.frontier.known
        try:
            with cell.frontier.transaction():
                self._merge(cell, bulks, done)
        except BaseException:
            self.homes.read(cell.number, cell.frontier)
            raise
        done.new_urls += cell.frontier.known - known_before - self._from_others

    def _merge(self, cell: Cell, bulks: Iterable[tuple[int, int, Said]], done: Committed) -> None:
        """Links are new URLs, a site is what another cell knew before; inside a transaction."""
        frontier, now_s, self._from_others = cell.frontier, self._clock.now_s(), 0
        for sender, seq, said in bulks:
            if seq > mail.heard(frontier, sender):
                known = frontier.known
                self._note(done, cell, self.homes.hear(cell.number, frontier, said, now_s))
                if isinstance(said, Part):
                    self._from_others += frontier.known - known
                    self.arrived |= dict.fromkeys(said.names.values(), 0.0) | said.rests
                mail.note_heard(frontier, sender, seq)

    def _commit_cell(self, cell: Cell, visits: Sequence[Visit], done: Committed) -> None:
        try:
            super()._commit_cell(cell, visits, done)
        except BaseException:
            self.homes.read(cell.number, cell.frontier)
            raise
        done.new_urls -= self._from_others
        self.stored[cell.number] += sum(is_stored(visit) for visit in visits)
        self._was_heard(cell.number)

    def _absorb_seeds(self, group: Group, done: Committed) -> None:
        """As ever; but what is for a site that was sent away goes after it."""
        for seed in group.seeds:
            site = site_of(seed.host)
            if not self.homes.lives_here(site):
                frontier = self.cells[self.homes.home_of(site)].frontier
                with frontier.transaction():
                    mail.post(frontier, self.homes.number_of(seed.host), [seed])
                    frontier.db.execute("DELETE FROM meta WHERE name = ''")  # a record carries what is posted
        group.seeds = [seed for seed in group.seeds if self.homes.lives_here(site_of(seed.host))]
        super()._absorb_seeds(group, done)

    def _hear(self, with_pages: Collection[int], done: Committed) -> None:
        """Merge what other cells sent, but for cells whose pages come next: they take it in the same transaction."""
        waiting = sum(map(len, self.hearing.values()))
        for _ in range(min(max(0, HEARD_AT_ONCE - waiting), len(self.inbox))):
            number, seq, bulk = self.inbox.popleft()
            self.hearing.setdefault(number, []).append((mail.THE_STREAM, seq, said_in(bulk)))
            self._waiting_since.setdefault(number, self._clock.ticks_s())
        for number, bulks in list(self.hearing.items()):
            if not self.cells.keeps(number):
                del self.hearing[number]
            elif number not in with_pages and self._is_urgent(number):
                self._take(self.cells[number], bulks, done)
                self._was_heard(number)

    @property
    def must_hear(self) -> bool:
        """Whether something that others sent has to be merged now. Not while a commit is under way."""
        return any(self.cells.keeps(number) and self._is_urgent(number) for number in self.hearing)

    def _is_urgent(self, number: int) -> bool:
        has_waited = self._clock.ticks_s() - self._waiting_since[number] >= HEARD_WITHIN_S
        is_many = sum(map(len, self.hearing.values())) >= HEARD_AT_ONCE
        return has_waited or is_many or not self.cells[number].frontier.queued

    def _was_heard(self, number: int) -> None:
        bulks = self.hearing.pop(number, [])
        self._waiting_since.pop(number, None)
        if bulks:
            self.heard[number] = bulks[-1][1]

    def _record(
        self, cell: Cell, visits: Sequence[Visit], stored: dict[Visit, tuple[Stored, ...]], done: Committed
    ) -> None:
        self._merge(cell, self.hearing.get(cell.number, ()), done)
        super()._record(cell, visits, stored, done)
        rests = {name: self._rests[name] for visit in visits if (name := visit.queue.server.name) in self._rests}
        rows = [(REST + name, rest.ready_at_s) for name, rest in rests.items() if rest.rest_s > self.usual_s]
        pages = sum(is_stored(visit) for visit in visits)
        rows += [(STORED, self.stored[cell.number] + pages)] if pages else []
        cell.frontier.db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)


def is_stored(visit: Visit) -> bool:
    """Whether a visit counts as a page, as it does for the limits of one machine."""
    return visit.item.purpose == "page" and visit.result is not None and bool(visit.result.payload_bytes)


def stored_in(cell: Cell) -> int:
    """How many pages a cell has stored."""
    row = cell.frontier.db.execute("SELECT value FROM meta WHERE name = ?", (STORED,)).fetchone()
    return 0 if row is None else int(row[0])


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

    def may_start(self, queue: HostQueue, item: Queued) -> bool:
        if self.analyzer is not None and self.analyzer.is_leaving(queue):
            return False
        may_ask = self._may_ask(queue.cell) and not self._is_commit_late()
        return may_ask and super().may_start(queue, item) and self._may_store(item)

    def _is_ahead(self, queue: HostQueue) -> bool:
        courtesy = self.config.courtesy
        return bool(courtesy.delay_s) and self._asked_of[queue] >= AHEAD * courtesy.per_host

    def _is_commit_late(self) -> bool:
        late_s = max(LATE_S, min(GATHER_S, self.config.courtesy.delay_s))
        return self.committing and self._clock.ticks_s() - self._last_group > late_s

    def _may_store(self, item: Queued) -> bool:
        """Whether this node's part of the pages that the collection may still have allows for one more."""
        most = self.config.limits.pages
        if not most or self.shares is None or item.purpose == "robots":
            return True
        return self._open_pages < self.shares.left(self.committer.stored)

    def check_end(self, now: float) -> None:
        """Notice nothing: limits are the cluster's to notice, and links may always come."""

    def has_turn(self, queue: HostQueue, schedule: Schedule, now: float) -> bool:
        """Begin a request to an address that may be other nodes' too; without its turn it rests a little longer."""
        is_refused = self.analyzer is not None and not self.analyzer.accepts(queue)
        if is_refused or self._is_ahead(queue):
            queue.server.ready_at = max(queue.server.ready_at, now + (LOOK_AGAIN_S if is_refused else LOOK_SOON_S))
            return False
        place = schedule.politeness.address(queue.address)
        again_at = self._turns.begin(queue.address, site_of(queue.host))
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
        if self.analyzer is not None:
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
        if now - self._last_group < self._gather_s() and len(self.uncommitted) < self.config.commit.every_pages:
            return False
        has_mail = bool(self.committer.inbox) or self.committer.must_hear
        has_mail = has_mail and now - self._last_group >= REFILL_PAUSE_S
        return has_mail or bool(self.committer.departures) or super().wants_commit(now)

    def _gather_s(self) -> float:
        """How long pages are gathered for one commit: no longer than their hosts rest, which need no URL before that.

        A record and its links cost NATS the same for one page as for ten.
        """
        return 0.0 if self._group is not None else min(GATHER_S, self.config.courtesy.delay_s)

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
        yield [crawl]
