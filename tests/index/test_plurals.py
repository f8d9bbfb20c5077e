"""Plurals that become singular before words are stemmed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.index.plurals import singular


@pytest.mark.parametrize(
    ("many", "one"),
    [
        ("informações", "informaçao"),
        ("INFORMACOES", "INFORMACao"),
        ("IMAGENS", "IMagem"),
        ("opiniões", "opiniao"),
        ("decisoes", "decisao"),
        ("animais", "animal"),
        ("papéis", "papel"),
        ("níveis", "nível"),
        ("lençóis", "lençol"),
        ("imagens", "imagem"),
    ],
)
def test_a_portuguese_plural_becomes_singular(many: str, one: str) -> None:
    assert singular(many) == one
    assert singular(f"as {many}, e {many}.") == f"as {one}, e {one}."


@pytest.mark.parametrize(
    "text",
    ["does heroes shoes potatoes", "options screens", "mais dois reis pois", "series analysis", "2ais x_oes", ""],
)
def test_english_and_short_words_stay(text: str) -> None:
    assert singular(text) == text


@given(st.text())
def test_whatever_is_given_the_words_that_do_not_end_so_stay(text: str) -> None:
    changed = singular(text)
    if "s" not in text.lower():
        assert changed == text
    assert len(changed) <= len(text)
