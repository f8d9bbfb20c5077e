"""A description of a query in plain words, so that a user sees how it was understood: English and Portuguese.

+imposto renda -2025 site:receita.test    pages with imposto, preferably with renda, without 2025, from receita.test
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from teia.search.query.notes import Language, printable
from teia.search.query.tree import (
    MAX_TERMS,
    Ago,
    Clauses,
    FilterChoice,
    Filters,
    Moment,
    Node,
    Phrase,
    Prefix,
    Query,
    Word,
)


@dataclass(frozen=True, slots=True)
class _Phrases:
    """Phrases of one language. `{}` is a list that was joined with `and_` or `or_`."""

    pages: str
    nothing: str
    and_: str
    or_: str
    nor: str
    has: str
    better: str
    lacks: str
    begins: str
    more: str
    exactly: str
    not_exactly: str
    after: str
    before: str
    hours: str
    days: str
    related: str
    filters: dict[str, tuple[str, str]]


_ENGLISH = _Phrases(
    pages="pages",
    nothing="nothing to search for",
    and_=" and ",
    or_=" or ",
    nor=" or ",
    has="with {}",
    better="preferably with {}",
    lacks="without {}",
    begins="words that begin with {}",
    more="{} more",
    exactly="with exactly {}",
    not_exactly="without exactly {}",
    after="dated {} or later",
    before="dated before {}",
    hours="{} hours ago",
    days="{} days ago",
    related="and with related words",
    filters={
        "site": ("from {}", "not from {}"),
        "host": ("on the host {}", "not on the host {}"),
        "lang": ("in the language {}", "not in the language {}"),
        "type": ("of type {}", "not of type {}"),
        "link": ("that link to {}", "that do not link to {}"),
        "title": ("with {} in the title", "without {} in the title"),
    },
)

_PORTUGUESE = _Phrases(
    pages="páginas",
    nothing="nada a procurar",
    and_=" e ",
    or_=" ou ",
    nor=" nem ",
    has="com {}",
    better="de preferência com {}",
    lacks="sem {}",
    begins="palavras que começam com {}",
    more="mais {}",
    exactly="com exatamente {}",
    not_exactly="sem exatamente {}",
    after="com data de {} em diante",
    before="com data anterior a {}",
    hours="{} horas atrás",
    days="{} dias atrás",
    related="e com palavras relacionadas",
    filters={
        "site": ("de {}", "não de {}"),
        "host": ("no servidor {}", "não no servidor {}"),
        "lang": ("no idioma {}", "não no idioma {}"),
        "type": ("do tipo {}", "não do tipo {}"),
        "link": ("que apontam para {}", "que não apontam para {}"),
        "title": ("com {} no título", "sem {} no título"),
    },
)


def describe(query: Query, language: Language = "en") -> str:
    """Describe a query in one line."""
    phrases = _PORTUGUESE if language == "pt" else _ENGLISH
    if not query.is_answerable:
        return phrases.nothing
    parts = [*_clauses(query.clauses, phrases), *_exact(query, phrases), *_filters(query.filters, phrases)]
    if query.expand and query.is_plain:
        parts.append(phrases.related)
    return f"{phrases.pages} {', '.join(parts)}"


def _fill(template: str, text: str) -> str:
    return template.replace("{}", text)


def _clauses(clauses: Clauses, phrases: _Phrases) -> Iterator[str]:
    if clauses.must:
        yield _fill(phrases.has, _join_nodes(clauses.must, phrases.and_, phrases))
    if clauses.should:
        yield _fill(phrases.better if clauses.must else phrases.has, _join_nodes(clauses.should, phrases.or_, phrases))
    if clauses.must_not:
        yield _fill(phrases.lacks, _join_nodes(clauses.must_not, phrases.nor, phrases))


def _join_nodes(nodes: Sequence[Node], last: str, phrases: _Phrases) -> str:
    """Join with commas and one last word; of very many nodes only the first are named."""
    texts = [_node(node, phrases) for node in nodes[:MAX_TERMS]]
    if len(nodes) > MAX_TERMS:
        texts.append(_fill(phrases.more, str(len(nodes) - MAX_TERMS)))
    return _join(texts, last)


def _join(texts: Sequence[str], last: str) -> str:
    return last.join([*filter(None, [", ".join(texts[:-1])]), *texts[-1:]])


def _node(node: Node, phrases: _Phrases) -> str:
    match node:
        case Word(text):
            return text
        case Prefix(text):
            return _fill(phrases.begins, f"{text}…")
        case Phrase(words, joined, typed):
            return printable(typed) or "-".join(words) if joined else f'"{" ".join(words)}"'
        case Clauses(must, should, must_not):
            listed = _join_nodes(must, phrases.and_, phrases) if must else _join_nodes(should, phrases.or_, phrases)
            better = [_fill(phrases.better, _join_nodes(should, phrases.or_, phrases))] if must and should else []
            lacks = [_fill(phrases.lacks, _join_nodes(must_not, phrases.nor, phrases))] if must_not else []
            return f"({', '.join([listed, *better, *lacks])})"


def _exact(query: Query, phrases: _Phrases) -> Iterator[str]:
    for each in query.exact:
        yield _fill(phrases.not_exactly if each.excluded else phrases.exactly, f'"{printable(each.text)}"')


def _filters(filters: Filters, phrases: _Phrases) -> Iterator[str]:
    for name, choice in filters.choices():
        yield from _choice(name, choice, phrases)
    if filters.after is not None:
        yield _fill(phrases.after, _moment(filters.after, phrases))
    if filters.before is not None:
        yield _fill(phrases.before, _moment(filters.before, phrases))


def _choice(name: str, choice: FilterChoice, phrases: _Phrases) -> Iterator[str]:
    quotes = '"' if name == "title" else ""
    wanted, unwanted = phrases.filters[name]
    if choice.any_of:
        yield _fill(wanted, _join([f"{quotes}{printable(value)}{quotes}" for value in choice.any_of], phrases.or_))
    if choice.none_of:
        yield _fill(unwanted, _join([f"{quotes}{printable(value)}{quotes}" for value in choice.none_of], phrases.nor))


def _moment(moment: Moment, phrases: _Phrases) -> str:
    if not isinstance(moment, Ago):
        return moment.isoformat()
    return (
        _fill(phrases.hours, str(moment.hours)) if moment.hours % 24 else _fill(phrases.days, str(moment.hours // 24))
    )
