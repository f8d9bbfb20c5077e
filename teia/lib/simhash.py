"""64-bit simhash of a text over its word shingles (Charikar 2002; Manku, Jain, Das Sarma 2007).

Alike texts get fingerprints that differ in few bits. Everything is done on arrays, because a Python loop over the words
of an ordinary page would cost more than parsing it: the hash of a word is the difference of two running sums of a
polynomial modulo 2^64, mixed afterwards, since the low bits of such a polynomial are weak on their own.

A word is a run of letters and digits; in scripts written without blanks (UTF-8 lead bytes E3 to E9) each character is
one. The same text gives the same fingerprint on every machine and in every version: they are kept on disk.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SHINGLE_WORDS = 3
BLOCK_SHINGLES = 1 << 15
"""Votes are counted in blocks, so that a large text needs little memory."""

MAX_BYTES = 1 << 22
_BASE = 0x9E3779B97F4A7C15 | 1
_INVERSE = pow(_BASE, -1, 1 << 64)
TABLE_POWERS = 1 << 15
_WORD_WEIGHTS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93)

Words = npt.NDArray[np.uint64]


def _powers(count: int, base: int, ready: Words | None = None) -> Words:
    """Return the powers of `base` modulo 2^64 from 0 on; from a table where that is long enough."""
    if ready is not None and count <= ready.size:
        return ready[:count]
    powers = np.full(count, base, dtype=np.uint64)
    powers[0] = 1
    return np.cumprod(powers, dtype=np.uint64)


_POWERS = _powers(TABLE_POWERS, _BASE)
_INVERSE_POWERS = _powers(TABLE_POWERS, _INVERSE)


def _separators() -> npt.NDArray[np.bool_]:
    table = np.ones(256, dtype=np.bool_)
    table[[*b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"]] = False
    table[0x80:] = False
    return table


_IS_SEPARATOR = _separators()


def simhash(text: str) -> int:
    """Return the fingerprint of a text, 0 for one without words."""
    words = _word_hashes(text.encode("utf-8", "replace")[:MAX_BYTES])
    if words.size == 0:
        return 0
    shingles = _shingle_hashes(words)
    votes = np.zeros(64, dtype=np.float64)
    for start in range(0, shingles.size, BLOCK_SHINGLES):
        block = shingles[start : start + BLOCK_SHINGLES]
        bits = np.unpackbits(block.view(np.uint8), bitorder="little").reshape(-1, 64)
        # A product counts twice as fast as a sum of bytes; float32 is exact up to 2^24.
        votes += np.ones(block.size, dtype=np.float32) @ bits.astype(np.float32)
    majority = votes * 2 > shingles.size
    return int.from_bytes(np.packbits(majority, bitorder="little").tobytes(), "little")


def distance(one: int, other: int) -> int:
    """Return in how many of the 64 bits two fingerprints differ."""
    return (one ^ other).bit_count()


def _word_hashes(data: bytes) -> Words:
    octets = np.frombuffer(data, dtype=np.uint8)
    separator = _IS_SEPARATOR[octets]
    # A word begins after a separator, and at every character of a script without blanks.
    starts = ~separator
    starts[1:] &= separator[:-1]
    ideograph = (octets >= 0xE3) & (octets <= 0xE9)
    starts |= ideograph
    first = np.flatnonzero(starts)
    if first.size == 0:
        return np.empty(0, dtype=np.uint64)
    ends = ~separator
    ends[:-1] &= separator[1:] | ideograph[1:]
    last = np.flatnonzero(ends)
    terms = octets.astype(np.uint64) * _powers(octets.size, _BASE, _POWERS)
    sums = np.cumsum(terms, dtype=np.uint64)
    # Divided by the power of its first letter, so that a word's hash does not depend on where it stands.
    return _mixed((sums[last] - sums[first] + terms[first]) * _powers(octets.size, _INVERSE, _INVERSE_POWERS)[first])


def _shingle_hashes(words: Words) -> Words:
    if words.size < SHINGLE_WORDS:
        return _mixed(words * np.uint64(_WORD_WEIGHTS[0]))
    count = words.size - SHINGLE_WORDS + 1
    total = np.zeros(count, dtype=np.uint64)
    for offset, weight in enumerate(_WORD_WEIGHTS):
        total += words[offset : offset + count] * np.uint64(weight)
    return _mixed(total)


def _mixed(values: Words) -> Words:
    """Spread every bit over all 64 (the finisher of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
