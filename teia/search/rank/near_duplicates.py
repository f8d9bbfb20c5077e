"""Near duplicates: pages with nearly the same text are one result, represented by the best of them.

Two pages are alike if their texts are the same, or if their fingerprints differ in at most three of 64 bits (Manku,
Jain, Das Sarma 2007). A page without text is like no other.

Three bits cannot change all four parts of a fingerprint, so only pages with a part in common are compared.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from teia.search.rank.rows import Rows

MAX_BITS = 3
PARTS = MAX_BITS + 1


# Bits of a part: its position from 48 up, 16 bits of the simhash (32 of the digest) from 16 up, the row below.
_COLUMN = np.arange(PARTS + 1, dtype=np.uint64)[:, None] << np.uint64(48)
_LOW = np.uint64(0xFFFF)


def leaders_by_numpy(rows: Rows) -> list[int]:
    """Return for each row its representative: itself, or the first representative that is like it."""
    found = list(range(len(rows)))
    simhashes, digests = np.ascontiguousarray(rows["simhash"]).view(np.uint64), rows["digest"]
    parts = _parts(simhashes, digests)
    # Representatives by part. A row is compared with these alone, so groups do not chain from page to page.
    representatives: dict[int, list[int]] = defaultdict(list)
    for row in _rows_sharing_parts(parts):
        simhash, digest = int(simhashes[row]), int(digests[row])
        if not simhash:
            continue
        mine = parts[:, row].tolist()
        # Sorted: the first representative wins, as in the compiled version.
        for other in sorted({other for part in mine for other in representatives[part]}):
            differ = (simhash ^ int(simhashes[other])).bit_count()
            if differ <= MAX_BITS or digest == int(digests[other]):
                found[row] = other
                break
        else:
            for part in mine:
                representatives[part].append(row)
    return found


def _parts(simhashes: NDArray[np.uint64], digests: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the parts of which two alike rows share at least one, a column for each row.

    Parts of different positions are never equal. The lowest sixteen bits are free.
    """
    parts = np.empty((PARTS + 1, len(simhashes)), np.uint64)
    parts[:PARTS] = simhashes.view(np.uint16).reshape(-1, PARTS).T
    parts[PARTS] = digests & 0xFFFFFFFF
    parts <<= np.uint64(16)
    parts |= _COLUMN
    return parts


def _rows_sharing_parts(parts: NDArray[np.uint64]) -> list[int]:
    """Return the rows that share a part with another, in their order; usually there are few.

    A part and the number of its row are sorted as one: there are never 65,536 rows.
    """
    numbers = (parts | np.arange(parts.shape[1], dtype=np.uint64)).ravel()
    numbers.sort()
    # Neighbours that differ in the row number alone have the same part.
    differ = numbers[1:] ^ numbers[:-1]
    repeats = np.flatnonzero(differ <= _LOW)
    return sorted({number & 0xFFFF for number in (*numbers[repeats].tolist(), *numbers[repeats + 1].tolist())})


try:
    from teia.search.rank._rows import leaders_of as leaders_of
except ImportError:
    leaders_of = leaders_by_numpy
