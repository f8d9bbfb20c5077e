"""Balance of work between nodes: load states and transfers of cells, as decisions only (A5, A14).

A node is *idle*, *normal* or *overloaded* by the number of URLs queued in its cells for each unit of its capacity; a
state is left only some way beyond the line at which it began. An overloaded node that has more than its share of all
work hands cells to nodes that have less than theirs: near ones first (landmarks.py), then idle ones. Cells are the
virtual servers of Rao, Lakshminarayanan et al. (2004), and a node is heavy above `1 + slack` times its share, light
below.

    one-to-one    a heavy and a light node: the lightest cell that makes the one light and leaves the other light; where
                  there is none, the heaviest that leaves the other light
    one-to-many   a heavy node and all light ones
    many-to-many  all heavy nodes put cells into a pool until they are light; those are placed, the heaviest first,
                  where they fit best. One that fits nowhere takes the place of a lighter one that does, or stays

No transfer makes a node heavy, so none is taken back by the next plan, and each leaves less work above the shares.

The other mechanism of the paper: a node whose servers are mostly slow changes places with its successor, or with a node
that its fingers lead to; one that is overloaded or slow itself refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from teia.cluster.placing.landmarks import distance_ms
from teia.config.sections import BalanceSettings

IDLE, NORMAL, OVERLOADED = "idle", "normal", "overloaded"
MOSTLY_SLOW = 0.5
MIN_SITES = 10
"""Number of sites that must have been measured before a node counts as slow."""

NEAR_MS = 10.0
"""Difference of round trips that does not count: a busy machine measures some milliseconds more."""

MIN_WORTH = 0.02
"""Part of a share below which a cell is not worth its hand-over."""


class CellTransfer(NamedTuple):
    """A cell that should go from one node to another, and the reason."""

    cell: int
    giver: str
    taker: str
    why: str


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """A node as the balance sees it: the queued URLs of each of its cells, and its reported state.

    `slow` is the part of its measured sites that are too slow, `measured` the number of measured sites. `landmarks`
    are its round trips in milliseconds.
    """

    name: str
    capacity: float = 1.0
    cells: Mapping[int, float] = field(default_factory=dict)
    region: str = ""
    state: str = NORMAL
    slow: float = 0.0
    measured: int = 0
    landmarks: Mapping[str, float] = field(default_factory=dict)

    @property
    def load(self) -> float:
        return sum(self.cells.values())


def state_after(before: str, queued: float, capacity: float, settings: BalanceSettings) -> str:
    """Return a node's state for a number of queued URLs, given its state before (A5)."""
    each, more, less = queued / capacity, 1 + settings.hysteresis, 1 - settings.hysteresis
    idle_until = settings.idle_urls * (more if before == IDLE else 1)
    overloaded_from = settings.overloaded_urls * (less if before == OVERLOADED else 1)
    if each < idle_until:
        return IDLE
    return OVERLOADED if each > overloaded_from else NORMAL


def shares_of(nodes: Iterable[NodeLoad]) -> dict[str, float]:
    """Return the amount of work that each node should have, by capacity."""
    each = list(nodes)
    total, capacity = sum(node.load for node in each), sum(node.capacity for node in each)
    return {node.name: total * node.capacity / capacity for node in each}


# ---- transfers ------------------------------------------------------------------------------------------------------


class _Scales:
    """Loads while a plan is made; its transfers are in `moves`."""

    def __init__(self, nodes: Sequence[NodeLoad], slack: float) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.cells = {node.name: dict(node.cells) for node in nodes}
        self.loads = {node.name: node.load for node in nodes}
        self.shares = shares_of(nodes)
        self.most = {name: (1 + slack) * share for name, share in self.shares.items()}
        self.moves: list[CellTransfer] = []

    def room(self, name: str) -> float:
        """Return the load that a node can take without being heavy."""
        return self.most[name] - self.loads[name]

    def excess(self, name: str) -> float:
        """Return the load that a node must give to be light."""
        return self.loads[name] - self.most[name]

    def is_worth(self, name: str, weight: float) -> bool:
        return weight > MIN_WORTH * self.shares[name]

    def lights(self, giver: str, *, across: bool) -> list[str]:
        """Return the nodes with room for a node's cells: near ones first, then idle ones, then those with most room."""
        here = self.nodes[giver]
        others = [each for name, each in self.nodes.items() if name != giver and self.room(name) > 0]
        if not across and here.region:
            others = [each for each in others if each.region == here.region]
        others.sort(key=lambda each: (steps_between(here, each), each.state != IDLE, -self.room(each.name), each.name))
        return [each.name for each in others]

    def move(self, cell: int, giver: str, taker: str, why: str) -> None:
        weight = self.cells[giver].pop(cell)
        self.cells[taker][cell] = weight
        self.loads[giver] -= weight
        self.loads[taker] += weight
        self.moves.append(CellTransfer(cell, giver, taker, why))


def steps_between(one: NodeLoad, other: NodeLoad) -> float:
    """Return how far two nodes are from each other, in steps of `NEAR_MS`, by their round trips to landmarks.

    Nodes that were not measured are as near as their regions tell: not at all, or as far as can be.
    """
    measured = distance_ms(one.landmarks, other.landmarks)
    if measured is not None:
        return measured // NEAR_MS
    return 0 if one.region and one.region == other.region else inf


def chosen_cell(cells: Mapping[int, float], excess: float, room: float) -> int | None:
    """Return the cell that a heavy node gives to a light one (Rao's rule); None if none fits."""
    fitting = sorted((weight, cell) for cell, weight in cells.items() if 0 < weight <= room)
    # Sorted by weight: the lightest one that is enough.
    enough = next((cell for weight, cell in fitting if weight >= excess), None)
    return enough if enough is not None or not fitting else fitting[-1][1]


