"""Commits of one node: what it adds to the commit of one machine (crawler/commit.py), as a step of it.

Links for other cells travel with the commit (mail.py). Those from other cells arrive by the stream; the next commit
merges them and records the last message merged. A cell that was lost is left out. A commit that is too large for NATS
is committed in parts.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import overload

import msgspec

from teia.clock import Clock
from teia.cluster.cells.log import CellLost, TooLarge
from teia.cluster.cells.site_homes import DELAY, FORWARDED, CellMessage, Departure, SiteHomes, decode_message
from teia.cluster.crawl.agent_events import AgentEvents
from teia.cluster.crawl.arrivals import Arrivals
from teia.cluster.crawl.limits import STORED
from teia.cluster.crawl.signals import ForwardedSignals, Message, SignalForwarding, store_forwarded
from teia.crawler.commit import CommitGroup, CommitResult, Committer
from teia.crawler.open_cell import Cell
from teia.crawler.signals_in.announcements import Announcements
from teia.crawler.visit import ActiveVisit
from teia.errors import StoreError
from teia.frontier.cell import mail
from teia.frontier.cell.move_site import MAX_URLS, MovedSite, SiteRows, SiteTooLarge, urls_of
from teia.frontier.cell.rows import FoundUrl
from teia.frontier.queue.ledger import DelayEntry
from teia.frontier.tables.pages import find_url_at
from teia.urls import site_of

MAX_BULKS = 200
"""Bulks of links that one commit merges."""

DIRECT_FORMAT = 3
"""First format of changes whose nodes receive signals directly (cluster/crawl/signals.py)."""

MAX_SIGNAL_MESSAGES = 16
"""Messages with signals in one record; far less than NATS accepts."""

MERGE_WITHIN_S = 2.0
"""Longest wait of links from other cells for a commit of pages of their cell, which then holds both.

