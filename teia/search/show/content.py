"""A page's content, told from its navigation: the lines of a text, and titles worth reading.

Three kinds of lines are told apart. The site repeats some on other pages (index/repeated.py): menus, notices, footers.
Some are links and nothing else, headings with a number, short lines in a row, or stand before the first sentence of
the page or behind its last: breadcrumbs, tables of contents, lists of names. The rest is what the page says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum

from teia.index.entry import IndexEntry
from teia.index.repeated import Lines, number_of_line, number_of_title

PILCROW = "¶"
MAX_LINKS_CHARS = 400
"""Length up to which a line may be one of several links."""

PROSE_CHARS = 60
"""Least length of a line that is taken for a sentence."""

END_CHARS = 2_048
SHORT_CHARS = 90
NEIGHBOURS = 2
"""Lines before and behind a short one that are looked at; if nearly all of them are short, it is one of a list."""

_LONG_LINE = re.compile(rf"^[^\n]{{{PROSE_CHARS},}}", re.MULTILINE)
_EDGES = " \t¶|»›>«‹<·•…:-–—→←[]()"
_BETWEEN_LINKS = re.compile(r"\s*[|»›>·•/→,]\s*|\s+-\s+")
_NUMBER = re.compile(r"(?:[A-Z]|\d+)\.(?:\d+\.?)*\s+")
FULL_STOPS = frozenset(".!?…")
_SENTENCE_ENDS = FULL_STOPS | {":", ";"}
_TITLE_SEPARATOR = re.compile(r"(\s+(?:[|·»›•–—-]|::)\s+)")


class LineKind(IntEnum):
    """Kinds of lines, the best first."""

    CONTENT = 0
    LIST = 1
    REPEATED = 2


class PageLines:
    """The lines of one page's text, each judged when it is needed."""

    def __init__(self, text: str, entry: IndexEntry, repeated: Lines) -> None:
        self._text = text
        self._entry = entry
        self._repeated = repeated
        self._links: frozenset[str] | None = None
        self._sentences: tuple[int, int] | None = None
        self._kinds: dict[int, LineKind] = {}

    def bounds(self, place: int) -> tuple[int, int]:
        """Return the start and the end of the line around a place."""
        return self._text.rfind("\n", 0, place) + 1, line_end(self._text, place)

    def long_lines(self, begin: int = 0) -> Iterator[tuple[int, int]]:
        """Yield the starts and ends of the lines that are long enough for a sentence.

        They are found at the speed of memory: a page may be a list of ten thousand words.
        """
        return (match.span() for match in _LONG_LINE.finditer(self._text, begin))

    def kind(self, start: int, end: int) -> LineKind:
        """Return the kind of a line, given by its start and end."""
        kind = self._kinds.get(start)
        if kind is None:
            kind = self._judge(self._text[start:end])
            if kind is LineKind.CONTENT and (self._is_outside(start) or is_in_list(self._text, start, end)):
                kind = LineKind.LIST
            self._kinds[start] = kind
        return kind

    def _is_outside(self, start: int) -> bool:
        """Tell whether a line stands before the first sentence of the page or behind the last."""
        if self._sentences is None:
            first, last = self._first_sentence(), self._last_sentence()
            self._sentences = (0, len(self._text)) if first is None or last is None else (first, last)
        return not self._sentences[0] <= start <= self._sentences[1]

    def _first_sentence(self) -> int | None:
        return next((start for start, end in self.long_lines() if self._is_sentence(start, end)), None)

    def _last_sentence(self) -> int | None:
        # Most pages have one near their end.
        for begin in (max(0, len(self._text) - END_CHARS), 0):
            for start, end in reversed(list(self.long_lines(begin))):
                if self._is_sentence(start, end):
                    return start
        return None

    def _is_sentence(self, start: int, end: int) -> bool:
        is_ended = self._text[end - 1] in _SENTENCE_ENDS
        return is_ended and self._judge(self._text[start:end]) is LineKind.CONTENT

    def _judge(self, line: str) -> LineKind:
        if self._repeated and number_of_line(line) in self._repeated:
            return LineKind.REPEATED
        words = line.strip(_EDGES)
        if not words:
            return LineKind.REPEATED
        if self._links is None:
            self._links = frozenset(link.text.strip(_EDGES) for link in self._entry.links)
        if words in self._links or (_NUMBER.match(words) and line[-1] not in _SENTENCE_ENDS):
            return LineKind.LIST
        parts = _BETWEEN_LINKS.split(words) if len(words) <= MAX_LINKS_CHARS else ()
        if len(parts) > 1 and all(part.strip(_EDGES) in self._links for part in parts):
            return LineKind.LIST
        return LineKind.CONTENT


def is_in_list(text: str, start: int, end: int) -> bool:
    """Tell whether a line of a text, given by its start and end, is a short one among short ones."""
    if not _is_short(text[start:end]):
        return False
    short = 0
    before, behind = start, end
    for _ in range(NEIGHBOURS):
        if before > 0:
            last, before = before - 1, text.rfind("\n", 0, before - 1) + 1
            short += _is_short(text[before:last])
        if behind < len(text):
            first, behind = behind + 1, line_end(text, behind + 1)
            short += _is_short(text[first:behind])
    return short >= 2 * NEIGHBOURS - 1


def line_end(text: str, place: int) -> int:
    """Return the end of the line around a place."""
    end = text.find("\n", place)
    return len(text) if end < 0 else end


def _is_short(line: str) -> bool:
    return 0 < len(line) < SHORT_CHARS and line[-1] not in _SENTENCE_ENDS


def shown_title(entry: IndexEntry, repeated: Lines) -> str:
    """Return the title to show: each part once, with the page's heading if the title is that of its site."""
    title = distinct_parts(entry.title.replace(PILCROW, "").strip())
    if title and number_of_title(entry.title) not in repeated:
        return title
    headings = (heading.replace(PILCROW, "").strip() for heading in entry.headings if heading)
    heading = next((each for each in headings if each and number_of_line(each) not in repeated), "")
    if heading and title and heading.casefold() not in title.casefold():
        return f"{heading} – {title}"
    return title or heading or entry.url


def distinct_parts(title: str) -> str:
    """Return a title without parts that repeat: `Index` for `Index | Index`."""
    # Parts and separators take turns; a part goes together with the separator before it.
    pieces = _TITLE_SEPARATOR.split(title)
    seen = {pieces[0].casefold().strip()}
    kept = [pieces[0]]
    for separator, part in zip(pieces[1::2], pieces[2::2], strict=True):
        if part.casefold().strip() not in seen:
            seen.add(part.casefold().strip())
            kept += [separator, part]
    return "".join(kept)
