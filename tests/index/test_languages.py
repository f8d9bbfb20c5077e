"""In which languages a page can be read."""

from __future__ import annotations

import pytest

from teia.index.languages import CODES, LOOKED_AT_CHARS, OTHER, bit_of, readable_in

ENGLISH = "The packages that you can get from the archive are signed, and this is checked by the tool. "
PORTUGUESE = "Os pacotes que você pode obter do arquivo são assinados, e isso é verificado pela ferramenta. "


@pytest.mark.parametrize(("text", "language"), [(ENGLISH * 5, "en"), (PORTUGUESE * 5, "pt")])
def test_a_page_in_one_language_is_read_in_that_language(text: str, language: str) -> None:
    assert readable_in(text, language) == bit_of(language)
    assert readable_in(text, "") == bit_of(language)


def test_a_half_translated_page_is_read_in_both() -> None:
    assert readable_in(ENGLISH * 3 + PORTUGUESE * 5, "en") == bit_of("en") | bit_of("pt")


def test_a_portuguese_page_taken_for_another_language_is_still_portuguese() -> None:
    assert readable_in(PORTUGUESE * 5, "gl") == bit_of("gl") | bit_of("pt")


def test_a_quotation_does_not_make_a_page_readable() -> None:
    assert readable_in(PORTUGUESE * 9 + ENGLISH, "pt") == bit_of("pt")


def test_a_long_page_is_looked_at_in_several_places() -> None:
    assert readable_in(ENGLISH * 60 + PORTUGUESE * 250, "en") == bit_of("en") | bit_of("pt")
    assert len(ENGLISH * 60 + PORTUGUESE * 250) < LOOKED_AT_CHARS


def test_short_texts_are_believed_what_the_parser_says() -> None:
    assert readable_in("the", "pt") == bit_of("pt")
    assert readable_in("", "") == 0


def test_every_language_has_a_bit_and_the_rare_ones_share_one() -> None:
    assert len({bit_of(code) for code in CODES}) == len(CODES)
    assert bit_of("eo") == bit_of("fo") == OTHER
    assert bit_of("") == 0
    assert max(map(bit_of, (*CODES, "eo"))) < 1 << 63
