"""A description of a query in plain words, so that a user sees how it was understood: English and Portuguese.

+imposto renda -2025 site:receita.test    pages with imposto, preferably with renda, without 2025, from receita.test
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from teia.search.query.notes import Language, shown
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
class _Words:
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
    spelt: str
    not_spelt: str
    after: str
    before: str
    hours: str
    days: str
    related: str
    filters: dict[str, tuple[str, str]]


_ENGLISH = _Words(
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
    spelt="with exactly {}",
    not_spelt="without exactly {}",
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

_PORTUGUESE = _Words(
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
    spelt="com exatamente {}",
    not_spelt="sem exatamente {}",
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
    say = _PORTUGUESE if language == "pt" else _ENGLISH
    if not query.is_answerable:
        return say.nothing
    parts = [*_clauses(query.clauses, say), *_exact(query, say), *_filters(query.filters, say)]
    if query.expand and query.is_plain:
        parts.append(say.related)
    return f"{say.pages} {', '.join(parts)}"


def _filled(template: str, text: str) -> str:
    return template.replace("{}", text)


def _clauses(clauses: Clauses, say: _Words) -> Iterator[str]:
    if clauses.must:
        yield _filled(say.has, _listed(clauses.must, say.and_, say))
    if clauses.should:
        yield _filled(say.better if clauses.must else say.has, _listed(clauses.should, say.or_, say))
    if clauses.must_not:
        yield _filled(say.lacks, _listed(clauses.must_not, say.nor, say))


def _listed(nodes: Sequence[Node], last: str, say: _Words) -> str:
    """Join with commas and one last word; of very many nodes only the first are named."""
    texts = [_node(node, say) for node in nodes[:MAX_TERMS]]
    if len(nodes) > MAX_TERMS:
        texts.append(_filled(say.more, str(len(nodes) - MAX_TERMS)))
    return _joined(texts, last)


def _joined(texts: Sequence[str], last: str) -> str:
    return last.join([*filter(None, [", ".join(texts[:-1])]), *texts[-1:]])


def _node(node: Node, say: _Words) -> str:
    match node:
        case Word(text):
            return text
        case Prefix(text):
            return _filled(say.begins, f"{text}…")
        case Phrase(words, joined, typed):
            return shown(typed) or "-".join(words) if joined else f'"{" ".join(words)}"'
        case Clauses(must, should, must_not):
            listed = _listed(must, say.and_, say) if must else _listed(should, say.or_, say)
            better = [_filled(say.better, _listed(should, say.or_, say))] if must and should else []
            lacks = [_filled(say.lacks, _listed(must_not, say.nor, say))] if must_not else []
            return f"({', '.join([listed, *better, *lacks])})"


def _exact(query: Query, say: _Words) -> Iterator[str]:
    for each in query.exact:
        yield _filled(say.not_spelt if each.excluded else say.spelt, f'"{shown(each.text)}"')


def _filters(filters: Filters, say: _Words) -> Iterator[str]:
    for name, choice in filters.choices():
        yield from _choice(name, choice, say)
    if filters.after is not None:
        yield _filled(say.after, _moment(filters.after, say))
    if filters.before is not None:
        yield _filled(say.before, _moment(filters.before, say))


def _choice(name: str, choice: FilterChoice, say: _Words) -> Iterator[str]:
    quotes = '"' if name == "title" else ""
    wanted, unwanted = say.filters[name]
    if choice.any_of:
        yield _filled(wanted, _joined([f"{quotes}{shown(value)}{quotes}" for value in choice.any_of], say.or_))
    if choice.none_of:
        yield _filled(unwanted, _joined([f"{quotes}{shown(value)}{quotes}" for value in choice.none_of], say.nor))


def _moment(moment: Moment, say: _Words) -> str:
    if not isinstance(moment, Ago):
        return moment.isoformat()
    return _filled(say.hours, str(moment.hours)) if moment.hours % 24 else _filled(say.days, str(moment.hours // 24))
