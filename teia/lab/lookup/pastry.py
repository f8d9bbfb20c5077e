"""Pastry (Rowstron & Druschel, 2001): ids of 128 bits, read as 32 digits of base 16.

A key belongs to the node whose id is nearest. A node knows its leaves, the 8 nearest ids on each side, and a table: in
row r, for each digit, a node that has the first r digits in common with it and that digit next. A message is forwarded
to a node with one more digit in common with the key (figure 11 of A's paper), so after about log16(n) hops it is among
the leaves. Pastry fills a table entry with the candidate that is nearest in the network; here it is drawn.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from teia.lab.lookup.overlay import KEY_BITS, Taken, random_key
from teia.lab.world.draws import bits64

ID_BITS = 128
DIGIT_BITS = 4
DIGITS = ID_BITS // DIGIT_BITS
BASE = 1 << DIGIT_BITS
SIZE = 1 << ID_BITS
LEAVES_A_SIDE = 8


def shared_digits(one: int, other: int) -> int:
    """Return the number of leading digits that two ids have in common."""
    return (ID_BITS - (one ^ other).bit_length()) // DIGIT_BITS


def digit(node_id: int, index: int) -> int:
    return node_id >> ID_BITS - DIGIT_BITS * (index + 1) & BASE - 1


def id_distance(one: int, other: int) -> int:
    """Return the distance of two ids, the shorter way round."""
    gap = (one - other) % SIZE
    return min(gap, SIZE - gap)


class Pastry:
    """Nodes with random ids, numbered in the order of their ids."""

    def __init__(self, count: int, rng: np.random.Generator) -> None:
        ids: set[int] = set()
        while len(ids) < count:
            ids.add(random_key(rng, ID_BITS))
        self.ids = sorted(ids)
        self._seed = int(rng.integers(1 << 62))
        self._tables: dict[int, dict[tuple[int, int], int]] = {}

    def owner(self, key: int) -> int:
        return self._nearest(key >> KEY_BITS - ID_BITS)

    def _nearest(self, target: int) -> int:
        index = bisect_left(self.ids, target)
        count = len(self.ids)
        return min((index % count, (index - 1) % count), key=lambda node: (id_distance(self.ids[node], target), node))

    # -- the tables of a node ------------------------------------------------------------------------------

    def leaves(self, node: int) -> list[int]:
        """Return the neighbours of a node on the circle, from the farthest below to the farthest above."""
        count = len(self.ids)
        if count <= 2 * LEAVES_A_SIDE + 1:
            return [other for other in range(count) if other != node]
        return [(node + step) % count for step in range(-LEAVES_A_SIDE, LEAVES_A_SIDE + 1) if step]

    def table(self, node: int) -> dict[tuple[int, int], int]:
        """Return the known node by row and digit; the table is made when it is first needed."""
        table = self._tables.get(node)
        if table is None:
            table = self._tables[node] = self._make_table(node)
        return table

    def _make_table(self, node: int) -> dict[tuple[int, int], int]:
        own, table = self.ids[node], dict[tuple[int, int], int]()
        for row in range(DIGITS):
            width = ID_BITS - DIGIT_BITS * (row + 1)
            prefix = own >> width + DIGIT_BITS << width + DIGIT_BITS
            if self._between(prefix, prefix + (BASE << width))[1] == 1:
                return table
            for each in range(BASE):
                first, number = self._between(prefix + (each << width), prefix + (each + 1 << width))
                if number and each != digit(own, row):
                    table[row, each] = first + bits64(self._seed, "pastry", node, row, each) % number
        return table

    def _between(self, low: int, high: int) -> tuple[int, int]:
        """Return the first node whose id is at least `low`, and the number of nodes from there to below `high`."""
        first = bisect_left(self.ids, low)
        return first, bisect_left(self.ids, high) - first

    def known_nodes(self, node: int) -> int:
        return len({*self.leaves(node), *self.table(node).values()})

    # -- look-ups ------------------------------------------------------------------------------------------

    def hops(self, start: int, key: int) -> int:
        target, node, hops = key >> KEY_BITS - ID_BITS, start, 0
        owner = self._nearest(target)
        while node != owner:
            node = self._next(node, target)
            hops += 1
        return hops

    def _next(self, node: int, target: int) -> int:
        leaves = self.leaves(node)
        if self._is_in_leaf_range(target, leaves):
            return min(leaves, key=lambda leaf: (id_distance(self.ids[leaf], target), leaf))
        own = self.ids[node]
        row = shared_digits(target, own)
        if (next_node := self.table(node).get((row, digit(target, row)))) is not None:
            return next_node
        closer = [
            other
            for other in {*leaves, *self.table(node).values()}
            if shared_digits(self.ids[other], target) >= row
            and id_distance(self.ids[other], target) < id_distance(own, target)
        ]
        # Across the end of the circle, neighbouring ids have no digits in common; then the nearest leaf is used.
        return min(closer or leaves, key=lambda other: (id_distance(self.ids[other], target), other))

    def _is_in_leaf_range(self, target: int, leaves: list[int]) -> bool:
        """Tell whether an id lies between the farthest leaves; always true where every node is a leaf."""
        if len(leaves) < 2 * LEAVES_A_SIDE:
            return True
        low, high = self.ids[leaves[0]], self.ids[leaves[-1]]
        return (target - low) % SIZE <= (high - low) % SIZE

    # -- shares --------------------------------------------------------------------------------------------

    def join_share(self, rng: np.random.Generator) -> Taken:
        """Return the share of a new node: half of the way to each of its neighbours."""
        target = random_key(rng, ID_BITS)
        index = bisect_left(self.ids, target)
        below, above = self.ids[index - 1], self.ids[index % len(self.ids)]
        return Taken(((above - below) % SIZE or SIZE) / 2 / SIZE, min(2, len(self.ids)))

    def largest_share(self) -> float:
        count = len(self.ids)
        arcs = [(self.ids[(node + 1) % count] - self.ids[node - 1]) % SIZE or SIZE for node in range(count)]
        return max(arcs) / 2 / SIZE * count