In a cell with nothing else to do new links do not wait.
"""

_log = logging.getLogger(__name__)


class ClusterCells(Sequence[Cell]):
    """Some cells of a collection: iterated in order, indexed by their number in the collection."""

    def __init__(self, cells: Mapping[int, Cell]) -> None:
        self._cells = dict(cells)

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[Cell]:
        # A copy, because a lost cell is dropped during a commit.
        return iter(list(self._cells.values()))

    def owns(self, number: int) -> bool:
        return number in self._cells

    @overload
    def __getitem__(self, at: int) -> Cell: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Cell]: ...
    def __getitem__(self, at: int | slice) -> Cell | Sequence[Cell]:
        if isinstance(at, slice):
            raise TypeError("cells have numbers, not positions")
        return self._cells[at]

    def drop(self, number: int) -> None:
        """Remove a cell that was lost; the code that opened it closes it."""
        self._cells.pop(number, None)


class CellExchange:
    """Messages between the cells owned here and all others, a `CommitStep` of `committer`.

    Another thread fills `inbox` with (cell, number, links).
    """

    def __init__(
        self,
        committer: Committer,
        cells: ClusterCells,
        starts: Sequence[int],
        clock: Clock,
        agents: AgentEvents | None = None,
    ) -> None:
        self.cells = cells
        self._agents = agents or AgentEvents(clock, "")
        committer.agents = self._agents.log
        self._committer = committer
        self._clock = clock
        self.inbox: deque[tuple[int, int, bytes]] = deque()
        self.arrivals = Arrivals(clock)
        self.homes = SiteHomes(starts, [(cell.number, cell.frontier) for cell in cells])
        committer.steps = (self,)
        committer.cell_number = self.homes.cell_number
        committer.visit_requests.cell_of = self.cell_of
        forwarding = SignalForwarding(self.homes.cell_number, self._is_here, self._send_signals_by_log)
        self.announced = committer.announced = Announcements(cells, starts, clock, forwarding.owners)
        self.departures: deque[Departure] = deque()
        """Sites to be sent to other cells with the next commit; filled by the crawl's loop."""
        self.departed: list[tuple[Departure, MovedSite | None]] = []
        """Sites that were sent, or could not be."""
        self.arrived: dict[str, float] = {}
        """Hosts of sites that arrived, and the times until which they are delayed."""
        self.received: dict[int, list[tuple[int, int, CellMessage]]] = {}
        """By cell: links taken from the inbox and not committed yet; after a failed commit they are still here."""
        self._waiting_since: dict[int, float] = {}
        self._with_new_urls: set[int] = set()
        """Cells that received URLs which are new there, or whole sites; in the others only counts change."""
        self._max_bulks = MAX_BULKS
        """Bulks that one transaction merges; fewer after one that was too large, since bulks may be forwarded."""
        self._moved_urls = 0
        """URLs that the current transaction got with sites that another cell knew before."""
        self.has_older_nodes = True
        """True until the node knows that all others read DIRECT_FORMAT."""
        self._signals: list[ForwardedSignals] = []
        """Signals of older nodes that the current transaction received."""
        self.merged: dict[int, int] = {}
        self.lost: set[int] = set()
        self.dropped: list[ActiveVisit] = []
        self.stored = {cell.number: stored_in(cell) for cell in cells}
        """Number of pages that each cell has ever stored."""
        self.usual_delay_s = 0.0
        """Usual delay; longer delays are written into the cell, for its next owner."""
        self._delays: dict[str, DelayEntry] = {}
        """Longer delays that are not in a cell yet, by host.

        A delay comes with the answer, its visit when the answer is read, often in a later group.
        """

    def last_merged(self, cell: int) -> int:
        """Return the last message of other cells that a cell has merged."""
        return mail.last_received(self.cells[cell].frontier, mail.THE_STREAM)

    def cell_of(self, host: str) -> Cell | None:
        """Return the cell of a host; None if another node owns it."""
        number = self.homes.cell_number(host)
        return self.cells[number] if self.homes.lives_here(site_of(host)) and self.cells.owns(number) else None

    def _is_here(self, host: str) -> bool:
        return self.cell_of(host) is not None

    # -- signals between nodes of this version and the one before; others: cluster/crawl/signals.py ----------------

    def _send_signals_by_log(self, messages: Sequence[Message]) -> bool:
        """Send signals to other cells' owners with records of a cell owned here, while an older node is there."""
        frontier = next((cell.frontier for cell in self.cells), None)
        if frontier is None or frontier.journal is None or not self.has_older_nodes:
            return False
        for at in range(0, len(messages), MAX_SIGNAL_MESSAGES):
            with frontier.transaction():
                for to_cell, signals in messages[at : at + MAX_SIGNAL_MESSAGES]:
                    # Without the names of caches, which an older node does not read.
                    message = [each[:5] for each in signals.announced], signals.pings
                    frontier.journal.post(to_cell, FORWARDED + msgspec.msgpack.encode(message))
        return True

    def _store_signals(self) -> None:
        """Put the signals that a transaction received into the inbox, after its commit."""
        received, self._signals = self._signals, []
        for signals in received:
            try:
                store_forwarded(self.announced, signals, self._clock.now_s())
            except StoreError as error:  # they are hints; the commit that brought them is complete
                _log.warning("signals of another node were dropped: %s", error)

    # -- steps of a commit ---------------------------------------------------------------------------------

    def start(self, group: CommitGroup) -> None:
        """Leave out everything that belongs to a lost cell, merge messages, and forward seeds of other nodes."""
        self._leave_out_lost(group)
        self._note_delays(group.delays)
        if not self._committer.is_winding_up:  # else the cells' next owner merges it
            self._merge_received({visit.queue.cell for visit in group.visits}, group.result)
        self._forward_seeds(group)

    def enter_cell(self, cell: Cell, result: CommitResult) -> None:
        self._merge(cell, self._next_bulks(cell.number), result)

    def leave_cell(self, cell: Cell, visits: Sequence[ActiveVisit]) -> None:
        """Write longer delays and the number of pages to the cell: its next owner does not have this node's ledger."""
        rows = {DELAY + name: self._delays[name].ready_at_s for name in self._delayed_in(cell)}
        pages = sum(is_stored(visit) for visit in visits)
        cell.frontier.set_meta(rows | ({STORED: self.stored[cell.number] + pages} if pages else {}))

    def finish_cell(self, cell: Cell, visits: Sequence[ActiveVisit], result: CommitResult) -> None:
        result.new_urls -= self._moved_urls
        for name in self._delayed_in(cell):
            del self._delays[name]
        self._store_signals()
        self._note_arrival(cell)
        self.stored[cell.number] += sum(is_stored(visit) for visit in visits)
        self._note_merged(cell.number)

    def undo_cell(self, cell: Cell) -> None:
        """Read again where sites live: a message in the failed transaction may have moved one."""
        self.homes.read(cell.number, cell.frontier)

    def end(self) -> None:
        if not self._committer.is_winding_up:
            self._send_sites()
        self._max_bulks = MAX_BULKS

    def can_retry(self, group: CommitGroup, error: Exception) -> bool:
        """Continue without a lost cell, and in parts if the commit is too large for NATS."""
        if isinstance(error, CellLost):
            # The cell is another node's. Its visits are left out in the next pass; the other cells continue.
            self.cells.drop(error.cell)
            self.lost.add(error.cell)
            self._forget_hosts(error.cell)
            if self._committer.aliases is not None:
                self._committer.aliases.forget_cell(error.cell)
            return True
        # Either is halved until the batch fits: the messages merged, or the pages.
        bulks = min(self._max_bulks, max(map(len, self.received.values()), default=0))
        if not isinstance(error, TooLarge) or (len(group.visits) <= 1 and bulks <= 1):
            return False
        self._max_bulks = max(1, bulks // 2)
        if len(group.visits) > 1:
            self._commit_half(group)
        return True

    # -- parts of these steps ------------------------------------------------------------------------------

    def _note_delays(self, entries: Iterable[DelayEntry]) -> None:
        """Keep longer delays until their cell is written; forget those that are over."""
        now_s = self._clock.now_s()
        self._delays = {name: entry for name, entry in self._delays.items() if entry.ready_at_s > now_s}
        self._delays |= {
            entry.name: entry for entry in entries if entry.kind == "server" and entry.delay_s > self.usual_delay_s
        }

    def _delayed_in(self, cell: Cell) -> list[str]:
        """Return the hosts of a cell whose longer delays are not in it yet."""
        return [name for name in self._delays if self.homes.cell_number(name) == cell.number]

    def _forget_hosts(self, cell: int, names: Collection[str] | None = None) -> None:
        if self._committer.refresh is not None:
            self._committer.refresh.forget_hosts(cell, names)

    def _commit_half(self, group: CommitGroup) -> None:
        """Commit half of a group's pages first: the links of all lead to more cells than one batch reaches."""
        half = len(group.visits) // 2
        # `settled` and `result` are shared with the whole group: nothing is counted twice.
        part = CommitGroup(group.visits[:half], group.settled, delays=group.delays, result=group.result)
        others = group.visits[half:]
        try:
            self._committer.commit(part)
        finally:
            group.visits = part.visits + others

    def _leave_out_lost(self, group: CommitGroup) -> None:
        self.dropped += group.leave_out(self.cells.owns)
        group.seeds = [seed for seed in group.seeds if self._can_reach(site_of(seed.host))]

    def _can_reach(self, site: str) -> bool:
        """Tell whether a site's cell is owned here, or its home, which can forward to it."""
        return self.cells.owns(self.homes.guests.get(site, self.homes.home_of(site)))

    def _send_sites(self) -> None:
        """Send the sites that are to leave; one whose commit fails stays and is tried again with the next."""
        while self.departures:
            leaving, moved = self.departures[0], None
            if self.cells.owns(leaving.cell):
                frontier = self.cells[leaving.cell].frontier
                if urls_of(frontier, leaving.site) <= MAX_URLS:
                    try:
                        with frontier.transaction():
                            moved = self.homes.send(frontier, leaving)
                            self._agents.note_redirect(leaving.site, leaving.cell, leaving.to_cell)
                            self._agents.log.write(leaving.cell, frontier)
                    except SiteTooLarge as error:
                        _log.info("%s", error)
                    except BaseException:
                        # Memory was changed inside the transaction that failed.
                        self.homes.read(leaving.cell, frontier)
                        raise
            self.departures.popleft()
            self.departed.append((leaving, moved))
            if moved is not None:
                self._forget_hosts(leaving.cell, set(moved.hosts))
                self._reload_aliases(leaving.cell)

    def _receive(self, cell: Cell, bulks: Iterable[tuple[int, int, CellMessage]], result: CommitResult) -> None:
        """Merge messages of other cells, in a commit of their own."""
        known_before = cell.frontier.known
        try:
            with cell.frontier.transaction():
                self._merge(cell, bulks, result)
        except BaseException:
            self.homes.read(cell.number, cell.frontier)
            raise
        result.new_urls += cell.frontier.known - known_before - self._moved_urls
        self._store_signals()
        self._note_arrival(cell)

    def _merge(self, cell: Cell, bulks: Iterable[tuple[int, int, CellMessage]], result: CommitResult) -> None:
        """Merge messages inside a transaction: links count as new URLs; URLs of a site were known to another cell."""
        frontier, now_s, self._moved_urls, self._signals = cell.frontier, self._clock.now_s(), 0, []
        links_to_forward: dict[int, list[FoundUrl]] = {}
        last = 0
        for sender, seq, message in bulks:
            # A new owner reads messages again that the file already holds.
            if seq > mail.last_received(frontier, sender):
                known = frontier.known
                if isinstance(message, ForwardedSignals):
                    self._signals.append(message)
                result.note_hosts(
                    cell, self.homes.apply_message(cell.number, frontier, message, now_s, links_to_forward)
                )
                if isinstance(message, SiteRows):
                    self._moved_urls += frontier.known - known
                    if message.is_last:
                        self._agents.note_arrival(message.site, cell.number)
                    self.arrived |= dict.fromkeys(message.names.values(), 0.0) | message.delays
                mail.note_received(frontier, sender, seq)
                last = seq
        self._agents.note_received(cell.number, self.arrivals.waiting_until(cell.number, last))
        for to_cell, links in links_to_forward.items():
            mail.post(frontier, to_cell, links)
        self._agents.log.write(cell.number, frontier)

    def _note_arrival(self, cell: Cell) -> None:
        if self._moved_urls:
            self._reload_aliases(cell.number)

    def _reload_aliases(self, cell: int) -> None:
        if self._committer.aliases is not None:
            self._committer.aliases.reload(cell)

    def _forward_seeds(self, group: CommitGroup) -> None:
        """Forward seeds of a site that was sent away."""
        for seed in group.seeds:
            site = site_of(seed.host)
            if not self.homes.lives_here(site):
                frontier = self.cells[self.homes.home_of(site)].frontier
                with frontier.transaction():
                    mail.post(frontier, self.homes.cell_number(seed.host), [seed])
        here = [seed for seed in group.seeds if self.homes.lives_here(site_of(seed.host))]
        group.seeds = [seed for seed in here if not self._is_known(seed)]  # seeds are added again in every shift

    def _is_known(self, seed: FoundUrl) -> bool:
        """Tell whether a cell knows a URL so well that adding it would change nothing; that is worth no record."""
        frontier = self.cells[self.homes.cell_number(seed.host)].frontier
        row = find_url_at(frontier, seed.host, seed.key)
        return row is not None and row.depth <= seed.depth and row.found_by & seed.by == seed.by and not seed.in_links

    def _merge_received(self, with_pages: Collection[int], result: CommitResult) -> None:
        """Merge messages of other cells, except for cells whose pages come next: those merge with the pages."""
        waiting = sum(map(len, self.received.values()))
        for _ in range(min(max(0, MAX_BULKS - waiting), len(self.inbox))):
            number, seq, bulk = self.inbox.popleft()
            message = decode_message(bulk)
            self.received.setdefault(number, []).append((mail.THE_STREAM, seq, message))
            if number not in self._with_new_urls and self.cells.owns(number) and self._has_new_urls(number, message):
                self._with_new_urls.add(number)
            self._waiting_since.setdefault(number, self._clock.ticks_s())
        for number in list(self.received):
            if not self.cells.owns(number):
                del self.received[number]
                self.arrivals.forget(number)
            elif number not in with_pages and self._is_urgent(number):
                while bulks := self._next_bulks(number):
                    self._receive(self.cells[number], bulks, result)
                    self._note_merged(number)

    @property
    def must_merge(self) -> bool:
        """True if messages of other cells have to be merged now. Not to be read while a commit is under way."""
        return any(self.cells.owns(number) and self._is_urgent(number) for number in self.received)

    def _is_urgent(self, number: int) -> bool:
        has_waited = self._clock.ticks_s() - self._waiting_since[number] >= MERGE_WITHIN_S
        is_many = sum(map(len, self.received.values())) >= MAX_BULKS
        is_awaited = number in self._with_new_urls and not self.cells[number].frontier.queued
        return has_waited or is_many or is_awaited

    def _has_new_urls(self, number: int, message: CellMessage) -> bool:
        """Tell whether a message brings URLs to visit.

        True without a check while the cell has queued URLs of its own.
        """
        frontier = self.cells[number].frontier
        if frontier.queued or not isinstance(message, list):
            return True
        return any(find_url_at(frontier, each.host, each.key) is None for each in message)

    def _next_bulks(self, number: int) -> list[tuple[int, int, CellMessage]]:
        """Return the bulks that the next transaction of a cell merges."""
        return self.received.get(number, [])[: self._max_bulks]

    def _note_merged(self, number: int) -> None:
        bulks = self._next_bulks(number)
        if bulks:
            self.merged[number] = bulks[-1][1]
            self.arrivals.note_merged(number, bulks[-1][1])
        rest = self.received.pop(number, [])[self._max_bulks :]
        if rest:
            self.received[number] = rest
        else:
            self._waiting_since.pop(number, None)
            self._with_new_urls.discard(number)


def is_stored(visit: ActiveVisit) -> bool:
    """Tell whether a visit counts as a page, as for the limits of one machine."""
    return visit.item.purpose == "page" and visit.result is not None and bool(visit.result.payload_bytes)


def stored_in(cell: Cell) -> int:
    """Return the number of pages that a cell has stored."""
    return int(cell.frontier.meta(STORED) or 0)
