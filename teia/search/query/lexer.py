"""Lexer: text into words, phrases, filters and operators.

    +word  -word        a sign counts at the beginning of something and right before it: `foo-bar`, `--amend` and
                        `5 - 3` have none
    "…"  ="…"           any quotes, also “…” and «…»; one that is never closed is text
    name:value          a filter, where the name is one; the value ends with a blank or is quoted
    word*               a prefix
    AND OR NOT ( )      operators, in capitals only

Everything else is text, cut into pieces. Words are in one piece where a single sign joins them (`e-mail`, `AT&T`,
`1.000`, and `12:30` between digits; also all words of a path: `/etc/fstab`), so that they can be searched as
neighbours.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from teia.search.query import filters
from teia.search.query.filters import Value
from teia.search.query.notes import NoteKind, QueryNotes
from teia.search.query.tree import MAX_CHARS, MAX_PREFIXES, MAX_SPELT, MAX_VALUE_CHARS, MIN_PREFIX_CHARS
from teia.search.query.words import WORD, composed, is_indexed, lowered, words_of

_QUOTES = '"“”„‟«»'
_SIGNS = {"+": "+", "-": "-", "\N{MINUS SIGN}": "-"}
_JOINERS = frozenset("'’-\N{HYPHEN}\N{NON-BREAKING HYPHEN}._@&")
_DIGIT_JOINERS = frozenset(",:/")
_BLANKS = re.compile(r"\s+")
_CHUNK = re.compile(rf"[^\s(){_QUOTES}]+")
_TO_BLANK = re.compile(rf"\S{{1,{MAX_VALUE_CHARS + 1}}}")
_FILTER_NAME = re.compile(r"([^\W\d_]{2,20}):")
# Any typographic quote closes any other, as languages pair them differently; a straight one closes a straight one.
_CLOSING = {quote: re.compile(f"[{_QUOTES[1:]}]") for quote in _QUOTES[1:]} | {'"': re.compile('"')}
_PUNCTUATION = "'’,;:!?()[]{}<>*=~`"
_OPTIONAL = "_-\N{HYPHEN}\N{NON-BREAKING HYPHEN}'’"
_PATH = re.compile(r"(?:~|\.{1,2})?(?:/[\w.+-]+){2,}/?")  # linear: a segment has no slash
_STAR_AT_WORD = re.compile(r"[^\W_]\*|\*[^\W_]")


class TokenKind(Enum):
    """Kinds of tokens. TEXT has pieces; PREFIX, PHRASE, EXACT and FILTER have a value."""

    TEXT = auto()
    PREFIX = auto()
    PHRASE = auto()
    EXACT = auto()
    FILTER = auto()
    OPEN = auto()
    CLOSE = auto()
    AND = auto()
    OR = auto()
    NOT = auto()


_OPERATORS = {"AND": TokenKind.AND, "OR": TokenKind.OR, "NOT": TokenKind.NOT}


@dataclass(frozen=True, slots=True)
class QueryToken:
    """One token. `at` counts characters from 1; `sign` is `+`, `-` or nothing; `name` is that of a filter.

    `typed` is a text as it was typed.
    """

    kind: TokenKind
    at: int
    sign: str = ""
    pieces: tuple[str, ...] = ()
    name: str = ""
    value: Value = ""
    typed: str = ""


def tokens_of(text: str, notes: QueryNotes) -> list[QueryToken]:
    """Tokenize any text, in time linear in its length and bounded by the limits."""
    return list(_Lexer(_readable(text, notes), notes).tokens())


def _readable(text: str, notes: QueryNotes) -> str:
    if len(text) > MAX_CHARS:
        notes.add(NoteKind.TEXT_CUT)
    # Composing may lengthen a text, so it is cut once more.
    return composed(text[:MAX_CHARS])[:MAX_CHARS]


class _Lexer:
    def __init__(self, text: str, notes: QueryNotes) -> None:
        self._text = text
        self._notes = notes
        self._at = 0
        self._prefixes = 0

    def tokens(self) -> Iterator[QueryToken]:
        # Every `_next` moves by at least one character, so this ends.
        while True:
            if blanks := _BLANKS.match(self._text, self._at):
                self._at = blanks.end()
            if self._at >= len(self._text):
                return
            token = self._next()
            if token is not None:
                yield token

    def _next(self) -> QueryToken | None:
        """Read the token that begins here, and move behind it. Return None for a meaningless one, like a lone sign."""
        start, sign = self._at, self._sign()
        self._at += len(sign)
        char = self._text[self._at]
        if char == "(":
            self._at += 1
            return QueryToken(TokenKind.OPEN, start + 1, sign)
        if char == ")":
            self._at += 1
            return QueryToken(TokenKind.CLOSE, start + 1)
        if char in _QUOTES:
            return self._phrase(sign)
        if char == "=" and self._text[self._at + 1 : self._at + 2] in _CLOSING:
            return self._exact(sign)
        name = _FILTER_NAME.match(self._text, self._at)
        if name and (token := self._filter(name, sign)):
            return token
        return self._chunk(sign)

    def _sign(self) -> str:
        sign = _SIGNS.get(self._text[self._at], "")
        following = self._text[self._at + 1 : self._at + 2]
        return sign if following and not following.isspace() and following not in _SIGNS and following != ")" else ""

    # ---- quoted -----------------------------------------------------------------------------------------------------

    def _quoted(self, at: int) -> str | None:
        """Read the text in the quotes that open here; return None if they are never closed."""
        closing = _CLOSING[self._text[at]].search(self._text, at + 1)
        if closing is None:
            self._notes.add(NoteKind.QUOTE_OPEN, at + 1)
            return None
        self._at = closing.end()
        return self._text[at + 1 : closing.start()]

    def _phrase(self, sign: str) -> QueryToken | None:
        start = self._at
        inside = self._quoted(start)
        if inside is None:
            self._at = start + 1
            return None
        words = words_of(inside)
        self._note_long_words(words)
        return QueryToken(TokenKind.PHRASE, start + 1, sign, value=inside) if any(map(is_indexed, words)) else None

    def _exact(self, sign: str) -> QueryToken | None:
        start = self._at
        inside = self._quoted(start + 1)
        if inside is None:
            self._at = start + 2
            return None
        text_inside = " ".join(inside.split())
        return QueryToken(TokenKind.EXACT, start + 1, sign, value=text_inside) if text_inside else None

    # ---- filters ----------------------------------------------------------------------------------------------------

    def _filter(self, name: re.Match[str], sign: str) -> QueryToken | None:
        """Read a filter; return None, without having moved, if it is text after all."""
        start, label = self._at, name.group()
        query_filter = filters.find_filter(name.group(1))
        if query_filter is None:
            following = self._text[name.end() : name.end() + 1]
            # `note: text` is prose and gets no note; `naem:value` is a mistyped filter.
            if following.isalnum() or following in _CLOSING:
                self._notes.add(NoteKind.FILTER_UNKNOWN, label)
            return None
        typed = self._value(name.end())
        if typed is None:
            self._at = start
            return None
        # The limit comes first: readers parse URLs and dates, and must not see endless text.
        value = query_filter.parse(typed) if len(typed) <= MAX_VALUE_CHARS else None
        if not typed:
            self._notes.add(NoteKind.FILTER_EMPTY, label)
        elif value is None:
            self._notes.add(query_filter.error_note, label + typed)
        if value is None:
            self._at = start
            return None
        if query_filter.name in {"site", "host"} and filters.has_path(typed):
            self._notes.add(NoteKind.HOST_PATH, label + typed)
        return QueryToken(TokenKind.FILTER, start + 1, sign, name=query_filter.name, value=value)

    def _value(self, at: int) -> str | None:
        """Read the value that begins here, and move behind it; return None for quotes that are never closed."""
        if self._text[at : at + 1] in _CLOSING:
            return self._quoted(at)
        match = _TO_BLANK.match(self._text, at)
        if match is None:
            return ""
        value = match.group()
        # `(site:a.test)` ends before the parenthesis; `link:a.test/b_(c)` keeps its own.
        unopened = value.count(")") - value.count("(")
        while unopened > 0 and value.endswith(")"):
            value, unopened = value[:-1], unopened - 1
        self._at = at + len(value)
        return value.rstrip(",;")

    # ---- text -------------------------------------------------------------------------------------------------------

    def _chunk(self, sign: str) -> QueryToken | None:
        chunk = _CHUNK.match(self._text, self._at)
        assert chunk is not None, "quotes, parentheses and blanks were looked for before"
        start, text = self._at + 1, chunk.group()
        self._at = chunk.end()
        # With a sign it is a word: `+AND`.
        if text in _OPERATORS and not sign:
            return QueryToken(_OPERATORS[text], start)
        if "*" in text and (prefix := self._prefix(text)):
            return QueryToken(TokenKind.PREFIX, start, sign, value=prefix)
        path = text.rstrip(_PUNCTUATION)
        is_path = _PATH.fullmatch(path) is not None and WORD.search(path) is not None
        pieces = self._indexed((path,) if is_path else pieces_of(text))
        return QueryToken(TokenKind.TEXT, start, sign, pieces, typed=text) if pieces else None

    def _prefix(self, text: str) -> str:
        word = WORD.match(text)
        if word is None or text[word.end() :] != "*" or not is_indexed(word.group()):
            if _STAR_AT_WORD.search(text):
                self._notes.add(NoteKind.WILDCARD, text)
            return ""
        if len(word.group()) < MIN_PREFIX_CHARS:
            self._notes.add(NoteKind.PREFIX_SHORT, text)
            return ""
        self._prefixes += 1
        if self._prefixes > MAX_PREFIXES:
            self._notes.add(NoteKind.PREFIXES, text)
            return ""
        return lowered(word.group())

    def _indexed(self, pieces: tuple[str, ...]) -> tuple[str, ...]:
        """Remove words that are too long for the index, and separate the words they were joined to."""
        words = tuple(word for piece in pieces for word in words_of(piece))
        if all(map(is_indexed, words)):
            return pieces
        self._note_long_words(words)
        return tuple(filter(is_indexed, words))

    def _note_long_words(self, words: tuple[str, ...]) -> None:
        for word in words:
            if not is_indexed(word):
                self._notes.add(NoteKind.WORD_LONG, word)


def pieces_of(text: str) -> tuple[str, ...]:
    """Cut a text into words; words that a single sign joins stay together."""
    spans: list[tuple[int, int]] = []
    for match in WORD.finditer(text):
        if spans and _joins(text, spans[-1][1], match.start()):
            spans[-1] = spans[-1][0], match.end()
        else:
            spans.append(match.span())
    return tuple(text[start:end] for start, end in spans)


def _joins(text: str, end: int, start: int) -> bool:
    """Tell whether the characters between two words join them. Combining marks always do."""
    between = text[end:start]
    if between in _JOINERS:
        return True
    if between in _DIGIT_JOINERS:
        return text[end - 1].isdigit() and text[start].isdigit()
    return all(unicodedata.category(char) in {"Mn", "Mc", "Me", "Cf"} for char in between)


_LETTER_AND_WORD = re.compile(r"[^\W\d_]-[^\W\d_]{2,}")


def spelt_with_signs(tokens: Sequence[QueryToken]) -> tuple[str, ...]:
    """Return the wanted texts in which signs matter, as they were typed, without the punctuation around them."""
    found: dict[str, None] = {}
    for token in tokens:
        bare = token.typed.strip(_PUNCTUATION).rstrip(".")
        # A hyphen or an apostrophe may be left out: `email` is meant, too. But of `f-strings` its words say little.
        is_spelt = WORD.sub("", bare).strip(_OPTIONAL) or _LETTER_AND_WORD.fullmatch(bare)
        if token.sign != "-" and is_spelt:
            found[bare] = None
    return tuple(found)[:MAX_SPELT]
