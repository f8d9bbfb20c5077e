"""Snippets: short passages that show why a page was found, with the words of the query marked.

The text of a page is hostile. The output is plain text in parts, each marked or not, without control characters and
without signs that change the direction of writing. `html` escapes it and adds `<mark>` and nothing else.

A page may have 64 kB of text, and a result page shows ten of them, so the text is not cut into words. It is folded
to one byte for each character, in which the beginnings of stems are found at the speed of memory; a word is read,
and its stem compared, only there. The loops are in marks.py, and compiled.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

import msgspec

from teia.index.entry import IndexEntry
from teia.index.repeated import Lines
from teia.search.query.analysis import folded_of, stem_of
from teia.search.query.words import WORD
from teia.search.show._marks import best_mark, folded_octets, parts_of, without_overlaps, word_marks
from teia.search.show.content import FULL_STOPS, PILCROW, PROSE_CHARS, LineKind, PageLines
from teia.search.show.marks import MAX_MARKS, Mark, Part, beginnings

LOOKED_AT_CHARS = 65_536
SNIPPET_CHARS = 240
LEAD_CHARS = 60
SENTENCE_LEAD_CHARS = 110
"""Greatest distance to the beginning of a sentence that is shown from there."""

MAX_TITLE_CHARS = 300
PHRASE_WEIGHT = 2.0
HEADING_WORTH = 0.6
"""Weight of a word in a shorter line: a heading names a subject, a sentence says something about it."""

_ELLIPSIS = "…"
_BLANKS = re.compile(r"\s+")
_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff\ufff9-\ufffb"
_DIRECTIONS = "\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069"
_UNSAFE = re.compile(f"[{_CONTROLS}{_DIRECTIONS}]")
_SENTENCE_END = re.compile(r"[.!?…]\s+|\n")
_JOINING = frozenset("\u200c\u200d\ufe0e\ufe0f")


class Snippet(msgspec.Struct, frozen=True):
    """Text in parts, each marked or not."""

    parts: tuple[tuple[str, bool], ...] = ()

    def html(self) -> str:
        """Return safe HTML: text and `<mark>`."""
        return "".join(f"<mark>{escape(text)}</mark>" if marked else escape(text) for text, marked in self.parts)

    def plain(self) -> str:
        return "".join(text for text, _ in self.parts)

    def __bool__(self) -> bool:
        return bool(self.parts)


class Highlighter:
    """Finder of one query's words in texts."""

    def __init__(self, weights: Mapping[str, float], phrases: Iterable[Sequence[str]] = ()) -> None:
        """Prepare words with their weights, and runs of words that are marked as one."""
        stems = {stem_of(word): weight for word, weight in weights.items() if stem_of(word)}
        # Words without a stem are everywhere; they are marked only if there is nothing else to mark.
        plain = {} if stems else {folded_of(word): weight for word, weight in weights.items() if folded_of(word)}
        self._words = [
            # Stemming may change the last letter (city, citi): words with one letter less are tried.
            *(_MarkedWord(stem, stem[: max(2, len(stem) - 1)], stem_of, weight) for stem, weight in stems.items()),
            *(_MarkedWord(word, word, folded_of, weight) for word, weight in plain.items()),
        ]
        self._phrases = [
            _MarkedPhrase(words, PHRASE_WEIGHT * (1 + sum(weights.get(word, 0.0) for word in words)))
            for words in phrases
            if len(words) > 1
        ]

    @property
    def count(self) -> int:
        """Number of words; marks have their numbers."""
        return len(self._words)

    def snippet(self, entry: IndexEntry, repeated: Lines = frozenset()) -> Snippet:
        """Return the best passage of a page: content before its description, and both before navigation.

        `repeated` are the lines that other pages of its host have too.
        """
        text = entry.text[:LOOKED_AT_CHARS]
        lines = PageLines(text, entry, repeated)
        marks = self.marks(text)
        places = [(mark, *lines.bounds(mark[0])) for mark in marks]
        found = [_weighed(mark, end - start) for mark, start, end in places if not lines.kind(start, end)]
        if found:
            return self._passage(text, marks, window(text, found), lines, LineKind.CONTENT)
        description = self.marks(entry.description)
        first, is_sentence = _first_sentence(text, lines)
        if description or (entry.description and not is_sentence):
            return make_snippet(entry.description, description, *window(entry.description, description))
        # Words of the query in lists alone: a sentence says more of the page, unless they are in a short sentence
        # themselves; a page of lists shows them.
        listed = [(mark, end) for mark, start, end in places if lines.kind(start, end) <= LineKind.LIST]
        told = [mark for mark, end in listed if not is_sentence or text[end - 1] in FULL_STOPS]
        if told:
            return self._passage(text, marks, window(text, told), lines, LineKind.LIST)
        bounds = first, cut_at(text, first + SNIPPET_CHARS)
        return self._passage(text, marks, bounds, lines, LineKind.CONTENT if is_sentence else LineKind.LIST)

    def _passage(
        self, text: str, marks: list[Mark], bounds: tuple[int, int], lines: PageLines, worst: LineKind
    ) -> Snippet:
        """Return the text in a window, without lines of worse kinds; lines behind it take their place."""
        start, end = bounds
        pieces, after, is_changed = _content(text, start, lines, worst)
        if not pieces or (not is_changed and after >= end):
            return make_snippet(text, marks, start, end)
        passage = "\n".join(pieces)
        passage = passage[: cut_at(passage, SNIPPET_CHARS)]
        # A line end at an edge stands for the rest of the page, which `make_snippet` shows by dots.
        before, behind = "\n" if start else "", "\n" if after < len(text) else ""
        whole = f"{before}{passage}{behind}"
        return make_snippet(whole, self.marks(whole), len(before), len(before) + len(passage))

    def whole(self, text: str) -> Snippet:
        """Return a short text as a whole, such as a title."""
        text = text[:MAX_TITLE_CHARS]
        return make_snippet(text, self.marks(text), 0, len(text))

    def marks(self, text: str) -> list[Mark]:
        """Return every match, in the order of the text; none overlaps another."""
        octets = folded_octets(text)
        found: list[Mark] = []
        for number, run in enumerate(self._phrases, start=len(self._words)):
            found += run.marks(octets, number)
        for number, word in enumerate(self._words):
            found += word.marks(text, octets, number)
        # Matches of one word cannot overlap.
        if len(self._words) + len(self._phrases) == 1:
            return found
        return without_overlaps(found)


