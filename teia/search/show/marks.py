"""Marks of a query's words in a text, and the rare cases that the compiled loops of a snippet (_marks.pyx) leave:

words in other scripts, and marks beyond the first few hundred.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from typing import TypeAlias

from teia.search.query.words import WORD, folded

MAX_MARKS = 400
REPEATED = 0.1
"""Weight of a word that a window already contains."""

Mark: TypeAlias = tuple[int, int, int, float]
"""A match of a query's word in a text: start, end, the word's number, and its weight."""

Part: TypeAlias = tuple[str, bool]
"""A piece of a text, and True if it is marked."""

BLANK = 32
_LATIN_CODES = (*range(0x100, 0x250), *range(0x1E00, 0x1F00))


def _table() -> bytes:
    """Return a table of Latin letters and digits without case and accents; other characters are blanks."""
    table = bytearray([BLANK] * (max(_LATIN_CODES) + 1))
    for code in (*range(0x100), *_LATIN_CODES):
        letter = folded(chr(code))[:1]
        table[code] = ord(letter.lower()) if letter.isascii() and letter.isalnum() else BLANK
    return bytes(table)


TABLE = _table()


def word_marks(
    text: str, octets: bytes, beginning: str, stem: str, made: Callable[[str], str], number: int, weight: float
) -> list[Mark]:
    """Return marks of the words with this beginning that are forms of a stem; `made` makes a stem of a form."""
    found: list[Mark] = []
    for start in beginnings(text, octets, beginning):
        word = WORD.match(text, start)
        if word is not None and made(word[0]) == stem:
            found.append((start, word.end(), number, weight))
    return found


def beginnings(text: str, octets: bytes, prefix: str) -> list[int]:
    """Return the starts of words with a folded prefix, in the order of the text; no more than are ever marked.

    `octets` is the folded text. Letters of other scripts are blanks there, so the character before a match is
    checked.
    """
    if not prefix.isascii():
        return lowered_beginnings(text, prefix)
    found: list[int] = []
    wanted = b" " + prefix.encode("ascii")
    at = octets.find(wanted)
    while at >= 0 and len(found) < MAX_MARKS:
        # The folded text begins with a blank, so a match at `at` is a word at `at` in the text.
        if at == 0 or not text[at - 1].isalnum():
            found.append(at)
        at = octets.find(wanted, at + 1)
    return found


def lowered_beginnings(text: str, prefix: str) -> list[int]:
    """Like `beginnings`, for a prefix in another script."""
    lowered = text.lower()
    if len(lowered) != len(text):  # one letter became two: positions would be wrong
        return []
    places = re.finditer(rf"(?<!\w){re.escape(prefix)}", lowered)
    return [match.start() for match in islice(places, MAX_MARKS)]


def without_overlaps(found: list[Mark]) -> list[Mark]:
    """Return marks in the order of the text without overlaps; among those that begin together the longest."""
    found.sort(key=lambda mark: (mark[0], -mark[1]))
    kept: list[Mark] = []
    end = 0
    for mark in found:
        if mark[0] >= end:
            kept.append(mark)
            end = mark[1]
    return kept
