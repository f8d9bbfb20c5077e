from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.parse.text.fingerprint import fingerprints
from teia.parse.text.language import language_of, primary_subtag
from teia.parse.text.normal import normal_octets, normalised, normalised_plainly, one_line

PORTUGUESE = (
    "O processo inicia-se a partir de um conjunto de endereços que referenciam os documentos a recolher. Cada servidor "
    "é visitado por um só coletor de cada vez, com uma pausa entre dois pedidos, para que os outros visitantes não "
    "sofram. Os documentos são guardados tal como foram recebidos e as ligações neles encontradas são acrescentadas à "
    "lista do que falta visitar, se ainda não eram conhecidas e se pertencem aos domínios que se pretende recolher. "
)


def test_accents_case_and_blanks_do_not_matter() -> None:
    assert normalised("  A Informação\n\tNÃO está ") == normalised("a informacao nao esta") == "a informacao nao esta"


def test_signs_that_are_not_accents_stay() -> None:
    assert normalised("हिन्दी") != normalised("हनद")
    assert normalised("Straße") == "strasse"


@given(st.text())
def test_normal_form_is_stable(text: str) -> None:
    assert normalised(normalised(normalised(text))) == normalised(normalised(text))


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from(" \t\n\u00a0ABÉßǅΣ…½İ\u0345\x1f\U00010400"))))
def test_all_ways_to_the_normal_form_agree(text: str) -> None:
    expected = normalised_plainly(text)
    assert normalised(text) == expected
    assert normal_octets(text) == expected.encode("utf-8", "replace")


@pytest.mark.heavy
def test_all_ways_to_the_normal_form_agree_on_every_character() -> None:
    for code in range(1, 0x30000):
        text = f"A{chr(code)}b{chr(code)} é"
        expected = normalised_plainly(text)
        assert normalised(text) == expected, hex(code)


def test_one_line_collapses_and_cuts() -> None:
    assert one_line(" a \n b\t c ", 4) == "a b "
    assert one_line("x" * 10_000, 5) == "xxxxx"


@given(st.text(alphabet="ab \t\n\u00a0\u2003\x1f\u200bé", max_size=12), st.integers(1, 12))
def test_one_line_is_the_same_for_plain_texts_and_others(text: str, max_chars: int) -> None:
    assert one_line(text, max_chars) == " ".join(text[: 8 * max_chars].split())[:max_chars]


def test_the_same_text_in_other_markup_is_a_new_digest_but_no_new_text() -> None:
    one, other = fingerprints(b"<b>Ola</b> mundo", "Olá mundo"), fingerprints(b"<i>Ola</i>  Mundo", "Ola  Mundo")
    assert one.digest != other.digest
    assert one.text_digest == other.text_digest
    assert one.simhash == other.simhash


def test_without_text_there_is_only_the_digest() -> None:
    prints = fingerprints(b"", "")
    assert prints.digest == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert (prints.text_digest, prints.simhash) == ("", 0)


def test_enough_text_decides_its_language_against_a_wrong_declaration() -> None:
    assert language_of(PORTUGUESE, "zh") == "pt"
    assert language_of(PORTUGUESE, "pt-BR") == "pt"
    assert language_of(PORTUGUESE) == "pt"


def test_short_text_has_the_declared_language() -> None:
    assert language_of("Menu Start Info", "de-AT") == "de"
    assert language_of("Menu Start Info") == ""
    assert language_of("1 2 3 " * 200, "fr") == "fr"


def test_language_tags() -> None:
    assert [primary_subtag(tag) for tag in ("pt-BR", "EN_us", "fr, en", "", "x", "c" * 40)] == [
        "pt",
        "en",
        "fr",
        "",
        "",
        "",
    ]