class _MarkedWord:
    """One word that is marked in any form with the same stem; `stem_of` returns the stem of a form."""

    __slots__ = ("_beginning", "_stem", "_stem_of", "_weight")

    def __init__(self, stem: str, beginning: str, stem_of: Callable[[str], str], weight: float) -> None:
        self._stem = stem
        self._beginning = beginning
        self._stem_of = stem_of
        self._weight = weight

    def marks(self, text: str, octets: bytes, number: int) -> list[Mark]:
        return word_marks(text, octets, self._beginning, self._stem, self._stem_of, number, self._weight)


class _MarkedPhrase:
    """Consecutive words that are marked as one: the first is searched, which is fast, the rest only there."""

    __slots__ = ("_first", "_pattern", "_weight")

    def __init__(self, words: Sequence[str], weight: float) -> None:
        folded = [folded_of(word).encode("ascii", "replace") for word in words]
        self._first = b" " + folded[0]
        # Words may be separated by several blanks: every sign is one in the folded text.
        self._pattern = re.compile(b" " + b" +".join(map(re.escape, folded)) + rb"(?![^ ])")
        self._weight = weight

    def marks(self, octets: bytes, number: int) -> list[Mark]:
        """Return every match in a folded text, which begins with a blank."""
        found: list[Mark] = []
        at = octets.find(self._first)
        while at >= 0 and len(found) < MAX_MARKS:
            end = at + 1
            if match := self._pattern.match(octets, at):
                # Positions in the text are one less than in the folded text, which begins with a blank.
                end = match.end() - 1
                found.append((at, end, number, self._weight))
            at = octets.find(self._first, end)
        return found


def forms_in(text: str, folded_word: str) -> list[str]:
    """Return the forms of a folded word in a text, one for each occurrence, in lower case."""
    places = beginnings(text, folded_octets(text), folded_word)
    words = (match.group() for at in places if (match := WORD.match(text, at)) is not None)
    return [word.lower() for word in words if folded_of(word) == folded_word]


# ---- the best window ------------------------------------------------------------------------------------------------


