"""CAN (Ratnasamy, Francis et al., 2001): a torus of d dimensions, cut into zones, one per node.

A new node draws a point, and the zone that contains it is cut in two; dimensions take turns. A node knows the zones
that touch its own along a face. A message is forwarded to the neighbour whose zone is nearest to the target point. That
zone is nearer than the current one, so the message arrives. With zones of equal size that takes d/4 · n^(1/d) hops.
"""

from __future__ import annotations

import numpy as np

from teia.lab.lookup.overlay import KEY_BITS, Taken, random_key

SIDE_BITS = 32
SIDE = 1 << SIDE_BITS
MOST_DIMENSIONS = KEY_BITS // SIDE_BITS

_Box = list[tuple[int, int]]
"""A zone: a half-open range in each dimension. It never crosses the edge of the torus."""


class Can:
    """A torus of `count` zones, each made by a cut at a random point."""

    def __init__(self, count: int, dimensions: int, rng: np.random.Generator) -> None:
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            raise ValueError(f"a key has coordinates for 1 to {MOST_DIMENSIONS} dimensions, not {dimensions}")
        self.dimensions = dimensions
        self._boxes: list[_Box] = [[(0, SIDE)] * dimensions]
        self._cuts: list[int] = [0]
        self._neighbours: list[set[int]] = [set()]
        # A node of the tree is a zone's number, or (dimension, position of the cut, child below, child above).
        self._tree: list[object] = [0]
        while len(self._boxes) < count:
            self._split(self.owner(random_key(rng)))

    # -- owners of keys ------------------------------------------------------------------------------------

    def point(self, key: int) -> list[int]:
        """Return the coordinates of a key: its leading bits, `SIDE_BITS` for each dimension."""
        return [key >> KEY_BITS - SIDE_BITS * (at + 1) & SIDE - 1 for at in range(self.dimensions)]

    def owner(self, key: int) -> int:
        point, node = self.point(key), self._tree[0]
        while isinstance(node, list):
            dimension, middle, below, above = node
            node = below if point[dimension] < middle else above
        assert isinstance(node, int)
        return node

    def _split(self, zone: int) -> None:
        """Give the upper half of a zone to a new node."""
        dimension = self._cuts[zone] % self.dimensions
        new, box = len(self._boxes), self._boxes[zone]
        low, high = box[dimension]
        middle = (low + high) // 2
        self._replace_leaf(zone, [dimension, middle, zone, new])
        upper = list(box)
        box[dimension], upper[dimension] = (low, middle), (middle, high)
        self._boxes.append(upper)
        self._cuts[zone] += 1
        self._cuts.append(self._cuts[zone])
        neighbours = self._neighbours[zone]
        self._neighbours[zone] = set()
        self._neighbours.append(set())
        for other in neighbours:
            self._neighbours[other].discard(zone)
        for one in (zone, new):
            for other in (*neighbours, new):
                if one != other and self._are_neighbours(one, other):
                    self._neighbours[one].add(other)
                    self._neighbours[other].add(one)

    def _replace_leaf(self, zone: int, by: object) -> None:
        box, holder, at = self._boxes[zone], self._tree, 0
        while isinstance(inner := holder[at], list):
            dimension, middle = inner[0], inner[1]
            holder, at = inner, 2 if box[dimension][0] < middle else 3
        holder[at] = by

    def _are_neighbours(self, one: int, other: int) -> bool:
        """Tell whether two zones share a face: they meet in one dimension and overlap in all others."""
        meets = 0
        for (low, high), (other_low, other_high) in zip(self._boxes[one], self._boxes[other], strict=True):
            if low < other_high and other_low < high:
                continue
            if high % SIDE != other_low and other_high % SIDE != low:
                return False
            meets += 1
        return meets == 1

    # -- look-ups ------------------------------------------------------------------------------------------

    def hops(self, start: int, key: int) -> int:
        point, zone, hops = self.point(key), start, 0
        remaining = self._squared_distance(zone, point)
        while remaining:
            remaining, zone = min((self._squared_distance(other, point), other) for other in self._neighbours[zone])
            hops += 1
        return hops

    def _squared_distance(self, zone: int, point: list[int]) -> int:
        """Return the squared distance from a zone to a point, round the torus if that is shorter; 0 inside."""
        total = 0
        for (low, high), coordinate in zip(self._boxes[zone], point, strict=True):
            if not low <= coordinate < high:
                # Ranges are half-open: the last point inside is high - 1, hence + 1.
                distance = min((low - coordinate) % SIDE, (coordinate - high) % SIDE + 1)
                total += distance * distance
        return total

    def known_nodes(self, node: int) -> int:
        return len(self._neighbours[node])

    def join_share(self, rng: np.random.Generator) -> Taken:
        return Taken(self._share(self.owner(random_key(rng))) / 2, 1)

    def largest_share(self) -> float:
        return max(self._share(zone) for zone in range(len(self._boxes))) * len(self._boxes)

    def _share(self, zone: int) -> float:
        """Return a zone's part of the torus: each cut that made it halved it."""
        return 0.5 ** self._cuts[zone]
