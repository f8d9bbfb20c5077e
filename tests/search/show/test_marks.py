"""The loops of a snippet, compiled and plain, give the same; tests/search/show/test_snippets.py says what that is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.search.query.analysis import folded_of, stem_of
from teia.search.show import _marks as compiled
from teia.search.show.marks import BLANK, MAX_MARKS, TABLE, Mark
from tests.search.show import plain_marks as show_marks

PIECES = st.sampled_from(
    ["rede", "redes", "Redes", "rêdes", "REDE", "redeя", "яrede", "Привет", " ", " ", "-", "\n", "\u0301", "\u0345",
     "\u0903", "İ", "ß", "日本", "𝒳", "_", "7", "\ud800", "é", "ł", "\u1e9e", "ﬁ"]
)  # fmt: skip
TEXTS = st.one_of(st.lists(PIECES, max_size=30).map("".join), st.text(max_size=60))


@st.composite
def marks(draw: st.DrawFn, most: int = 60) -> list[Mark]:
    """Marks in the order of a text, which may lie over one another."""
    found = []
    for start in sorted(draw(st.lists(st.integers(0, 400), max_size=most))):
        number, weight = draw(st.integers(0, 70)), draw(st.floats(0, 10, allow_nan=False))
        found.append((start, start + draw(st.integers(1, 20)), number, weight))
    return found


@given(TEXTS)
def test_folding_is_the_same(text: str) -> None:
    assert compiled.folded_octets(text) == show_marks.folded_octets(text)
    assert len(show_marks.folded_octets(text)) == 1 + len(text)


def test_every_character_folds_the_same() -> None:
    text = "".join(map(chr, range(0x3000)))
    assert compiled.folded_octets(text) == show_marks.folded_octets(text)
    assert TABLE[ord("Ł")] == ord("l")
    assert TABLE[ord("_")] == BLANK


@given(TEXTS, st.sampled_from(["rede", "Привет", "redeя", "7", "é", "the"]))
def test_words_are_marked_in_the_same_places(text: str, word: str) -> None:
    octets = show_marks.folded_octets(text)
    for stem, made in ((stem_of(word), stem_of), (folded_of(word), folded_of)):
        if stem:
            asked = (text, octets, stem[: max(2, len(stem) - 1)], stem, made, 3, 1.5)
            assert compiled.word_marks(*asked) == show_marks.word_marks(*asked)


def test_no_more_places_are_looked_at_than_are_ever_marked() -> None:
    text = "rede redemoinho " * MAX_MARKS
    asked = (text, show_marks.folded_octets(text), "red", "red", stem_of, 0, 1.0)
    assert compiled.word_marks(*asked) == show_marks.word_marks(*asked)
    assert 0 < len(show_marks.word_marks(*asked)) <= MAX_MARKS


def test_octets_of_another_text_are_refused() -> None:
    with pytest.raises(ValueError, match="octets of this text"):
        compiled.word_marks("rede", b" red", "red", "red", stem_of, 0, 1.0)


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(1, 12), st.integers(0, 5)), max_size=90))
def test_the_same_marks_are_kept(places: list[tuple[int, int, int]]) -> None:
    found = [(start, start + length, number, 1.0) for start, length, number in places]
    assert compiled.without_overlaps(list(found)) == show_marks.without_overlaps(list(found))


@given(marks(), st.integers(1, 250))
def test_the_same_window_is_best(found: list[Mark], chars: int) -> None:
    assert compiled.best_mark(found, chars) == show_marks.best_mark(found, chars)


@given(marks(), st.integers(0, 300), st.integers(0, 300))
def test_a_text_is_cut_into_the_same_parts(found: list[Mark], start: int, length: int) -> None:
    text = "The quick brown fox. " * 20
    end = min(len(text), start + length)
    parts = show_marks.parts_of(text, found, start, end)
    assert compiled.parts_of(text, found, start, end) == parts
    assert all(part for part, _ in parts)
