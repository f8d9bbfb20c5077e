"""Cluster pages: nodes, and the owners of cells (A2, A5, A11, A14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query

from teia.clock import from_iso
from teia.cluster.circle.circle import Circle, CirclePoint, circle_id
from teia.cluster.circle.fingers import Fingers
from teia.cluster.circle.host_cell import point_of_slot
from teia.cluster.views.host_lookup import HostLocation, locate_host, parse_host
from teia.cluster.views.node_file import STALE_S
from teia.cluster.views.view import CellView, ClusterView, ExchangeView, MoveView, NodeView
from teia.errors import StoreError, UsageError
from teia.lib.copy_fields import copy_fields
from teia.lib.message import Message
from teia.web.access.roles import Role
from teia.web.charts.ring import NodeStyle, RingChart, node_styles, ring_of
from teia.web.server.installation import Installation, UnknownCollection
from teia.web.server.json_routes import InstallationDep, PageRoutes

ROWS = 200
"""Most cells or pairs of nodes in a table."""

MOVES = 50


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node in the table; `share` is its part of the circle, `letter` and `hue` are its look in the chart."""

    name: str
    letter: str
    hue: int
    region: str | None
    state: str
    capacity: float
    share: float
    cells: int
    pages_per_s: float | None
    load: float | None
    lag_s: float | None
    seen: str | None


@dataclass(frozen=True, slots=True)
class SilentNode:
    """A silent node: the duration of its silence, and the nodes that inherit its cells if it is declared dead."""

    node: str
    seconds: float | None
    cells: int
    heirs: list[str]
    dies_in_s: float | None


@dataclass(frozen=True, slots=True)
class ClusterPage:
    """The cluster, with the cells of one collection; `where` is the location of a looked-up host.

    `is_old`: the node that reported this view has been silent since.
    """

    time: str
    is_old: bool
    here: str
    collection: str
    collections: list[str]
    nodes: list[NodeLine]
    cells: list[CellView]
    moves: list[MoveView]
    links: list[ExchangeView]
    silent: list[SilentNode]
    where: HostLocation | None

    def ring(self) -> RingChart:
        return ring_of(_circle(self.nodes), _styles(self.nodes), self.cells, where=self.where)


@dataclass(frozen=True, slots=True)
class FingerLine:
    """Row of a finger table: from 2^exponent on, to a point of a node."""

    exponent: int
    node: str
    letter: str
    hue: int
    id: str


@dataclass(frozen=True, slots=True)
class NodePage:
    """One node: its position on the circle, its neighbours, its fingers, and its cells (of `collection`).

    `index` is its position in `nodes`. Neighbours and fingers are those of its first point.
    """

    time: str
    here: str
    collection: str
    collections: list[str]
    node: NodeLine
    index: int
    id: str
    points: int
    predecessor: str | None
    successors: list[str]
    fingers: list[FingerLine]
    kept: list[CellView]
    nodes: list[NodeLine]
    cells: list[CellView]

    def ring(self) -> RingChart:
        return ring_of(_circle(self.nodes), _styles(self.nodes), self.cells, self.node.name)


class BadHost(UsageError):
    """Raised if the typed text is not a host."""

    field = "host"


def add_routes(pages: PageRoutes) -> None:
    pages.page("/cluster", "cluster.html", Role.VIEWER)(cluster)
    pages.page("/cluster/nodes/{node}", "cluster_node.html", Role.VIEWER)(node_page)


Name = Annotated[str, Query(max_length=100)]


def cluster(
    installation: InstallationDep,
    c: Name = "",
    host: Annotated[str, Query(max_length=2_000)] = "",
    start: Annotated[str, Query(max_length=255, alias="from")] = "",
) -> ClusterPage:
    """Return the nodes of the cluster, the owners of cells, and the location of a host."""
    view = installation.cluster.view()
    return _page(installation, view, _chosen_collection(view, c), _locate(view, host, start) if host.strip() else None)


def live_cluster(installation: Installation, c: str) -> ClusterPage:
    """Return the live part of the page."""
    view = installation.cluster.view()
    return _page(installation, view, _chosen_collection(view, c), None)


def _chosen_collection(view: ClusterView, c: str) -> str:
    names = view.collections()
    if c and c not in names:
        raise UnknownCollection(Message("there is no collection {name!r}", name=c))
    return c or next(iter(names), "")


