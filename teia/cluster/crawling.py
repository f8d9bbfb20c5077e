"""One collection on one node: the crawl of a single machine, over the cells that are kept here.

Three things are different. Links for other cells travel with the commit (frontier/mail.py), and those from other cells
come in by the stream: they are merged by the next commit, which notes how far it has heard. A request is sent only
while the cell is ours by the clock. And a cell can be lost: what was not committed of it is dropped, the others go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from teia.clock import Clock
from teia.cluster.cells import KeptCells, opened_cell
from teia.cluster.journal import CellLog, CellLost
from teia.cluster.thread import LoopThread
from teia.config import Config
from teia.crawl.cells import Cell
from teia.crawl.commit import Committed, Committer, Group
from teia.crawl.crawl import REFILL_PAUSE_S, Crawl
from teia.crawl.meaning import Meaning, meaning_of, remove_old_copies
from teia.crawl.visits import Visit
from teia.errors import ConfigError
from teia.frontier import mail
from teia.frontier.cell import Found
from teia.frontier.ledger import Ledger, Rest
from teia.frontier.order import focused, pagerank
from teia.frontier.schedule import HostQueue, Queued, Schedule
from teia.store.archive import Stored
from teia.store.root import Root
from teia.urls import cell_of, cell_starts, site_of, slot_of, split

HEARD_AT_ONCE = 200
"""Bulks of links that one commit merges."""

LOOK_AGAIN_S = 0.25
REST, REST_END = "rest ", "rest!"
"""Rows of `meta` that begin with it hold until when a host rests that asked for more than the usual."""


class NodeCommitter(Committer):
    """Commits to the cells that are kept here. `inbox` is filled by another thread with (cell, number, links)."""

    cells: KeptCells

    def __init__(self, cells: KeptCells, starts: Sequence[int], ledger: Ledger, clock: Clock) -> None:
        super().__init__(cells, starts, ledger, clock)
        self.inbox: deque[tuple[int, int, bytes]] = deque()
        self.hearing: dict[int, list[tuple[int, int, list[Found]]]] = {}
        """By cell: links taken from the inbox whose commit has not come yet; a failed one finds them again."""
        self.heard: dict[int, int] = {}
        self.lost: set[int] = set()
        self.dropped: list[Visit] = []
        self.usual_s = 0.0
        """Rests that are longer are written into the cell, for whoever keeps it next."""
        self._rests: dict[str, Rest] = {}

    def commit(self, group: Group) -> Committed:
        """Make a group true; what belongs to a cell that was lost is left out."""
        while True:
            self._leave_out_lost(group)
            self._rests = {rest.name: rest for rest in group.rests if rest.kind == "server"}
            try:
                self._hear(group.done)
                return super().commit(group)
            except CellLost as error:
                self.cells.drop(error.cell)
                self.lost.add(error.cell)

    def _leave_out_lost(self, group: Group) -> None:
        self.dropped += [visit for visit in group.visits if not self.cells.keeps(visit.queue.cell)]
        group.visits = [visit for visit in group.visits if self.cells.keeps(visit.queue.cell)]
        group.parked = [each for each in group.parked if self.cells.keeps(each[0].cell)]
        group.refills = [each for each in group.refills if self.cells.keeps(each[0].cell)]
        group.seeds = [seed for seed in group.seeds if self.cells.keeps(self._number(seed.host))]

    def _number(self, host: str) -> int:
        return cell_of(slot_of(site_of(host)), self._starts)

    def _hear(self, done: Committed) -> None:
        """Merge what other cells sent."""
        for _ in range(0 if self.hearing else min(HEARD_AT_ONCE, len(self.inbox))):
            number, seq, bulk = self.inbox.popleft()
            self.hearing.setdefault(number, []).append((mail.THE_STREAM, seq, mail.links_in(bulk)))
        for number, bulks in list(self.hearing.items()):
            if self.cells.keeps(number):
                self._take(self.cells[number], bulks, done)
                self.heard[number] = bulks[-1][1]
            del self.hearing[number]

    def _record(
        self, cell: Cell, visits: Sequence[Visit], stored: dict[Visit, tuple[Stored, ...]], done: Committed
    ) -> None:
        super()._record(cell, visits, stored, done)
        rests = {name: self._rests[name] for visit in visits if (name := visit.queue.server.name) in self._rests}
        rows = [(REST + name, rest.ready_at_s) for name, rest in rests.items() if rest.rest_s > self.usual_s]
        cell.frontier.db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)


def long_rests(cell: Cell, now_s: float) -> dict[str, float]:
    """Until when hosts of a cell rest by what earlier keepers wrote; those that are over are forgotten."""
    with cell.frontier.transaction() as frontier:
        frontier.db.execute("DELETE FROM meta WHERE name >= ? AND name < ? AND value < ?", (REST, REST_END, now_s))
        rows = frontier.db.execute("SELECT name, value FROM meta WHERE name >= ? AND name < ?", (REST, REST_END))
        return {name.removeprefix(REST): min(float(until_s), now_s + Ledger.MAX_REST_S) for name, until_s in rows}


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
    ) -> None:
        super().__init__(0, name, config, committer, starts, meaning.reading, meaning)
        committer.usual_s = config.courtesy.delay_s
        self._may_ask = may_ask
        self._clock = clock
        self._taken_at = taken_at
        rests = [long_rests(cell, clock.now_s()) for cell in committer.cells]
        self._long_rests = {host: until_s for each in rests for host, until_s in each.items()}
        self.is_over = False
        self._schedule: Schedule | None = None
        self._look_at = 0.0

    def may_start(self, queue: HostQueue, item: Queued) -> bool:
        return self._may_ask(queue.cell) and super().may_start(queue, item)

    def reaches(self, url: str) -> bool:
        return self.committer.cells.keeps(cell_of(slot_of(site_of(split(url).host)), self._starts))

    def host(self, name: str, host_id: int, schedule: Schedule) -> HostQueue:
        self._schedule = schedule
        is_new = name not in self.queues
        queue = super().host(name, host_id, schedule)
        if is_new:
            self._rest_as_asked(queue, schedule)
        return queue

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

    def wants_commit(self, now: float) -> bool:
        has_mail = bool(self.committer.inbox or self.committer.hearing) and now - self._last_group >= REFILL_PAUSE_S
        return has_mail or super().wants_commit(now)

    def committed(self, done: Committed, schedule: Schedule, clock: Clock) -> None:
        dropped, self.committer.dropped = self.committer.dropped, []
        super().committed(done, schedule, clock)
        for visit in dropped:
            self._closed(visit)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do here, for now."""
        return not self.committer.inbox and not self.committer.hearing and super()._is_done()

    def _is_done(self) -> bool:
        return False