def window(text: str, marks: list[Mark], chars: int = SNIPPET_CHARS) -> tuple[int, int]:
    """Return the start and end of the first window with the most telling words of the query."""
    if not marks:
        return 0, cut_at(text, chars)
    start = _lead(text, marks[best_mark(marks, chars - LEAD_CHARS)][0])
    return start, cut_at(text, start + chars)


def _weighed(mark: Mark, line_chars: int) -> Mark:
    """Return a mark with the weight that it has in a line of this length."""
    start, end, number, weight = mark
    return mark if line_chars >= PROSE_CHARS else (start, end, number, weight * HEADING_WORTH)


def _content(text: str, start: int, lines: PageLines, worst: LineKind) -> tuple[list[str], int, bool]:
    """Return enough lines from a place on, but none of a worse kind; where they end; and whether any was changed."""
    pieces: list[str] = []
    chars, is_changed, at = 0, False, start
    while at < len(text) and chars < SNIPPET_CHARS:
        line_start, line_end = lines.bounds(at)
        if lines.kind(line_start, line_end) > worst:
            is_changed = True
        else:
            line = text[at:line_end]
            piece = line.rstrip().removesuffix(PILCROW).rstrip()
            is_changed = is_changed or PILCROW in line[len(piece) :]
            pieces.append(piece)
            chars += len(piece) + 1
        at = line_end + 1
    return pieces, min(at, len(text)), is_changed


def _first_sentence(text: str, lines: PageLines) -> tuple[int, bool]:
    """Return the start of the first line of content that is long enough for a sentence, and True.

    Without one, return the start of the first line that the site does not repeat, and False.
    """
    for start, end in lines.long_lines():
        if lines.kind(start, end) is LineKind.CONTENT:
            return start, True
    at = 0
    while at < len(text):
        start, end = lines.bounds(at)
        if lines.kind(start, end) <= LineKind.LIST:
            return start, False
        at = end + 1
    return 0, False


def _lead(text: str, at: int) -> int:
    """Return a start that shows a place in its sentence: the sentence's beginning, or some words before."""
    earliest = max(0, at - LEAD_CHARS)
    if earliest == 0:
        return 0
    ends = [match.end() for match in _SENTENCE_END.finditer(text, max(0, at - SENTENCE_LEAD_CHARS), at)]
    if ends:
        return ends[-1]
    blank = _BLANKS.search(text, earliest, at)
    return blank.end() if blank else cut_at(text, earliest)


def cut_at(text: str, at: int) -> int:
    """Return a place to cut at or before `at`: between words, never between a letter and its accent."""
    if at >= len(text):
        return len(text)
    for place in range(at, max(0, at - LEAD_CHARS), -1):
        if text[place].isspace():
            return place
    # A long run without blanks: cut between letters, not inside an accented letter or an emoji sequence.
    while at > 0 and (unicodedata.combining(text[at]) or text[at] in _JOINING or text[at - 1] in _JOINING):
        at -= 1
    return at


def make_snippet(text: str, marks: list[Mark], start: int, end: int) -> Snippet:
    """Return a part of a text, marked and safe to show."""
    seen = text[start:end].lstrip()
    start = end - len(seen)
    seen = seen.rstrip()
    end = start + len(seen)
    # One character for one character, so that the marks stay in place.
    if "\n" in seen:
        text, seen = text.replace("\n", " "), seen.replace("\n", " ")
    parts = parts_of(text, marks, start, end)
    if start > 0:
        parts.insert(0, (_ELLIPSIS + " ", False))
    if end < len(text):
        parts.append((" " + _ELLIPSIS, False))
    if not (seen and _is_clean(seen)):
        parts = _trimmed([(cleaned, marked) for part, marked in parts if (cleaned := _clean(part))])
    return Snippet(tuple(parts))


def _is_clean(text: str) -> bool:
    return text.isprintable() and "  " not in text


def _clean(text: str) -> str:
    """Return text on one line without unsafe characters."""
    return text if _is_clean(text) else _BLANKS.sub(" ", _UNSAFE.sub("", text))


def _trimmed(parts: list[Part]) -> list[Part]:
    if parts:
        parts[0] = parts[0][0].lstrip(), parts[0][1]
        parts[-1] = parts[-1][0].rstrip(), parts[-1][1]
    return [each for each in parts if each[0]]
