"""The circle of A2: ownership by SHA-1 alone (Chord: Stoica, Morris et al., 2003).

Identifiers have 160 bits and lie on a circle. A node stands at several points of it, in proportion to its capacity, and
a key belongs to its *successor*: the node of the first point at or after it. So every node that knows the nodes knows
the owner of each key, without a request. A node that comes takes keys from others and gives none to them, and the keys
of a node that leaves are spread over all.

`Circle` is the whole circle as seen with all nodes known, where a look-up is one step. fingers.py routes with only the
knowledge of one Chord node; protocol.py keeps that knowledge up to date by messages.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple

BITS = 160
SIZE = 1 << BITS
POINTS = 64
"""Points of a node with capacity 1. The shares of equal nodes then differ by about an eighth, one in `sqrt(POINTS)`."""

CAPACITY_MOST = 1_000.0
NAME_CHARS = 255


class CirclePoint(NamedTuple):
    """One of the points of a node on the circle."""

    id: int
    node: str


def circle_id(text: str) -> int:
    """Return the place of a text on the circle: its SHA-1."""
    return int.from_bytes(hashlib.sha1(text.encode(), usedforsecurity=False).digest(), "big")


def distance(start: int, end: int) -> int:
    """Return the distance from one place to another, in the direction of growing ids; 0 to the same place."""
    return (end - start) % SIZE


def is_within(key: int, after: int, until: int) -> bool:
    """Tell whether a key lies in (after, until]. If both are the same, that is the whole circle."""
    span = (until - after) % SIZE
    return span == 0 or 0 < (key - after) % SIZE <= span


def is_between(key: int, after: int, before: int) -> bool:
    """Tell whether a key lies in (after, before). If both are the same, that is the whole circle but that place."""
    travelled = (key - after) % SIZE
    span = (before - after) % SIZE
    return travelled > 0 and (span == 0 or travelled < span)


def node_points(node: str, capacity: float = 1.0, points: int = POINTS) -> list[int]:
    """Return the places of a node; the first is the SHA-1 of its name."""
    if not 0 < len(node) <= NAME_CHARS or not node.isprintable():
        raise ValueError(f"the name of a node must have 1 to {NAME_CHARS} printable characters, not {node[:40]!r}")
    if not 0 < capacity <= CAPACITY_MOST:
        raise ValueError(f"the capacity of {node} must be between 0 and {CAPACITY_MOST:g}, not {capacity}")
    number = max(1, round(capacity * points))
    return [circle_id(node), *(circle_id(f"{node}#{n}") for n in range(1, number))]


class Circle:
    """The circle with all its nodes, immutable; `nodes` has the capacity of each."""

    def __init__(self, nodes: Mapping[str, float], points: int = POINTS) -> None:
        self.nodes = dict(sorted(nodes.items()))
        self.points_per_capacity = points
        self._node_at: dict[int, str] = {}
        for node, capacity in self.nodes.items():
            for point_id in node_points(node, capacity, points):
                # Two points in one place would be a collision of SHA-1; the first name gets it then, on every node.
                self._node_at.setdefault(point_id, node)
        self.ids = sorted(self._node_at)

    def __len__(self) -> int:
        return len(self.ids)

    def point(self, at: int) -> CirclePoint:
        """Return one of the points by its number, modulo their count."""
        point_id = self.ids[at % len(self.ids)]
        return CirclePoint(point_id, self._node_at[point_id])

    def points(self) -> Iterator[CirclePoint]:
        """Return all points, by growing ids."""
        return (CirclePoint(point_id, self._node_at[point_id]) for point_id in self.ids)

    def index(self, key: int) -> int:
        """Return the number of the point that is the successor of a key."""
        if not self.ids:
            raise ValueError("this circle has no nodes")
        # Behind the last point the circle begins again.
        return bisect_left(self.ids, key % SIZE) % len(self.ids)

    def successor(self, key: int) -> CirclePoint:
        """Return the first point at or after a key."""
        return self.point(self.index(key))

    def predecessor(self, key: int) -> CirclePoint:
        """Return the last point before a key."""
        return self.point(self.index(key) - 1)

    def owner(self, key: int) -> str:
        """Return the node that owns a key."""
        return self.successor(key).node

    def order(self, key: int) -> Iterator[str]:
        """Yield all nodes in the order of ownership of a key: each owns it if those before it are gone.

        The order is the same on every node, and the departure of a node does not change the order of the others, as
        with rendezvous hashing. The first live node is the owner on the circle of the live nodes, so a node that takes
        a dead node's key need not give it away again.
        """
        start, seen = self.index(key), set[str]()
        for at in range(start, start + len(self.ids)):
            node = self.point(at).node
            if node not in seen:
                seen.add(node)
                yield node
                if len(seen) == len(self.nodes):
                    return

    def live_owner(self, key: int, live: Container[str]) -> str | None:
        """Return the owner among the live nodes; None if none lives."""
        return next((node for node in self.order(key) if node in live), None)

    def shares(self) -> dict[str, float]:
        """Return the part of the circle that belongs to each node."""
        arcs = dict.fromkeys(self.nodes, 0)
        for at, point_id in enumerate(self.ids):
            # A point that is alone has the whole circle.
            arcs[self._node_at[point_id]] += distance(self.ids[at - 1], point_id) or SIZE
        return {node: arc / SIZE for node, arc in arcs.items()}
