"""The canonical text of a query: one text for all queries that mean the same.

Filters come first, then what must match, what must not, and what should. Parsing it again gives the same query, as
long as it does not exceed the length limit; it serves as cache key and as link to a result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from teia.search.query.tree import Ago, Clauses, Filters, Moment, Node, Phrase, Prefix, Query, Word, times_of

_PLAIN_VALUE = re.compile(r'[^\s()"“”„‟«»]*[^\s()"“”„‟«»,;]')


def render(query: Query) -> str:
    return " ".join([*_filters(query.filters), *_rest(query), *_clauses(query.clauses)])


def _filters(filters: Filters) -> Iterator[str]:
    for name, choice in filters.choices():
        yield from (f"{name}:{_value(value)}" for value in choice.any_of)
        yield from (f"-{name}:{_value(value)}" for value in choice.none_of)
    if filters.after is not None:
        yield f"after:{moment_text(filters.after)}"
    if filters.before is not None:
        yield f"before:{moment_text(filters.before)}"


def _rest(query: Query) -> Iterator[str]:
    if query.expand is not None:
        yield "expand:on" if query.expand else "expand:off"
    for exact in query.exact:
        yield f"{'-' if exact.excluded else ''}={_quoted(exact.text)}"


def _value(value: str) -> str:
    return value if _PLAIN_VALUE.fullmatch(value) else _quoted(value)


def _quoted(text: str) -> str:
    """Quote a text. A text with straight quotes in it was typed in other quotes, and so contains none of those."""
    return f"“{text}”" if '"' in text else f'"{text}"'


def moment_text(moment: Moment) -> str:
    """Return a moment as it can be typed: `2026-03-05`, `7d`, `12h`."""
    if isinstance(moment, Ago):
        return f"{moment.hours}h" if moment.hours % 24 else f"{moment.hours // 24}d"
    return moment.isoformat()


def _clauses(clauses: Clauses) -> Iterator[str]:
    for node in clauses.must:
        # A quoted phrase is required without a sign.
        is_quoted = isinstance(node, Phrase) and not node.joined
        yield node_text(node) if is_quoted else f"+{node_text(node)}"
    yield from (f"-{node_text(node)}" for node in clauses.must_not)
    should = [text for node in clauses.should for text in [node_text(node)] * times_of(node)]
    # Beside blanks a quoted phrase would be required; OR keeps it an alternative.
    has_quoted = any(isinstance(node, Phrase) and not node.joined for node in clauses.should)
    if should:
        yield (" OR " if has_quoted else " ").join(should)


def node_text(node: Node) -> str:
    """Return one node as it can be typed, with parentheses around clauses."""
    match node:
        case Word(text):
            return text
        case Prefix(text):
            return f"{text}*"
        case Phrase(words, joined):
            return "-".join(words) if joined else f'"{" ".join(words)}"'
        case Clauses():
            return f"({' '.join(_clauses(node))})"
