"""Placement strategies for sites, those of A4, behind one interface.

    hash      the circle alone
    geo       a node of the city or country that the server's address is in, decided before the first request
    rtt       by kilobytes a second. The paper's rule: a node that measures less than a minimum refuses the site, and it
              is passed on to the successor, then along the fingers; when all have refused, the fastest has it. Ours
              (minimum 0): each region measures a site once, and the fastest has it
    isolated  no other node: each node crawls all it finds, for comparing (A12)

A strategy only names the node it wants. Other modules move the site (site_analyzer.py, site_homes.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from teia.cluster.circle.circle import Circle, circle_id
from teia.cluster.circle.fingers import Fingers
from teia.cluster.members.agreement import HASH
from teia.cluster.members.session import NodeState
from teia.cluster.placing.countries import Countries, open_countries, place_named
from teia.config.sections import PlacementSettings
from teia.errors import ClusterError
from teia.frontier.rules.site_rules import SiteRule, compile_site_rules
from teia.lib.undecodable import UNDECODABLE

_log = logging.getLogger(__name__)
GEO, RTT, ISOLATED = "geo", "rtt", "isolated"
STRATEGIES = (HASH, GEO, RTT, ISOLATED)
BETTER = 1.2
"""Factor by which a region must have been faster for a site to go back to it, once all have measured it."""


class SiteNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """The note that travels with a measured site: kilobytes a second by region, when, and where it settled.

    `since_s` is for notes of older nodes, which have no `times`, and for older nodes that read this one.
    """

    speeds: dict[str, float] = {}
    since_s: float = 0.0
    settled: str = ""
    times: dict[str, float] = {}

    def time_of(self, zone: str) -> float:
        """Return when a region measured the site; minus infinity if it has not."""
        return self.times.get(zone, self.since_s) if zone in self.speeds else -inf

    def measured(self, zone: str, kb_s: float, now_s: float) -> SiteNote:
        """Return the note with a new measurement, which opens the decision again."""
        times = {**{each: self.time_of(each) for each in self.speeds}, zone: now_s}
        return SiteNote({**self.speeds, zone: kb_s}, now_s, "", times)

    def valid(self, now_s: float, again_s: float) -> SiteNote:
        """Return the note with the measurements that still count.

        One counts for `again_s`; that of a region which was k times slower than the best region is now, k times as
        long. So a region that is far away is seldom tried again, unless the site has become slow where it is.
        """
        ages = {zone: now_s - self.time_of(zone) for zone in self.speeds}
        best = max((speed for zone, speed in self.speeds.items() if ages[zone] <= again_s), default=0.0)
        speeds = {
            zone: speed
            for zone, speed in self.speeds.items()
            if ages[zone] <= again_s * max(1.0, best / max(speed, 0.001))
        }
        settled = self.settled if ages.get(self.settled, inf) <= again_s else ""
        return msgspec.structs.replace(self, speeds=speeds, settled=settled)

    @classmethod
    def read(cls, text: str) -> SiteNote:
        try:
            return msgspec.json.decode(text, type=cls) if text else cls()
        except UNDECODABLE as error:
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


def nearness(node: NodeState, place: str) -> int:
    """Return how well a node's region fits a place: 0 if it is in another country.

    A region has labels with commas between them, each a country (`BR`), or a part of one (`BR/Recife`,
    `BR/Pernambuco/Recife`). The label that names most of the place counts; one that names another part of the country,
    least.
    """
    country, *parts = place.split("/")
    best = 0
    for label in map(place_named, node.region.split(",")):
        named, *within = label.split("/")
        if named == country:
            best = max(best, 2 + len(within) if set(within) <= set(parts) else 1)
    return best


class Geo:
    """Strategy by the place of the server: a node of its city, else of its state, its country, the circle's."""

    measures = False

    def __init__(self, countries: Countries) -> None:
        self._countries = countries

    def choose_node(self, observed: ObservedSite) -> str:
        place = self._countries.of(observed.address)
        fits = {name: nearness(node, place) for name, node in observed.nodes.items()} if place else {}
        best = max(fits.values(), default=0)
        if not best or nearness(observed.here, place) == best:
            return ""
        return owner_among(observed.site, (observed.nodes[name] for name, fit in fits.items() if fit == best))


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


class Chain:
    """The rules of users one after the other, then the strategy of the cluster (a chain of responsibility).

    The first rule that matches a site decides, if a node of its target is there. A user's function that raises matches
    nothing.
    """

    def __init__(self, rules: Sequence[SiteRule], strategy: Strategy | None) -> None:
        self.measures = strategy is not None and strategy.measures
        self._rules, self._strategy = rules, strategy

    def choose_node(self, observed: ObservedSite) -> str:
        for rule in self._rules:
            nodes = [node for node in observed.nodes.values() if _is_target(node, rule.target)]
            if nodes and _matches(rule, observed.site):
                return "" if observed.here in nodes else owner_among(observed.site, nodes)
        return "" if self._strategy is None else self._strategy.choose_node(observed)


def _matches(rule: SiteRule, site: str) -> bool:
    try:
        return rule.matches(f"http://{site}/")
    except Exception as error:  # noqa: BLE001  # a rule that is a function written by the user
        _log.warning("the rule %r of placement.rules failed for %s: %r", rule.text, site, error)
        return False


def _is_target(node: NodeState, target: str) -> bool:
    """Tell whether a rule means a node: by its name, or one of the places in its region."""
    return target == node.name or target.upper() in {place.strip().upper() for place in node.region.split(",")}


def with_rules(strategy: Strategy | None, settings: PlacementSettings) -> Strategy | None:
    """Return a strategy behind the rules of the settings; None if there is neither."""
    return Chain(compile_site_rules(settings.rules), strategy) if settings.rules else strategy


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
