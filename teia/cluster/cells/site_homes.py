"""Homes of sites: the cell of their slot, or another cell that they were sent to (A4).

Two cells remember a site that was sent away: the cell it left (`away SITE`, a row of `meta`, so it is in the log) and
the cell that has it (`guest SITE`). Links for it still go to the cell of its slot, its *home*: a node that does not
know better sends them there, and the home forwards them. When a guest is sent on, its home is notified. Links that
arrive the old way meanwhile are forwarded by the cell it left. The stream keeps the order, so a site always arrives
before its links.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from teia.cluster.crawl.signals import ForwardedSignals
from teia.errors import ClusterError, DiskFull
from teia.frontier.cell import mail, move_site
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import FoundUrl
from teia.frontier.cell.split import split_cells
from teia.frontier.queue.ledger import Ledger
from teia.frontier.tables.captures import forget_lost, hosts_of_captures
from teia.lib.undecodable import UNDECODABLE
from teia.urls import cell_table, site_of, slot_of

# First bytes of messages that are neither links nor a site. Signals are sent this way only while a node of the version
# before is there, to and from it (cluster/crawl/commit.py); with format 2 of changes (journal.py) this goes.
SITE_MOVED, FORWARDED, LOST = b"told", b"signal", b"lost"
AWAY, GUEST = "away ", "guest "
DELAY = "rest "
"""Prefix of `meta` rows for hosts with more than the usual delay; the value is the time when it ends."""


class SiteMoved(msgspec.Struct, array_like=True, frozen=True):
    """Notification for a site's home: the cell that its guest moved on to."""

    site: str
    cell: int


class LostCaptures(msgspec.Struct, array_like=True, frozen=True):
    """Records that a node erased from its archive, by file and offset: pages of other cells may refer to them."""

    places: list[tuple[str, int]]


CellMessage = list[FoundUrl] | move_site.SiteRows | SiteMoved | ForwardedSignals | LostCaptures
"""Message of one cell to another: links, a site or a part of it, its new cell, forwarded signals, lost captures."""

_decode_forwarded = msgspec.msgpack.Decoder(ForwardedSignals).decode
_decode_moved = msgspec.msgpack.Decoder(SiteMoved).decode
_decode_lost = msgspec.msgpack.Decoder(LostCaptures).decode


def decode_message(bulk: bytes) -> CellMessage:
    """Decode a message from another cell."""
    if move_site.is_part(bulk):
        return move_site.decode_part(bulk)
    if not bulk.startswith((SITE_MOVED, FORWARDED, LOST)):
        return mail.decode_links(bulk)
    try:
        if bulk.startswith(FORWARDED):
            return _decode_forwarded(bulk[len(FORWARDED) :])
        if bulk.startswith(LOST):
            return _decode_lost(bulk[len(LOST) :])
        return _decode_moved(bulk[len(SITE_MOVED) :])
    except UNDECODABLE as error:
        raise ClusterError(f"a message of another cell about a site cannot be read: {error}") from error


class Departure(NamedTuple):
    """A site that is to leave a cell: its new cell, the delays of its hosts, and a note for the new cell."""

    site: str
    cell: int
    to_cell: int
    delays: Mapping[str, float]
    note: str = ""


def long_delays(frontier: FrontierCell, now_s: float) -> dict[str, float]:
    """Return the times until which hosts of a cell are delayed, as earlier owners wrote; delete those that are over.

    Without room for that they stay: a cell that could not be opened could not be copied, and nothing would make room.
    """
    delays = {host: float(until_s) for host, until_s in frontier.meta_under(DELAY).items()}
    if over := [DELAY + host for host, until_s in delays.items() if until_s < now_s]:
        with suppress(DiskFull), frontier.transaction():
            frontier.delete_meta(over)
    latest_s = now_s + Ledger.MAX_DELAY_S
    return {host: min(until_s, latest_s) for host, until_s in delays.items() if until_s >= now_s}


def _forget_captures(frontier: FrontierCell, places: set[tuple[str, int]], now_s: float) -> list[tuple[int, str]]:
    """Forget captures that are gone, and queue their pages again; return number and name of their hosts."""
    hosts = hosts_of_captures(frontier, places)
    forget_lost(frontier, lambda file, offset, _: (file, offset) in places, now_s)
    return hosts


