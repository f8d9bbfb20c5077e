"""In which languages a page can be read."""

from __future__ import annotations

import pytest

from teia.index.languages import CODES, OTHER, READ_CHARS, detect_language_bits, language_bit

ENGLISH = "The packages that you can get from the archive are signed, and this is checked by the tool. "
PORTUGUESE = "Os pacotes que você pode obter do arquivo são assinados, e isso é verificado pela ferramenta. "


@pytest.mark.parametrize(("text", "language"), [(ENGLISH * 5, "en"), (PORTUGUESE * 5, "pt")])
def test_a_page_in_one_language_is_read_in_that_language(text: str, language: str) -> None:
    assert detect_language_bits(text, language) == language_bit(language)
    assert detect_language_bits(text, "") == language_bit(language)


def test_a_half_translated_page_is_read_in_both() -> None:
    assert detect_language_bits(ENGLISH * 3 + PORTUGUESE * 5, "en") == language_bit("en") | language_bit("pt")


def test_a_portuguese_page_taken_for_another_language_is_still_portuguese() -> None:
    assert detect_language_bits(PORTUGUESE * 5, "gl") == language_bit("gl") | language_bit("pt")


def test_a_quotation_does_not_make_a_page_readable() -> None:
    assert detect_language_bits(PORTUGUESE * 9 + ENGLISH, "pt") == language_bit("pt")


def test_a_long_page_is_looked_at_in_several_places() -> None:
    assert detect_language_bits(ENGLISH * 60 + PORTUGUESE * 250, "en") == language_bit("en") | language_bit("pt")
    assert len(ENGLISH * 60 + PORTUGUESE * 250) < READ_CHARS


def test_short_texts_are_believed_what_the_parser_says() -> None:
    assert detect_language_bits("the", "pt") == language_bit("pt")
    assert detect_language_bits("", "") == 0


def test_every_language_has_a_bit_and_the_rare_ones_share_one() -> None:
    assert len({language_bit(code) for code in CODES}) == len(CODES)
    assert language_bit("eo") == language_bit("fo") == OTHER
    assert language_bit("") == 0
    assert max(map(language_bit, (*CODES, "eo"))) < 1 << 63
