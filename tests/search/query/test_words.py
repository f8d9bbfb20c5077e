"""Words as the index sees them: tantivy's own analysers are the judge."""

from __future__ import annotations

import functools
import unicodedata

import pytest
import tantivy
from hypothesis import given
from hypothesis import strategies as st

from teia.search.query.parser import parse
from teia.search.query.tree import Phrase, Prefix, leaves
from teia.search.query.words import composed, exactly, folded, is_indexed, longest_indexed, lowered, words_of
from tests.search.texts import queries
from tests.timing import within


def analyser(*filters: tantivy.Filter) -> tantivy.TextAnalyzer:
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for each in filters:
        builder = builder.filter(each)
    return builder.build()


SIMPLE = analyser(tantivy.Filter.remove_long(40))
FOLDED = analyser(tantivy.Filter.remove_long(40), tantivy.Filter.lowercase(), tantivy.Filter.ascii_fold())


@functools.cache
def known_characters() -> list[str]:
    return [char for char in map(chr, range(0x110000)) if unicodedata.category(char) not in {"Cn", "Cs"}]


def test_every_character_separates_words_as_it_does_in_the_index() -> None:
    """Of those that this Python knows: a younger Unicode may have letters that it takes for signs."""
    known = known_characters()
    for start in range(0, len(known), 4_096):
        text = " ".join(known[start : start + 4_096])
        assert words_of(text) == tuple(map(lowered, SIMPLE.analyze(text))), hex(ord(known[start]))


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cn"])))
def test_any_text_has_the_words_it_has_in_the_index(text: str) -> None:
    assert tuple(filter(is_indexed, words_of(text))) == tuple(filter(is_indexed, map(lowered, SIMPLE.analyze(text))))


@given(queries.filter(lambda text: not any(unicodedata.category(char) == "Cn" for char in text)))
def test_every_word_of_a_query_is_one_word_to_the_index(text: str) -> None:
    for leaf in leaves(parse(text).clauses):
        words = leaf.words if isinstance(leaf, Phrase) else (leaf.text,)
        assert isinstance(leaf, Prefix) or all(len(SIMPLE.analyze(word)) == 1 for word in words)
        assert words_of(" ".join(words)) == words


def test_words_are_split_where_the_index_splits_them() -> None:
    assert words_of("Olá, e-mail x_y don't 3.14 AT&T") == (
        *("olá", "e", "mail", "x", "y", "don", "t", "3", "14", "at", "t"),
    )
    assert words_of("हिन्दी การ") == ("हिन", "दी", "การ")


def test_lower_case_leaves_a_word_in_one_piece() -> None:
    assert lowered("İSTANBUL ΣΑΣ") == "İstanbul σασ"
    assert all(len(lowered(char)) == 1 for char in known_characters() if char.isalpha() and char == composed(char))


@pytest.mark.parametrize("block", [(0x20, 0x180), (0x1E00, 0x1F00)])
def test_european_letters_fold_as_in_the_index(block: tuple[int, int]) -> None:
    for char in map(chr, range(*block)):
        if char.isalpha() and char not in "ĸŀĿŉſẚẛẜẝẟỺỻỼỽỾỿİ":
            assert [folded(char)] == FOLDED.analyze(char), char


def test_words_that_are_too_long_for_the_index_are_known() -> None:
    for word in ("a" * 39, "a" * 40, "é" * 19, "é" * 20):
        assert is_indexed(word) == bool(SIMPLE.analyze(word))
    assert longest_indexed(["a", "b" * 50, "c", "d"]) == ("c", "d")
    assert longest_indexed(["b" * 50]) == ()


def test_composing_takes_linear_time_whatever_the_accents() -> None:
    """Python sorts the accents of one letter in quadratic time: 64,000 of them take seconds."""
    text = within(5, lambda: composed("a" + "\u0301\u0316" * 500_000))
    assert len(text) < 40


def test_composing_takes_any_text() -> None:
    assert composed("cafe\u0301 \ud800") == "café ?"


@pytest.mark.parametrize(
    ("wanted", "text", "found"),
    [
        ("US", "the US of A", True),
        ("US", "USA, BUS, us, ÚS", False),
        ("São Paulo", "em São\n  Paulo.", True),
        ("São Paulo", "em Sao Paulo", False),
        ("cafe", "cafe\u0301", False),
        ("C++", "C++17 e C++", True),
        ("(a.b)", "x(a.b)y", True),
        ("(a.b)", "x(acb)y", False),
        ("हि", "हिन", False),
    ],
)
def test_text_is_found_as_it_is_spelt(wanted: str, text: str, found: bool) -> None:
    assert bool(exactly(wanted).search(text)) is found


def test_looking_for_a_spelling_takes_linear_time() -> None:
    assert not within(5, lambda: exactly(" ".join("a" * 16) + "!").search("a \n" * 300_000))
