"""Group commit: the only place where a visit becomes durable.

Every 200 ms or 256 pages, in one thread, for each cell that the visits touch:

  1  write the ledger of politeness delays: a server's request to be left alone is the last thing to lose; then
     queue new seeds and the sitemaps that a robots.txt of this group names, which nobody would name again
  2  append the visits' records to the archive and sync it
  3  one SQLite transaction: page states, links inside the cell, the set of a page's counted links, an outbox of
     links for other cells, robots.txt bodies, rows of the fetch log, and the archive's position
  4  deliver the outboxes into the other cells, each with its sequence number
  5  compare the pages of names that may be one site, and store the result (crawler/sites/aliases.py)

No visit counts as done before step 3. A crash between 2 and 3 leaves a tail in the archive that is cut at the next
start; a crash between 3 and 4 leaves an outbox that is delivered at the next start. A full disk fails the step in which
it happens and leaves nothing half done: the crawler pauses and commits the same visits again. Any other error ends the
crawl, and nothing is rolled back: after a failed sync the state of the disk is unknown, and the next start uses the
state it finds (open_cell.py).

A node of a cluster adds a `CommitStep` before 1, inside and after the transactions of 3, and after 5.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import compress, repeat
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import astuple

from teia.clock import Clock, real_clock
from teia.crawler.agent_log import AgentLog
from teia.crawler.child.messages import FoundLink, HostLinks, in_columns
from teia.crawler.compiled_settings import CompiledSettings
from teia.crawler.content_seen import ContentSeen
from teia.crawler.depths import propagate_depths
from teia.crawler.fetch_rows import log_row, roll_out, write_log
from teia.crawler.open_cell import Cell, note_position
from teia.crawler.order_hints import hints_of, learnt_promises, note_read
from teia.crawler.requests import BulkWork, PendingWork, VisitRequests
from teia.crawler.sites.aliases import AliasBook
from teia.crawler.sites.identity import IDENTITY_REQUESTS
from teia.crawler.sites.soft404 import PROBE, probe_result, store_probe
from teia.crawler.visit import RENDER, ActiveVisit
from teia.errors import DiskFull
from teia.frontier.cell import in_link_counts, mail, shorter_paths
from teia.frontier.cell.connection import RowKey
from teia.frontier.cell.fetch_now import visit_soon
from teia.frontier.cell.reconsider import END, progress, reconsider
from teia.frontier.cell.rows import CaptureLocation, FoundUrl, PageRow, ProbeResult, QueuedUrl, SettledVisit, merge_via
from teia.frontier.cell.schema import STATE_FAILED, STATE_QUEUED
from teia.frontier.cell.soft404 import load_probe
from teia.frontier.queue.ledger import CourtesyInForce, DelayEntry, Ledger
from teia.frontier.queue.order import merge_hints
from teia.frontier.queue.schedule import HostQueue
from teia.frontier.queue.waiting_hosts import HostNumber, StoredHost
from teia.frontier.tables import renderings
from teia.frontier.tables.hosts import find as find_host
from teia.frontier.tables.hosts import has_more_urls
from teia.records import NOT_MODIFIED, Outcome
from teia.sqlite import LOG_BYTES
from teia.store.archive import Stored
from teia.store.warc import Members
from teia.urls import host_to_cell, site_of, slot_of, split

if TYPE_CHECKING:
    from teia.crawler.keep_fresh.keep_fresh import Refresh
    from teia.crawler.keep_fresh.visit_all_again import RevisitAll
    from teia.crawler.pagerank_order import CrawlPageRank
    from teia.crawler.signals_in.announcements import Announcements

TIDY_EVERY_S = 60.0
"""Interval at which large logs of cells are moved beside the commits, or truncated if idle (frontier/log_mover.py)."""

FORGET_EVERY_S = 600.0
"""Interval at which servers and addresses whose delay ended long ago are dropped from the ledger."""

REEVALUATE_S = 0.05
"""Time that one commit may spend on URLs that were evaluated by earlier settings."""

REFILL_S = 0.25
"""Time that one commit may spend on filling buffers: after a restart every host needs some hundred URLs. The first
requests go out before all of them are read."""

RobotsRow = tuple[str, float, str, int, bytes]
"""(origin, time of the request, outcome, status, body)."""

RefillOrder = tuple[HostQueue, int, frozenset[int]]

PostponedRecord = tuple[str, str, list[tuple[int, bytes]]]
"""A page to be requested again, its host, and records of the host's pages that wait for a verdict on their scripts."""

LinkKey = int | tuple[int, ...]
"""Key under which a link is gathered.

The URL's key, or the URL's key and its page's key for orders that rank links page by page. A link that is taken back
has a tuple of its URL's key alone.
"""


