"""The few words of a page that show why it was found, with the words of the query marked.

The text of a page is hostile. What leaves here is plain text in parts, each marked or not: without control characters
and without signs that turn the direction of writing. `html` escapes it and adds `<mark>` and nothing else.

A page may have 64 kB of text, and a result page shows ten of them, so the text is not cut into words. It is folded to
octets, one for each character, in which the beginnings of stems are found as fast as memory is read; only there is a
word looked at, and its stem compared.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import TypeAlias

from teia.index.entry import Entry
from teia.search.analysis import folded_of, stem_of
from teia.search.words import WORD, folded

LOOKED_AT_CHARS = 65_536
SNIPPET_CHARS = 240
LEAD_CHARS = 60
MAX_MARKS = 400
MAX_TITLE_CHARS = 300
REPEATED = 0.1
"""What a word adds to a window that has it already."""

PHRASE_WEIGHT = 2.0

_ELLIPSIS = "…"
_BLANKS = re.compile(r"\s+")
_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff\ufff9-\ufffb"
_DIRECTIONS = "\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069"
_UNSAFE = re.compile(f"[{_CONTROLS}{_DIRECTIONS}]")
_EXTENDED = re.compile("[\u0100-\u024f\u1e00-\u1eff]")
_SENTENCE_END = re.compile(r"[.!?…]\s+|\n")
_JOINING = frozenset("\u200c\u200d\ufe0e\ufe0f")
_LATIN_CODES = (*range(0x100, 0x250), *range(0x1E00, 0x1F00))


def _octets() -> bytes:
    """Latin-1 without case and accents; what is no letter or digit is a blank."""
    letters = (folded(chr(code))[:1] for code in range(256))
    return bytes(ord(letter) if letter.isascii() and letter.isalnum() else 32 for letter in letters)


_FOLD = _octets()
_FOLD_EXTENDED = {code: folded(chr(code))[:1] for code in _LATIN_CODES if folded(chr(code))[:1].isascii()}


@dataclass(frozen=True, slots=True)
class Snippet:
    """Text in parts, each marked or not."""

    parts: tuple[tuple[str, bool], ...] = ()

    def html(self) -> str:
        """Safe to be put into a page as it is: text and `<mark>`."""
        return "".join(f"<mark>{escape(text)}</mark>" if marked else escape(text) for text, marked in self.parts)

    def plain(self) -> str:
        return "".join(text for text, _ in self.parts)

    def __bool__(self) -> bool:
        return bool(self.parts)


Mark: TypeAlias = tuple[int, int, int, float]
"""A place in a text that a word of the query leads to: start, end, which word, and how telling that is."""


class Highlighter:
    """Finds the words of one query in texts."""

    def __init__(self, weights: Mapping[str, float], phrases: Iterable[Sequence[str]] = ()) -> None:
        """Take words with how telling each is, and runs of words that are marked as one."""
        stems = {stem_of(word): weight for word, weight in weights.items() if stem_of(word)}
        # Words without a stem are everywhere; they are marked where there is nothing else to mark.
        plain = {} if stems else {folded_of(word): weight for word, weight in weights.items() if folded_of(word)}
        self._words = [
            *(_Wanted(stem, stem[: max(2, len(stem) - 1)], stem_of, weight) for stem, weight in stems.items()),
            *(_Wanted(word, word, folded_of, weight) for word, weight in plain.items()),
        ]
        self._phrases = [
            _Run(words, PHRASE_WEIGHT * (1 + sum(weights.get(word, 0.0) for word in words)))
            for words in phrases
            if len(words) > 1
        ]

    def snippet(self, entry: Entry) -> Snippet:
        """The best window of a page's text; where nothing of the query is in it, what the page says of itself."""
        text = entry.text[:LOOKED_AT_CHARS]
        marks = self.marks(text)
        if not marks:
            description = self.marks(entry.description)
            if description or entry.description:
                text, marks = entry.description, description
        return shown(text, marks, *window(text, marks))

    def whole(self, text: str) -> Snippet:
        """A short text as a whole, such as a title."""
        text = text[:MAX_TITLE_CHARS]
        return shown(text, self.marks(text), 0, len(text))

    def marks(self, text: str) -> list[Mark]:
        """Every place, in the order of the text; none overlaps another."""
        octets = b" " + folded_octets(text)
        found: list[Mark] = []
        for number, run in enumerate(self._phrases, start=len(self._words)):
            found += run.marks(octets, number)
        for number, wanted in enumerate(self._words):
            found += wanted.marks(text, octets, number)
        if len(self._words) + len(self._phrases) == 1:
            return found
        found.sort(key=_from_left)
        kept: list[Mark] = []
        end = 0
        for mark in found:
            if mark[0] >= end:
                kept.append(mark)
                end = mark[1]
        return kept


def _from_left(mark: Mark) -> tuple[int, int]:
    """Which mark comes first: where two begin together, the longer."""
    return mark[0], -mark[1]


class _Wanted:
    """One word that is marked, in whatever form has the same stem; `made` makes a stem of a form."""

    __slots__ = ("_beginning", "_made", "_stem", "_weight")

    def __init__(self, stem: str, beginning: str, made: Callable[[str], str], weight: float) -> None:
        self._stem = stem
        self._beginning = beginning
        self._made = made
        self._weight = weight

    def marks(self, text: str, octets: bytes, number: int) -> list[Mark]:
        found: list[Mark] = []
        stem, made, weight = self._stem, self._made, self._weight
        for start in beginnings(text, octets, self._beginning):
            word = WORD.match(text, start)
            if word is not None and made(word[0]) == stem:
                found.append((start, word.end(), number, weight))
        return found


