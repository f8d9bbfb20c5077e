"""Texts that have brought search engines down (RELIABILITY 43): an answer or a message, soon, whatever is typed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from teia.search.query.canonical_text import render
from teia.search.query.describe import describe
from teia.search.query.notes import NoteKind
from teia.search.query.parser import parse
from teia.search.query.tree import (
    MAX_CANDIDATES,
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_PHRASE_WORDS,
    MAX_PREFIXES,
    Clauses,
    Phrase,
    Prefix,
    Query,
    is_plain,
    leaves,
)
from teia.search.query.words import is_indexed
from tests.timing import within

MIB = 1 << 20
CHANCE = random.Random(43)

DEADLY = {
    "star": "*",
    "short prefix": "a*",
    "leading star": "*a",
    "only NOT": "NOT x",
    "open quote": '"',
    "open parenthesis": "(",
    "closed parenthesis": ")",
    "10,000 terms": " ".join(f"w{n}" for n in range(10_000)),
    "10,000 required terms": " ".join(f"+w{n}" for n in range(10_000)),
    "10,000 times AND": " AND ".join(f"w{n}" for n in range(10_000)),
    "10,000 times OR": " OR ".join(f'"w{n} x"' for n in range(10_000)),
    "10,000 words in parentheses": "+(" + " ".join(f"w{n}" for n in range(10_000)) + ")",
    "5,000-word phrase": '"' + " ".join(f"w{n}" for n in range(5_000)) + '"',
    "5,000-word exact text": '="' + " ".join(f"w{n}" for n in range(5_000)) + '"',
    "fuzzy": "word~9",
    "unknown field": "nofield:x",
    "NUL": "a\0b",
    "lone surrogates": "\ud800 a\udfff",
}

LONG = {
    "one word": "a" * MIB,
    "parentheses": "(" * MIB,
    "pairs of parentheses": "()" * (MIB // 2),
    "nested parentheses": "(" * (MIB // 2) + "a" + ")" * (MIB // 2),
    "excluded parentheses": "-(" * 5_000 + "a" + ")" * 5_000,
    "small parentheses": "(a b) " * (MIB // 6),
    "quotes": '"' * MIB,
    "NOT": "NOT " * (MIB // 4) + "x",
    "plus": "+" * MIB,
    "accents": "a" + "\u0301\u0316" * (MIB // 2),
    "joined words": "a-" * (MIB // 2),
    "joined digits": "1." * (MIB // 2),
    "stars": "ab* " * (MIB // 4),
    "filters without a value": "site:(" * (MIB // 6),
    "filters": " ".join(f"site:a{n}.test" for n in range(70_000)),
    "bad filters": 'lang:"x y" ' * (MIB // 11),
    "closed parentheses of a value": "site:" + ")" * MIB,
    "surrogates": "\ud800" * MIB,
    "NUL": "\0" * MIB,
    "all characters": "".join(map(chr, np.random.default_rng(43).integers(0x110000, size=MIB))),
    "all operators": "".join(CHANCE.choices('+-()"=*: aANDORT“”', k=MIB)),
}


def depth(clauses: Clauses) -> int:
    nodes = (*clauses.must, *clauses.should, *clauses.must_not)
    return max((1 + depth(node) for node in nodes if isinstance(node, Clauses)), default=0)


def conditions(query: Query) -> int:
    clauses, filters = query.clauses, query.filters
    nodes = [*clauses.must, *clauses.must_not, *(node for node in clauses.should if not is_plain(node))]
    values = sum(len(choice.any_of) + len(choice.none_of) for _, choice in filters.choices())
    dates = (filters.after is not None) + (filters.before is not None)
    return sum(1 for node in nodes for _ in leaves(node)) + values + dates + len(query.exact)


def check_limits(query: Query) -> None:
    found = list(leaves(query.clauses))
    assert depth(query.clauses) <= MAX_DEPTH
    assert conditions(query) <= MAX_CONDITIONS
    assert len(query.clauses.should) <= MAX_CANDIDATES
    assert sum(isinstance(leaf, Prefix) for leaf in found) <= MAX_PREFIXES
    assert all(len(leaf.words) <= MAX_PHRASE_WORDS for leaf in found if isinstance(leaf, Phrase))
    assert all(is_indexed(word) for leaf in found if isinstance(leaf, Phrase) for word in leaf.words)
    assert all(each.phrase is None or len(each.phrase.words) <= MAX_PHRASE_WORDS for each in query.exact)
    assert query.is_answerable or query.notes


@pytest.mark.parametrize("name", DEADLY)
def test_a_deadly_query_is_read_within_the_limits(name: str) -> None:
    query = parse(DEADLY[name])
    check_limits(query)
    assert query.is_answerable or query.notes
    assert parse(render(query)) == query


@pytest.mark.heavy
@pytest.mark.parametrize("name", LONG)
def test_a_mebibyte_is_read_in_a_second(name: str) -> None:
    query = within(1, lambda: parse(LONG[name]))
    check_limits(query)
    assert describe(query)
    assert parse(render(query)) == query


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("10,000 required terms", NoteKind.CONDITIONS),
        ("10,000 terms", NoteKind.CANDIDATES),
        ("5,000-word phrase", NoteKind.PHRASE_LONG),
        ("5,000-word exact text", NoteKind.PHRASE_LONG),
        ("only NOT", NoteKind.ONLY_NEGATIVE),
        ("unknown field", NoteKind.FILTER_UNKNOWN),
        ("short prefix", NoteKind.PREFIX_SHORT),
        ("leading star", NoteKind.WILDCARD),
        ("open quote", NoteKind.QUOTE_OPEN),
    ],
)
def test_what_a_limit_cut_off_is_reported(name: str, kind: NoteKind) -> None:
    assert kind.value in {note.code for note in parse(DEADLY[name]).notes}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nested parentheses", NoteKind.TEXT_CUT),
        ("excluded parentheses", NoteKind.TOO_DEEP),
        ("stars", NoteKind.PREFIXES),
    ],
)
def test_what_a_limit_took_from_a_long_text_is_reported(name: str, kind: NoteKind) -> None:
    assert kind.value in {note.code for note in parse(LONG[name]).notes}


def test_words_that_are_operators_elsewhere_can_be_searched_in_quotes() -> None:
    for word in ("AND", "OR", "NOT", "NEAR"):
        assert parse(f'"{word}"').clauses == Clauses(must=(Phrase((word.lower(),)),))


def test_naughty_strings_are_read(conformance: Path) -> None:
    strings = json.loads((conformance / "strings" / "blns.json").read_text("utf-8"))
    assert len(strings) == 515
    for text in strings:
        for query in (parse(text), parse(f'"{text}"'), parse(f"+site:{text} -({text}) ab*")):
            check_limits(query)
            assert parse(render(query)) == query, text
            assert all(line.isprintable() for line in query.notes)