@dataclass(slots=True)
class CommitResult:
    """The result of one commit: hosts with new work, filled buffers, counts.

    `names` are (alias, main name). `checks` are keys of URLs that are fetched under an alias after all
    (aliases.RenamedHosts). `large_hosts` have too many URLs for the delay of small hosts. `held` are hosts of which
    more URLs are held back until the visits under way are read. `blocked_patterns` are URL patterns by host that may
    not be fetched any more; `given_up` counts URLs (frontier/traps/watch.py). `usage` are requests and bytes of earlier
    runs, `kinds` what they learnt about the rendering of a host's pages. `loaded` are hosts that have waited on disk.
    `urgent_hosts` have URLs that are wanted at once: they do not wait there.
    """

    hosts: dict[tuple[int, str], int] = field(default_factory=dict)
    refilled: list[tuple[HostQueue, list[QueuedUrl], float | None]] = field(default_factory=list)
    robots: list[RobotsRow] = field(default_factory=list)
    probes: list[tuple[HostQueue, ProbeResult]] = field(default_factory=list)
    large_hosts: list[HostQueue] = field(default_factory=list)
    names: list[tuple[str, str]] = field(default_factory=list)
    checks: list[int] = field(default_factory=list)
    usage: list[tuple[HostQueue, int, int]] = field(default_factory=list)
    kinds: list[tuple[str, list[bytes]]] = field(default_factory=list)
    held: list[HostQueue] = field(default_factory=list)
    blocked_patterns: dict[str, set[int]] = field(default_factory=dict)
    loaded: list[StoredHost] = field(default_factory=list)
    urgent_hosts: set[str] = field(default_factory=set)
    given_up: int = 0
    new_urls: int = 0
    records: int = 0
    evaluated_by: str = ""
    has_shorter_paths: bool = False

    def note_hosts(self, cell: Cell, touched: Iterable[tuple[int, str]]) -> None:
        """Note hosts of a cell that have new work, as (number, name)."""
        for host_id, host in touched:
            self.hosts[cell.number, host] = host_id


@dataclass(slots=True)
class CommitGroup:
    """The input of one commit for one collection.

    A visit moves from `visits` to `settled` with its cell's transaction, and the results stay in `result`. So a group
    whose commit failed half way can be committed again: no page is counted twice, no host is forgotten.

    `must_reevaluate`: for a short time, URLs that were evaluated by earlier settings are evaluated again by `compiled`,
    the compiled settings in force. `loads` are hosts that come into memory. `refills_if_new` are the buffers of hosts
    without more URLs, to be filled if the visits bring some. `only_settles`: the crawl is over, so nothing is planned,
    ranked, evaluated again or read into buffers.
    """

    visits: list[ActiveVisit] = field(default_factory=list)
    settled: list[ActiveVisit] = field(default_factory=list)
    seeds: list[FoundUrl] = field(default_factory=list)
    loads: list[HostNumber] = field(default_factory=list)
    refills: list[RefillOrder] = field(default_factory=list)
    refills_if_new: list[RefillOrder] = field(default_factory=list)
    delays: list[DelayEntry] = field(default_factory=list)
    parked: list[tuple[HostQueue, str]] = field(default_factory=list)
    postponed: list[PostponedRecord] = field(default_factory=list)
    compiled: CompiledSettings | None = None
    must_reevaluate: bool = False
    courtesy: CourtesyInForce | None = None
    only_settles: bool = False
    result: CommitResult = field(default_factory=CommitResult)

    def leave_out(self, is_here: Callable[[int], bool]) -> list[ActiveVisit]:
        """Leave out everything of cells that are not here any more, also results of failed tries; return the visits."""
        gone = [visit for visit in self.visits if not is_here(visit.queue.cell)]
        self.visits = [visit for visit in self.visits if is_here(visit.queue.cell)]
        self.parked = [each for each in self.parked if is_here(each[0].cell)]
        self.loads = [each for each in self.loads if is_here(each.cell)]
        self.refills = [each for each in self.refills if is_here(each[0].cell)]
        self.refills_if_new = [each for each in self.refills_if_new if is_here(each[0].cell)]
        self.result.hosts = {key: host_id for key, host_id in self.result.hosts.items() if is_here(key[0])}
        return gone


class CommitStep(Protocol):
    """Work that is committed with the visits of a group; the methods are called in this order."""

    def start(self, group: CommitGroup) -> None:
        """Prepare a group, before anything of it but its delays is written; called again for each further try."""

    def enter_cell(self, cell: Cell, result: CommitResult) -> None:
        """Write to a cell before its visits are recorded, inside their transaction."""

    def leave_cell(self, cell: Cell, visits: Sequence[ActiveVisit]) -> None:
        """Write to a cell after its visits were recorded, inside their transaction."""

    def finish_cell(self, cell: Cell, visits: Sequence[ActiveVisit], result: CommitResult) -> None:
        """Update memory, once the transaction of a cell is committed."""

    def undo_cell(self, cell: Cell) -> None:
        """Undo changes in memory, because the transaction of a cell failed."""

    def end(self) -> None:
        """Do work that follows the visits."""

    def can_retry(self, group: CommitGroup, error: Exception) -> bool:
        """Tell whether to try a failed commit again; the step has changed what made it fail."""


RecordVisit = Callable[[Cell, ActiveVisit, tuple[Stored, ...] | None], bool]
"""Function that records a visit inside its cell's transaction; it returns whether the links of its page count."""


