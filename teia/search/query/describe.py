"""A description of a query in plain words, so that a user sees how it was understood.

+imposto renda -2025 site:receita.test    pages with imposto, preferably with renda, without 2025, from receita.test
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from teia.search.query.notes import printable
from teia.search.query.tree import (
    MAX_TERMS,
    Ago,
    Clauses,
    Filters,
    Moment,
    Node,
    Phrase,
    Prefix,
    Query,
    Word,
)

_FILTERS = {
    "site": ("from {}", "not from {}"),
    "host": ("on the host {}", "not on the host {}"),
    "lang": ("in the language {}", "not in the language {}"),
    "type": ("of type {}", "not of type {}"),
    "link": ("that link to {}", "that do not link to {}"),
    "title": ("with {} in the title", "without {} in the title"),
}
"""Phrases for values that are wanted, and for those that are not, by filter."""


def describe(query: Query) -> str:
    """Describe a query in one line."""
    if not query.is_answerable:
        return "nothing to search for"
    parts = [*_clauses(query.clauses), *_exact(query), *_filters(query.filters)]
    if query.expand and query.is_plain:
        parts.append("and with related words")
    return f"pages {', '.join(parts)}"


def _clauses(clauses: Clauses) -> Iterator[str]:
    if clauses.must:
        yield f"with {_join_nodes(clauses.must, 'and')}"
    if clauses.should:
        yield f"{'preferably ' if clauses.must else ''}with {_join_nodes(clauses.should)}"
    if clauses.must_not:
        yield f"without {_join_nodes(clauses.must_not)}"


def _join_nodes(nodes: Sequence[Node], last: str = "or") -> str:
    """Join with commas and one last word; of very many nodes only the first are named."""
    texts = [_node(node) for node in nodes[:MAX_TERMS]]
    if len(nodes) > MAX_TERMS:
        texts.append(f"{len(nodes) - MAX_TERMS} more")
    return _join(texts, last)


def _join(texts: Sequence[str], last: str = "or") -> str:
    return f" {last} ".join([*filter(None, [", ".join(texts[:-1])]), *texts[-1:]])


def _node(node: Node) -> str:
    match node:
        case Word(text):
            return text
        case Prefix(text):
            return f"words that begin with {text}…"
        case Phrase(words, joined, typed):
            return printable(typed) or "-".join(words) if joined else f'"{" ".join(words)}"'
        case Clauses():
            return f"({', '.join(_clauses(node)).removeprefix('with ')})"


def _exact(query: Query) -> Iterator[str]:
    for each in query.exact:
        yield f'{"without" if each.excluded else "with"} exactly "{printable(each.text)}"'


def _filters(filters: Filters) -> Iterator[str]:
    for name, choice in filters.choices():
        quotes = '"' if name == "title" else ""
        for template, values in zip(_FILTERS[name], (choice.any_of, choice.none_of), strict=True):
            if values:
                yield template.replace("{}", _join([f"{quotes}{printable(value)}{quotes}" for value in values]))
    if filters.after is not None:
        yield f"dated {_moment(filters.after)} or later"
    if filters.before is not None:
        yield f"dated before {_moment(filters.before)}"


def _moment(moment: Moment) -> str:
    if not isinstance(moment, Ago):
        return moment.isoformat()
    return f"{moment.hours} hours ago" if moment.hours % 24 else f"{moment.hours // 24} days ago"
