"""Queries made from queries."""

from __future__ import annotations

from hypothesis import given

from teia.search.query.canonical_text import render
from teia.search.query.notes import NoteKind
from teia.search.query.parser import parse
from teia.search.query.rewrite import drop_weak_words, replace_word
from teia.search.query.tree import MAX_TERMS, Phrase, Word, is_plain
from tests.search.texts import queries


def equal(_node: Word | Phrase) -> float:
    return 1.0


def by_length(node: Word | Phrase) -> float:
    return float(len(node.text if isinstance(node, Word) else "".join(node.words)))


def narrow(text: str) -> str:
    return render(drop_weak_words(parse(text), equal))


def test_words_that_only_ask_are_dropped() -> None:
    assert narrow("como posso declarar o imposto?") == "declarar imposto"
    assert narrow("What is the capital of Brazil") == "capital brazil"
    assert narrow("Quais são as regras") == "regras"
    assert narrow("+imposto o que e") == "+imposto"


def test_words_that_only_ask_stay_when_there_is_nothing_else() -> None:
    assert narrow("o que e") == "o que e"
    assert narrow("site:a.test who") == "site:a.test who"


def test_words_that_only_ask_stay_where_they_were_meant() -> None:
    assert narrow('+who "o que é" -how vacina') == '+who "o que é" -how vacina'
    assert narrow("sistemas OS de DOS") == "sistemas os dos"


def test_the_most_telling_words_are_kept_in_their_order_and_that_is_reported() -> None:
    text = " ".join(f"w{'x' * length}" for length in range(39))
    query = drop_weak_words(parse(text), by_length)
    lengths = [len(node.text) for node in query.clauses.should if isinstance(node, Word)]
    assert lengths == list(range(8, 40))
    assert len(lengths) == MAX_TERMS
    assert [note.code for note in query.notes] == [NoteKind.TERMS.value]


def test_a_word_typed_often_tells_more() -> None:
    text = " ".join(f"w{number}" for number in range(40)) + " w39 w39"
    kept = drop_weak_words(parse(text), equal).clauses.should
    assert kept[-1] == Word("w39", 3)
    assert kept[:-1] == tuple(Word(f"w{number}") for number in range(MAX_TERMS - 1))


def test_a_pasted_page_is_answered() -> None:
    """RELIABILITY 43: 10,000 terms are no error."""
    query = drop_weak_words(parse(" ".join(f"palavra{number}" for number in range(10_000))), equal)
    assert len(query.clauses.should) == MAX_TERMS
    assert NoteKind.TERMS.value in {note.code for note in query.notes}


@given(queries)
def test_narrowing_drops_plain_words_only(text: str) -> None:
    query = parse(text)
    narrow = drop_weak_words(query, equal, most=3)
    assert (narrow.clauses.must, narrow.clauses.must_not) == (query.clauses.must, query.clauses.must_not)
    assert set(narrow.clauses.should) <= set(query.clauses.should)
    assert sum(map(is_plain, narrow.clauses.should)) <= 3
    assert {node for node in query.clauses.should if not is_plain(node)} <= set(narrow.clauses.should)
    assert narrow.is_answerable == query.is_answerable


def test_another_spelling_is_offered_as_a_query() -> None:
    query = parse('+imposto rnda "de rnda" (rnda AND x OR y) site:a.test')
    assert render(replace_word(query, "rnda", "Renda")) == 'site:a.test +imposto "de renda" renda (+renda +x) y'
    assert render(replace_word(parse("rnda renda"), "rnda", "renda")) == "renda renda"
