"""The loops of a snippet: finding words in a text, and choosing and cutting what is shown.

These are what is used where there was no compiler, and what the compiled ones (_marking.pyx) are compared with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeAlias

from teia.search.words import WORD, folded

MAX_MARKS = 400
REPEATED = 0.1
"""What a word adds to a window that has it already."""

Mark: TypeAlias = tuple[int, int, int, float]
"""A place in a text that a word of the query leads to: start, end, which word, and how telling that is."""

Part: TypeAlias = tuple[str, bool]
"""A piece of a text, and whether it is marked."""

BLANK = 32
_LATIN_CODES = (*range(0x100, 0x250), *range(0x1E00, 0x1F00))


def _octet(letter: str) -> int:
    return ord(letter.lower()) if letter.isascii() and letter.isalnum() else BLANK


def _table() -> bytes:
    """Latin letters and digits without case and accents; what is none is a blank."""
    table = bytearray([BLANK] * (max(_LATIN_CODES) + 1))
    for code in (*range(0x100), *_LATIN_CODES):
        table[code] = _octet(folded(chr(code))[:1])
    return bytes(table)


TABLE = _table()
_FOLD = TABLE[:0x100]
_FOLD_EXTENDED = {code: chr(TABLE[code]) for code in _LATIN_CODES if TABLE[code] != BLANK}
_EXTENDED = re.compile("[\u0100-\u024f\u1e00-\u1eff]")


def folded_octets(text: str) -> bytes:
    """A blank, and then a text as one octet for each character, without case and accents.

    Other scripts and signs are blanks, so there is one before every word.
    """
    try:
        octets = text.encode("latin-1")
    except UnicodeEncodeError:
        # What Latin-1 lacks becomes a question mark, which is a blank too.
        octets = (text.translate(_FOLD_EXTENDED) if _EXTENDED.search(text) else text).encode("latin-1", "replace")
    return b" " + octets.translate(_FOLD)


def word_marks(
    text: str, octets: bytes, beginning: str, stem: str, made: Callable[[str], str], number: int, weight: float
) -> list[Mark]:
    """Where words begin so that are forms of a stem; `made` makes a stem of a form."""
    found: list[Mark] = []
    for start in beginnings(text, octets, beginning):
        word = WORD.match(text, start)
        if word is not None and made(word[0]) == stem:
            found.append((start, word.end(), number, weight))
    return found


def beginnings(text: str, octets: bytes, prefix: str) -> list[int]:
    """Where words begin with a folded prefix, in the order of the text; no more than are ever marked.

    `octets` is the folded text. Letters of other scripts are blanks there, so what is before a place is looked at.
    """
    if not prefix.isascii():
        return lowered_beginnings(text, prefix)
    found: list[int] = []
    wanted = b" " + prefix.encode("ascii")
    at = octets.find(wanted)
    while at >= 0 and len(found) < MAX_MARKS:
        if at == 0 or not text[at - 1].isalnum():
            found.append(at)
        at = octets.find(wanted, at + 1)
    return found


def lowered_beginnings(text: str, prefix: str) -> list[int]:
    """The same for a prefix in another script."""
    lowered = text.lower()
    if len(lowered) != len(text):  # one letter became two: no place can be trusted
        return []
    places = re.finditer(rf"(?<!\w){re.escape(prefix)}", lowered)
    return [match.start() for match in islice(places, MAX_MARKS)]


def without_overlaps(found: list[Mark]) -> list[Mark]:
    """Marks in the order of the text, none over another: of those that begin together the longer."""
    found.sort(key=_from_left)
    kept: list[Mark] = []
    end = 0
    for mark in found:
        if mark[0] >= end:
            kept.append(mark)
            end = mark[1]
    return kept


def _from_left(mark: Mark) -> tuple[int, int]:
    return mark[0], -mark[1]


def best_mark(marks: Sequence[Mark], chars: int) -> int:
    """The mark from which on the most telling words are within so many characters: its number, the first such."""
    best, best_worth = 0, -1.0
    for number, (at, _, _, _) in enumerate(marks):
        worth = _worth(marks, number, at + chars)
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
    """A text from one place to another, in pieces: those that are marked, and what is between them."""
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
