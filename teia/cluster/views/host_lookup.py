"""Look-up of a host for users: its cell in each collection, the cell's owner, and the route there (A2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from teia.cluster.circle.circle import SIZE, Circle, CirclePoint
from teia.cluster.circle.fingers import Fingers
from teia.cluster.circle.host_cell import HostCell, cell_of_host, cell_owners
from teia.cluster.views.view import CellView, ClusterView
from teia.errors import UsageError
from teia.urls import SLOTS, canonicalize, cell_starts, split

HOST_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class HopView:
    """One message of a look-up, along the finger 2^`exponent` of a point; places are hex, and parts of the circle."""

    start: str
    end: str
    exponent: int
    start_id: str
    end_id: str
    start_at: float
    end_at: float


@dataclass(frozen=True, slots=True)
class HostHome:
    """A host's place in one collection; `home` is its node by the circle, `keeper` its present owner."""

    collection: str
    cell: str
    number: int
    first_slot: int
    end_slot: int
    keeper: str | None
    home: str | None
    to: str | None
    moved: float | None
    order: list[str]
    hops: list[HopView]


@dataclass(frozen=True, slots=True)
class HostLocation:
    """The places of a host, as a look-up from the node `start` finds them; `at` is its key as a part of the circle."""

    host: str
    site: str
    slot: int
    key: str
    at: float
    start: str
    homes: list[HostHome]


def parse_host(text: str) -> str:
    """Return the canonical host of a user's input, a name or a URL; UsageError if there is none in it."""
    wanted = text.strip()
    if wanted and len(wanted) <= HOST_CHARS:
        url = canonicalize(wanted if "://" in wanted else f"http://{wanted}/")
        if url is not None:
            return split(url).host
    shown = wanted if len(wanted) <= 60 else wanted[:60] + "…"
    raise UsageError(f"{shown!r} is not a host name; write one such as www.example.org")


def locate_host(view: ClusterView, host: str, start: str | None = None) -> HostLocation:
    """Look up a canonical host in all collections of a cluster, from the node `start` or else from `view.here`."""
    circle = view.circle()
    begin = start or view.here
    if circle.nodes and begin not in circle.nodes:
        raise UsageError(f"unknown node {begin!r}; available: {', '.join(circle.nodes)}")
    fingers = Fingers(circle)
    homes = [_home(fingers, begin, host, name, view.cells_of(name)) for name in view.collections()]
    # Site, slot and key do not depend on the number of cells.
    host_cell = cell_of_host(host, 1)
    return HostLocation(
        host, host_cell.site, host_cell.slot, f"{host_cell.key:040x}", host_cell.key / SIZE, begin, homes
    )


def _home(fingers: Fingers, start: str, host: str, collection: str, cells: Sequence[CellView]) -> HostHome:
    host_cell = cell_of_host(host, 1)
    cell = next(each for each in cells if each.first_slot <= host_cell.slot < each.end_slot)
    host_cell = replace(host_cell, cell=cell.number, first_slot=cell.first_slot, end_slot=cell.end_slot)
    order = list(fingers.circle.order(host_cell.point)) if len(fingers.circle) else []
    return HostHome(
        collection,
        cell.id,
        cell.number,
        cell.first_slot,
        cell.end_slot,
        cell.keeper,
        order[0] if order else None,
        cell.to,
        cell.moved,
        order,
        hops_to(fingers, start, host_cell),
    )


def hops_to(fingers: Fingers, start: str, host_cell: HostCell) -> list[HopView]:
    """Return the route of a look-up of a host's cell over fingers."""
    if not len(fingers.circle):
        return []
    return [
        HopView(
            hop.start.node,
            hop.end.node,
            hop.exponent,
            f"{hop.start.id:040x}",
            f"{hop.end.id:040x}",
            circle_position(hop.start),
            circle_position(hop.end),
        )
        for hop in fingers.route(start, host_cell.point)
    ]


def circle_position(point: CirclePoint) -> float:
    """Return a point as a part of the circle, from 0 to 1."""
    return point.id / SIZE


def hypothetical_cells(circle: Circle, cells: int) -> list[CellView]:
    """Return the cells of a hypothetical collection, each owned by the node that the circle names."""
    starts = (*cell_starts(cells), SLOTS)
    return [
        CellView(f"{number:02d}", "", number, starts[number], starts[number + 1], owner, 0, 0)
        for number, owner in enumerate(cell_owners(circle, starts[:-1]))
    ]
