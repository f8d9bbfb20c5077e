"""Portuguese plurals that the stemmer does not see, turned into the singular before words are stemmed.

The Snowball rules take *informação* and *informações*, *papel* and *papéis*, *imagem* and *imagens* for different
words, with accents or without. Each of these endings hardly ever ends an English word (*does*, *shoes* and *options*
stay as they are), so every text may be treated alike. What comes out is for the index only, in queries and pages alike;
whether it is a word (*depois* becomes *depol*) does not matter. On Portuguese queries it is worth 2 to 3% of precision
(docs/search.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

MIN_STEM_CHARS = 3
"""Letters before an ending that short words share: *mais*, *dois* and *reis* are no plurals of this kind."""

_OES_AFTER = frozenset("csiCSI")


class _Ending(NamedTuple):
    many: str
    one: str
    follows: Callable[[str], bool]
    """Predicate on the letters before the ending: True if this ending applies."""


def _anything(_: str) -> bool:
    return True


def _a_stem(before: str) -> bool:
    return len(before) == MIN_STEM_CHARS and before.isalpha()


def _no_english_word(before: str) -> bool:
    """Tell Portuguese without accents, *acoes* and *opinioes*, from English, *heroes* and *shoes*."""
    return before[-1:] in _OES_AFTER


_ENDINGS = (
    _Ending("ões", "ao", _anything),
    _Ending("oes", "ao", _no_english_word),
    _Ending("agens", "agem", _anything),
    *(_Ending(f"{vowel}is", f"{bare}l", _a_stem) for vowel, bare in ("aa", "áa", "ee", "ée", "oo", "óo")),
)


def _replaced(ending: _Ending, match: re.Match[str]) -> str:
    # The predicates look at the letters before the ending only, so a short slice is enough.
    before = match.string[max(0, match.start() - MIN_STEM_CHARS) : match.start()]
    return ending.one if ending.follows(before) else match.group()


_RULES = tuple(
    (many, re.compile(rf"{many}(?![^\W_])"), partial(_replaced, ending))
    for ending in _ENDINGS
    for many in (ending.many, ending.many.upper())
)


def singular(text: str) -> str:
    """Return a text with these plurals in the singular."""
    for many, pattern, replaced in _RULES:
        if many in text:
            text = pattern.sub(replaced, text)
    return text
