"""Group commit: the only place where a visit becomes true.

Every 200 ms or 256 pages, in one thread, for each cell the visits touch:

    1  write the ledger of rests: a server's wish to be left alone is the last thing to lose
    2  append the visits' records to the archive and sync it
    3  one SQLite transaction: page states, links inside the cell, an outbox of links for other cells, robots.txt
       bodies, rows of the fetch log, and the archive's position
    4  deliver the outboxes into the other cells, each with its sequence number
    5  hear what the pages say of names that may be one site, and write that down (aliases.py)

Nothing counts as done before step 3. Death between 2 and 3 leaves a tail in the archive that is cut at the next start;
between 3 and 4, an outbox that is delivered then. A full disk fails the step it happens in, with nothing half done: the
crawler pauses and commits the same visits again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from teia.clock import Clock
from teia.crawl.aliases import AliasBook
from teia.crawl.budgets import spent_before
from teia.crawl.cells import Cell, note_position
from teia.crawl.depths import spread
from teia.crawl.hints import hints_of, learnt_so_far, note_read
from teia.crawl.logrows import log_row, write_log
from teia.crawl.meaning import Meaning
from teia.crawl.soft404 import PROBE, answer_of, keep_answer, remembered
from teia.crawl.visits import Visit
from teia.crawl.watching import next_urls, note_visit, via
from teia.crawl.wishes import Wishes
from teia.errors import DiskFull, TeiaError
from teia.frontier import mail, nearer
from teia.frontier.cell import Archived, Found, PageRow, Settled, either
from teia.frontier.ledger import InForce, Ledger, Rest
from teia.frontier.order import better
from teia.frontier.reconsider import END, progress, reconsider
from teia.frontier.schedule import HostQueue, Queued
from teia.frontier.soft404 import NotFound
from teia.records import Outcome
from teia.store.archive import Stored
from teia.store.warc import Members
from teia.urls import numbering, split

if TYPE_CHECKING:
    from teia.crawl.authority import Authority
    from teia.crawl.refreshing import Refresh
    from teia.crawl.rounds import RevisitAll

FORGET_EVERY_S = 600.0
"""How often places that have rested for long are dropped from the ledger."""

JUDGE_S = 0.05
"""How long one commit may look at URLs that were judged by other settings."""

RobotsRow = tuple[str, float, str, int, bytes]
"""(origin, when it was asked, outcome, status, body)"""

RefillOrder = tuple[HostQueue, int, frozenset[int]]

Spot = int | tuple[int, int]
"""Where a link is gathered: by its key, or by its key and its page for orders that judge page by page."""


@dataclass(slots=True)
class Committed:
    """What one commit brought: hosts with new work, buffers filled, counts.

    `names` are (alias, main name), `checks` keys of URLs that are fetched under an alias after all (aliases.Renamed).
    `held` are hosts of which more is held back until what is under way was read; `shunned` are patterns by host that
    may not go any more; `given_up` counts URLs (watch.py). `spent` are requests and bytes of earlier runs.
    """

    hosts: dict[tuple[int, str], int] = field(default_factory=dict)
    refilled: list[tuple[HostQueue, list[Queued], float | None]] = field(default_factory=list)
    robots: list[RobotsRow] = field(default_factory=list)
    probes: list[tuple[HostQueue, NotFound]] = field(default_factory=list)
    names: list[tuple[str, str]] = field(default_factory=list)
    checks: list[int] = field(default_factory=list)
    spent: list[tuple[HostQueue, int, int]] = field(default_factory=list)
    held: list[HostQueue] = field(default_factory=list)
    shunned: dict[str, set[int]] = field(default_factory=dict)
    given_up: int = 0
    new_urls: int = 0
    records: int = 0
    judged_by: str = ""
    some_came_nearer: bool = False


@dataclass(slots=True)
class Group:
    """What one commit is asked to do for one collection.

    A visit moves from `visits` to `settled` with its cell's transaction, and what that brought stays in `done`. So a
    group whose commit failed half way can be committed again: no page is counted twice, no host forgotten.
    `must_judge`: URLs that were judged by other settings are judged by the `meaning` of those in force, for a moment.
    """

    visits: list[Visit] = field(default_factory=list)
    settled: list[Visit] = field(default_factory=list)
    seeds: list[Found] = field(default_factory=list)
    refills: list[RefillOrder] = field(default_factory=list)
    rests: list[Rest] = field(default_factory=list)
    parked: list[tuple[HostQueue, str]] = field(default_factory=list)
    meaning: Meaning | None = None
    must_judge: bool = False
    courtesy: InForce | None = None
    done: Committed = field(default_factory=Committed)


class Committer:
    """Commits groups of visits of one collection; every method runs in the commit thread."""

    def __init__(
        self,
        cells: Sequence[Cell],
        starts: Sequence[int],
        ledger: Ledger,
        clock: Clock,
        aliases: AliasBook | None = None,
    ) -> None:
        self.cells = cells
        self.aliases = aliases
        self.authority: Authority | None = None
        self.refresh: Refresh | RevisitAll | None = None
        self.wishes = Wishes(cells, starts, clock)
        self._starts = starts
        self.number_of = numbering(starts)
        self._ledger = ledger
        self._clock = clock
        self._delivered: dict[int, int] = {}
        self._forget_at = clock.ticks_s() + FORGET_EVERY_S
        self._order = next(iter(cells)).frontier.order
        self._promised: dict[int, float] = {}

    def commit(self, group: Group) -> Committed:
        """Make a group true. A full disk gets back what room the cells' logs take, for the next try."""
        try:
            return self._commit(group)
        except DiskFull:
            for cell in self.cells:
                cell.give_room_back()
            raise

    def _commit(self, group: Group) -> Committed:
        """See the module's text for the order of things."""
        done = group.done
        if self._order.keeps_trails:
            self._promised = learnt_so_far(self.cells)
        if self.aliases is not None:
            self.aliases.begin(self._clock.now_s())
        if group.courtesy is not None:
            self._ledger.note_courtesy(group.courtesy)
        if group.rests:
            self._ledger.write(group.rests)
        self._forget_rested()
        by_cell: dict[int, list[Visit]] = defaultdict(list)
        for visit in group.visits:
            by_cell[visit.queue.cell].append(visit)
        for number, visits in by_cell.items():
            self._commit_cell(self.cells[number], visits, done)
            group.settled += visits
            group.visits = [visit for visit in group.visits if visit.queue.cell != number]
        self._absorb_seeds(group, done)
        came_nearer = group.meaning is not None and self._spread_depths(group.meaning, done)
        if group.settled or came_nearer:
            self.deliver(done)
        self._learn_names(group.settled, done)
        for queue, why in group.parked:
            with self.cells[queue.cell].frontier.transaction() as frontier:
                frontier.park_host(queue.host_id, why)
        if group.meaning is not None and group.must_judge:
            self._judge_again(group.meaning, done)
        if self.authority is not None:
            for cell, hosts in self.authority.rank_again():
                self._note(done, cell, hosts)
        if self.refresh is not None:
            for cell, hosts in self.refresh.plan_again():
                self._note(done, cell, hosts)
        for cell, hosts in self.wishes.grant():
            self._note(done, cell, hosts)
        done.some_came_nearer = any(nearer.waiting(cell.frontier.db, 1) for cell in self.cells)
        for queue, limit, skip in group.refills:
            if not queue.knows_robots:
                self._remember(queue, done)
            done.refilled.append((queue, *self._refill(queue, limit, skip, done)))
        return done

    def _forget_rested(self) -> None:
        now = self._clock.ticks_s()
        if now >= self._forget_at:
            self._ledger.forget_rested(self._clock.now_s())
            self._forget_at = now + FORGET_EVERY_S

    # -- step 2 --------------------------------------------------------------------------------------------

    def _archive(self, cell: Cell, visits: Iterable[Visit]) -> dict[Visit, tuple[Stored, ...]]:
        places: dict[Visit, tuple[Stored, ...]] = {}
        for visit in visits:
            result = visit.result
            if result is not None and result.members:
                places[visit] = cell.archive.append(Members(result.members, result.lengths, result.kinds))
        cell.archive.flush_and_sync()
        return places

    # -- step 3 --------------------------------------------------------------------------------------------

    def _commit_cell(self, cell: Cell, visits: Sequence[Visit], done: Committed) -> None:
        try:
            stored = self._archive(cell, visits)
            known_before = cell.frontier.known
            with cell.frontier.transaction():
                self._record(cell, visits, stored, done)
        except TeiaError:
            cell.rewind()
            raise
        done.records += sum(map(len, stored.values()))
        done.new_urls += cell.frontier.known - known_before
        if cell.frontier.watch is not None:
            given_up, shunned = cell.frontier.watch.take_news()
            done.given_up += given_up
            done.shunned.update(shunned)

    def _record(
        self, cell: Cell, visits: Sequence[Visit], stored: dict[Visit, tuple[Stored, ...]], done: Committed
    ) -> None:
        """Everything one cell learns from a group, inside its transaction."""
        frontier = cell.frontier
        links: dict[int, dict[Spot, Found]] = defaultdict(dict)
        rows = []
        changes = frontier.last_change()
        for visit in visits:
            archived = answer_place(visit, stored.get(visit))
            if visit.outcome == Outcome.ALIAS and not self._hand_on(cell, visit, links):
                self._note(done, cell, [(visit.queue.host_id, visit.queue.host)])
                continue
            self._settle(cell, visit, archived)
            hand_over(cell, visit, changes)
            note_visit(frontier, visit)
            if self._order.keeps_trails and note_read(cell, visit, self._clock.now_s()):
                self._note(done, cell, [(visit.queue.host_id, visit.queue.host)])
            self._gather(links, visit)
            rows.append(log_row(visit, archived))
        self._note(done, cell, frontier.absorb(links.pop(cell.number, {}).values(), self._clock.now_s()))
        if frontier.watch is not None:
            frontier.watch.close()
        for to_cell, found in links.items():
            mail.post(frontier, to_cell, found.values())
        if cell.number in self._delivered:
            mail.delivered(frontier, self._delivered.pop(cell.number))
        if self.aliases is not None:
            self.aliases.keep_samples(cell.number)
        if self.refresh is not None:
            self.refresh.note(cell, visits)
        write_log(frontier, rows)
        cell.handover.flush()
        note_position(frontier, cell.archive.position, sum(map(len, stored.values())))

    def _settle(self, cell: Cell, visit: Visit, archived: Archived) -> None:
        queue, item, fetched = visit.queue, visit.item, visit.fetched
        if visit.was_asked:
            cell.frontier.count_request(
                queue.host_id, visit.bytes_received, visit.address, queue.server.last_response_s
            )
        if item.purpose == "robots":
            self._keep_robots(cell, visit)
            return
        if item.purpose == PROBE:
            keep_answer(cell.frontier, queue, answer_of(visit, self._clock.now_s()))
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
            repeats_earlier(visit),
        )
        if item.visits:
            from teia.crawl.observing import observed  # brings numpy, for pages that come again

            settled = observed(cell.frontier, settled, queue.host, visit)
        cell.frontier.settle(settled, queue.host)

    def _keep_robots(self, cell: Cell, visit: Visit) -> None:
        """Keep what an origin's robots.txt said; one that another host answered for is asked for again next time."""
        queue, item = visit.queue, visit.item
        if not visit.is_final_robots or split(f"{item.origin}/").host != queue.host or not queue.host_id:
            return
        status = visit.fetched.status if visit.fetched is not None else 0
        body = visit.result.payload if visit.result is not None else b""
        now_s = self._clock.now_s()
        cell.frontier.keep_robots(queue.host_id, queue.host, item.origin, now_s, visit.outcome, status, body)

    def _gather(self, links: dict[int, dict[Spot, Found]], visit: Visit) -> None:
        """Merge a page's links by cell; a link said twice in a group is one row with a higher count."""
        if visit.result is None or visit.item.purpose == PROBE or visit.outcome == Outcome.SOFT_404:
            return
        depth, hops = visit.item.depth + 1, 0
        if visit.result.redirect_to:
            depth, hops = visit.item.depth, visit.item.hops + 1
        aliases = () if self.aliases is None else self.aliases
        into: dict[str, dict[Spot, Found]] = {}
        for link, hint in zip(visit.result.links, hints_of(visit, self._order, self._promised), strict=False):
            if link.host in aliases and self.aliases is not None:
                link = self.aliases.rewritten(link)  # from here on it leads there
            host, key = link.host, link.key
            found = into.get(host)
            if found is None:
                found = into[host] = links[self.number_of(host)]
            spot = (key, visit.item.key) if self._order.sampled else key
            through = via(visit, host) if visit.item.pattern else 0
            same = found.get(spot)
            if same is None:
                found[spot] = Found(host, key, link.tail, depth, link.count, hops, link.by, hint, through)
                continue
            same.in_links += link.count
            same.by |= link.by
            if depth < same.depth:
                same.depth = depth
            if hops < same.hops:
                same.hops = hops
            if same.hint is not None:
                same.hint = better(same.hint, hint)
            if same.via or through:
                same.via = either(same.via, through)

    def _hand_on(self, cell: Cell, visit: Visit, links: dict[int, dict[Spot, Found]]) -> bool:
        """Hand a URL of an alias on to the main name; False if the alias is none any more, and it stays queued."""
        found = None if self.aliases is None else self.aliases.forwarded(cell.frontier, visit)
        if found is None:
            return False
        links[self.number_of(found.host)][found.key, visit.item.key] = found
        return True

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
            by_cell[self.number_of(found.host)].append(found)
        for number, of_cell in by_cell.items():
            cell = self.cells[number]
            known_before = cell.frontier.known
            with cell.frontier.transaction():
                self._note(done, cell, cell.frontier.absorb(of_cell, self._clock.now_s()))
            done.new_urls += cell.frontier.known - known_before
        group.seeds = []

    # -- step 5 --------------------------------------------------------------------------------------------

    def _learn_names(self, settled: Sequence[Visit], done: Committed) -> None:
        """Hear what pages say of names that may be one site."""
        if self.aliases is None or not (settled or self.aliases.is_busy):
            return
        renamed = self.aliases.learn(settled)
        done.names += renamed.names
        done.checks += renamed.checks
        for number, host in renamed.hosts:
            cell = self.cells[number]
            self._note(done, cell, [(cell.frontier.host_id(host, self._clock.now_s()), host)])

    def _spread_depths(self, meaning: Meaning, done: Committed) -> bool:
        """Give links of pages that came nearer their new depth; returns whether there were any."""
        came_nearer = False
        for cell in self.cells:
            known_before = cell.frontier.known
            touched = spread(cell, self.number_of, meaning, self._clock.now_s())
            if touched is not None:
                self._note(done, cell, touched)
                done.new_urls += cell.frontier.known - known_before
                came_nearer = True
        return came_nearer

    def _judge_again(self, meaning: Meaning, done: Committed) -> None:
        """Judge URLs by other settings than before, as many as there is time for (frontier/reconsider.py)."""
        until = self._clock.ticks_s() + JUDGE_S
        for cell in self.cells:
            if progress(cell.frontier, meaning.mark) < END:
                with cell.frontier.transaction() as frontier:
                    back = reconsider(frontier, meaning.mark, meaning.wants, lambda: self._clock.ticks_s() < until)
                    self._note(done, cell, back)
                if self._clock.ticks_s() >= until:
                    return
        if all(progress(cell.frontier, meaning.mark) == END for cell in self.cells):
            done.judged_by = meaning.mark

    # -- buffers -------------------------------------------------------------------------------------------

    def _remember(self, queue: HostQueue, done: Committed) -> None:
        """Read what earlier runs learnt of a host: its cost, its robots.txt, how it answers for what does not exist."""
        frontier = self.cells[queue.cell].frontier
        done.spent.append(spent_before(frontier, queue))
        done.robots += frontier.robots_of(queue.host_id, queue.host)
        found = remembered(frontier, queue)
        if found is not None:
            done.probes.append((queue, found))

    def _refill(
        self, queue: HostQueue, limit: int, skip: Collection[int], done: Committed
    ) -> tuple[list[Queued], float | None]:
        """Read a host's next URLs, and when its next waiting URL is due if there is nothing now."""
        frontier = self.cells[queue.cell].frontier
        if self.refresh is not None:
            items, held, due_s = self.refresh.next_urls(self.cells[queue.cell], queue, limit, skip)
            done.held += [queue] if held else []
            return items, due_s
        items, held = next_urls(frontier, queue, limit, skip, self._clock.now_s())
        if held:
            done.held.append(queue)
        due_s = None if items else frontier.next_due_s(queue.host_id, queue.host)
        return items, due_s

    @staticmethod
    def _note(done: Committed, cell: Cell, touched: Iterable[tuple[int, str]]) -> None:
        for host_id, host in touched:
            done.hosts[cell.number, host] = host_id


def hand_over(cell: Cell, visit: Visit, changes: int) -> None:
    """Leave a page for the indexer, if it is not what it was; `changes` is the last number before this group."""
    if visit.result is None or not visit.result.entry:
        return
    queue, key = visit.queue, visit.item.key
    change = cell.frontier.change_of(queue.host_id, queue.host, key)
    if change > changes:
        cell.handover.write(change, key, visit.result.entry)


def answer_place(visit: Visit, places: tuple[Stored, ...] | None) -> Archived:
    if not places or visit.result is None:
        return Archived()
    for kind, place in zip(visit.result.kinds, places, strict=True):
        if kind in {"response", "revisit"}:
            return Archived(place.file, place.offset, place.length)
    return Archived()


def repeats_earlier(visit: Visit) -> bool:
    """Whether the archive holds a revisit record of the answer: its body lies with an earlier one."""
    return visit.result is not None and "revisit" in visit.result.kinds


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
        result.noindex or visit.outcome == Outcome.SOFT_404,
        result.payload_digest,
    )


def _signed(number: int) -> int:
    """A 64-bit number as SQLite holds it."""
    return number - (1 << 64) if number >= 1 << 63 else number
