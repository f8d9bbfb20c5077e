"""A cluster as users see it (A11): its nodes, its cells, moves, and links on their way between nodes.

`ClusterSource` is the interface: each source makes a `ClusterView` of its cluster, as the page `/cluster` shows it.
single_machine.py does so for one machine, node_file.py for a node of several. A value that a source does not know is
None, never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from teia.cluster.circle.circle import Circle

GONE = frozenset({"dead", "left"})
"""States of nodes that own nothing."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node.

    `state` is idle, normal or overloaded (A5) of one that works, off of a machine where no crawler runs, silent of one
    without a report for a while, dead or left of one that is gone. `load` is of 1, `lag_s` its delay in merging
    messages from others, `seen` the time of its last report, `dies_in_s` the seconds until a silent one may be declared
    dead.
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

    `keeper` is the node that writes it now, or None; `to` is its next owner, `moved` the part of it that is there.
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
    """A cell that went from one node to another, and the cost."""

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
    """A cluster at a moment; `here` is the node that made the view, nodes are in the order of their names.

    `counts` are the work counts that live nodes report, `moved` the number of cells that changed hands while `here`
    watched.
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
        """Return the circle of the present nodes."""
        return Circle({node.name: node.capacity for node in self.nodes if not node.is_gone})

    def collections(self) -> list[str]:
        return list(dict.fromkeys(cell.collection for cell in self.cells))

    def cells_of(self, collection: str) -> list[CellView]:
        return [cell for cell in self.cells if cell.collection == collection]


class ClusterSource(Protocol):
    """A source of views of a cluster."""

    def view(self) -> ClusterView:
        """Return the present view; cheap enough for a call every second."""


def letters(number: int) -> str:
    """Return the label of the node of this number in a picture: a, b … z, aa, ab …."""
    text = ""
    while number >= 0:
        text = chr(ord("a") + number % 26) + text
        # There is no digit for zero: `z` is followed by `aa`.
        number = number // 26 - 1
    return text
