"""Chord and our own circle, using the code of the cluster.

Chord's nodes stand at one point each and know their fingers. Our nodes stand at 64 points and know each other through
their sessions, so a look-up is one message. `finger_ring` measures the cost of our circle without that knowledge.
"""

from __future__ import annotations

import numpy as np

from teia.cluster.circle.circle import POINTS, SIZE, Circle, CirclePoint, distance, node_points
from teia.cluster.circle.fingers import Fingers
from teia.lab.lookup.overlay import Taken


class ChordRing:
    """A circle of nodes that route by their fingers."""

    def __init__(self, names: list[str], points: int) -> None:
        self.circle = Circle(dict.fromkeys(names, 1.0), points)
        self._fingers = Fingers(self.circle)
        self._names = names
        self._numbers = {name: number for number, name in enumerate(names)}

    def owner(self, key: int) -> int:
        return self._numbers[self.circle.owner(key)]

    def hops(self, start: int, key: int) -> int:
        """Return the hops by fingers; 0 for a node's own key, which it recognises by its predecessor."""
        return 0 if self.owner(key) == start else len(self._fingers.route(self._names[start], key))

    def known_nodes(self, node: int) -> int:
        name = self._names[node]
        points = node_points(name, 1.0, self.circle.points_per_capacity)
        others = {finger.to.node for point in points for finger in self._fingers.table(CirclePoint(point, name))}
        return len(others - {name})

    def join_share(self, rng: np.random.Generator) -> Taken:
        """Return the share of a new node: each of its points takes the arc from the last point before it."""
        points = sorted(node_points(f"newcomer {rng.bytes(8).hex()}", 1.0, self.circle.points_per_capacity))
        taken = 0
        for before, point in zip([points[-1], *points], points, strict=False):
            arc = distance(self.circle.predecessor(point).id, point) or SIZE
            # An arc ends at the newcomer's own previous point if that is nearer, or both would count the same keys.
            taken += min(arc, distance(before, point) or SIZE)
        return Taken(taken / SIZE, len({self.circle.owner(point) for point in points}))

    def largest_share(self) -> float:
        return max(self.circle.shares().values()) * len(self._names)


class OneHop(ChordRing):
    """A circle whose nodes all know each other."""

    def hops(self, start: int, key: int) -> int:
        return int(self.owner(key) != start)

    def known_nodes(self, node: int) -> int:  # noqa: ARG002  # it is the same for every node
        return len(self._names) - 1


def _names(count: int, seed: int) -> list[str]:
    return [f"node-{number}-{seed}" for number in range(count)]


def chord_ring(count: int, seed: int) -> ChordRing:
    """Return the paper's Chord: one point per node."""
    return ChordRing(_names(count, seed), 1)


def one_hop_ring(count: int, seed: int) -> OneHop:
    """Return our circle: `POINTS` per node, and every node knows every other."""
    return OneHop(_names(count, seed), POINTS)


def finger_ring(count: int, seed: int) -> ChordRing:
    """Return our points with Chord's fingers (`teia cluster lookup --hops`)."""
    return ChordRing(_names(count, seed), POINTS)
