"""What is asked of every overlay, whoever invented it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

KEY_BITS = 160


@dataclass(frozen=True, slots=True)
class Taken:
    """What a newcomer takes: a share of all keys, from how many nodes."""

    share: float
    givers: int


class Overlay(Protocol):
    """Nodes, numbered from 0, that have divided all keys among themselves; keys have `KEY_BITS` bits."""

    def owner(self, key: int) -> int:
        """The node that has a key."""

    def hops(self, start: int, key: int) -> int:
        """How many messages a look-up that `start` begins takes until it has reached the owner."""

    def known(self, node: int) -> int:
        """How many other nodes a node must know."""

    def newcomer(self, chance: np.random.Generator) -> Taken:
        """What one more node would take; nothing is changed."""

    def largest_share(self) -> float:
        """The largest share that a node has of the keys, in mean shares."""


def random_key(chance: np.random.Generator, bits: int = KEY_BITS) -> int:
    """Draw a key, or an id of another width."""
    return int.from_bytes(chance.bytes(bits // 8), "big")
