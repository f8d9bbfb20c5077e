"""The Analyzer of A1: accepts a site's server, or forwards the site to a node that should have it (A4).

It stands between a crawl and its strategy. Before a request the crawl checks whether the site is accepted, once the
server's address is known. A site that is not accepted is *leaving*: no more requests are sent to it. When those under
way are committed, the next commit sends it to a cell of the other node (site_homes.py), with all its rows. A decision
holds until the set of nodes changes, or enough pages were measured.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from teia.clock import Clock
from teia.cluster.cells.site_homes import Departure, SiteHomes
from teia.cluster.members.session import NodeState
from teia.cluster.placing.site_strategies import ObservedSite, SiteNote, Strategy, cell_for, zone_of
from teia.config.sections import PlacementSettings
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.move_site import MovedSite
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue
from teia.urls import site_of

Nodes = Callable[[], Mapping[str, NodeState]]


@dataclass(slots=True)
class SiteThroughput:
    """The bytes that a site's pages brought here, and the time they took."""

    pages: int = 0
    received_bytes: int = 0
    seconds: float = 0.0

    @property
    def kb_s(self) -> float:
        return self.received_bytes / 1000 / max(self.seconds, 0.001)


@dataclass(slots=True)
class Analyzer:
    """The Analyzer of one crawl. All of it lives on the crawl's event loop, but for `homes`, which commits write."""

    strategy: Strategy
    settings: PlacementSettings
    name: str
    nodes: Nodes
    homes: SiteHomes
    clock: Clock
    sent: int = 0
    """Number of sites that left."""
    _queues: defaultdict[str, list[HostQueue]] = field(default_factory=lambda: defaultdict(list))
    _open: Counter[str] = field(default_factory=Counter)
    _accepted: set[str] = field(default_factory=set)
    _leaving: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Sites that leave when no request of theirs is under way: (cell, note)."""
    _departing: set[str] = field(default_factory=set)
    _too_large: set[str] = field(default_factory=set)
    _measured: dict[str, SiteThroughput] = field(default_factory=dict)
    _fast: int = 0
    _slow: int = 0
    _seen: object = None

    # -- events of the crawl -------------------------------------------------------------------------------

    def add_queue(self, queue: HostQueue) -> None:
        """Record that a host has a queue now."""
        self._queues[site_of(queue.host)].append(queue)

    def note_start(self, visit: ActiveVisit) -> None:
        self._open[site_of(visit.queue.host)] += 1

    def note_end(self, visit: ActiveVisit) -> None:
        site = site_of(visit.queue.host)
        self._open[site] -= 1
        if self._open[site] <= 0:
            del self._open[site]

    def note_answer(self, visit: ActiveVisit, address: DelayTarget) -> None:  # noqa: ARG002
        """Count the bytes and time of a page; after enough pages the decision on the site is made again."""
        fetched, site = visit.fetched, site_of(visit.queue.host)
        if not self.strategy.measures or fetched is None or not fetched.status or visit.item.purpose != "page":
            return
        known = self._measured.setdefault(site, SiteThroughput())
        known.pages += 1
        known.received_bytes += visit.bytes_received
        known.seconds += fetched.ended_s - fetched.started_s
        if known.pages == self.settings.measured_pages:
            self._accepted.discard(site)
            is_slow = known.kb_s < self.settings.minimum_kb_s
            self._slow, self._fast = self._slow + is_slow, self._fast + (not is_slow)

    def measurements(self) -> dict[str, float]:
        """Return the measurements of this shift: number of sites, part of them that is too slow, number that left."""
        measured = self._slow + self._fast
        return {"measured": measured, "slow": round(self._slow / max(1, measured), 3), "sites_sent": self.sent}

    # -- questions of the crawl ----------------------------------------------------------------------------

    def is_leaving(self, queue: HostQueue) -> bool:
        return bool(self._leaving) and site_of(queue.host) in self._leaving

    def accepts(self, queue: HostQueue) -> bool:
        """Tell whether a site whose address is known may be fetched from here."""
        site = site_of(queue.host)
        if site in self._leaving:
            return False
        if site in self._accepted or site in self._too_large:
            return True
        nodes = self.nodes()
        here = nodes.get(self.name)
        if here is None:
            return True
        note = self._note(site, here)
        chosen = self.strategy.choose_node(ObservedSite(site, queue.address, note, here, nodes))
        if not chosen or chosen == self.name:
            self._accepted.add(site)
            return True
        to_cell = cell_for(site, map(int, nodes[chosen].cells))
        if to_cell is None or to_cell == self.homes.cell_number(queue.host):
            # it has no cells yet, or we have just handed this one over; checked again with the next request
            return True
        self._leaving[site] = (to_cell, self._settle(note, nodes[chosen]).text if self.strategy.measures else "")
        return False

    def _note(self, site: str, here: NodeState) -> SiteNote:
        """Return the known speeds of a site, our own measurement among them once it is complete."""
        if not self.strategy.measures:
            return SiteNote()
        note, now_s = SiteNote.read(self.homes.notes.get(site, "")), self.clock.now_s()
        # Old measurements are dropped: servers and networks change.
        if now_s - note.since_s > self.settings.again_s:
            note = SiteNote(since_s=now_s)
        measured = self._measured.get(site)
        if measured is None or measured.pages < self.settings.measured_pages:
            return note
        return msgspec.structs.replace(note, speeds={**note.speeds, zone_of(here): round(measured.kb_s, 3)})

    @staticmethod
    def _settle(note: SiteNote, to: NodeState) -> SiteNote:
        """Settle a site in a region that it returns to after it was measured there."""
        return msgspec.structs.replace(note, settled=zone_of(to)) if zone_of(to) in note.speeds else note

    def check_nodes(self) -> None:
        """Decide again when nodes have come or gone."""
        nodes = self.nodes()
        # Only properties that strategies use; loads change with every beat.
        seen = {name: (node.region, node.capacity) for name, node in nodes.items()}
        if seen != self._seen:
            self._seen = seen
            self._accepted.clear()

    # -- sites that leave ----------------------------------------------------------------------------------

    def departures(self, now: float, now_s: float) -> list[Departure]:
        """Return sites without requests under way; they are to be sent with the next commit."""
        # `_open` counts visits until they are committed.
        ready = [site for site in self._leaving if site not in self._departing and not self._open[site]]
        found = []
        for site in ready:
            self._departing.add(site)
            to_cell, note = self._leaving[site]
            delays = {queue.host: now_s + queue.server.ready_at - now for queue in self._queues[site]}
            cell = next((queue.cell for queue in self._queues[site]), self.homes.home_of(site))
            found.append(Departure(site, cell, to_cell, delays, note))
        return found

    def finish_departure(self, leaving: Departure, moved: MovedSite | None) -> list[HostQueue]:
        """Record that a site was sent, or was not (too large, its cell lost); return the queues to be forgotten."""
        site = leaving.site
        self._leaving.pop(site, None)
        self._departing.discard(site)
        self._measured.pop(site, None)
        if moved is None:
            self._too_large.add(site)
            return []
        self.sent += 1
        self._accepted.discard(site)
        queues = self._queues.pop(site, [])
        for queue in queues:
            queue.buffer.clear()
            queue.prerequisites.clear()
            queue.loaded.clear()
            # Its rows are in another cell now: no buffer is filled from this one.
            queue.host_id = 0
        return queues
