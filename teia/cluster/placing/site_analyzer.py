"""The Analyzer of A1: accepts a site's server, or forwards the site to a node that should have it (A4).

It stands between a crawl and its strategy. Before a request the crawl checks whether the site is accepted, once the
server's address is known. A site that is not accepted is *leaving*: no more requests are sent to it. When those under
way are committed, the next commit sends it to a cell of the other node (site_homes.py), with all its rows. A decision
holds until the set of nodes changes, or a measurement is complete.

Measuring never ends: `again_s` after a site was measured here, its next pages are measured anew, and the decision is
made again. Where a collection fetches the requisites of pages, a page is measured with those on its own site, as the
paper's response time is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

import msgspec

from teia.clock import Clock
from teia.cluster.cells.site_homes import Departure, SiteHomes
from teia.cluster.members.session import NodeState
from teia.cluster.placing.site_strategies import ObservedSite, SiteNote, Strategy, cell_for, zone_of
from teia.config.sections import PlacementSettings
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.move_site import MovedSite
from teia.frontier.cell.schema import BY_REQUISITE
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue
from teia.urls import site_of

OK = 200
Nodes = Callable[[], Mapping[str, NodeState]]


@dataclass(slots=True)
class SiteThroughput:
    """The bytes that a site's pages and their requisites brought here, and the time they took."""

    pages: int = 0
    received_bytes: int = 0
    seconds: float = 0.0
    unread: int = 0
    """Pages whose requisites are not known yet."""
    awaited: set[int] = field(default_factory=set)
    """Keys of requisites that measured pages name and that have not come yet."""
    measured_s: float = -inf
    """Time at which the measurement was complete; until then minus infinity."""

    @property
    def kb_s(self) -> float:
        return self.received_bytes / 1000 / max(self.seconds, 0.001)

    def has_enough(self, pages: int) -> bool:
        """Tell whether so many pages have come with their requisites.

        A requisite that was fetched long ago never comes; it is awaited for as many further pages.
        """
        return self.pages >= 2 * pages or (self.pages >= pages and not self.unread and not self.awaited)


def _is_page(visit: ActiveVisit) -> bool:
    """Tell whether a visit is of a page, not of something that a page needs to be shown."""
    return visit.item.purpose == "page" and not visit.item.found_by & BY_REQUISITE


@dataclass(slots=True)
class Analyzer:
    """The Analyzer of one crawl. All of it lives on the crawl's event loop, but for `homes`, which commits write."""

    strategy: Strategy
    settings: PlacementSettings
    name: str
    nodes: Nodes
    homes: SiteHomes
    clock: Clock
    with_requisites: bool = False
    """True if the collection fetches the requisites of pages."""
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
    _notes: dict[str, SiteNote] = field(default_factory=dict)
    """Notes of sites that were measured here since they came."""
    _judged: set[str] = field(default_factory=set)
    _slow: set[str] = field(default_factory=set)
    """Sites whose last measurement here was below the minimum, whether they left or not."""
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
        measured = self._measured.get(site)
        is_page = visit.fetched is not None and visit.fetched.status == OK and _is_page(visit)
        if is_page and measured is not None and measured.unread:
            measured.unread -= 1
            for links in () if visit.result is None else visit.result.links:
                if site_of(links.host) == site:
                    measured.awaited |= {key for key, _, by, _ in links.rows() if by & BY_REQUISITE}
            self._judge(site, measured)

    def note_answer(self, visit: ActiveVisit, address: DelayTarget) -> None:  # noqa: ARG002
        """Count the bytes and time of a page or requisite; once they are enough the site is decided on again."""
        fetched = visit.fetched
        if not self.strategy.measures or fetched is None or visit.from_cache or visit.item.purpose != "page":
            return
        # A 304 or an error is too small to show a speed.
        if fetched.status != OK:
            return
        site = site_of(visit.queue.host)
        measured = self._measured_now(site)
        if measured is None:
            return
        if _is_page(visit):
            measured.pages += 1
            measured.unread += self.with_requisites
        measured.awaited.discard(visit.item.key)
        measured.received_bytes += visit.bytes_received
        measured.seconds += fetched.ended_s - fetched.started_s
        self._judge(site, measured)

    def _measured_now(self, site: str) -> SiteThroughput | None:
        """Return the measurement of a site that is under way; None while its last one holds."""
        measured, now_s = self._measured.get(site), self.clock.now_s()
        if measured is None:
            here = self.nodes().get(self.name)
            measured_s = -inf if here is None else self._note(site).time_of(zone_of(here))
            measured = self._measured[site] = SiteThroughput(measured_s=measured_s)
        if -inf < measured.measured_s < now_s - self.settings.again_s:
            measured = self._measured[site] = SiteThroughput()
        return measured if measured.measured_s == -inf else None

    def _judge(self, site: str, measured: SiteThroughput) -> None:
        """End a measurement that has enough pages: note the speed, and let the site be decided on again."""
        if measured.measured_s > -inf or not measured.has_enough(self.settings.measured_pages):
            return
        here = self.nodes().get(self.name)
        if here is None:
            return
        measured.measured_s = self.clock.now_s()
        self._notes[site] = self._note(site).measured(zone_of(here), round(measured.kb_s, 3), measured.measured_s)
        self._accepted.discard(site)
        self._judged.add(site)
        (self._slow.add if measured.kb_s < self.settings.minimum_kb_s else self._slow.discard)(site)

    def measurements(self) -> dict[str, float]:
        """Return the measurements of this shift: number of sites, part of them that is too slow, number that left."""
        measured = len(self._judged)
        return {"measured": measured, "slow": round(len(self._slow) / max(1, measured), 3), "sites_sent": self.sent}

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
        note = self._note(site).valid(self.clock.now_s(), self.settings.again_s)
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

    def _note(self, site: str) -> SiteNote:
        """Return the measurements of a site: those that came with it, and ours since."""
        if not self.strategy.measures:
            return SiteNote()
        return self._notes.get(site) or SiteNote.read(self.homes.notes.get(site, ""))

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
        self._notes.pop(site, None)
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