class Committer:
    """Commits groups of visits of one collection; every method runs in the commit thread.

    `record_visit` is for visits that the crawl did not make: they are not in the fetch log, and show no traps. The loop
    sets `is_winding_up` when a stop has begun, possibly in the middle of a commit. From then on the commit
    leaves all optional work to the next start.
    """

    is_winding_up = False

    def __init__(
        self,
        cells: Sequence[Cell],
        starts: Sequence[int],
        ledger: Ledger,
        clock: Clock,
        record_visit: RecordVisit | None = None,
    ) -> None:
        self.cells = cells
        self.aliases: AliasBook | None = None
        self.pagerank: CrawlPageRank | None = None
        self.content_seen: ContentSeen | None = None
        self.refresh: Refresh | RevisitAll | None = None
        self.steps: Sequence[CommitStep] = ()
        self.agents = AgentLog(clock)
        self.visit_requests = VisitRequests(cells, starts, clock)
        self.bulk = BulkWork(cells, clock)
        self.renders = False
        """True if pages of the collection may be rendered."""
        self.announced: Announcements | None = None
        """Announcements of pages, if the collection takes any."""
        self.cell_number = host_to_cell(starts)
        self._ledger = ledger
        self._clock = clock
        self._delivered: dict[int, int] = {}
        self._forget_at = clock.ticks_s() + FORGET_EVERY_S
        self._tidy_at = clock.ticks_s() + TIDY_EVERY_S
        self._order = next(iter(cells)).frontier.order
        self._promises: dict[int, float] = {}
        self._record_visit = record_visit

    def pending_work(self) -> list[PendingWork]:
        """Return the work requested by others that waits for a commit; called by both threads."""
        sources = (self.visit_requests, self.bulk, self.announced)
        return [each for each in sources if each is not None and each.is_waiting]

    def commit(self, group: CommitGroup) -> CommitResult:
        """Commit a group; one that fails is tried again if a step has removed the cause."""
        while True:
            try:
                return self._try_commit(group)
            except Exception as error:
                if not any(step.can_retry(group, error) for step in self.steps):
                    raise

    def _try_commit(self, group: CommitGroup) -> CommitResult:
        """Commit a group; on a full disk, truncate the cells' logs to make room for the next try."""
        cells = list(self.cells)
        for cell in cells:
            cell.is_in_commit = True
        try:
            return self._commit(group)
        except DiskFull:
            for cell in self.cells:
                cell.truncate_log()
            raise
        finally:
            for cell in cells:
                cell.is_in_commit = False

    def _commit(self, group: CommitGroup) -> CommitResult:
        """Commit a group in the order that the module docstring describes."""
        # 1. The ledger of delays, before any visit counts, and before a step that may wait for other machines.
        if group.courtesy is not None:
            self._ledger.note_courtesy(group.courtesy)
        if group.delays:
            self._ledger.write(group.delays)
        for step in self.steps:
            step.start(group)
        result = group.result
        if self._order.stores_trails:
            self._promises = learnt_promises(self.cells)
        if self.aliases is not None:
            self.aliases.now_s = self._clock.now_s()
        self._forget_expired()
        self._absorb_seeds(group, result)
        by_cell: dict[int, list[ActiveVisit]] = defaultdict(list)
        for visit in group.visits:
            by_cell[visit.queue.cell].append(visit)
        # 2. and 3. Cell by cell: a visit is settled once its cell's transaction has returned.
        for number, visits in by_cell.items():
            self._commit_cell(self.cells[number], visits, result)
            group.settled += visits
            group.visits = [visit for visit in group.visits if visit.queue.cell != number]
        if self.content_seen is not None:
            self.content_seen.add(group.settled)
        # 4. Links for other cells, also of pages that turned out to lie nearer to a seed.
        if self._propagate_depths(group, result) or group.settled:
            self.deliver(result)
        # 5. Names of one site, from pages that are durable by now.
        self._learn_names(group.settled, result)
        for queue, why in group.parked:
            with self.cells[queue.cell].frontier.transaction() as frontier:
                frontier.park_host(queue.host_id, why)
        self._store_postponed(group)
        # Optional from here on: once a stop has begun, all of it is left to the next start.
        if self._may_plan(group):
            self._plan(group, result)
        if not self.is_winding_up:
            for requested in self.pending_work():
                for cell, hosts in requested.process():
                    result.note_hosts(cell, hosts)
                    if requested is self.visit_requests:
                        result.urgent_hosts.update(name for _, name in hosts)
        result.has_shorter_paths = any(shorter_paths.pending(cell.frontier, 1) for cell in self._with_shorter_paths())
        result.loaded = [] if self.is_winding_up else list(self._load_hosts(group.loads))
        result.refilled.clear()  # those of a failed try; a buffer that is filled twice seems to have no more URLs
        clock = real_clock(self._clock)
        refill_until = clock.ticks_s() + REFILL_S
        for queue, limit, skip in self._due_refills(group):
            # At least one, however long it takes. Buffers that are left come first in the next commit.
            if self.is_winding_up or (result.refilled and clock.ticks_s() >= refill_until):
                break
            if not queue.knows_robots:
                self._load_host(queue, result)
            self._check_size(queue, group.compiled, result)
            result.refilled.append((queue, *self._refill(queue, limit, skip, result)))
        self._tidy_logs()
        for number in by_cell:
            # After a stop, closing the cells does it.
            if not self.is_winding_up:
                roll_out(self.cells[number].frontier, self.cells[number].log_folder)
        for step in self.steps:
            step.end()
        return result

    @staticmethod
    def _due_refills(group: CommitGroup) -> list[RefillOrder]:
        """Return the buffers to fill: those that are low, and those of hosts that got their next URLs just now."""
        hosts = group.result.hosts
        return group.refills + [each for each in group.refills_if_new if (each[0].cell, each[0].host) in hosts]

    def _tidy_logs(self) -> None:
        now = self._clock.ticks_s()
        if now >= self._tidy_at:
            for cell in self.cells:
                cell.frontier.tidy_log(LOG_BYTES)
            self._tidy_at = now + TIDY_EVERY_S

    def _may_plan(self, group: CommitGroup) -> bool:
        return not (group.only_settles or self.is_winding_up)

    def _plan(self, group: CommitGroup, result: CommitResult) -> None:
        """Update the queue of next visits: new settings, new scores, pages scheduled for a revisit."""
        if group.compiled is not None and group.must_reevaluate:
            self._reevaluate(group.compiled, result)
        if self.pagerank is not None and self._may_plan(group):
            for cell, hosts in self.pagerank.rank_again():
                result.note_hosts(cell, hosts)
        if self.refresh is not None and self._may_plan(group):
            for cell, hosts in self.refresh.plan_again():
                result.note_hosts(cell, hosts)

    def _forget_expired(self) -> None:
        now = self._clock.ticks_s()
        if now >= self._forget_at:
            self._ledger.forget_expired(self._clock.now_s())
            self._forget_at = now + FORGET_EVERY_S

    # -- step 2 --------------------------------------------------------------------------------------------

    def _archive(self, cell: Cell, visits: Iterable[ActiveVisit]) -> dict[ActiveVisit, tuple[Stored, ...]]:
        stored: dict[ActiveVisit, tuple[Stored, ...]] = {}
        for visit in visits:
            result = visit.result
            if result is not None and result.members:
                stored[visit] = cell.archive.append(Members(result.members, result.lengths, result.kinds))
        cell.archive.flush_and_sync()
        return stored

    # -- step 3 --------------------------------------------------------------------------------------------

    def _commit_cell(self, cell: Cell, visits: Sequence[ActiveVisit], result: CommitResult) -> None:
        try:
            with cell.commit_group():
                stored = self._archive(cell, visits)
                with self._writing(cell, result):
                    for step in self.steps:
                        step.enter_cell(cell, result)
                    self._record(cell, visits, stored, result)
                    self.agents.write(cell.number, cell.frontier)
                    for step in self.steps:
                        step.leave_cell(cell, visits)
        except BaseException:
            for step in self.steps:
                step.undo_cell(cell)
            raise
        if self.refresh is not None:
            self.refresh.count_visits(cell, visits)
        result.records += sum(map(len, stored.values()))
        if cell.watch is not None:
            given_up, blocked = cell.watch.pop_changes()
            result.given_up += given_up
            result.blocked_patterns.update(blocked)
        for step in self.steps:
            step.finish_cell(cell, visits, result)

    @contextmanager
    def _writing(self, cell: Cell, result: CommitResult) -> Iterator[None]:
        """Write to a cell in one transaction, and count the URLs that are new in it."""
        known_before = cell.frontier.known
        with cell.frontier.transaction():
            yield
        result.new_urls += cell.frontier.known - known_before

    def _record(
        self,
        cell: Cell,
        visits: Sequence[ActiveVisit],
        stored: dict[ActiveVisit, tuple[Stored, ...]],
        result: CommitResult,
    ) -> None:
        """Record everything that one cell learns from a group, inside its transaction."""
        frontier = cell.frontier
        links: dict[int, dict[LinkKey, FoundUrl]] = defaultdict(dict)
        if self._record_visit is None:
            self._record_visits(cell, visits, stored, links, result)
        else:
            for visit in visits:
                if self._record_visit(cell, visit, stored.get(visit)):
                    self._gather(cell, links, visit)
        # Links inside the cell belong to the page's own transaction; the others go to the outbox below.
        result.note_hosts(cell, frontier.add_links(links.pop(cell.number, {}).values(), self._clock.now_s()))
        # Evaluated after the links of this group were counted.
        if cell.watch is not None and self._record_visit is None:
            cell.watch.evaluate()
        for to_cell, found in links.items():
            mail.post(frontier, to_cell, found.values())
        # The receivers have these links: they leave the outbox with this transaction of the sender.
        if cell.number in self._delivered:
            mail.delete_delivered(frontier, self._delivered.pop(cell.number))
        if self.aliases is not None:
            self.aliases.store_samples(cell.number)
        if self.refresh is not None:
            self.refresh.note_visits(cell, visits)
        # Before COMMIT, so that an indexer that sees the change number finds the entry.
        cell.handover.flush()
        # The position is committed with the pages: the next start cuts the archive here.
        note_position(frontier, cell.archive.position, sum(map(len, stored.values())))

    def _record_visits(
        self,
        cell: Cell,
        visits: Sequence[ActiveVisit],
        stored: dict[ActiveVisit, tuple[Stored, ...]],
        links: dict[int, dict[LinkKey, FoundUrl]],
        result: CommitResult,
    ) -> None:
        """Settle the crawl's own visits, gather their links, and write their rows of the fetch log."""
        rows, committed_s = [], self._clock.now_s()
        changes = cell.frontier.last_change()
        for run in runs_of(visits):
            settled = []
            for visit in run:
                if visit.outcome == Outcome.ALIAS and not self._forward_alias(cell, visit, links):
                    # The alias was revoked meanwhile: the URL stays queued under its own name.
                    result.note_hosts(cell, [(visit.queue.host_id, visit.queue.host)])
                else:
                    visit.capture = capture_location(visit, stored.get(visit))
                    settled.append(visit)
            self._settle(cell, settled)
            hand_to_indexer(cell, run, changes)
            for visit in settled:
                for row_key in self._store_answer(cell, visit):
                    self._count(cell, links, row_key, {})
                cell.note_visit(visit)
                if self._order.stores_trails and note_read(cell, visit, self._clock.now_s()):
                    result.note_hosts(cell, [(visit.queue.host_id, visit.queue.host)])
                self._gather(cell, links, visit)
                rows.append(log_row(visit, visit.capture, committed_s))
        write_log(cell.frontier, rows)

    def _settle(self, cell: Cell, visits: Sequence[ActiveVisit]) -> None:
        """Settle visits of different URLs, and count their requests."""
        cell.frontier.count_requests(
            (visit.queue.host_id, visit.bytes_received, visit.address, visit.queue.server.last_response_s)
            for visit in visits
            if visit.was_requested
        )
        pages = [visit for visit in visits if visit.item.purpose not in NO_PAGES]
        ends = [(self._end_of(cell, visit), visit.queue.host) for visit in pages]
        for visit, is_first, (end, _) in zip(pages, cell.frontier.settle_all(ends), ends, strict=True):
            visit.is_first, visit.changed = is_first, end.changed
            if visit.result is not None and visit.result.sketch and not visit.item.visits:
                from teia.crawler.keep_fresh.observe import store_sketch  # needed only where pages are kept fresh

                page = (visit.queue.host_id, visit.item.key)
                store_sketch(cell.frontier, visit.queue.host, page, visit.result.sketch)
            self._note_form(cell, visit)

    @staticmethod
    def _note_form(cell: Cell, visit: ActiveVisit) -> None:
        """Note in which form a page was read, and what was learnt about pages of its kind."""
        queue, result = visit.queue, visit.result
        if visit.learnt:
            renderings.store_kinds(cell.frontier, queue.host_id, queue.host, visit.learnt)
        if result is not None and (result.is_rendered or visit.item.visits) and shows_links(visit):
            row_key = (slot_of(site_of(queue.host)), queue.host_id, visit.item.key)
            renderings.note_form(cell.frontier, row_key, rendered=result.is_rendered)

    def _store_postponed(self, group: CommitGroup) -> None:
        """Store pages that wait for the verdict on their scripts: an end of the crawl has come first."""
        for url, host, records in group.postponed:
            cell = self.visit_requests.cell_of(host)
            if cell is not None:
                now_s = self._clock.now_s()
                with cell.frontier.transaction() as frontier:
                    renderings.store_kinds(frontier, frontier.host_id(host, now_s), host, records)
                    if url:
                        visit_soon(frontier, url, now_s)
        # At a stop, too: the requests of pages that are rendered are in memory only.
        while self.is_winding_up and self.renders and self.visit_requests.is_waiting:
            self.visit_requests.process()

    def _end_of(self, cell: Cell, visit: ActiveVisit) -> SettledVisit:
        """Return the end of a visit; a visit of a known page is compared with the one before."""
        queue, item, fetched = visit.queue, visit.item, visit.fetched
        assert visit.verdict is not None
        now_s = self._clock.now_s()
        time_s = fetched.started_s if fetched is not None else now_s
        settled = SettledVisit(
            queue.host_id,
            item,
            visit.outcome,
            visit.verdict.state,
            time_s,
            now_s + visit.verdict.wait_s,
            page_row(visit),
            visit.capture,
            is_stored_as_revisit(visit),
            visit.body_at,
        )
        if not item.visits:
            return settled
        if visit.result is not None and settled.page is not None and settled.page.status < 300:
            row_key = (slot_of(site_of(queue.host)), queue.host_id, item.key)
            if renderings.is_rendered(cell.frontier, row_key) != visit.result.is_rendered:
                # The two forms of a page differ, whether it has changed or not.
                return replace(settled, is_comparable=False)
        from teia.crawler.keep_fresh.observe import observe_visit  # imports numpy, needed only for revisited pages

        return observe_visit(cell.frontier, settled, queue.host, visit)

    def _store_answer(self, cell: Cell, visit: ActiveVisit) -> list[RowKey]:
        """Store a robots.txt or the answer to a probe; return the pages whose links the probe showed not to count."""
        queue = visit.queue
        if visit.item.purpose == "robots":
            self._store_robots(cell, visit)
        if visit.item.purpose != PROBE:
            return []
        found = store_probe(cell.frontier, queue, probe_result(visit, self._clock.now_s()))
        return [(slot_of(site_of(queue.host)), queue.host_id, key) for key in found]

    def _store_robots(self, cell: Cell, visit: ActiveVisit) -> None:
        """Store an origin's robots.txt; one that came from another host is not stored, but fetched again next run."""
        queue, item = visit.queue, visit.item
        if not visit.is_final_robots or split(f"{item.origin}/").host != queue.host:
            return
        # The host may have left memory before its robots.txt was requested again. Without a row it never had a URL.
        host_id = queue.host_id or cell.frontier.find_host(queue.host)
        if not host_id:
            return
        status = visit.fetched.status if visit.fetched is not None else 0
        body = visit.result.payload if visit.result is not None else b""
        now_s = self._clock.now_s()
        cell.frontier.store_robots(host_id, queue.host, item.origin, now_s, visit.outcome, status, body)

    def _gather(self, cell: Cell, links: dict[int, dict[LinkKey, FoundUrl]], visit: ActiveVisit) -> None:
        """Merge a page's links by cell; a link that occurs twice in a group is one row with a higher count."""
        result, item = visit.result, visit.item
        if result is None or item.purpose in NO_PAGES:
            return
        named = [] if visit.outcome == Outcome.SOFT_404 else self._replace_aliases(result.links)
        new: set[int] = set()
        adds_all = False
        if shows_links(visit):
            host = visit.queue.host
            row_key = (slot_of(site_of(host)), cell.frontier.host_id(host, self._clock.now_s()), item.key)
            targets = link_targets(visit, named)
            # No difference to compute, and no set: a page read for the first time adds all of its links.
            if visit.is_first and cell.frontier.knows_links and named is result.links:
                in_link_counts.store_first(cell.frontier, row_key, targets)
                adds_all = bool(targets)
            else:
                new = self._count(cell, links, row_key, targets)
        depth, hops = item.depth + 1, 0
        if result.redirect_to:
            depth, hops = item.depth, item.hops + 1
        # Names outside the loop: it runs for every link of every page.
        own, own_host, pattern, is_sampled = item.key, visit.queue.host, abs(item.pattern), self._order.sample_size > 0
        hints = iter(hints_of(visit, self._order, self._promises)) if self._order.needs_hints else repeat(None)
        for of_host in named:
            host = of_host.host
            found = links[self.cell_number(host)]
            through = pattern if host == own_host else 0
            # The rows come first: `zip` must not take a hint where they have ended.
            for (key, tail, by, linked), hint in zip(of_host.rows(), hints, strict=False):
                link_key = (key, own) if is_sampled else key
                more = 0
                if adds_all:
                    more = linked if key != own else 0
                elif key in new:
                    new.discard(key)  # an alias of the same URL may follow in the list
                    more = 1
                same = found.get(link_key)
                if same is None:
                    found[link_key] = FoundUrl(host, key, tail, depth, more, hops, by, hint, through)
                    continue
                same.in_links += more
                same.by |= by
                if depth < same.depth:
                    same.depth = depth
                if hops < same.hops:
                    same.hops = hops
                if same.hint is not None:
                    same.hint = merge_hints(same.hint, hint)
                if same.via and same.via != -through:  # else they agree, or agreed on none before
                    same.via = merge_via(same.via, through)

    def _rewrite_aliases(self, links: list[FoundLink]) -> list[FoundLink]:
        """Replace the hosts of links to an alias by its main name."""
        aliases = self.aliases
        if aliases is None or not aliases.has_aliases or not any(link.host in aliases for link in links):
            return links
        return [aliases.rewrite(link) if link.host in aliases else link for link in links]

    def _replace_aliases(self, named: list[HostLinks]) -> list[HostLinks]:
        """Replace the hosts of links to an alias by its main name, in columns; in the same order."""
        aliases = self.aliases
        if aliases is None or not aliases.has_aliases or not any(each.host in aliases for each in named):
            return named
        links = self._rewrite_aliases([link for each in named for link in each.found_links()])
        return in_columns([astuple(link) for link in links])

    def _count(
        self,
        cell: Cell,
        links: dict[int, dict[LinkKey, FoundUrl]],
        row_key: RowKey,
        targets: in_link_counts.Targets,
    ) -> set[int]:
        """Store the set of a page's links and take back links that are gone; return the keys of new links."""
        changed = in_link_counts.replace(cell.frontier, row_key, targets)
        for host, key in changed.gone:
            of_cell = links[self.cell_number(host)]
            same = of_cell.get((key,))
            if same is None:
                of_cell[key,] = in_link_counts.removed_link(host, key)
            else:
                same.in_links -= 1
        return changed.new

    def _forward_alias(self, cell: Cell, visit: ActiveVisit, links: dict[int, dict[LinkKey, FoundUrl]]) -> bool:
        """Hand a URL of an alias on to the main name; if the alias is revoked, keep the URL queued and return False."""
        found = None if self.aliases is None else self.aliases.forward(cell.frontier, visit)
        if found is None:
            return False
        links[self.cell_number(found.host)][found.key, visit.item.key] = found
        return True

    # -- step 4 --------------------------------------------------------------------------------------------

    def deliver(self, result: CommitResult) -> None:
        """Deliver the outboxes into their cells; a restarted crawler does this first."""
        by_receiver: dict[int, list[tuple[int, int, list[FoundUrl]]]] = defaultdict(list)
        last: dict[int, int] = {}
        for sender in self.cells:
            for seq, to_cell, found in mail.pending(sender.frontier):
                # The row of the last delivery stays behind, empty, so that numbers keep growing.
                if found:
                    by_receiver[to_cell].append((sender.number, seq, found))
                    last[sender.number] = seq
        for number, bulks in by_receiver.items():
            self._receive(self.cells[number], bulks, result)
        self._delivered.update(last)

    def _receive(self, cell: Cell, bulks: Iterable[tuple[int, int, list[FoundUrl]]], result: CommitResult) -> None:
        with self._writing(cell, result):
            for from_cell, seq, found in bulks:
                # A smaller number was merged before a crash.
                if seq > mail.last_received(cell.frontier, from_cell):
                    result.note_hosts(cell, cell.frontier.add_links(found, self._clock.now_s()))
                    mail.note_received(cell.frontier, from_cell, seq)

    def _absorb_seeds(self, group: CommitGroup, result: CommitResult) -> None:
        by_cell: dict[int, list[FoundUrl]] = defaultdict(list)
        for found in group.seeds:
            by_cell[self.cell_number(found.host)].append(found)
        for number, of_cell in by_cell.items():
            cell = self.cells[number]
            with self._writing(cell, result):
                result.note_hosts(cell, cell.frontier.add_links(of_cell, self._clock.now_s()))
        group.seeds = []

    # -- step 5 --------------------------------------------------------------------------------------------

    def _learn_names(self, settled: Sequence[ActiveVisit], result: CommitResult) -> None:
        """Learn from settled pages which host names are one site."""
        if self.aliases is None or not (settled or self.aliases.is_busy):
            return
        renamed = self.aliases.learn(settled)
        result.names += renamed.names
        result.checks += renamed.checks
        for number, host in renamed.hosts:
            cell = self.cells[number]
            result.note_hosts(cell, [(cell.frontier.host_id(host, self._clock.now_s()), host)])

    def _with_shorter_paths(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.frontier.has_shorter_paths]

    def _propagate_depths(self, group: CommitGroup, result: CommitResult) -> bool:
        """Give the links of pages with a shorter path from a seed their new depth; return whether there were any."""
        if group.compiled is None or not self._may_plan(group):
            return False
        has_shorter = False
        for cell in self._with_shorter_paths():
            known_before, now_s = cell.frontier.known, self._clock.now_s()
            touched = propagate_depths(cell, self.cell_number, group.compiled, now_s, self._rewrite_aliases)
            if touched is not None:
                result.note_hosts(cell, touched)
                result.new_urls += cell.frontier.known - known_before
                has_shorter = True
        return has_shorter

    def _reevaluate(self, compiled: CompiledSettings, result: CommitResult) -> None:
        """Evaluate URLs by new settings, as many as there is time for (frontier/cell/reconsider.py)."""
        until = self._clock.ticks_s() + REEVALUATE_S
        for cell in self.cells:
            if progress(cell.frontier, compiled.mark) < END:
                with cell.frontier.transaction() as frontier:
                    back = reconsider(
                        frontier, compiled.mark, compiled.may_fetch, lambda: self._clock.ticks_s() < until
                    )
                    result.note_hosts(cell, back)
                if self._clock.ticks_s() >= until:
                    return
        if all(progress(cell.frontier, compiled.mark) == END for cell in self.cells):
            result.evaluated_by = compiled.mark

    # -- buffers -------------------------------------------------------------------------------------------

    def _load_hosts(self, numbers: Iterable[HostNumber]) -> Iterator[StoredHost]:
        """Read hosts that have waited on disk, in their order."""
        by_cell: dict[int, list[int]] = defaultdict(list)
        for number in numbers:
            by_cell[number.cell].append(number.host_id)
        for cell, host_ids in by_cell.items():
            for row in self.cells[cell].frontier.read_hosts(host_ids):
                yield StoredHost(cell, *row)

    def _load_host(self, queue: HostQueue, result: CommitResult) -> None:
        """Read the knowledge of earlier runs about a host: its cost, its robots.txt, its soft 404s."""
        frontier = self.cells[queue.cell].frontier
        if queue.host_id in frontier.new_hosts:
            return
        row = find_host(frontier, queue.host_id)
        if row is not None:
            result.usage.append((queue, row.requests, row.bytes))
        rows = frontier.robots_of(queue.host_id, queue.host)
        # A blocked address is no answer of a server: the settings of this run decide about it anew.
        result.robots += [each for each in rows if each[2] != Outcome.BLOCKED_ADDRESS]
        found = load_probe(frontier, queue.host_id, queue.host)
        if found is not None:
            result.probes.append((queue, found))
        if self.renders and (kinds := renderings.kinds_of(frontier, queue.host_id, queue.host)):
            result.kinds.append((queue.host, kinds))

    def _check_size(self, queue: HostQueue, compiled: CompiledSettings | None, result: CommitResult) -> None:
        """Note a host that has too many URLs for the longer delay of small hosts."""
        if compiled is None or not queue.server.is_small or compiled.config.courtesy.small_site_factor == 1.0:
            return
        urls = compiled.config.courtesy.small_site_urls
        if has_more_urls(self.cells[queue.cell].frontier, queue.host_id, queue.host, urls):
            result.large_hosts.append(queue)

    def _refill(
        self, queue: HostQueue, limit: int, skip: Collection[int], result: CommitResult
    ) -> tuple[list[QueuedUrl], float | None]:
        """Read a host's next URLs; if none is due now, return the time when the next one is."""
        cell = self.cells[queue.cell]
        if self.refresh is not None:
            items, held, due_s = self.refresh.next_urls(cell, queue, limit, skip)
        else:
            items, held = cell.next_urls(queue, limit, skip, self._clock.now_s())
            due_s = None if items else cell.frontier.next_due_s(queue.host_id, queue.host)
        result.held += [queue] if held else []
        if any(item.etag or item.last_modified for item in items):
            from teia.crawler.keep_fresh.observe import drop_conditions  # imports numpy, as above

            items = drop_conditions(cell.frontier, queue.host, queue.host_id, items)
        in_memory = queue.loaded  # their captures were checked when they were read into the buffer
        checked = [item if item.key in in_memory else cell.with_readable_capture(item) for item in items]
        if self.renders:
            checked = [self._with_form(cell, queue, item) if item.visits else item for item in checked]
        return checked, due_s

    @staticmethod
    def _with_form(cell: Cell, queue: HostQueue, item: QueuedUrl) -> QueuedUrl:
        """Return a known page with the form in which its last capture was read."""
        row_key = (slot_of(site_of(queue.host)), queue.host_id, item.key)
        return replace(item, is_rendered=True) if renderings.is_rendered(cell.frontier, row_key) else item


