"""The place of a host: host -> site -> slot -> cell -> the cell's point on the circle -> node.

Up to the cell the crawler's own commit uses the same functions, those of teia/urls.py. The slot of a site is the
leading ten bits of its SHA-1, which is its key on the circle: a slot is an arc, the 1,024th part of the circle, and a
cell is the arc of its slots. A cell is owned as a whole; its *point* is the beginning of its arc. So a cell that is
split keeps its first half in place, and collections with the same number of cells have each host at one node.
Collections with other numbers of cells may not: a host's cells then begin at different places.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from teia.cluster.circle.circle import BITS, Circle, circle_id
from teia.urls import SLOTS, cell_of, cell_starts, site_of, slot_of

# 1,024 slots: the leading ten bits of an id.
SLOT_SHIFT = BITS - (SLOTS - 1).bit_length()


def point_of_slot(slot: int) -> int:
    """Return the beginning of a slot's arc."""
    return slot << SLOT_SHIFT


@dataclass(frozen=True, slots=True)
class HostCell:
    """The place of a host: `key` is that of its site, `point` that of its cell.

    The cell's slots end before `end_slot`.
    """

    host: str
    site: str
    key: int
    slot: int
    cell: int
    first_slot: int
    end_slot: int

    @property
    def point(self) -> int:
        return point_of_slot(self.first_slot)


def cell_of_host(host: str, cells: int) -> HostCell:
    """Return the place of a canonical host in a collection with this number of cells."""
    starts = (*cell_starts(cells), SLOTS)
    site = site_of(host)
    slot = slot_of(site)
    cell = cell_of(slot, starts)
    return HostCell(host, site, circle_id(site), slot, cell, starts[cell], starts[cell + 1])


def cell_points(starts: Sequence[int]) -> list[int]:
    """Return the point of each cell, given the first slot of each."""
    return [point_of_slot(start) for start in starts]


def cell_owners(circle: Circle, starts: Sequence[int], live: Container[str] | None = None) -> list[str]:
    """Return the owner of each cell among the live nodes; among all nodes if `live` is None."""
    alive = circle.nodes if live is None else live
    found = [circle.live_owner(point, alive) for point in cell_points(starts)]
    if None in found:
        raise ValueError("no node is running that could own the cells")
    return [node for node in found if node is not None]
