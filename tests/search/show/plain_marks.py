"""The loops of a snippet in Python: the readable form of search/show/_marks.pyx, which tests compare with it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from teia.search.show.marks import _LATIN_CODES, BLANK, REPEATED, TABLE, Mark, Part
from teia.search.show.marks import without_overlaps as without_overlaps
from teia.search.show.marks import word_marks as word_marks

_FOLD = TABLE[:0x100]
_FOLD_EXTENDED = {code: chr(TABLE[code]) for code in _LATIN_CODES if TABLE[code] != BLANK}
_EXTENDED = re.compile("[\u0100-\u024f\u1e00-\u1eff]")


def folded_octets(text: str) -> bytes:
    """Return a blank, and then a text as one byte for each character, without case and accents.

    Other scripts and signs are blanks, so there is one before every word.
    """
    try:
        octets = text.encode("latin-1")
    except UnicodeEncodeError:
        # Characters that Latin-1 lacks become question marks, which are blanks too.
        octets = (text.translate(_FOLD_EXTENDED) if _EXTENDED.search(text) else text).encode("latin-1", "replace")
    return b" " + octets.translate(_FOLD)


def best_mark(marks: Sequence[Mark], chars: int) -> int:
    """Return the number of the first mark that starts the stretch of so many characters with the most telling words."""
    best, best_worth = 0, -1.0
    for number, (at, _, _, _) in enumerate(marks):
        worth = _worth(marks, number, at + chars)
        # The tolerance makes the first of equal windows win, independent of the order of the additions.
        if worth > best_worth + 1e-9:
            best, best_worth = number, worth
    return best


def _worth(marks: Sequence[Mark], first: int, end: int) -> float:
    seen: set[int] = set()
    worth = 0.0
    for number in range(first, len(marks)):
        _, until, word, weight = marks[number]
        if until > end:
            break
        worth += weight * (REPEATED if word in seen else 1.0)
        seen.add(word)
    return worth


def parts_of(text: str, marks: Sequence[Mark], start: int, end: int) -> list[Part]:
    """Return a part of a text in pieces: the marked ones, and those between them."""
    parts: list[Part] = []
    at = start
    for begin, until, _, _ in marks:
        if begin >= end:
            break
        if begin >= start and until <= end:
            if begin > at:
                parts.append((text[at:begin], False))
            parts.append((text[begin:until], True))
            at = until
    if end > at:
        parts.append((text[at:end], False))
    return parts
