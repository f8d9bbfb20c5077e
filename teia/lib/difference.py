"""Common parts of two sequences, in bounded time and memory.

rapidfuzz finds a longest common subsequence, so that the fewest items count as removed and added. That takes a bit of
memory for each pair of items. For sequences too long for that it finds the fewest edits, one of which replaces an item,
in memory that grows with the sequences; then a common item beside a replaced one may count as changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, TypeVar

from rapidfuzz.distance import LCSseq, Levenshtein

MAX_PAIRS = 1 << 30
"""Most pairs of items that are compared with a bit of memory each: 128 MB."""

Item = TypeVar("Item", bound=Hashable)


class Block(NamedTuple):
    """So many items that are the same: from `a` on in the one sequence, from `b` on in the other."""

    a: int
    b: int
    size: int


def common_blocks(one: Sequence[Item], other: Sequence[Item]) -> list[Block]:
    """Return the blocks that two sequences share, in order; the items between them were removed and added."""
    # Numbers for items: rapidfuzz compares hashes, and those of two texts may be the same.
    numbers: dict[Item, int] = {}
    before, after = ([numbers.setdefault(item, len(numbers)) for item in each] for each in (one, other))
    edits = (LCSseq if len(one) * len(other) <= MAX_PAIRS else Levenshtein).editops(before, after)
    return [Block(block.a, block.b, block.size) for block in edits.as_matching_blocks() if block.size]