class _Run:
    """Words that are marked where they follow each other: the first is looked for, which is fast, the rest there."""

    __slots__ = ("_first", "_pattern", "_weight")

    def __init__(self, words: Sequence[str], weight: float) -> None:
        spelt = [folded_of(word).encode("ascii", "replace") for word in words]
        self._first = b" " + spelt[0]
        self._pattern = re.compile(b" " + b" +".join(map(re.escape, spelt)) + rb"(?![^ ])")
        self._weight = weight

    def marks(self, octets: bytes, number: int) -> list[Mark]:
        """Every place in a text that was folded, with a blank before it."""
        found: list[Mark] = []
        at = octets.find(self._first)
        while at >= 0 and len(found) < MAX_MARKS:
            end = at + 1
            if match := self._pattern.match(octets, at):
                end = match.end() - 1
                found.append((at, end, number, self._weight))
            at = octets.find(self._first, end)
        return found


def folded_octets(text: str) -> bytes:
    """A text as one octet for each character, without case and accents; other scripts and signs are blanks."""
    try:
        octets = text.encode("latin-1")
    except UnicodeEncodeError:
        # What Latin-1 lacks becomes a question mark, which is a blank too.
        octets = (text.translate(_FOLD_EXTENDED) if _EXTENDED.search(text) else text).encode("latin-1", "replace")
    return octets.translate(_FOLD)


def forms_in(text: str, folded_word: str) -> list[str]:
    """How a text writes a word that is given without case and accents: each time it has it, in lower case."""
    places = beginnings(text, b" " + folded_octets(text), folded_word)
    words = (match.group() for at in places if (match := WORD.match(text, at)) is not None)
    return [word.lower() for word in words if folded_of(word) == folded_word]


def beginnings(text: str, octets: bytes, prefix: str) -> list[int]:
    """Where words begin with a folded prefix, in the order of the text; no more than are ever marked.

    `octets` is the folded text with a blank before it, so that one is before every word; but letters of other scripts
    are blanks too.
    """
    found: list[int] = []
    if prefix.isascii():
        wanted = b" " + prefix.encode("ascii")
        at = octets.find(wanted)
        while at >= 0 and len(found) < MAX_MARKS:
            if at == 0 or not text[at - 1].isalnum():
                found.append(at)
            at = octets.find(wanted, at + 1)
        return found
    lowered = text.lower()
    if len(lowered) != len(text):  # one letter became two: no place can be trusted
        return found
    places = re.finditer(rf"(?<!\w){re.escape(prefix)}", lowered)
    return [match.start() for match in islice(places, MAX_MARKS)]


# ---- the best window ------------------------------------------------------------------------------------------------


def window(text: str, marks: Sequence[Mark], chars: int = SNIPPET_CHARS) -> tuple[int, int]:
    """From where to where a text is shown: where the most telling words of the query are together, the first such."""
    if not marks:
        return 0, cut_at(text, chars)
    best, best_worth = 0, -1.0
    for number, (at, _, _, _) in enumerate(marks):
        worth = _worth(marks, number, at + chars - LEAD_CHARS)
        if worth > best_worth + 1e-9:
            best, best_worth = number, worth
    start = _lead(text, marks[best][0])
    return start, cut_at(text, start + chars)


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


def _lead(text: str, at: int) -> int:
    """Where to begin so that a place is seen in its sentence: at the sentence's beginning, or some words before."""
    earliest = max(0, at - LEAD_CHARS)
    if earliest == 0:
        return 0
    ends = [match.end() for match in _SENTENCE_END.finditer(text, earliest, at)]
    if ends:
        return ends[-1]
    blank = _BLANKS.search(text, earliest, at)
    return blank.end() if blank else cut_at(text, earliest)


def cut_at(text: str, at: int) -> int:
    """Where a text may be cut, at a place or before it: between words, never between a letter and its accent."""
    if at >= len(text):
        return len(text)
    for place in range(at, max(0, at - LEAD_CHARS), -1):
        if text[place].isspace():
            return place
    while at > 0 and (unicodedata.combining(text[at]) or text[at] in _JOINING or text[at - 1] in _JOINING):
        at -= 1
    return at


def shown(text: str, marks: Sequence[Mark], start: int, end: int) -> Snippet:
    """A part of a text, marked and fit to be seen."""
    seen = text[start:end].lstrip()
    start = end - len(seen)
    end = start + len(seen.rstrip())
    parts: list[tuple[str, bool]] = [(_ELLIPSIS + " ", False)] if start > 0 else []
    at = start
    for begin, until, _, _ in marks:
        if begin >= end:
            break
        if begin >= start and until <= end:
            parts += [(text[at:begin], False), (text[begin:until], True)]
            at = until
    parts.append((text[at:end], False))
    if end < len(text):
        parts.append((" " + _ELLIPSIS, False))
    cleaned = [(text, marked) for part, marked in parts if (text := _clean(part))]
    return Snippet(_trimmed(cleaned))


def _clean(text: str) -> str:
    """Text on one line that does nothing to whoever shows it."""
    if text.isprintable() and "  " not in text:
        return text
    return _BLANKS.sub(" ", _UNSAFE.sub("", text))


def _trimmed(parts: list[tuple[str, bool]]) -> tuple[tuple[str, bool], ...]:
    if parts:
        parts[0] = parts[0][0].lstrip(), parts[0][1]
        parts[-1] = parts[-1][0].rstrip(), parts[-1][1]
    return tuple(each for each in parts if each[0])
