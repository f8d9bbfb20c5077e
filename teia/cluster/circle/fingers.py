"""Finger tables, and the route of a look-up over them (Chord's figure in the paper, section 3.2.2).

Finger i of a point leads to the first point that is at least 2^i away. A node knows only the fingers and successors of
its own points. So it sends a look-up to the last point it knows before the key, which at least halves the distance; it
arrives after about half of log2(n) such hops. A node with several points continues from the nearest of them, which
costs no message.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from teia.cluster.circle.circle import BITS, SIZE, Circle, CirclePoint, distance, is_between, is_within


class Finger(NamedTuple):
    """A line of a finger table: all fingers from 2^exponent on lead to `to`, until the next line's."""

    exponent: int
    to: CirclePoint


class Hop(NamedTuple):
    """A step of a look-up, from a point along a finger to another: one message. The last one reaches the owner."""

    start: CirclePoint
    exponent: int
    end: CirclePoint


class Fingers:
    """The finger tables of a circle, each made at its first use."""

    def __init__(self, circle: Circle) -> None:
        self.circle = circle
        self._tables: dict[int, tuple[Finger, ...]] = {}
        self._own: dict[str, list[int]] = {}
        for point in circle.points():  # in order of ids, so each list is sorted
            self._own.setdefault(point.node, []).append(point.id)

    def table(self, point: CirclePoint) -> tuple[Finger, ...]:
        """Return the fingers of a point, each target once; the first is its successor."""
        table = self._tables.get(point.id)
        if table is None:
            table = self._tables[point.id] = self._make_table(point)
        return table

    def _make_table(self, point: CirclePoint) -> tuple[Finger, ...]:
        lines = [Finger(0, self.circle.successor(point.id + 1))]
        while True:
            reached = distance(point.id, lines[-1].to.id) or SIZE
            exponent = reached.bit_length()  # the first 2^i that is larger
            if exponent >= BITS:
                return tuple(lines)
            lines.append(Finger(exponent, self.circle.successor(point.id + (1 << exponent))))

    def nearest_own(self, node: str, key: int) -> CirclePoint:
        """Return the last point of a node before a key."""
        own = self._own[node]
        # Index -1 is the last point: the circle is closed.
        return CirclePoint(own[bisect_left(own, key % SIZE) - 1], node)

    def route(self, node: str, key: int) -> list[Hop]:
        """Return the route of a look-up that a node begins; empty if the node owns the key."""
        hops: list[Hop] = []
        while True:
            at = self.nearest_own(node, key)
            table = self.table(at)
            successor = table[0].to
            if is_within(key, at.id, successor.id):
                return hops if successor.node == node else [*hops, Hop(at, 0, successor)]
            finger = next(each for each in reversed(table) if is_between(each.to.id, at.id, key))
            hops.append(Hop(at, finger.exponent, finger.to))
            node = finger.to.node
