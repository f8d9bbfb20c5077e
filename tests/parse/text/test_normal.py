from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.parse.text.fingerprint import fingerprints
from teia.parse.text.language import _TELLING_WORDS, language_of, primary_subtag
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


CODE = "for (int i = 0; i < n; ++i) { result[i] = buffer->next(stream, handle); if (result[i] == NULL) break; }\n"
SENTENCE = "A instrução lê uma linha de um arquivo; não é preciso abri-lo também em outro modo.\n"


def test_a_portuguese_page_with_english_code_is_portuguese() -> None:
    """The sample of the detector is all code here; the sentences are around it."""
    page = SENTENCE * 2 + CODE * 40 + SENTENCE * 2
    assert language_of(page, "pt-BR") == "pt"
    assert language_of(page) == "pt"


def test_a_half_translated_page_has_the_declared_language_and_not_a_third() -> None:
    english = "Which of the packages are installed when the system has started, and which of them are not used? "
    portuguese = "Os pacotes são instalados pelo sistema quando você quiser, e também pela rede; não há uma ordem. "
    mixed = (english + portuguese) * 12
    assert language_of(mixed, "pt") == "pt"
    assert language_of(mixed, "en") == "en"
    assert language_of(mixed, "de") in {"en", "pt"}


def test_galician_is_recognised_by_its_own_words() -> None:
    galician = (
        "Cando chegou á cidade, unha muller moi vella xa estaba na porta coa súa filla; tamén viñan polo camiño. "
    )
    assert language_of(galician * 6) == "gl"
    assert language_of(PORTUGUESE, "gl") == "pt"


def test_words_of_a_short_text_show_its_language_if_none_is_declared() -> None:
    assert language_of("Você não precisa de uma senha; com isso o arquivo já é aberto em modo de leitura.") == "pt"
    assert (
        language_of("Você não precisa de uma senha; com isso o arquivo já é aberto em modo de leitura.", "en") == "en"
    )


def test_no_word_tells_two_languages() -> None:
    words = [word for words in _TELLING_WORDS.values() for word in words.split()]
    assert len(words) == len(set(words))


def test_language_tags() -> None:
    assert [primary_subtag(tag) for tag in ("pt-BR", "EN_us", "fr, en", "", "x", "c" * 40)] == [
        "pt",
        "en",
        "fr",
        "",
        "",
        "",
    ]
