"""The interface of every overlay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

# The width of Chord's SHA-1 keys, and of our circle's (teia/cluster/circle/circle.py).
KEY_BITS = 160


@dataclass(frozen=True, slots=True)
class Taken:
    """The keys that a new node takes: their share of all keys, and the number of nodes that gave them."""

    share: float
    givers: int


class Overlay(Protocol):
    """Nodes, numbered from 0, that divide all keys among themselves; keys have `KEY_BITS` bits."""

    def owner(self, key: int) -> int:
        """Return the node that owns a key."""

    def hops(self, start: int, key: int) -> int:
        """Return the number of messages of a look-up from `start` to the owner of a key."""

    def known_nodes(self, node: int) -> int:
        """Return the number of other nodes that a node must know."""

    def join_share(self, rng: np.random.Generator) -> Taken:
        """Return the keys that one more node would take; nothing is changed."""

    def largest_share(self) -> float:
        """Return the largest share of the keys that a node has, relative to the mean share."""


def random_key(rng: np.random.Generator, bits: int = KEY_BITS) -> int:
    """Draw a key, or an id of another width."""
    return int.from_bytes(rng.bytes(bits // 8), "big")
