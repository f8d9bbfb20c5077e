"""Words of a query as the index has them: the stem, and the word without case and accents.

The index's own analysers make them, so that they cannot disagree. A word has no stem where it is a stop word; then only
the fields that keep every word can be asked for it.
"""

from __future__ import annotations

from functools import lru_cache
from threading import Lock

from teia.index import schema
from teia.index.plurals import singular

MAX_REMEMBERED = 65_536

_LOCK = Lock()
_STEMS = schema.stems()
_FOLDED = schema.folded()


@lru_cache(MAX_REMEMBERED)
def stem_of(word: str) -> str:
    """The stem of one word; empty for a stop word, and for what is no word of the index."""
    with _LOCK:
        found = _STEMS.analyze(singular(word))
    return str(found[0]) if found else ""


@lru_cache(MAX_REMEMBERED)
def folded_of(word: str) -> str:
    """The word as the fields have it that are not stemmed; empty for what is no word of the index."""
    with _LOCK:
        found = _FOLDED.analyze(word)
    return str(found[0]) if found else ""


def stems_in(text: str) -> list[str]:
    """The stems of a text, in order."""
    with _LOCK:
        return list(_STEMS.analyze(singular(text)))
