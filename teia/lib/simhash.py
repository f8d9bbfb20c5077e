"""64-bit simhash of a text over its word shingles (Charikar 2002; Manku, Jain, Das Sarma 2007).

Alike texts get fingerprints that differ in few bits. The hash of a word is a polynomial modulo 2^64, mixed afterwards,
since the low bits of such a polynomial are weak on their own. A Python loop over the words of an ordinary page would
cost more than parsing it, so there is a compiled one (_words.pyx). Without it everything is done on arrays
(simhash_arrays.py).

A word is a run of letters and digits; in scripts written without blanks (UTF-8 lead bytes E3 to E9) each character is
one. The same text gives the same fingerprint on every machine and in every version: they are kept on disk.
"""

from __future__ import annotations

from teia.lib.fingerprints import BASE, KINDS, WORD_WEIGHTS

try:
    from teia.lib._words import Simhash
except ImportError:
    Simhash = None  # type: ignore[assignment,misc]

MAX_BYTES = 1 << 22
_COMPILED = None if Simhash is None else Simhash(KINDS, BASE, WORD_WEIGHTS)


def simhash(text: str | bytes) -> int:
    """Return the fingerprint of a text (as octets: in UTF-8), 0 for one without words."""
    octets = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    octets = octets[:MAX_BYTES]
    if _COMPILED is not None:
        return _COMPILED.of(octets)
    from teia.lib.simhash_arrays import simhash_by_arrays

    return simhash_by_arrays(octets)
