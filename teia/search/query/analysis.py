"""Words of a query in the form of the index: the stem, and the word without case and accents.

The index's own analysers make them, so that they cannot disagree. A stop word has no stem; then only the fields
that keep every word can be searched for it.
"""

from __future__ import annotations

from functools import lru_cache
from threading import Lock

from teia.index import schema
from teia.index.plurals import singular

MAX_CACHED = 65_536

# An analyser keeps state while it cuts a text: one thread at a time.
_LOCK = Lock()
_STEMMER = schema.stemming_analyser()
_FOLDER = schema.folding_analyser()


@lru_cache(MAX_CACHED)
def stem_of(word: str) -> str:
    """Return the stem of one word; empty for a stop word, and for a text that is no word of the index."""
    with _LOCK:
        found = _STEMMER.analyze(singular(word))
    return str(found[0]) if found else ""


@lru_cache(MAX_CACHED)
def folded_of(word: str) -> str:
    """Return the word as the unstemmed fields hold it; empty for a text that is no word of the index."""
    with _LOCK:
        found = _FOLDER.analyze(word)
    return str(found[0]) if found else ""


def stems_in(text: str) -> list[str]:
    """Return the stems of a text, in order."""
    with _LOCK:
        return list(_STEMMER.analyze(singular(text)))