@contextmanager
def open_kept(
    root: Root,
    configs: Sequence[Config],
    ledger: Ledger,
    clock: Clock,
    _since_s: Mapping[str, float] | None,
    *,
    logs: Mapping[int, CellLog],
    thread: LoopThread,
    may_ask: Callable[[int], bool],
    taken_at: Mapping[int, float],
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
        starts = cell_starts(config.collection.cells)
        committer = NodeCommitter(KeptCells(cells), starts, ledger, clock)
        meaning = meaning_of(config, folder.lists)
        remove_old_copies(folder.lists, meaning)
        crawl = NodeCrawl(folder.name, config, committer, starts, meaning, may_ask, clock, taken_at)
        crawl.add_seeds([seed for seed in meaning.seeds if crawl.reaches(seed)])
        yield [crawl]


def check_fits(config: Config) -> None:
    """Refuse what a cluster cannot do yet."""
    wrong = {
        "collection.order": config.collection.order in {pagerank.name, focused.name},
        "refresh.keep": config.refresh.keep,
        "schedule.start": bool(config.schedule.start),
        "limits.pages": bool(config.limits.pages),
        "limits.seconds": bool(config.limits.seconds),
    }
    for key, is_wrong in wrong.items():
        if is_wrong:
            raise ConfigError(f"{key}: a cluster cannot do this yet; crawl the collection on one machine, or change it")
