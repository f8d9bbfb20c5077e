"""64-bit fingerprints of texts: simhash, the distance between two, and outline.

Texts that are alike get a *simhash* over their word shingles that differs in few bits (Charikar 2002; Manku, Jain, Das
Sarma 2007). The hash of a word is a polynomial modulo 2^64, mixed afterwards, since the low bits of such a polynomial
are weak on their own. A Python loop over the words of an ordinary page would cost more than parsing it, so it is
compiled (_words.pyx). A word is a run of letters and digits; in scripts written without blanks (UTF-8 lead bytes E3 to
E9) each character is one. The same text gives the same fingerprint on every machine and in every version: they are kept
on disk.

An *outline* is a hash of a text that does not see its numbers: `Page 17 of 300` and `Page 18 of 300` have the same.
Pages that a server makes up without end often differ in nothing else. It costs a few microseconds a page.
"""

from __future__ import annotations

import xxhash

from teia.lib._words import Simhash

# Fingerprints are stored, so none of these numbers may ever change. BASE is 2^64 divided by the golden ratio; it is
# odd, and so has an inverse modulo 2^64.
BASE = 0x9E3779B97F4A7C15 | 1
WORD_WEIGHTS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93)

SEPARATOR, LETTER, IDEOGRAPH = range(3)


def _kinds() -> bytes:
    table = bytearray([SEPARATOR] * 0x80 + [LETTER] * 0x80)
    for octet in b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz":
        table[octet] = LETTER
    table[0xE3:0xEA] = bytes([IDEOGRAPH] * 7)
    return bytes(table)


KINDS = _kinds()
MAX_BYTES = 1 << 22
_SIMHASH = Simhash(KINDS, BASE, WORD_WEIGHTS)


def simhash(text: str | bytes) -> int:
    """Return the fingerprint of a text (as octets: in UTF-8), 0 for one without words."""
    octets = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    return _SIMHASH.of(octets[:MAX_BYTES])


def distance(one: int, other: int) -> int:
    """Return in how many of the 64 bits two fingerprints differ."""
    return (one ^ other).bit_count()


# ---- outlines --------------------------------------------------------------------------------------------------------


OUTLINE_BYTES = 1 << 18


def outline(text: str) -> int:
    """Return 64 bits of a text without its digits; 0 for one that has nothing else."""
    plain = text.encode("utf-8", "replace")[:OUTLINE_BYTES].translate(None, b"0123456789")
    number: int = xxhash.xxh3_64_intdigest(plain) if plain.strip() else 0
    return number
