"""Group commit: the only place where a visit becomes true.

Every 200 ms or 256 pages, in one thread, for each cell the visits touch:

    1  write the ledger of rests: a server's wish to be left alone is the last thing to lose
    2  append the visits' records to the archive and sync it
    3  one SQLite transaction: page states, links inside the cell, an outbox of links for other cells, robots.txt
       bodies, rows of the fetch log, and the archive's position
    4  deliver the outboxes into the other cells, each with its sequence number

Nothing counts as done before step 3. Death between 2 and 3 leaves a tail in the archive that is cut at the next start;
between 3 and 4, an outbox that is delivered then. A full disk fails the step it happens in, with nothing half done: the
crawler pauses and commits the same visits again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from teia.clock import Clock
from teia.crawl.cells import Cell, note_position
from teia.crawl.logrows import log_row, write_log
from teia.crawl.visits import Visit
from teia.errors import TeiaError
from teia.frontier import mail
from teia.frontier.cell import Archived, Found, PageRow, Settled
from teia.frontier.ledger import Ledger, Rest
from teia.frontier.schedule import HostQueue, Queued
from teia.store.archive import Stored
from teia.store.warc import Members
from teia.urls import cell_of, site_of, slot_of, split

RobotsRow = tuple[str, float, str, int, bytes]
"""(origin, when it was asked, outcome, status, body)"""

RefillOrder = tuple[HostQueue, int, frozenset[int]]


@dataclass(slots=True)
class Committed:
    """What one commit brought: hosts with new work, buffers filled, counts."""

    hosts: dict[tuple[int, str], int] = field(default_factory=dict)
    refilled: list[tuple[HostQueue, list[Queued], float | None]] = field(default_factory=list)
    robots: list[RobotsRow] = field(default_factory=list)
    new_urls: int = 0
    records: int = 0


@dataclass(slots=True)
class Group:
    """What one commit is asked to do for one collection.

    A visit moves from `visits` to `settled` with its cell's transaction, and what that brought stays in `done`. So a
    group whose commit failed half way can be committed again: no page is counted twice, no host forgotten.
    """

    visits: list[Visit] = field(default_factory=list)
    settled: list[Visit] = field(default_factory=list)
    seeds: list[Found] = field(default_factory=list)
    refills: list[RefillOrder] = field(default_factory=list)
    rests: list[Rest] = field(default_factory=list)
    parked: list[tuple[HostQueue, str]] = field(default_factory=list)
    done: Committed = field(default_factory=Committed)


class Committer:
    """Commits groups of visits of one collection; every method runs in the commit thread."""

    def __init__(self, cells: Sequence[Cell], starts: Sequence[int], ledger: Ledger, clock: Clock) -> None:
        self.cells = cells
        self._starts = starts
        self._ledger = ledger
        self._clock = clock
        self._delivered: dict[int, int] = {}

    def commit(self, group: Group) -> Committed:
        """Make a group true; see the module's text for the order of things."""
        done = group.done
        if group.rests:
            self._ledger.write(group.rests)
        by_cell: dict[int, list[Visit]] = defaultdict(list)
        for visit in group.visits:
            by_cell[visit.queue.cell].append(visit)
        for number, visits in by_cell.items():
            self._commit_cell(self.cells[number], visits, done)
            group.settled += visits
            group.visits = [visit for visit in group.visits if visit.queue.cell != number]
        self._absorb_seeds(group, done)
        if group.settled:
            self.deliver(done)
        for queue, why in group.parked:
            with self.cells[queue.cell].frontier.transaction() as frontier:
                frontier.park_host(queue.host_id, why)
        for queue, limit, skip in group.refills:
            if not queue.knows_robots:
                done.robots += self.cells[queue.cell].frontier.robots_of(queue.host_id, queue.host)
            done.refilled.append((queue, *self._refill(queue, limit, skip)))
        return done

    # -- step 2 --------------------------------------------------------------------------------------------

    def _archive(self, cell: Cell, visits: Iterable[Visit], done: Committed) -> dict[Visit, tuple[Stored, ...]]:
        places: dict[Visit, tuple[Stored, ...]] = {}
        for visit in visits:
            result = visit.result
            if result is not None and result.members:
                places[visit] = cell.archive.append(Members(result.members, result.lengths, result.kinds))
                done.records += len(result.lengths)
        cell.archive.flush_and_sync()
        return places

    # -- step 3 --------------------------------------------------------------------------------------------

    def _commit_cell(self, cell: Cell, visits: Sequence[Visit], done: Committed) -> None:
        try:
            stored = self._archive(cell, visits, done)
            known_before = cell.frontier.known
            with cell.frontier.transaction():
                self._record(cell, visits, stored, done)
        except TeiaError:
            cell.rewind()
            raise
        done.new_urls += cell.frontier.known - known_before

    def _record(
        self, cell: Cell, visits: Sequence[Visit], stored: dict[Visit, tuple[Stored, ...]], done: Committed
    ) -> None:
        """Everything one cell learns from a group, inside its transaction."""
        frontier = cell.frontier
        links: dict[int, dict[int, Found]] = defaultdict(dict)
        rows = []
        for visit in visits:
            archived = answer_place(visit, stored.get(visit))
            self._settle(cell, visit, archived)
            self._gather(links, visit)
            rows.append(log_row(visit, archived))
        self._note(done, cell, frontier.absorb(links.pop(cell.number, {}).values(), self._clock.now_s()))
        for to_cell, found in links.items():
            mail.post(frontier, to_cell, found.values())
        if cell.number in self._delivered:
            mail.delivered(frontier, self._delivered.pop(cell.number))
        write_log(frontier, rows)
        note_position(frontier, cell.archive.position)

    def _settle(self, cell: Cell, visit: Visit, archived: Archived) -> None:
        queue, item, fetched = visit.queue, visit.item, visit.fetched
        if fetched is not None:
            cell.frontier.count_request(
                queue.host_id, visit.bytes_received, visit.address, queue.server.last_response_s
            )
        if item.purpose == "robots":
            self._keep_robots(cell, visit)
            return
        assert visit.verdict is not None
        now_s = self._clock.now_s()
        time_s = fetched.started_s if fetched is not None else now_s
        settled = Settled(
            queue.host_id,
            item,
            visit.outcome,
            visit.verdict.state,
            time_s,
            now_s + visit.verdict.wait_s,
            page_row(visit),
            archived,
        )
        cell.frontier.settle(settled, queue.host)

    def _keep_robots(self, cell: Cell, visit: Visit) -> None:
        """Keep what an origin's robots.txt said; one that another host answered for is asked for again next time."""
        queue, item = visit.queue, visit.item
        if not visit.is_final_robots or split(f"{item.origin}/").host != queue.host:
            return
        status = visit.fetched.status if visit.fetched is not None else 0
        body = visit.result.payload if visit.result is not None else b""
        now_s = self._clock.now_s()
        cell.frontier.keep_robots(queue.host_id, queue.host, item.origin, now_s, visit.outcome, status, body)

    def _gather(self, links: dict[int, dict[int, Found]], visit: Visit) -> None:
        """Merge a page's links by cell; a link said twice in a group is one row with a higher count."""
        if visit.result is None:
            return
        depth, hops = visit.item.depth + 1, 0
        if visit.result.redirect_to:
            depth, hops = visit.item.depth, visit.item.hops + 1
        for link in visit.result.links:
            number = cell_of(slot_of(site_of(link.host)), self._starts)
            same = links[number].get(link.key)
            if same is None:
                links[number][link.key] = Found(link.host, link.key, link.tail, depth, link.count, hops, link.by)
            else:
                same.depth, same.in_links = min(same.depth, depth), same.in_links + link.count
                same.hops = min(same.hops, hops)
                same.by |= link.by

    # -- step 4 --------------------------------------------------------------------------------------------

    def deliver(self, done: Committed) -> None:
        """Bring what is in the outboxes into the cells it is for; also the first thing a restarted crawler does."""
        by_receiver: dict[int, list[tuple[int, int, list[Found]]]] = defaultdict(list)
        last: dict[int, int] = {}
        for sender in self.cells:
            for seq, to_cell, found in mail.waiting(sender.frontier):
                if found:
                    by_receiver[to_cell].append((sender.number, seq, found))
                    last[sender.number] = seq
        for number, bulks in by_receiver.items():
            self._take(self.cells[number], bulks, done)
        self._delivered.update(last)

    def _take(self, cell: Cell, bulks: Iterable[tuple[int, int, list[Found]]], done: Committed) -> None:
        known_before = cell.frontier.known
        with cell.frontier.transaction():
            for from_cell, seq, found in bulks:
                if seq > mail.heard(cell.frontier, from_cell):
                    self._note(done, cell, cell.frontier.absorb(found, self._clock.now_s()))
                    mail.note_heard(cell.frontier, from_cell, seq)
        done.new_urls += cell.frontier.known - known_before

    def _absorb_seeds(self, group: Group, done: Committed) -> None:
        by_cell: dict[int, list[Found]] = defaultdict(list)
        for found in group.seeds:
            by_cell[cell_of(slot_of(site_of(found.host)), self._starts)].append(found)
        for number, of_cell in by_cell.items():
            cell = self.cells[number]
            known_before = cell.frontier.known
            with cell.frontier.transaction():
                self._note(done, cell, cell.frontier.absorb(of_cell, self._clock.now_s()))
            done.new_urls += cell.frontier.known - known_before
        group.seeds = []

    # -- buffers -------------------------------------------------------------------------------------------

    def _refill(self, queue: HostQueue, limit: int, skip: Collection[int]) -> tuple[list[Queued], float | None]:
        """Read a host's next URLs, and when its next waiting URL is due if there is nothing now."""
        frontier = self.cells[queue.cell].frontier
        items = frontier.next_urls(queue.host_id, queue.host, limit, skip, self._clock.now_s())
        due_s = None if items else frontier.next_due_s(queue.host_id, queue.host)
        return items, due_s

    @staticmethod
    def _note(done: Committed, cell: Cell, touched: Iterable[tuple[int, str]]) -> None:
        for host_id, host in touched:
            done.hosts[cell.number, host] = host_id


def answer_place(visit: Visit, places: tuple[Stored, ...] | None) -> Archived:
    if not places or visit.result is None:
        return Archived()
    for kind, place in zip(visit.result.kinds, places, strict=True):
        if kind in {"response", "revisit"}:
            return Archived(place.file, place.offset, place.length)
    return Archived()


def page_row(visit: Visit) -> PageRow | None:
    """What the visit found; None when nothing was learnt of the page, so that the last good copy stays known."""
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
        result.noindex,
        result.payload_digest,
    )


def _signed(number: int) -> int:
    """A 64-bit number as SQLite holds it."""
    return number - (1 << 64) if number >= 1 << 63 else number
