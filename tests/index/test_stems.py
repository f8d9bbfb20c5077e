"""Texts of stems: the words, stems and places that tantivy would find in the text itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tantivy import Query

from teia.index import stems as stems_module
from teia.index.cell import CellIndex, anchor_words
from teia.index.plurals import singular
from teia.index.schema import GAP, stemming_analyser, stems_analyser, words_analyser
from teia.index.stems import Stems, shared_stems

from .pages import page

TEXTS = (
    "", "   ", "The running dogs of the libraries", "As informações públicas dos PAPÉIS e das IMAGENS, às opções",
    "e-mail: foo_bar@example.org, 3.14 & x²", "don\u2019t \u2014 caf\u00e9s\u2014na\u00efve \u201cquotes\u201d\u2026",
    "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3002\u4e2d\u6587", "a" * 60 + " word " + "b" * 39,
    "\u0130stanbul \u1e9e \u2474 \u00bd", "x" * 200 + "\u00e7\u00f5es",
)  # fmt: skip


def _check(text: str) -> None:
    stem_text = Stems().stem_text(text)
    assert stems_analyser().analyze(stem_text) == stemming_analyser().analyze(singular(text))
    # Every word has its place, dropped ones too.
    assert len(stem_text.split()) == len(words_analyser().analyze(singular(text)))


@pytest.mark.parametrize("text", TEXTS)
def test_stems_are_those_of_the_text(text: str) -> None:
    _check(text)


@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_any_text_has_the_same_stems_either_way(text: str) -> None:
    _check(text)


def test_a_word_is_analysed_once() -> None:
    stems = Stems()
    stems.stem_text("word Word word word. word, (word)")
    assert set(stems) == {b"word", b"Word"}


def test_few_words_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stems_module, "MAX_WORDS", 10)
    stems = Stems()
    assert stems.stem_text(" ".join(map(str, range(25)))) == " ".join(map(str, range(25)))
    assert len(stems) <= 10
    stems.stem_text("9" * 65)
    assert b"9" * 65 not in stems, "too long to come again"


def test_words_stay_as_far_apart_as_they_stand_in_the_text(tmp_path: Path) -> None:
    index = CellIndex(tmp_path / "index")
    index.put(page("http://books.test/", "the state of the art"))
    index.commit(1)
    for slop, found in ((2, 1), (1, 0)):
        query = Query.phrase_query(index.schema, "all", ["stat", "art"], slop=slop)
        assert index.searcher().search(query).count == found
    assert not index.searcher().doc_freq("all", GAP)


def test_the_words_on_links_do_not_depend_on_the_order_of_the_links() -> None:
    texts = ["annual report", "the report", "reports", "report", "Report 2023"]
    assert anchor_words(texts) == anchor_words(reversed(texts))
    stem = shared_stems().stem_text("report")
    # Five votes count as four, one as one: a page is indexed again when votes have grown four times.
    assert anchor_words(texts).split().count(stem) == 4
    assert anchor_words(texts[:3]).split().count(stem) == 1
    assert anchor_words([]) == anchor_words(["the of"]) == ""
