"""Near duplicates: pages with nearly the same text are one result, represented by the best of them.

Two pages are alike if their texts are the same, or if their fingerprints differ in at most three of 64 bits (Manku,
Jain, Das Sarma 2007). A page without text is like no other.

Three bits cannot change all four parts of a fingerprint, so only pages with a part in common are compared.
"""

from __future__ import annotations

from teia.search.rank._rows import leaders_of as leaders_of

MAX_BITS = 3
