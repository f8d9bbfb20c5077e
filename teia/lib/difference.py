"""Common parts of two sequences, in bounded time and memory.

rapidfuzz finds a longest common subsequence, so that the fewest items count as removed and added. Its time grows with
the number of pairs of items, and no other thread runs meanwhile. So longer sequences are cut first, at runs of items
that occur once on both sides (as in Bram Cohen's patience diff), and, where such runs are missing, into pieces of equal
shares. Then a common item on the other side of a cut may count as changed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from rapidfuzz.distance import LCSseq

MAX_PAIRS = 1 << 28
"""Most pairs of items that are compared in all: 0.2 s, and a bit of memory each, 32 MB."""

ENOUGH_PAIRS = 1 << 18
"""Pairs of items up to which a part is not cut further."""

RUNS = (4, 1)
"""Lengths of the runs at which sequences are cut: several words in a row are seldom moved, a single one may be."""

MAX_CUTS = 20_000
"""Most runs that are looked at; more would take longer and not cut better."""

Item = TypeVar("Item", bound=Hashable)


class Block(NamedTuple):
    """So many items that are the same: from `a` on in the one sequence, from `b` on in the other."""

    a: int
    b: int
    size: int


class _Part(NamedTuple):
    """Items `a` to `a_end` of the one sequence, to be compared with `b` to `b_end` of the other."""

    a: int
    a_end: int
    b: int
    b_end: int

    @property
    def pairs(self) -> int:
        return (self.a_end - self.a) * (self.b_end - self.b)


def common_blocks(one: Sequence[Item], other: Sequence[Item]) -> list[Block]:
    """Return the blocks that two sequences share, in order; the items between them were removed and added."""
    # Numbers for items: rapidfuzz compares hashes, and those of two texts may be the same.
    numbers: dict[Item, int] = {}
    before, after = ([numbers.setdefault(item, len(numbers)) for item in each] for each in (one, other))
    ends, whole = _without_ends(before, after)
    parts = [whole]
    for run in RUNS:
        if sum(part.pairs for part in parts) > MAX_PAIRS:
            parts = [piece for part in parts for piece in _cut_at_runs(before, after, part, run)]
    found = list(ends)
    for part in _within_bound(parts):
        edits = LCSseq.editops(before[part.a : part.a_end], after[part.b : part.b_end])
        found += (Block(part.a + a, part.b + b, size) for a, b, size in edits.as_matching_blocks())
    return list(_join(sorted(block for block in found if block.size)))


def _without_ends(before: Sequence[int], after: Sequence[int]) -> tuple[tuple[Block, Block], _Part]:
    """Return the equal items at both ends, and the part between them."""
    shorter = min(len(before), len(after))
    head = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    most = shorter - head
    tail = next((at for at in range(most) if before[-1 - at] != after[-1 - at]), most)
    a_end, b_end = len(before) - tail, len(after) - tail
    return (Block(0, 0, head), Block(a_end, b_end, tail)), _Part(head, a_end, head, b_end)


def _cut_at_runs(before: Sequence[int], after: Sequence[int], part: _Part, run: int) -> Iterator[_Part]:
    """Cut a part where runs of items begin that occur once on both sides, in the same order."""
    a, a_end, b, b_end = part
    if part.pairs > ENOUGH_PAIRS:
        places = _single_runs(before[a:a_end], after[b:b_end], run)
        cuts = [(part.a + places[at][0], part.b + places[at][1]) for at in _longest_rising([y for _, y in places])]
        # Not at each run: fewer cuts separate fewer common items.
        for cut, next_cut in pairwise([*cuts, (a_end, b_end)]):
            if _Part(a, next_cut[0], b, next_cut[1]).pairs > ENOUGH_PAIRS:
                yield _Part(a, cut[0], b, cut[1])
                a, b = cut
    yield _Part(a, a_end, b, b_end)


def _single_runs(before: Sequence[int], after: Sequence[int], run: int) -> list[tuple[int, int]]:
    """Return where the runs of so many items begin that occur once on each side, in the order of the one side."""
    import numpy as np  # only long texts need it

    runs, places = [], []
    for items in (before, after):
        numbers = np.array(items, np.uint64)
        # A hash for each run: where two runs have the same, the cut is at a worse place, and nothing else is wrong.
        hashes = np.zeros(max(0, len(numbers) - run + 1), np.uint64)
        for at in range(run):
            hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + numbers[at : at + len(hashes)]
        found, first, counts = np.unique(hashes, return_index=True, return_counts=True)
        runs.append(found[counts == 1])
        places.append(first[counts == 1])
    _, at_one, at_other = np.intersect1d(runs[0], runs[1], assume_unique=True, return_indices=True)
    a, b = places[0][at_one], places[1][at_other]
    order = np.argsort(a)[:: 1 + len(a) // MAX_CUTS]
    return list(zip(a[order].tolist(), b[order].tolist(), strict=True))


def _longest_rising(numbers: Sequence[int]) -> list[int]:
    """Return the places of a longest rising subsequence."""
    # Patience sorting: `ends[n]` is the smallest last number of a rising subsequence of n + 1 items.
    ends: list[int] = []
    places: list[int] = []
    before: list[int] = []
    for place, number in enumerate(numbers):
        at = bisect_left(ends, number)
        before.append(places[at - 1] if at else -1)
        ends[at : at + 1], places[at : at + 1] = [number], [place]
    way: list[int] = []
    place = places[-1] if places else -1
    while place >= 0:
        way.append(place)
        place = before[place]
    return way[::-1]


def _within_bound(parts: Sequence[_Part]) -> Iterator[_Part]:
    """Cut parts into pieces of equal shares, so that `MAX_PAIRS` suffice for all of them."""
    is_within = sum(part.pairs for part in parts) <= MAX_PAIRS
    items = sum(part.a_end - part.a + part.b_end - part.b for part in parts)
    for a, a_end, b, b_end in parts:
        length, other_length = a_end - a, b_end - b
        # Each part gets pairs in proportion to its length.
        allowed = max(1, MAX_PAIRS * (length + other_length) // max(1, items))
        pieces = 1 if is_within else -(-length * other_length // allowed)
        for at in range(pieces):
            yield _Part(
                a + length * at // pieces,
                a + length * (at + 1) // pieces,
                b + other_length * at // pieces,
                b + other_length * (at + 1) // pieces,
            )


def _join(blocks: Iterable[Block]) -> Iterator[Block]:
    """Join neighbouring blocks."""
    last: Block | None = None
    for block in blocks:
        if last is not None and (last.a + last.size, last.b + last.size) == (block.a, block.b):
            last = Block(last.a, last.b, last.size + block.size)
            continue
        if last is not None:
            yield last
        last = block
    if last is not None:
        yield last
