"""The 64-bit simhash on arrays: the readable form of lib/_words.pyx, which tests compare with it.

A word's polynomial is the difference of two running sums.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from teia.lib.simhash import BASE, IDEOGRAPH, KINDS, SEPARATOR, WORD_WEIGHTS

BLOCK_SHINGLES = 1 << 15
"""Votes are counted in blocks, so that a large text needs little memory."""

TABLE_POWERS = 1 << 15
_INVERSE = pow(BASE, -1, 1 << 64)

Words = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.intp]


def _powers(count: int, base: int, ready: Words | None = None) -> Words:
    """Return the powers of `base` modulo 2^64 from 0 on; from a table where that is long enough."""
    if ready is not None and count <= ready.size:
        return ready[:count]
    powers = np.full(count, base, dtype=np.uint64)
    powers[0] = 1
    return np.cumprod(powers, dtype=np.uint64)


_POWERS = _powers(TABLE_POWERS, BASE)
_INVERSE_POWERS = _powers(TABLE_POWERS, _INVERSE)


def simhash_by_arrays(octets: bytes) -> int:
    """Return the fingerprint of a text in UTF-8."""
    words = _word_hashes(octets)
    if words.size == 0:
        return 0
    shingles = _shingle_hashes(words)
    votes = np.zeros(64, dtype=np.int64)
    for start in range(0, shingles.size, BLOCK_SHINGLES):
        votes += _votes(shingles[start : start + BLOCK_SHINGLES])
    majority = votes * 2 > shingles.size
    return int.from_bytes(np.packbits(majority, bitorder="little").tobytes(), "little")


def _votes(hashes: Words) -> npt.NDArray[np.int64]:
    """Count how many hashes have each of the 64 bits.

    One bit to a byte and eight bytes added at once as one number: 255 ones fit into a byte before it carries.
    """
    lanes = np.unpackbits(hashes.view(np.uint8), bitorder="little").view(np.uint64).reshape(-1, 8)
    sums = np.add.reduceat(lanes, np.arange(0, hashes.size, 255), axis=0)
    votes: npt.NDArray[np.int64] = sums.view(np.uint8).reshape(-1, 64).sum(axis=0, dtype=np.int64)
    return votes


def _word_hashes(data: bytes) -> Words:
    first, end = _word_bounds(data)
    sums = np.zeros(len(data) + 1, dtype=np.uint64)
    terms = sums[1:]
    np.multiply(np.frombuffer(data, dtype=np.uint8), _powers(len(data), BASE, _POWERS), out=terms)
    np.cumsum(terms, out=terms)
    # Divided by the power of its first letter, so that a word's hash does not depend on its position.
    return _mixed((sums[end] - sums[first]) * _powers(len(data), _INVERSE, _INVERSE_POWERS)[first])


def _word_bounds(data: bytes) -> tuple[Positions, Positions]:
    """Return where words begin and where they end, the end being the first octet that is no longer theirs."""
    kinds = data.translate(KINDS)
    fenced = np.frombuffer(b"\0%b\0" % kinds, dtype=np.uint8)
    before, here = fenced[:-1], fenced[1:]
    # Without ideographs, edges between letters and separators begin and end a word in turn.
    if IDEOGRAPH not in kinds:
        edges = np.flatnonzero(before != here)
        return edges[::2], edges[1::2]
    # In a script without blanks a word begins at every character, and ends where the next one begins.
    ideograph = here == IDEOGRAPH
    starts = (here != SEPARATOR) & (before == SEPARATOR) | ideograph
    ends = (before != SEPARATOR) & ((here == SEPARATOR) | ideograph)
    return np.flatnonzero(starts), np.flatnonzero(ends)


def _shingle_hashes(words: Words) -> Words:
    # One or two words are hashed one by one, so that a short text has a fingerprint, too.
    if words.size < len(WORD_WEIGHTS):
        return _mixed(words * np.uint64(WORD_WEIGHTS[0]))
    count = words.size - len(WORD_WEIGHTS) + 1
    total = np.zeros(count, dtype=np.uint64)
    for offset, weight in enumerate(WORD_WEIGHTS):
        total += words[offset : offset + count] * np.uint64(weight)
    return _mixed(total)


def _mixed(values: Words) -> Words:
    """Spread every bit over all 64, in place (the finisher of splitmix64)."""
    values ^= values >> np.uint64(30)
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(27)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)
    return values
