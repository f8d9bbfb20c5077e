"""Parser of queries: `parse(text) -> Query` accepts any text.

    level   :=  unit*                      separated by blanks: alternatives, signs and quotes apart
    unit    :=  chain ("OR" chain)*        OR makes alternatives of nodes otherwise required
    chain   :=  factor ("AND" factor)*     AND requires, and binds tighter than OR
    factor  :=  "NOT"* [+-] (text | word* | "phrase" | ="text" | name:value | "(" level ")")

An operator without operands is a word; a parenthesis without its other half is ignored. NOT and `-` restrict: `a OR
NOT b` is `a -b`. Filters and `="…"` apply to the whole query wherever they stand, so they leave no node; excluded
in an excluded parenthesis they are included again.

Recursion is as deep as parentheses may be nested, and every token is read a fixed number of times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from teia.search.query.lexer import QueryToken, TokenKind, spelt_with_signs, tokens_of
from teia.search.query.normal_form import Builder, limit_conditions
from teia.search.query.notes import NoteKind, QueryNotes
from teia.search.query.tree import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_PHRASE_WORDS,
    Clauses,
    ExactText,
    FilterChoice,
    Filters,
    Leaf,
    Moment,
    Node,
    Phrase,
    Prefix,
    Query,
    Word,
)
from teia.search.query.words import WORD, longest_indexed, words_of

# Tuples, not sets: the hash of an enumeration's member is computed in Python, and members are compared by identity.
_OPERANDS = (TokenKind.TEXT, TokenKind.PREFIX, TokenKind.PHRASE, TokenKind.EXACT, TokenKind.FILTER)


def parse(text: str) -> Query:
    """Parse a user's text. Never raises; the query's notes list everything that was not read as typed."""
    notes = QueryNotes()
    tokens = _resolve_operators(_balance(tokens_of(text, notes), notes))
    spelt = spelt_with_signs(tokens)
    parser = _Parser(tokens, notes)
    clauses = limit_conditions(parser.parse_clauses(), parser.restrictions.count, notes)
    query = parser.restrictions.query(clauses)
    if not query.is_answerable:
        excludes = clauses.must_not or any(each.excluded for each in query.exact) or any(query.filters.choices())
        notes.add(NoteKind.ONLY_NEGATIVE if excludes else NoteKind.EMPTY)
    elif query.expand and not query.is_plain:
        notes.add(NoteKind.NOT_EXPANDED)
    all_notes = notes.all()
    return replace(query, notes=all_notes, spelt=spelt) if all_notes or spelt else query


# ---- tokens that have no meaning where they stand --------------------------------------------------------------------


def _balance(tokens: Sequence[QueryToken], notes: QueryNotes) -> list[QueryToken]:
    """Remove parentheses that are unmatched, too deep (with their contents) or empty."""
    matched = _matched(tokens, notes)
    kept: list[QueryToken] = []
    depth = 0
    for index, token in enumerate(tokens):
        # The depth rises before the test and falls after it, so both parentheses of a pair get the same decision.
        if token.kind is TokenKind.OPEN:
            depth += index in matched
        if depth > MAX_DEPTH:
            notes.add(NoteKind.TOO_DEEP)
        elif token.kind is TokenKind.CLOSE and index in matched and kept[-1].kind is TokenKind.OPEN:
            kept.pop()
        elif token.kind not in (TokenKind.OPEN, TokenKind.CLOSE) or index in matched:
            kept.append(token)
        if token.kind is TokenKind.CLOSE:
            depth -= index in matched
    return kept


def _matched(tokens: Sequence[QueryToken], notes: QueryNotes) -> set[int]:
    """Return the indices of matching parentheses."""
    matched: set[int] = set()
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind is TokenKind.OPEN:
            opened.append(index)
        elif token.kind is TokenKind.CLOSE and opened:
            matched |= {opened.pop(), index}
        elif token.kind is TokenKind.CLOSE:
            notes.add(NoteKind.PARENTHESIS_CLOSED, token.at)
    for index in opened:
        notes.add(NoteKind.PARENTHESIS_OPEN, tokens[index].at)
    return matched


def _resolve_operators(tokens: Sequence[QueryToken]) -> list[QueryToken]:
    """Turn operators without operands into words."""
    # From the right: an operand begins at `index`; NOT begins one only if one follows it.
    begins = [False] * (len(tokens) + 1)
    for index in range(len(tokens) - 1, -1, -1):
        kind = tokens[index].kind
        begins[index] = kind in _OPERANDS or kind is TokenKind.OPEN or (kind is TokenKind.NOT and begins[index + 1])
    read: list[QueryToken] = []
    for index, token in enumerate(tokens):
        follows = bool(read) and (read[-1].kind in _OPERANDS or read[-1].kind is TokenKind.CLOSE)
        is_lone = not begins[index + 1] or (token.kind is not TokenKind.NOT and not follows)
        if token.kind in (TokenKind.AND, TokenKind.OR, TokenKind.NOT) and is_lone:
            token = QueryToken(TokenKind.TEXT, token.at, pieces=(token.kind.name.lower(),))
        read.append(token)
    return read


# ---- the grammar -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Factor:
    """One operand: its node beside an operator, and its alternatives when it stands alone."""

    node: Node
    alone: tuple[Leaf, ...] = ()
    negative: bool = False
    required: bool = False


_Chain = list[_Factor]


class _Parser:
    def __init__(self, tokens: Sequence[QueryToken], notes: QueryNotes) -> None:
        self._tokens = tokens
        self._notes = notes
        self._at = 0
        self._depth = 0
        self.restrictions = _Restrictions(notes)

    def _kind(self) -> TokenKind | None:
        return self._tokens[self._at].kind if self._at < len(self._tokens) else None

    def _next(self) -> QueryToken:
        self._at += 1
        return self._tokens[self._at - 1]

    def parse_clauses(self, negative: bool = False) -> Clauses:
        builder = Builder()
        while self._kind() not in (None, TokenKind.CLOSE):
            self._unit(builder, negative)
        if builder.overflow:
            self._notes.add(NoteKind.CANDIDATES)
        return builder.clauses()

    def _unit(self, builder: Builder, negative: bool) -> None:
        restricted = self.restrictions.count
        chains = [self._chain(negative)]
        while self._kind() is TokenKind.OR:
            self._next()
            chains.append(self._chain(negative))
        if len(chains) > 1 and self.restrictions.count > restricted and any(chains):
            self._notes.add(NoteKind.FILTER_IN_OR, self.restrictions.last)
        positive: list[_Chain] = []
        for chain in filter(None, chains):
            if len(chain) == 1 and chain[0].negative:
                builder.must_not(chain[0].node)
            else:
                positive.append(chain)
        # `a OR a` is not a choice: the operand stands alone, typed twice.
        if len(positive) == 1 or len({tuple((each.node, each.negative) for each in chain) for chain in positive}) == 1:
            self._one(builder, positive)
        else:
            for chain in positive:
                self._alternative(builder, chain)

    def _one(self, builder: Builder, chains: list[_Chain]) -> None:
        """Add an operand that stands alone, or several times over with OR between."""
        first = chains[0][0]
        if len(chains[0]) > 1:
            self._require(builder, chains[0])
        elif any(chain[0].required for chain in chains):
            builder.must(first.node)
        else:
            for chain in chains:
                for leaf in chain[0].alone or (chain[0].node,):
                    builder.should(leaf)

    def _alternative(self, builder: Builder, chain: _Chain) -> None:
        if len(chain) == 1:
            builder.should(chain[0].node)
        elif self._depth < MAX_DEPTH:
            inner = Builder()
            self._require(inner, chain)
            builder.should(inner.clauses())
        else:
            self._notes.add(NoteKind.TOO_DEEP)

    def _require(self, builder: Builder, chain: _Chain) -> None:
        for factor in chain:
            if factor.negative:
                builder.must_not(factor.node)
            else:
                builder.must(factor.node)

    def _chain(self, negative: bool) -> _Chain:
        factors = [self._factor(negative)]
        while self._kind() is TokenKind.AND:
            self._next()
            factors.append(self._factor(negative))
        return [factor for factor in factors if factor is not None]

    def _factor(self, is_inverted: bool) -> _Factor | None:
        negative = False
        while self._kind() is TokenKind.NOT:
            self._next()
            negative = not negative
        token = self._next()
        negative ^= token.sign == "-"
        if token.kind in (TokenKind.FILTER, TokenKind.EXACT):
            # `is_inverted`: this token is inside an odd number of excluded parentheses, which turns its meaning around.
            self.restrictions.add(token, negative ^ is_inverted)
            return None
        if token.kind is TokenKind.OPEN:
            return self._parenthesis(token, negative, is_inverted)
        required = token.sign == "+"
        if token.kind is TokenKind.PREFIX:
            return _Factor(Prefix(str(token.value)), (), negative, required)
        if token.kind is TokenKind.PHRASE:
            return _Factor(self._phrase(words_of(str(token.value))), (), negative, required=True)
        alone = tuple(leaf for piece in token.pieces for leaf in _alternatives(piece))
        return _Factor(_one_of(token.pieces), alone, negative, required)

    def _parenthesis(self, token: QueryToken, negative: bool, is_inverted: bool) -> _Factor | None:
        restricted = self.restrictions.count
        self._depth += 1
        inner = self.parse_clauses(is_inverted ^ negative)
        self._depth -= 1
        self._next()
        if not inner:
            return None
        if negative and self.restrictions.count > restricted:
            self._notes.add(NoteKind.FILTER_IN_OR, self.restrictions.last)
        only = inner.must[0] if len(inner.must) == 1 and not (inner.should or inner.must_not) else None
        if isinstance(only, Phrase):
            return _Factor(only, (), negative, required=token.sign == "+" or not only.joined)
        return _Factor(inner, (), negative, token.sign == "+")

    def _phrase(self, words: Sequence[str]) -> Phrase:
        found = longest_indexed(words)
        if len(found) > MAX_PHRASE_WORDS:
            self._notes.add(NoteKind.PHRASE_LONG)
        return Phrase(found[:MAX_PHRASE_WORDS])


def _one_of(pieces: Sequence[str]) -> Leaf:
    """Return the node of a text beside an operator: a word, or all its words next to each other."""
    words = words_of(" ".join(pieces))
    typed = pieces[0] if len(pieces) == 1 else f'"{" ".join(pieces)}"'
    return Word(words[0]) if len(words) == 1 else Phrase(words[:MAX_PHRASE_WORDS], joined=True, typed=typed)


def _alternatives(piece: str) -> tuple[Leaf, ...]:
    """Return the nodes of a piece of text by itself: a word, a joined phrase, or words if too many for a phrase."""
    words = words_of(piece)
    if 1 < len(words) <= MAX_PHRASE_WORDS:
        return (Phrase(words, joined=True, typed=piece),)
    return tuple(map(Word, words))


# ---- restrictions of the whole query --------------------------------------------------------------------------------


class _Restrictions:
    """Collector of filters and exact texts."""

    def __init__(self, notes: QueryNotes) -> None:
        self._notes = notes
        self._choices: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
        self._moments: dict[str, Moment] = {}
        self._exact: dict[ExactText, None] = {}
        self._expand: bool | None = None
        self.last = ""

    @property
    def count(self) -> int:
        values = sum(len(wanted) + len(unwanted) for wanted, unwanted in self._choices.values())
        return values + len(self._moments) + len(self._exact)

    def add(self, token: QueryToken, excluded: bool) -> None:
        """Add a restriction; beyond the limit it is left out."""
        value = token.value
        if isinstance(value, bool):
            self._switch(value ^ excluded)
        elif self.count >= MAX_CONDITIONS:
            self._notes.add(NoteKind.CONDITIONS)
        elif isinstance(value, str) and token.kind is TokenKind.EXACT:
            self.last = '="…"'
            self._exact[ExactText(self._cut(value), excluded)] = None
        elif isinstance(value, str):
            self.last = f"{token.name}:"
            self._choices.setdefault(token.name, ({}, {}))[excluded][value] = None
        else:
            self.last = f"{token.name}:"
            self._bound(token.name, value, excluded)

    def _switch(self, on: bool) -> None:
        if self._expand not in {None, on}:
            self._notes.add(NoteKind.GIVEN_TWICE, "expand:")
        self._expand = on

    def _bound(self, name: str, moment: Moment, excluded: bool) -> None:
        """Set a bound in time; an excluded `after` is a `before`, and the reverse."""
        if excluded:
            name = "before" if name == "after" else "after"
        if self._moments.get(name, moment) != moment:
            self._notes.add(NoteKind.GIVEN_TWICE, f"{name}:")
        self._moments[name] = moment

    def _cut(self, text: str) -> str:
        words = list(WORD.finditer(text))
        if len(words) <= MAX_PHRASE_WORDS:
            return text
        self._notes.add(NoteKind.PHRASE_LONG)
        return text[: words[MAX_PHRASE_WORDS - 1].end()]

    def query(self, clauses: Clauses) -> Query:
        if not self.count:
            return Query(clauses, expand=self._expand)
        given: dict[str, Any] = {name: FilterChoice(*map(tuple, values)) for name, values in self._choices.items()}
        return Query(clauses, tuple(self._exact), Filters(**given | self._moments), self._expand)