def one_to_one(nodes: Sequence[NodeLoad], giver: str, taker: str, slack: float) -> list[CellTransfer]:
    """Plan the transfers of one heavy node to one light one."""
    scales = _Scales(nodes, slack)
    _plan_transfers(scales, giver, [taker], float("inf"))
    return scales.moves


def one_to_many(
    nodes: Sequence[NodeLoad], giver: str, slack: float, quantity: float = 0.0, *, across: bool = True
) -> list[CellTransfer]:
    """Plan the transfers of one heavy node to all light ones, until it is light or has given the quantity."""
    scales = _Scales(nodes, slack)
    _plan_transfers(scales, giver, scales.lights(giver, across=across), quantity or float("inf"))
    return scales.moves


def _plan_transfers(scales: _Scales, giver: str, takers: Sequence[str], quantity: float) -> None:
    given = 0.0
    for taker in takers:
        while scales.excess(giver) > 0 and given < quantity:
            cell = chosen_cell(scales.cells[giver], scales.excess(giver), scales.room(taker))
            if cell is None or not scales.is_worth(giver, scales.cells[giver][cell]):
                break
            given += scales.cells[giver][cell]
            scales.move(cell, giver, taker, "overloaded")


def many_to_many(
    nodes: Sequence[NodeLoad], givers: Iterable[str], slack: float, quantity: float = 0.0, *, across: bool = True
) -> list[CellTransfer]:
    """Plan the transfers of some heavy nodes to all light ones at once; see the module."""
    scales = _Scales(nodes, slack)
    pool: list[tuple[float, int, str]] = []
    for giver in givers:
        pool += _excess_cells(scales, giver, quantity or float("inf"))
    for weight, cell, giver in sorted(pool, key=lambda each: (-each[0], each[1])):
        takers = scales.lights(giver, across=across)
        fitting = [taker for taker in takers if scales.room(taker) >= weight]
        if fitting:
            scales.move(cell, giver, fitting[0], "overloaded")
        else:
            _dislodge(scales, giver, cell, takers)
    return scales.moves


def _excess_cells(scales: _Scales, giver: str, quantity: float) -> list[tuple[float, int, str]]:
    """Return the cells that a heavy node would give to be light: the lightest that is enough, else the heaviest."""
    left, excess, found, given = dict(scales.cells[giver]), scales.excess(giver), [], 0.0
    while excess > 0 and given < quantity:
        cell = chosen_cell(left, excess, scales.loads[giver])
        if cell is None or not scales.is_worth(giver, left[cell]):
            break
        weight = left.pop(cell)
        excess, given = excess - weight, given + weight
        found.append((weight, cell, giver))
    return found


def _dislodge(scales: _Scales, giver: str, cell: int, takers: Iterable[str]) -> None:
    """Exchange a cell that fits nowhere for a lighter one of a node that stays light with it."""
    weight = scales.cells[giver][cell]
    for taker in takers:
        for lighter, other in sorted(scales.cells[taker].items(), key=lambda each: (each[1], each[0])):
            # The taker stays light with the heavier cell once its lighter one has left.
            if other < weight <= scales.room(taker) + other and scales.is_worth(giver, weight - other):
                scales.move(cell, giver, taker, "overloaded")
                scales.move(lighter, taker, giver, "overloaded")
                return


def plan(nodes: Sequence[NodeLoad], settings: BalanceSettings, *, across: bool = True) -> list[CellTransfer]:
    """Plan the transfers of overloaded nodes now; empty if none is needed. `across`: also to other regions."""
    if len(nodes) < 2 or not sum(node.load for node in nodes):
        return []
    scales = _Scales(nodes, settings.slack)
    heavy = [node.name for node in nodes if node.state == OVERLOADED and scales.excess(node.name) > 0]
    heavy.sort(key=lambda name: (-scales.loads[name] / scales.shares[name], name))
    if not heavy:
        return []
    slack, quantity = settings.slack, float(settings.quantity)
    if settings.scheme == "many-to-many":
        return many_to_many(nodes, heavy, slack, quantity, across=across)
    if settings.scheme == "one-to-many":
        return one_to_many(nodes, heavy[0], slack, quantity, across=across)
    lights = scales.lights(heavy[0], across=across)
    return one_to_one(nodes, heavy[0], lights[0], slack) if lights else []


# ---- migration ------------------------------------------------------------------------------------------------------


def is_slow(node: NodeLoad) -> bool:
    """Tell whether most of a node's servers are slow for it."""
    return node.measured >= MIN_SITES and node.slow > MOSTLY_SLOW


def refuses_exchange(node: NodeLoad) -> bool:
    """Tell whether a node would refuse to change places with a slow one."""
    return node.state == OVERLOADED or is_slow(node) or not node.cells


def plan_exchange(
    nodes: Mapping[str, NodeLoad], name: str, way: Sequence[str], tried: Iterable[str]
) -> list[CellTransfer]:
    """Exchange the cells of a slow node and the first on its way (successor, fingers) that does not refuse."""
    here = nodes[name]
    if not is_slow(here):
        return []
    tried = set(tried)
    other = next((nodes[to] for to in way if to in nodes and to not in tried and not refuses_exchange(nodes[to])), None)
    if other is None:
        return []
    there = [CellTransfer(cell, name, other.name, "slow") for cell in sorted(here.cells)]
    return there + [CellTransfer(cell, other.name, name, "slow") for cell in sorted(other.cells)]
