"""Pages that read alike are one result: the best of them stands for all, and says how many there are.

Two pages are alike if their texts are the same, or if their fingerprints differ in at most three of 64 bits (Manku,
Jain, Das Sarma 2007). A page without text is like no other.

Three bits cannot change all four parts of a fingerprint, so only pages with a part in common are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from teia.search.ranking import Rows

MAX_BITS = 3
PARTS = MAX_BITS + 1


def leaders_of(rows: Rows) -> list[int]:
    """For each row, which row stands for it: itself, or the first one like it."""
    leaders = list(range(len(rows)))
    alike = _alike(rows)
    for row in sorted(alike):
        standing = (other for other in sorted(alike[row]) if leaders[other] == other)
        leaders[row] = next(standing, row)
    return leaders


def _alike(rows: Rows) -> dict[int, set[int]]:
    """By row: the earlier ones that are like it."""
    simhashes = np.ascontiguousarray(rows["simhash"]).view(np.uint64)
    digests = rows["digest"]
    parts = simhashes.view(np.uint16).reshape(-1, PARTS)
    found: dict[int, set[int]] = defaultdict(set)
    for column in (digests, *parts.T):
        for one, other in _same(column, simhashes != 0):
            differ = int(simhashes[one] ^ simhashes[other]).bit_count()
            if differ <= MAX_BITS or digests[one] == digests[other]:
                found[other].add(one)
    return found


def _same(column: NDArray[Any], wanted: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Every two of the wanted rows that have the same value, the earlier first."""
    places = np.flatnonzero(wanted)
    order = places[np.argsort(column[places], kind="stable")]
    ordered = column[order]
    repeats = np.flatnonzero(ordered[1:] == ordered[:-1])
    if not repeats.size:
        return
    ends = np.flatnonzero(np.diff(repeats) > 1)
    for first, last in zip([0, *(ends + 1)], [*ends, len(repeats) - 1], strict=True):
        run = order[repeats[first] : repeats[last] + 2].tolist()
        yield from combinations(run, 2)
