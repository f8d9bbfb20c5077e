"""64-bit simhash of a text over its word shingles (Charikar 2002; Manku, Jain, Das Sarma 2007).

Alike texts get fingerprints that differ in few bits. The hash of a word is a polynomial modulo 2^64, mixed afterwards,
since the low bits of such a polynomial are weak on their own. A Python loop over the words of an ordinary page would
cost more than parsing it, so it is compiled (_words.pyx).

A word is a run of letters and digits; in scripts written without blanks (UTF-8 lead bytes E3 to E9) each character is
one. The same text gives the same fingerprint on every machine and in every version: they are kept on disk.
"""

from __future__ import annotations

from teia.lib._words import Simhash
from teia.lib.fingerprints import BASE, KINDS, WORD_WEIGHTS

MAX_BYTES = 1 << 22
_SIMHASH = Simhash(KINDS, BASE, WORD_WEIGHTS)


def simhash(text: str | bytes) -> int:
    """Return the fingerprint of a text (as octets: in UTF-8), 0 for one without words."""
    octets = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    return _SIMHASH.of(octets[:MAX_BYTES])