class SiteHomes:
    """The homes of sites as known by the cells owned here. Written by the commit thread, read by others."""

    def __init__(self, starts: Sequence[int], cells: Iterable[tuple[int, FrontierCell]]) -> None:
        self._table = cell_table(tuple(starts))
        self.away: dict[int, dict[str, int]] = {}
        """By cell: sites that left it, and their new cell."""
        self.guests: dict[str, int] = {}
        """Sites that live in a cell owned here which is not their home."""
        self.notes: dict[str, str] = {}
        """The note that came with each guest."""
        self._split: set[int] = set()
        """Cells that others were split off; links for those may still arrive here."""
        for number, frontier in cells:
            self.read(number, frontier)

    def read(self, cell: int, frontier: FrontierCell) -> None:
        """Read the sites in a cell's file; also after a failed transaction of it."""
        if split_cells(frontier):
            self._split.add(cell)
        self.guests = {site: number for site, number in self.guests.items() if number != cell}
        self.away[cell] = {site: int(number) for site, number in frontier.meta_under(AWAY).items()}
        notes = {site: str(note) for site, note in frontier.meta_under(GUEST).items()}
        self.notes.update(notes)
        self.guests |= dict.fromkeys(notes, cell)

    def home_of(self, site: str) -> int:
        """Return the cell of a site's slot."""
        return self._table[slot_of(site)]

    def cell_number(self, host: str) -> int:
        """Return the cell with a host's rows, as far as is known here; else its home, which knows."""
        site = site_of(host)
        guest_in = self.guests.get(site)
        if guest_in is not None:
            return guest_in
        home = self.home_of(site)
        return self.away.get(home, {}).get(site, home)

    def lives_here(self, site: str) -> bool:
        """Tell whether a site lives in a cell that is owned here."""
        if site in self.guests:
            return True
        left = self.away.get(self.home_of(site))
        return left is not None and site not in left

    def forwarding_cell(self, cell: int, site: str) -> int:
        """Return the cell to which a cell forwards links for a site; the cell itself if the site lives in it."""
        if self.guests.get(site) == cell:
            return cell
        home = self.home_of(site)
        return self.away.get(cell, {}).get(site, home)

    # -- inside a transaction of the cell ------------------------------------------------------------------

    def send(self, frontier: FrontierCell, leaving: Departure) -> move_site.MovedSite:
        """Send a site to another cell, and notify its home if that is a third one."""
        site, cell, to_cell = leaving.site, leaving.cell, leaving.to_cell
        moved = move_site.send(frontier, site, to_cell, leaving.delays, leaving.note)
        frontier.delete_meta(DELAY + host for host in moved.hosts)
        self._record_departure(cell, frontier, site, to_cell)
        home = self.home_of(site)
        if home not in {cell, to_cell}:
            assert frontier.journal is not None
            frontier.journal.post(home, SITE_MOVED + msgspec.msgpack.encode(SiteMoved(site, to_cell)))
        return moved

    def apply_message(
        self, cell: int, frontier: FrontierCell, message: CellMessage, now_s: float,
        forwarded: MutableMapping[int, list[FoundUrl]] | None = None,
    ) -> list[tuple[int, str]]:  # fmt: skip
        """Apply a message from another cell; return (host id, name) of hosts with new work.

        Links for other cells are added to `forwarded`, if given, for a caller that applies more messages before it
        posts; else they are posted now.
        """
        if isinstance(message, SiteMoved):
            self._record_departure(cell, frontier, message.site, message.cell)
            return []
        if isinstance(message, LostCaptures):
            return _forget_captures(frontier, set(message.places), now_s)
        if isinstance(message, ForwardedSignals):
            return []  # for the inbox, not for the cell (cluster/crawl/commit.py)
        if isinstance(message, move_site.SiteRows):
            return self._accept_site(cell, frontier, message, now_s)
        # The usual case: no site has moved, and no cell was split off this one.
        if not self.guests and not self.away.get(cell) and cell not in self._split:
            return frontier.add_links(message, now_s)
        by_cell: dict[int, list[FoundUrl]] = defaultdict(list)
        for found in message:
            by_cell[self.forwarding_cell(cell, site_of(found.host))].append(found)
        touched = frontier.add_links(by_cell.pop(cell, ()), now_s)
        for to_cell, links in by_cell.items():
            if forwarded is None:
                mail.post(frontier, to_cell, links)
            else:
                forwarded.setdefault(to_cell, []).extend(links)
        return touched

    def _accept_site(
        self, cell: int, frontier: FrontierCell, part: move_site.SiteRows, now_s: float
    ) -> list[tuple[int, str]]:
        touched = move_site.store_part(frontier, part)
        frontier.set_meta({DELAY + host: until_s for host, until_s in part.delays.items() if until_s > now_s})
        site = part.site
        frontier.delete_meta([AWAY + site])
        self.away.setdefault(cell, {}).pop(site, None)
        # A note is kept even when a site is back at home.
        if cell != self.home_of(site) or part.note:
            frontier.set_meta({GUEST + site: part.note})
            self.guests[site], self.notes[site] = cell, part.note
        # Its hosts have work once the last part is here.
        return touched if part.is_last else []

    def _record_departure(self, cell: int, frontier: FrontierCell, site: str, to_cell: int) -> None:
        """Record that a site left a cell, or moved on from the cell it was sent to."""
        frontier.delete_meta([GUEST + site])
        frontier.set_meta({AWAY + site: to_cell})
        if self.guests.get(site) == cell:
            del self.guests[site]
        self.notes.pop(site, None)
        self.away.setdefault(cell, {})[site] = to_cell