def runs_of(visits: Iterable[ActiveVisit]) -> Iterator[list[ActiveVisit]]:
    """Yield visits in their order, in runs that can be settled together.

    A page may have been visited twice, by the crawler and by a cache. A probe is alone, because it judges the pages
    that were settled before it.
    """
    run: list[ActiveVisit] = []
    urls: set[tuple[str, int]] = set()
    for visit in visits:
        url, is_probe = (visit.queue.host, visit.item.key), visit.item.purpose == PROBE
        if run and (is_probe or run[-1].item.purpose == PROBE or url in urls):
            yield run
            run, urls = [], set()
        run.append(visit)
        urls.add(url)
    if run:
        yield run


def hand_to_indexer(cell: Cell, visits: Iterable[ActiveVisit], changes: int) -> None:
    """Hand pages that have changed to the indexer; `changes` is the last change number before this group."""
    entries = {
        (slot_of(site_of(visit.queue.host)), visit.queue.host_id, visit.item.key): visit.result.entry
        for visit in visits
        if visit.result is not None and visit.result.entry
    }
    # The indexer reads entries in the order of their changes.
    for change, row_key in sorted((change, row_key) for row_key, change in cell.frontier.changes_of(entries).items()):
        # No new change number: the content is the same, and the indexer has it.
        if change > changes:
            cell.handover.write(change, row_key[2], entries[row_key])