def _locate(view: ClusterView, text: str, start: str) -> HostLocation:
    try:
        return locate_host(view, parse_host(text), start or None)
    except UsageError as error:
        raise BadHost(error.message) from None


def _page(installation: Installation, view: ClusterView, collection: str, where: HostLocation | None) -> ClusterPage:
    circle = view.circle()
    return ClusterPage(
        time=view.time,
        is_old=installation.clock.now_s() - from_iso(view.time) > STALE_S,
        here=view.here,
        collection=collection,
        collections=view.collections(),
        nodes=_node_lines(view, circle),
        cells=view.cells_of(collection),
        moves=view.moves[:MOVES],
        links=view.links[:ROWS],
        silent=[_silent_node(view, circle, node) for node in view.nodes if node.state == "silent"],
        where=where,
    )


def _node_lines(view: ClusterView, circle: Circle) -> list[NodeLine]:
    styles, shares = node_styles(node.name for node in view.nodes), circle.shares()
    return [
        copy_fields(
            NodeLine,
            node,
            letter=styles[node.name].letter,
            hue=styles[node.name].hue,
            share=round(shares.get(node.name, 0.0), 4),
        )
        for node in view.nodes
    ]


def _silent_node(view: ClusterView, circle: Circle, node: NodeView) -> SilentNode:
    # The next other node on the circle would take over each cell.
    others = {each for each in circle.nodes if each != node.name}
    points = (point_of_slot(cell.first_slot) for cell in view.cells if cell.keeper == node.name)
    heirs = {circle.live_owner(point, others) for point in points} - {None}
    seconds = None if node.seen is None else max(0.0, round(from_iso(view.time) - from_iso(node.seen), 1))
    return SilentNode(node.name, seconds, node.cells, sorted(each for each in heirs if each), node.dies_in_s)


def node_page(installation: InstallationDep, node: str, c: Name = "") -> NodePage:
    """Return one node of the cluster: its position on the circle, its neighbours, its fingers, its cells."""
    view = installation.cluster.view()
    lines = _node_lines(view, view.circle())
    index = next((at for at, line in enumerate(lines) if line.name == node), None)
    if index is None:
        raise StoreError(f"there is no node {node[:60]!r}; available: {', '.join(line.name for line in lines[:10])}")
    collection, circle = _chosen_collection(view, c), view.circle()
    predecessor, successors, fingers = _neighbours(circle, lines, node)
    return NodePage(
        time=view.time,
        here=view.here,
        collection=collection,
        collections=view.collections(),
        node=lines[index],
        index=index,
        id=f"{circle_id(node):040x}",
        points=sum(point.node == node for point in circle.points()),
        predecessor=predecessor,
        successors=successors,
        fingers=fingers,
        kept=[cell for cell in view.cells_of(collection) if cell.keeper == node][:ROWS],
        nodes=lines,
        cells=view.cells_of(collection),
    )


def _neighbours(circle: Circle, lines: Sequence[NodeLine], node: str) -> tuple[str | None, list[str], list[FingerLine]]:
    """Return the node before a node's first point, those after it, and its fingers; empty for a removed node."""
    if node not in circle.nodes:
        return None, [], []
    own, styles = circle_id(node), _styles(lines)
    point = circle.successor(own)
    table = Fingers(circle).table(point)
    fingers = [
        FingerLine(
            line.exponent, line.to.node, styles[line.to.node].letter, styles[line.to.node].hue, f"{line.to.id:040x}"
        )
        for line in table
    ]
    # From behind its own point on.
    successors = [each for each in circle.order(own + 1) if each != node][:8]
    before = next((each.node for each in _backwards(circle, own) if each.node != node), None)
    return before, successors, fingers


def _backwards(circle: Circle, key: int) -> list[CirclePoint]:
    at = circle.index(key)
    return [circle.point(at - n) for n in range(1, len(circle))]


def _circle(nodes: Sequence[NodeLine]) -> Circle:
    return Circle({node.name: node.capacity for node in nodes if node.share})


def _styles(nodes: Sequence[NodeLine]) -> dict[str, NodeStyle]:
    return node_styles(node.name for node in nodes)
