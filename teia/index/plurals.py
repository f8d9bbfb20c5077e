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
    plural: str
    singular_ending: str
    applies_after: Callable[[str], bool]
    """Predicate on the letters before the ending: True if this ending applies."""


def _always(_: str) -> bool:
    return True


def _is_stem(before: str) -> bool:
    return len(before) == MIN_STEM_CHARS and before.isalpha()


def _is_portuguese(before: str) -> bool:
    """Tell Portuguese without accents, *acoes* and *opinioes*, from English, *heroes* and *shoes*."""
    return before[-1:] in _OES_AFTER


_ENDINGS = (
    _Ending("ões", "ao", _always),
    _Ending("oes", "ao", _is_portuguese),
    _Ending("agens", "agem", _always),
    *(_Ending(f"{vowel}is", f"{bare}l", _is_stem) for vowel, bare in ("aa", "áa", "ee", "ée", "oo", "óo")),
)


def _replace(ending: _Ending, match: re.Match[str]) -> str:
    # The predicates look at the letters before the ending only, so a short slice is enough.
    before = match.string[max(0, match.start() - MIN_STEM_CHARS) : match.start()]
    return ending.singular_ending if ending.applies_after(before) else match.group()


_RULES = tuple(
    (plural, re.compile(rf"{plural}(?![^\W_])"), partial(_replace, ending))
    for ending in _ENDINGS
    for plural in (ending.plural, ending.plural.upper())
)


PLURALS = tuple(plural for plural, _, _ in _RULES)
"""Endings of words that `singular` may change."""


def singular(text: str) -> str:
    """Return a text with these plurals in the singular."""
    for plural, pattern, replacement in _RULES:
        if plural in text:
            text = pattern.sub(replacement, text)
    return text
