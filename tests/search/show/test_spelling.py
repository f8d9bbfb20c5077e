"""Words that are spelt alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance.OSA import distance

from teia.search.show.spelling import (
    MAX_SIMILAR,
    MIN_CHARS,
    SAME_BEGINNING,
    SURE_BEGINNING,
    edits,
    words_at_distance_1,
    words_at_distance_2,
)

WORDS = {"servidor": 100, "servidores": 40, "serviço": 7, "renda": 50, "rende": 3, "kernel": 9, "imposto": 12}


def beginning(prefix: str) -> list[tuple[str, int]]:
    return [(each, count) for each, count in WORDS.items() if each.startswith(prefix)]


def alike(word: str) -> dict[str, int]:
    return words_at_distance_1(word, lambda text: WORDS.get(text, 0), beginning) or words_at_distance_2(word, beginning)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("sevidor", "servidor"),
        ("srevidor", "servidor"),
        ("servidir", "servidor"),
        ("serrvidor", "servidor"),
        ("rnda", "renda"),
        ("kernle", "kernel"),
        ("sevridir", "servidor"),
        ("imosto", "imposto"),
    ],
)
def test_slips_of_the_pen_are_understood(typed: str, meant: str) -> None:
    assert next(iter(alike(typed))) == meant


def test_the_most_frequent_comes_first() -> None:
    assert list(alike("rend")) == ["renda", "rende"]


@pytest.mark.parametrize("typed", ["", "a", "ab", "x" * 30, "12345", "se-vidor", "qwertyuiop", "日本語"])
def test_what_cannot_be_a_slip_gets_nothing(typed: str) -> None:
    assert alike(typed) == {}


def test_few_words_are_offered() -> None:
    found = words_at_distance_1("casa", lambda text: int(text != "casa"), lambda _: [])
    assert len(found) == MAX_SIMILAR


def test_a_word_that_pages_have_is_suggested_behind_the_others() -> None:
    assert list(alike("rende")) == ["renda", "rende"]


words = st.text(alphabet="abc", min_size=1, max_size=6)


@given(words)
def test_every_edit_is_at_distance_one(word: str) -> None:
    assert all(distance(word, other) == 1 for other in edits(word))


@given(words, words)
def test_exactly_the_edits_are_at_distance_one(one: str, other: str) -> None:
    assert (distance(one, other) == 1) == (other in edits(one))


@given(words, st.sets(words, max_size=12))
def test_no_word_at_distance_one_is_overlooked(word: str, known: set[str]) -> None:
    """Against comparing it with every word: what is not looked up cannot be there."""
    pages = dict.fromkeys(sorted(known), 1)
    found = words_at_distance_1(
        word, lambda text: pages.get(text, 0), lambda start: [(each, 1) for each in pages if each.startswith(start)]
    )
    near = sorted(each for each in known if distance(word, each) == 1)
    if len(word) >= MIN_CHARS:
        assert list(found) == [*near[:MAX_SIMILAR], *({word} & known)]


def test_words_that_have_only_two_letters_in_common_are_never_listed() -> None:
    """In a large collection there are tens of thousands of them."""
    asked: list[str] = []

    def beginning(start: str) -> list[tuple[str, int]]:
        asked.append(start)
        return []

    assert words_at_distance_2("sevridir", beginning) == {}
    assert min(map(len, asked)) == SAME_BEGINNING
    assert {each[:SURE_BEGINNING] for each in asked} == {"se"}
