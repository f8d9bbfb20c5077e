"""64-bit simhash of a text over its word shingles (Charikar 2002; Manku, Jain, Das Sarma 2007).

Alike texts get fingerprints that differ in few bits. The hash of a word is a polynomial modulo 2^64, mixed afterwards,
since the low bits of such a polynomial are weak on their own. A Python loop over the words of an ordinary page would
cost more than parsing it, so there is a compiled one (_words.pyx). Without it everything is done on arrays, where a
word's polynomial is the difference of two running sums.

A word is a run of letters and digits; in scripts written without blanks (UTF-8 lead bytes E3 to E9) each character is
one. The same text gives the same fingerprint on every machine and in every version: they are kept on disk.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

try:
    from teia.lib._words import Simhash
except ImportError:
    Simhash = None  # type: ignore[assignment,misc]

SHINGLE_WORDS = 3
BLOCK_SHINGLES = 1 << 15
"""Votes are counted in blocks, so that a large text needs little memory."""

MAX_BYTES = 1 << 22
_BASE = 0x9E3779B97F4A7C15 | 1
_INVERSE = pow(_BASE, -1, 1 << 64)
TABLE_POWERS = 1 << 15
_WORD_WEIGHTS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93)

Words = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.intp]


def _powers(count: int, base: int, ready: Words | None = None) -> Words:
    """Return the powers of `base` modulo 2^64 from 0 on; from a table where that is long enough."""
    if ready is not None and count <= ready.size:
        return ready[:count]
    powers = np.full(count, base, dtype=np.uint64)
    powers[0] = 1
    return np.cumprod(powers, dtype=np.uint64)


_POWERS = _powers(TABLE_POWERS, _BASE)
_INVERSE_POWERS = _powers(TABLE_POWERS, _INVERSE)


SEPARATOR, LETTER, IDEOGRAPH = range(3)


def _kinds() -> bytes:
    table = bytearray([SEPARATOR] * 0x80 + [LETTER] * 0x80)
    for octet in b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz":
        table[octet] = LETTER
    table[0xE3:0xEA] = bytes([IDEOGRAPH] * 7)
    return bytes(table)


_KINDS = _kinds()
_COMPILED = None if Simhash is None else Simhash(_KINDS, _BASE, _WORD_WEIGHTS)


def simhash(text: str | bytes) -> int:
    """Return the fingerprint of a text (as octets: in UTF-8), 0 for one without words."""
    octets = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    octets = octets[:MAX_BYTES]
    return simhash_by_arrays(octets) if _COMPILED is None else _COMPILED.of(octets)


def simhash_by_arrays(octets: bytes) -> int:
    """Do the same without compiled code."""
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
    np.multiply(np.frombuffer(data, dtype=np.uint8), _powers(len(data), _BASE, _POWERS), out=terms)
    np.cumsum(terms, out=terms)
    # Divided by the power of its first letter, so that a word's hash does not depend on where it stands.
    return _mixed((sums[end] - sums[first]) * _powers(len(data), _INVERSE, _INVERSE_POWERS)[first])


def _word_bounds(data: bytes) -> tuple[Positions, Positions]:
    """Return where words begin and where they end, the end being the first octet that is no longer theirs."""
    kinds = data.translate(_KINDS)
    fenced = np.frombuffer(b"\0%b\0" % kinds, dtype=np.uint8)
    before, here = fenced[:-1], fenced[1:]
    if IDEOGRAPH not in kinds:
        edges = np.flatnonzero(before != here)
        return edges[::2], edges[1::2]
    # In a script without blanks a word begins at every character, and ends where the next one begins.
    ideograph = here == IDEOGRAPH
    starts = (here != SEPARATOR) & (before == SEPARATOR) | ideograph
    ends = (before != SEPARATOR) & ((here == SEPARATOR) | ideograph)
    return np.flatnonzero(starts), np.flatnonzero(ends)


def _shingle_hashes(words: Words) -> Words:
    if words.size < SHINGLE_WORDS:
        return _mixed(words * np.uint64(_WORD_WEIGHTS[0]))
    count = words.size - SHINGLE_WORDS + 1
    total = np.zeros(count, dtype=np.uint64)
    for offset, weight in enumerate(_WORD_WEIGHTS):
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