NO_PAGES = frozenset({"robots", PROBE, RENDER}) | IDENTITY_REQUESTS
"""Purposes of visits whose answers are not pages."""


def shows_links(visit: ActiveVisit) -> bool:
    """Tell whether a visit shows the current links of its page: its answer becomes the last good capture.

    A 304 and a failure that may pass leave the known links unchanged, and so does a URL settled without a visit. The
    links of a page that is not kept do not count.
    """
    fetched, verdict = visit.fetched, visit.verdict
    if fetched is None or verdict is None or visit.is_first is None or verdict.state in {STATE_QUEUED, STATE_FAILED}:
        return False
    is_kept = visit.outcome not in {Outcome.TOO_LARGE, Outcome.NOT_RENDERED}
    return fetched.status not in {0, NOT_MODIFIED} and is_kept


def link_targets(visit: ActiveVisit, links: Iterable[HostLinks]) -> dict[str, set[int]]:
    """Return the URLs to which a page links, by host, each once, without itself; none for an error or a redirect."""
    targets: dict[str, set[int]] = defaultdict(set)
    if visit.fetched is None or visit.fetched.status >= 300:
        return targets
    for each in links:
        targets[each.host].update(compress(array("q", each.keys), each.linked))
    targets[visit.queue.host].discard(visit.item.key)
    return {host: keys for host, keys in targets.items() if keys}


