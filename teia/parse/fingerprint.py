"""A page's three fingerprints: the same bytes, the same text, nearly the same text (C6, F3).

`digest` is of the decoded payload, so it does not depend on how the server compressed it. `text_digest` is of the
normalised text and tells a real change from a new advertisement address or a moved tag. `simhash` finds mirrors.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from teia.lib.simhash import simhash
from teia.parse.text import normalised


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """SHA-256 in hex, twice, and 64 bits without sign. The last two are empty and 0 where there is no text."""

    digest: str
    text_digest: str
    simhash: int


def fingerprints(payload: bytes, text: str) -> Fingerprints:
    digest = hashlib.sha256(payload).hexdigest()
    plain = normalised(text)
    if not plain:
        return Fingerprints(digest, "", 0)
    text_digest = hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()
    return Fingerprints(digest, text_digest, simhash(plain))
