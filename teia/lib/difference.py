"""Common parts of two sequences, in bounded time.

Where little differs, the fewest items that have to be removed and added are found (Myers, "An O(ND) difference
algorithm", 1986). Where much differs that would take too long: then the items that are on both sides exactly once, in
the same order, hold the two together (as in Bram Cohen's patience diff), and between them the same is tried again.
Stretches that are still too long count as replaced.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple, TypeVar

MAX_DISTANCE = 800
"""Items removed and added up to which the fewest are found; memory and time grow with its square (0.3 s)."""

MAX_WORK = 3_000_000
"""Steps that may be spent in all."""

Item = TypeVar("Item", bound=Hashable)


class Block(NamedTuple):
    """So many items that are the same: from `a` on in the one sequence, from `b` on in the other."""

    a: int
    b: int
    size: int


def common_blocks(one: Sequence[Item], other: Sequence[Item]) -> list[Block]:
    """Return the blocks that two sequences share, in order; the items between them were removed and added."""
    return _join(_Search(one, other).blocks())


class _Search:
    def __init__(self, one: Sequence[Item], other: Sequence[Item]) -> None:
        # Items become small integers: the inner loops compare numbers and not long lines.
        numbers: dict[Hashable, int] = {}
        self._one = [numbers.setdefault(item, len(numbers)) for item in one]
        self._other = [numbers.setdefault(item, len(numbers)) for item in other]
        self._work = MAX_WORK

    def blocks(self) -> list[Block]:
        found: list[Block] = []
        waiting = [(0, len(self._one), 0, len(self._other), True)]
        while waiting:
            a, a_end, b, b_end, may_split = waiting.pop()
            # 1. Equal items at both ends need no search.
            before = a
            while a < a_end and b < b_end and self._one[a] == self._other[b]:
                a, b = a + 1, b + 1
            found.append(Block(before, b - (a - before), a - before))
            end = a_end
            while a < a_end and b < b_end and self._one[a_end - 1] == self._other[b_end - 1]:
                a_end, b_end = a_end - 1, b_end - 1
            found.append(Block(a_end, b_end, end - a_end))
            if a == a_end or b == b_end:
                continue
            # 2. Few differences: the exact answer. Many: split at the anchors, and search each stretch again.
            least = self._least(a, a_end, b, b_end)
            if least is not None:
                found += least
            elif may_split:
                waiting += self._between_anchors(a, a_end, b, b_end)
        return sorted(block for block in found if block.size)

    def _least(self, a: int, a_end: int, b: int, b_end: int) -> list[Block] | None:
        """Return the blocks with the fewest items beside them; None where too many would be."""
        one, other, n, m = self._one, self._other, a_end - a, b_end - b
        # Myers: `furthest[k]` is the largest x reached on the diagonal k = x - y after `distance` edits.
        furthest = {1: 0}
        trail: list[dict[int, int]] = []
        for distance in range(min(n + m, MAX_DISTANCE) + 1):
            self._work -= 2 * distance + 1  # the trail is copied
            if self._work < 0:
                return None
            trail.append(dict(furthest))
            for k in range(-distance, distance + 1, 2):
                # Down from diagonal k + 1: an item added. Right from k - 1: an item removed.
                down = k == -distance or (k != distance and furthest[k - 1] < furthest[k + 1])
                x = furthest[k + 1] if down else furthest[k - 1] + 1
                y, began = x - k, x
                while x < n and y < m and one[a + x] == other[b + y]:
                    x, y = x + 1, y + 1
                furthest[k] = x
                self._work -= x - began
                if x >= n and y >= m:
                    return [Block(a + x, b + y, size) for x, y, size in _backtrack(trail, n, m)]
        return None

    def _between_anchors(self, a: int, a_end: int, b: int, b_end: int) -> list[tuple[int, int, int, int, bool]]:
        """Return the stretches between items that occur once on both sides and in the same order."""
        once = _positions_of_single(self._one, a, a_end)
        others = _positions_of_single(self._other, b, b_end)
        pairs = sorted((place, others[item]) for item, place in once.items() if item in others)
        anchors = [pairs[at] for at in _longest_rising([y for _, y in pairs])]
        stretches, x, y = [], a, b
        for x_next, y_next in anchors:
            stretches.append((x, x_next, y, y_next, True))
            x, y = x_next, y_next
        if not anchors:
            return []
        # The last stretch begins with an anchor, so it is shorter than the whole.
        stretches.append((x, a_end, y, b_end, True))
        return stretches


def _positions_of_single(items: Sequence[int], begin: int, end: int) -> dict[int, int]:
    counts = Counter(items[begin:end])
    return {item: begin + at for at, item in enumerate(items[begin:end]) if counts[item] == 1}


def _longest_rising(numbers: Sequence[int]) -> list[int]:
    """Return the places of a longest rising subsequence."""
    # Patience sorting: `ends[n]` is the smallest last number of a rising subsequence of n + 1 items.
    ends: list[int] = []
    places: list[int] = []
    before: list[int] = []
    for place, number in enumerate(numbers):
        at = bisect_left(ends, number)
        before.append(places[at - 1] if at else -1)
        if at == len(ends):
            ends.append(number)
            places.append(place)
        else:
            ends[at], places[at] = number, place
    way: list[int] = []
    place = places[-1] if places else -1
    while place >= 0:
        way.append(place)
        place = before[place]
    return way[::-1]


def _backtrack(trail: Sequence[dict[int, int]], n: int, m: int) -> list[tuple[int, int, int]]:
    """Return the diagonals (x, y, size) of the way that Myers' search found, in any order."""
    found: list[tuple[int, int, int]] = []
    x, y = n, m
    for distance in range(len(trail) - 1, -1, -1):
        furthest, k = trail[distance], x - y
        down = k == -distance or (k != distance and furthest[k - 1] < furthest[k + 1])
        k_before = k + 1 if down else k - 1
        x_before = furthest[k_before]
        y_before = x_before - k_before
        x_start, y_start = (x_before, y_before + 1) if down else (x_before + 1, y_before)
        # No edit leads to the first diagonal; it begins at the origin.
        if distance == 0:
            x_start = y_start = 0
        if x > x_start:
            found.append((x_start, y_start, x - x_start))
        x, y = x_before, y_before
    return found


def _join(blocks: Sequence[Block]) -> list[Block]:
    """Join neighbouring blocks."""
    found: list[Block] = []
    for block in blocks:
        last = found[-1] if found else None
        if last is not None and (last.a + last.size, last.b + last.size) == (block.a, block.b):
            found[-1] = Block(last.a, last.b, last.size + block.size)
        else:
            found.append(block)
    return found
