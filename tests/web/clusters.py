"""A cluster of several nodes as whoever knows it would tell it, for the page that shows it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from teia.cluster.circle.circle import Circle
from teia.cluster.circle.host_cell import cell_owners
from teia.cluster.views.view import CellView, ClusterView, ExchangeView, MoveView, NodeView
from teia.urls import SLOTS, cell_starts

TIME, SEEN = "2026-11-15T12:00:09.000000Z", "2026-11-15T12:00:00.000000Z"


@dataclass
class FixedSource:
    """A source with one fixed view."""

    fixed: ClusterView

    def view(self) -> ClusterView:
        return self.fixed


def three_nodes(cells: int = 64, collection: str = "main") -> ClusterView:
    """a, b and c; b is silent, one cell moves from it to c, one has no keeper."""
    capacity = {"node-a": 1.0, "node-b": 1.0, "node-c": 2.0}
    starts = (*cell_starts(cells), SLOTS)
    kept: list[CellView] = []
    for number, keeper in enumerate(cell_owners(Circle(capacity), starts[:-1])):
        name = f"{collection}/{number:02d}"
        kept.append(CellView(name, collection, number, starts[number], starts[number + 1], keeper, 10 * number, number))
    moving = next(at for at, cell in enumerate(kept) if cell.keeper == "node-b")
    kept[moving] = replace(kept[moving], to="node-c", moved=0.4, epoch=7)
    kept[-1] = replace(kept[-1], keeper=None)
    count = {name: sum(cell.keeper == name for cell in kept) for name in capacity}
    nodes = [
        NodeView("node-a", "normal", count["node-a"], "sp", 1.0, 40.1, 0.61, 0.2, TIME),
        NodeView("node-b", "silent", count["node-b"], "rj", 1.0, None, None, None, SEEN, 6.0),
        NodeView("node-c", "idle", count["node-c"], "lis", 2.0, 12.0, 0.2, 0.1, TIME),
    ]
    moves = [MoveView(SEEN, f"{collection}/05", "node-b", "node-c", "overloaded", 3.1, 0)]
    links = [ExchangeView("node-a", "node-c", 1.5, 3), ExchangeView("node-c", "node-a", 0.2, 0)]
    return ClusterView(TIME, "node-a", nodes, kept, moves, links)
