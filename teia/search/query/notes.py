"""Notes for a user about their query: one line each, translated where they are read.

A note is never a refusal: the text it mentions was read in some other way, and the note says which. Details come
from the query, so they are cut and made printable before they are shown or logged.
"""

from __future__ import annotations

from enum import Enum

from teia.lib.message import Message, message_code

MAX_NOTES = 16
MAX_DETAIL_CHARS = 60


class NoteKind(Enum):
    """Kinds of notes, by their codes."""

    TEXT_CUT = message_code("Only the first 65,536 characters were read")
    QUOTE_OPEN = message_code("The quote at character {detail} is never closed; searched for its words instead")
    PARENTHESIS_OPEN = message_code("The parenthesis at character {detail} is never closed and was ignored")
    PARENTHESIS_CLOSED = message_code("The parenthesis at character {detail} was never opened and was ignored")
    TOO_DEEP = message_code("Parentheses may be nested 8 levels deep; deeper parts were ignored")
    CONDITIONS = message_code("More than 32 conditions: the first 32 were used")
    CANDIDATES = message_code("More than 1,024 different words: the first 1,024 were used")
    TERMS = message_code("More than 32 words: the 32 most specific ones were used")
    PHRASE_LONG = message_code("A phrase may have 16 words; the remaining words were ignored")
    WORD_LONG = message_code("{detail} is too long to be in the index and was ignored")
    PREFIX_SHORT = message_code("{detail} needs at least 2 letters before the *; searched for the word as it is")
    WILDCARD = message_code("A * works only at the end of a word; {detail} was searched without it")
    PREFIXES = message_code("More than 8 words with *: {detail} was searched without it")
    FILTER_UNKNOWN = message_code("Unknown filter {detail}; searched for its words")
    FILTER_EMPTY = message_code("{detail} needs its value right after the colon; searched for the word")
    BAD_HOST = message_code("{detail} is not a host name; searched for its words")
    HOST_PATH = message_code("{detail} was treated as its host only: paths cannot be searched")
    BAD_LANG = message_code("{detail} is not a language: write lang:pt or lang:en; searched for its words")
    BAD_TYPE = message_code(
        "{detail} is not a known type: write type:html, type:pdf or type:text/csv; searched for its words"
    )
    BAD_LINK = message_code("{detail} is not a web address; searched for its words")
    BAD_TITLE = message_code("{detail} has no words to search for")
    BAD_DATE = message_code("{detail} is not a date: write 2026, 2026-03, 2026-03-05 or 7d; searched for its words")
    BAD_EXPAND = message_code("{detail} must be expand:on or expand:off; searched for its words")
    GIVEN_TWICE = message_code("{detail} was given more than once; the last one applies")
    FILTER_IN_OR = message_code("{detail} applies to the whole query; OR and parentheses do not limit it")
    NOT_EXPANDED = message_code("Only plain words are expanded: this query has +, -, * or quotes")
    ONLY_NEGATIVE = message_code("The query contains only exclusions; add a word or a filter to search for")
    EMPTY = message_code("There is no word to search for")


def make_note(kind: NoteKind, detail: str | int = "") -> Message:
    """Return a note; `detail` is the part of the query that it mentions."""
    return Message(kind.value, detail=printable(str(detail)))


class QueryNotes:
    """Notes under construction: each once, and no more than a user would read."""

    def __init__(self) -> None:
        self._notes: dict[Message, None] = {}

    def add(self, kind: NoteKind, detail: str | int = "") -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes[make_note(kind, detail)] = None

    def all(self) -> tuple[Message, ...]:
        return tuple(self._notes)


def printable(text: str) -> str:
    """Return a part of a query in printable form: one line, not long, no control characters."""
    cut = text if len(text) <= MAX_DETAIL_CHARS else text[: MAX_DETAIL_CHARS - 1] + "…"
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in cut)
