"""A cluster as people see it (A11): its nodes, its cells, what moves, what travels between nodes.

`ClusterSource` is the seam: whoever knows a cluster makes a `ClusterView` of it, as the page `/cluster` shows it.
alone.py does so for one machine, telling.py for a node of several. What a source does not know is None, never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from teia.cluster.chord import Circle

GONE = frozenset({"dead", "left"})
"""States of nodes that keep nothing."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node.

    `state` is idle, normal or overloaded (A5) of one that works, off of a machine where no crawler runs, silent of one
    that was not heard for a while, dead or left of one that is gone. `load` is of 1, `lag_s` how far it is behind with
    what others sent it, `seen` when it was last heard, `dies_in_s` when a silent one may be declared dead.
    """

    name: str
    state: str
    cells: int
    region: str | None = None
    capacity: float = 1.0
    pages_per_s: float | None = None
    load: float | None = None
    lag_s: float | None = None
    seen: str | None = None
    dies_in_s: float | None = None

    @property
    def is_gone(self) -> bool:
        return self.state in GONE


@dataclass(frozen=True, slots=True)
class CellView:
    """A cell: the slots from `first_slot` to before `end_slot` of a collection.

    `keeper` is who writes it now, None if nobody does; `to` is who takes it over, `moved` how much of it is there.
    """

    id: str
    collection: str
    number: int
    first_slot: int
    end_slot: int
    keeper: str | None
    urls: int
    queued: int | None = None
    epoch: int | None = None
    to: str | None = None
    moved: float | None = None


@dataclass(frozen=True, slots=True)
class MoveView:
    """A cell that went from one node to another, and what it cost."""

    time: str
    cell: str
    giver: str
    taker: str
    why: str
    seconds: float | None = None
    urls_lost: int | None = None


@dataclass(frozen=True, slots=True)
class ExchangeView:
    """Links on their way from one node to another."""

    giver: str
    taker: str
    batches_per_s: float
    waiting: int


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster at a moment; `here` is the node that tells, nodes are in the order of their names.

    `counts` is what nodes that live say of their work, `moved` how many cells changed hands while this one looked on.
    """

    time: str
    here: str
    nodes: list[NodeView]
    cells: list[CellView]
    moves: list[MoveView]
    links: list[ExchangeView]
    counts: dict[str, dict[str, float]] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)

    def circle(self) -> Circle:
        """The circle of the nodes that are there."""
        return Circle({node.name: node.capacity for node in self.nodes if not node.is_gone})

    def collections(self) -> list[str]:
        return list(dict.fromkeys(cell.collection for cell in self.cells))

    def cells_of(self, collection: str) -> list[CellView]:
        return [cell for cell in self.cells if cell.collection == collection]


class ClusterSource(Protocol):
    """Who knows a cluster."""

    def view(self) -> ClusterView:
        """The cluster at this moment; cheap enough to be asked every second."""


def letters(number: int) -> str:
    """What stands for the node of this number in a picture: a, b … z, aa, ab …"""
    text = ""
    while number >= 0:
        text = chr(ord("a") + number % 26) + text
        number = number // 26 - 1
    return text
