"""Placement strategies for sites, those of A4, behind one interface.

    hash      the circle alone
    geo       a node of the country that the server's address is in, decided before the first request
    rtt       by kilobytes a second. The paper's rule: a node that measures less than a minimum refuses the site, and it
              is passed on to the successor, then along the fingers; when all have refused, the fastest has it. Ours
              (minimum 0): each region measures a site once, and the fastest has it
    isolated  no other node: each node crawls all it finds, for comparing (A12)

A strategy only names the node it wants. Other modules move the site (site_analyzer.py, site_homes.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from teia.cluster.circle.circle import Circle, circle_id
from teia.cluster.circle.fingers import Fingers
from teia.cluster.members.agreement import HASH
from teia.cluster.members.session import NodeState
from teia.cluster.placing.countries import Countries, open_countries
from teia.config.sections import PlacementSettings
from teia.errors import ClusterError

GEO, RTT, ISOLATED = "geo", "rtt", "isolated"
STRATEGIES = (HASH, GEO, RTT, ISOLATED)
BETTER = 1.2
"""Factor by which a region must have been faster for a site to go back to it, once all have measured it."""


class SiteNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """The note that travels with a measured site: kilobytes a second by region, since when, and where it settled."""

    speeds: dict[str, float] = {}
    since_s: float = 0.0
    settled: str = ""

    @classmethod
    def read(cls, text: str) -> SiteNote:
        try:
            return msgspec.json.decode(text, type=cls) if text else cls()
        except msgspec.MsgspecError as error:
            raise ClusterError(f"the data of a site cannot be read: {error}") from error

    @property
    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class ObservedSite(NamedTuple):
    """A site as a node sees it: the address of its server, its measurements, and the nodes."""

    site: str
    address: str
    note: SiteNote
    here: NodeState
    nodes: Mapping[str, NodeState]


class Strategy(Protocol):
    """Rule that names the node that should have a site."""

    measures: bool
    """True if it needs the speed of sites."""

    def choose_node(self, observed: ObservedSite) -> str:
        """Return the node that should have the site; empty if it should stay."""


def zone_of(node: NodeState) -> str:
    """Return the place that measurements belong to: the node's region, or the node itself if it has none."""
    return node.region or node.name


def countries_of(node: NodeState) -> set[str]:
    """Return the countries in a node's region, in capitals; there may be several, with commas between them."""
    return {label.strip().upper() for label in node.region.split(",") if label.strip()}


class Geo:
    """Strategy by country of the server. Sites of a country without a node are left to the circle."""

    measures = False

    def __init__(self, countries: Countries) -> None:
        self._countries = countries

    def choose_node(self, observed: ObservedSite) -> str:
        country = self._countries.of(observed.address)
        if not country or country in countries_of(observed.here):
            return ""
        return owner_among(observed.site, (node for node in observed.nodes.values() if country in countries_of(node)))


class Rtt:
    """Strategy by kilobytes a second; see the module."""

    measures = True

    def __init__(self, minimum_kb_s: float) -> None:
        self._minimum_kb_s = minimum_kb_s

    def choose_node(self, observed: ObservedSite) -> str:
        note, here = observed.note, zone_of(observed.here)
        zones = {zone_of(node) for node in observed.nodes.values()}
        # It moves no more as long as that region has a node.
        if note.settled in zones:
            return "" if note.settled == here else self._node_in(note.settled, observed)
        speeds = {zone: speed for zone, speed in note.speeds.items() if zone in zones}
        # Not measured here yet, or fast enough.
        if here not in speeds or (self._minimum_kb_s and speeds[here] >= self._minimum_kb_s):
            return ""
        untried = (
            node
            for node in forwarding_nodes(observed.here.name, observed.nodes)
            if zone_of(observed.nodes[node]) not in speeds
        )
        next_node = next(untried, "")
        if next_node:
            return next_node
        best = fastest_region(speeds, here)
        return "" if best == here else self._node_in(best, observed)

    @staticmethod
    def _node_in(zone: str, observed: ObservedSite) -> str:
        return owner_among(observed.site, (node for node in observed.nodes.values() if zone_of(node) == zone))


def strategy_named(name: str, settings: PlacementSettings, countries: Path | None) -> Strategy | None:
    """Return the strategy of a name; None for those that leave every site where the circle puts it."""
    if name == GEO:
        return Geo(open_countries(countries))
    if name == RTT:
        return Rtt(settings.minimum_kb_s)
    if name not in STRATEGIES:
        raise ClusterError(f"unknown strategy {name!r}; available: {', '.join(STRATEGIES)}")
    return None


def fastest_region(speeds: Mapping[str, float], here: str) -> str:
    """Return the fastest region; the one where the site is, unless another is clearly better."""
    best = max(sorted(speeds), key=lambda zone: speeds[zone])
    return best if speeds[best] > BETTER * speeds.get(here, 0.0) else here


def circle_of(nodes: Iterable[NodeState]) -> Circle:
    """Return the circle of some nodes."""
    return _circle(tuple(sorted((node.name, node.capacity) for node in nodes)))


@lru_cache(maxsize=16)
def _circle(capacities: tuple[tuple[str, float], ...]) -> Circle:
    return Circle(dict(capacities))


def owner_among(site: str, nodes: Iterable[NodeState]) -> str:
    """Return the owner of a site among some nodes, by a circle of theirs; empty if there are none."""
    circle = circle_of(nodes)
    return circle.owner(circle_id(site)) if circle.nodes else ""


def forwarding_nodes(name: str, nodes: Mapping[str, NodeState]) -> list[str]:
    """Return the nodes to which a node forwards: its successor, then those its fingers lead to."""
    circle = circle_of(nodes.values())
    table = Fingers(circle).table(circle.successor(circle_id(name)))
    return list(dict.fromkeys(finger.to.node for finger in table if finger.to.node != name))


def cell_for(site: str, cells: Iterable[int]) -> int | None:
    """Return the cell of a node that takes a site: by rendezvous, so that sites spread; None if it has no cells."""
    return max(cells, key=lambda cell: circle_id(f"{site} {cell}"), default=None)