def capture_location(visit: ActiveVisit, records: tuple[Stored, ...] | None) -> CaptureLocation:
    if not records or visit.result is None:
        return CaptureLocation()
    for kind, record in zip(visit.result.kinds, records, strict=True):
        if kind in {"response", "revisit"}:
            return CaptureLocation(record.file, record.offset, record.length)
    return CaptureLocation()


def is_stored_as_revisit(visit: ActiveVisit) -> bool:
    """Tell whether the archive holds a revisit record of the answer: an earlier record has the body."""
    return visit.result is not None and "revisit" in visit.result.kinds


def page_row(visit: ActiveVisit) -> PageRow | None:
    """Return the page's row; None if the visit learnt nothing of the page, so that the last good capture is kept."""
    result, fetched = visit.result, visit.fetched
    if result is None or fetched is None or fetched.status == 0:
        return None
    return PageRow(
        fetched.status,
        result.digest,
        result.text_digest,
        _signed(result.simhash),
        result.media_type,
        result.language,
        result.title,
        result.etag,
        result.last_modified,
        result.redirect_to,
        result.canonical,
        result.noindex or visit.outcome == Outcome.SOFT_404,
        result.payload_digest,
    )


def _signed(number: int) -> int:
    """Convert a 64-bit number to the signed form that SQLite stores."""
    return number - (1 << 64) if number >= 1 << 63 else number
