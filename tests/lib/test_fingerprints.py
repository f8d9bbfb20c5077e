"""A hash that does not see numbers."""

from __future__ import annotations

from teia.lib.fingerprints import OUTLINE_BYTES, outline


def test_texts_that_differ_in_numbers_have_one_outline() -> None:
    assert outline("Page 17 of 300") == outline("Page 18 of 301")
    assert outline("Page 17 of 300") != outline("Leaf 17 of 300")


def test_text_of_numbers_alone_has_none() -> None:
    assert outline("") == outline(" 12 34 ") == 0


def test_only_the_beginning_of_a_huge_text_is_looked_at() -> None:
    assert outline("a" * OUTLINE_BYTES) == outline("a" * OUTLINE_BYTES + "b")
