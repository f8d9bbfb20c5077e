"""Texts of stems and of folded words: what tantivy would find in the text itself, at the same places."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tantivy import Query

from teia.index import stems as stems_module
from teia.index._stems import WordTable
from teia.index.cell import CellIndex, anchor_words
from teia.index.plurals import singular
from teia.index.schema import (
    GAP,
    LONG_GAP,
    MAX_FOLDED_BYTES,
    MAX_WORD_BYTES,
    folded_divider,
    folding_analyser,
    stemming_analyser,
    stems_divider,
    words_analyser,
)
from teia.index.stems import Words, shared_words
from tests.timing import within

from .pages import page

TEXTS = (
    "", "   ", "The running dogs of the libraries", "As informações públicas dos PAPÉIS e das IMAGENS, às opções",
    "e-mail: foo_bar@example.org, 3.14 & x²", "don\u2019t \u2014 caf\u00e9s\u2014na\u00efve \u201cquotes\u201d\u2026",
    "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3002\u4e2d\u6587", "a" * 60 + " word " + "b" * 39 + " " + "C" * 40,
    "\u0130stanbul \u1e9e \u2474 \u00bd", "x" * 200 + "\u00e7\u00f5es",
)  # fmt: skip


def _check(text: str) -> None:
    stems, folded = Words().of(text)
    assert stems_divider().analyze(stems) == stemming_analyser().analyze(singular(text))
    assert folded_divider().analyze(folded) == folding_analyser().analyze(text)
    # Every word has its place, dropped ones too.
    assert len(stems.split()) == len(folded.split()) == len(words_analyser().analyze(text))


@pytest.mark.parametrize("text", TEXTS)
def test_stems_are_those_of_the_text(text: str) -> None:
    _check(text)


@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_any_text_has_the_same_stems_either_way(text: str) -> None:
    _check(text)


def test_a_word_is_analysed_once() -> None:
    analysed: list[bytes] = []

    def analyse(run: bytes) -> tuple[bytes, bytes]:
        analysed.append(run)
        return run.lower(), run

    table = WordTable(analyse, stems_module._LETTERS, 10, 10, b".")
    stems, folded = table.words("word Word word word. word, (word)")
    assert (stems.split(), folded.split()) == (["word"] * 6, ["word", "Word", *["word"] * 4])
    assert analysed == [b"word", b"Word"]


def test_words_that_were_chosen_to_share_a_slot_do_not() -> None:
    """Seen: the hash was FNV-1a alone, and a page of 20,000 such words took a hundred times as long as another."""
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
    words = np.stack(np.meshgrid(*[letters] * 4), -1).reshape(-1, 4)
    hashed = np.full(len(words), 0xCBF29CE484222325, np.uint64)
    for column in words.T:
        hashed = (hashed ^ column) * np.uint64(0x100000001B3)
    chosen = words[(hashed ^ hashed >> np.uint64(32)) % np.uint64(1 << 12) < np.uint64(8)]
    table = WordTable(lambda run: (run, run), stems_module._LETTERS, 10_000, 10_000, b".")
    table.words(" ".join(word.tobytes().decode() for word in chosen))
    assert table.runs == len(chosen) > 500
    assert table.passed < 5 * len(chosen)


def test_few_words_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stems_module, "MAX_WORDS", 10)
    words = Words()
    numbers = list(map(str, range(25)))
    for _ in range(2):
        assert [text.split() for text in words.of(" ".join(numbers))] == [numbers, numbers]
        assert words.remembered <= 10
    words.of("9" * 65)
    assert words.remembered <= 10


def test_many_words_are_remembered() -> None:
    """The table grows, and so does its memory."""
    words = Words()
    numbers = [f"{number}a{number}" for number in range(20_000)]
    for _ in range(2):
        assert words.of(" ".join(numbers))[1].split() == numbers
        assert words.remembered == 20_000


def test_a_text_with_half_a_character_is_no_error() -> None:
    assert [text.split() for text in Words().of("one\ud800two")] == [["one", "two"]] * 2


def test_words_stay_as_far_apart_as_they_stand_in_the_text(tmp_path: Path) -> None:
    index = CellIndex(tmp_path / "index")
    index.put(page("http://books.test/", "the state of the art"))
    index.commit(1)
    for slop, found in ((2, 1), (1, 0)):
        query = Query.phrase_query(index.schema, "all", ["stat", "art"], slop=slop)
        assert index.searcher().search(query).count == found
    assert not index.searcher().doc_freq("all", GAP)


def test_a_word_that_is_too_long_keeps_its_place_among_folded_words(tmp_path: Path) -> None:
    index = CellIndex(tmp_path / "index")
    index.put(page("http://books.test/", f"before {'x' * 60} after"))
    index.commit(1)
    for slop, found in ((1, 1), (0, 0)):
        query = Query.phrase_query(index.schema, "exact", ["before", "after"], slop=slop)
        assert index.searcher().search(query).count == found
    assert not index.searcher().doc_freq("exact", LONG_GAP)


def test_no_folded_word_is_as_long_as_a_gap() -> None:
    """The longest become four letters of three octets: a number in parentheses."""
    folder = folding_analyser()
    for char in filter(str.isalnum, map(chr, range(0x80, sys.maxunicode))):
        word = char * ((MAX_WORD_BYTES - 1) // len(char.encode()))
        assert all(len(each.encode()) < MAX_FOLDED_BYTES for each in folder.analyze(word)), char


def test_the_words_on_links_do_not_depend_on_the_order_of_the_links() -> None:
    texts = ["annual report", "the report", "reports", "report", "Report 2023"]
    assert anchor_words(texts) == anchor_words(reversed(texts))
    stem = shared_words().of("report")[0].strip()
    # Five votes count as four, one as one: a page is indexed again when votes have grown four times.
    assert anchor_words(texts).split().count(stem) == 4
    assert anchor_words(texts[:3]).split().count(stem) == 1
    assert anchor_words([]) == anchor_words(["the of"]) == ""


def _counts(words: Words, text: str, more: bytes = b"") -> dict[str, int]:
    *both, numbers, counts = words.counted(text, more)
    assert tuple(both) == words.of(text)
    names = words.stems()
    return {names[number]: count for number, count in zip(np.frombuffer(numbers, np.uint32), counts, strict=True)}


@pytest.mark.parametrize("text", [*TEXTS, "word " * 300 + "other"])
def test_stems_are_counted_with_the_text(text: str) -> None:
    words = Words()
    expected = Counter(words.of(text)[0].split())
    del expected[GAP]
    # A run of more than 64 octets is not remembered, but counted.
    assert _counts(words, text) == {stem: min(count, 255) for stem, count in expected.items()}
    assert _counts(words, text) == _counts(Words(), text), "between texts nothing stays"


def test_stems_of_a_title_are_counted_with_the_text() -> None:
    words = Words()
    title = words.counted("running dogs")[2]
    assert _counts(words, "a dog", title) == {"run": 1, "dog": 2}
    with pytest.raises(ValueError, match="no stem"):
        words.counted("a dog", b"\xff\xff\xff\x00")


def test_only_so_many_stems_have_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stems_module, "MAX_STEMS", 2)
    words = Words()
    first, second, third = words.of("eins zwei drei")[0].split()
    assert _counts(words, "eins zwei drei eins") == {first: 2, second: 1}
    assert words.stems() == [first, second]
    assert words.of("drei")[0].strip() == third


@pytest.mark.heavy
def test_a_million_characters_in_one_run_take_time_by_their_number() -> None:
    """No octet of ASCII divides them. By the square of their number they took ten seconds."""
    text = "\u00e9\u2014" * 500_000
    stems, _ = within(3.0, lambda: Words().counted(text)[:2])
    assert stems.count(" ") == 500_000
