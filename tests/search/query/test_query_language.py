"""In which language a query is."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.search.query.parser import parse
from teia.search.query.query_language import (
    accepted_languages,
    content_words,
    environment_languages,
    likely_languages,
    question_languages,
)
from teia.search.rank.statistics import EVERY_PAGE
from teia.search.serve.searcher import Searcher
from tests.index.pages import page
from tests.search.library import found, searcher_over

PAGES = {"en": 1_000, "pt": 1_000, "eo": 3, "": 50}


def likely(**words: dict[str, int]) -> dict[str, float]:
    return dict(likely_languages(words, {EVERY_PAGE: PAGES, **words}))


def test_a_word_of_one_language_tells_it() -> None:
    shares = likely(modules={"en": 200, "pt": 3})
    assert shares["en"] == 1.0
    assert shares["pt"] < 0.1


def test_a_word_of_both_tells_nothing() -> None:
    shares = likely(backup={"en": 100, "pt": 100})
    assert shares["en"] == shares["pt"] == 1.0


def test_words_together_tell_more_than_one() -> None:
    one = likely(arquivo={"pt": 50, "en": 20})
    two = likely(arquivo={"pt": 50, "en": 20}, servidor={"pt": 60, "en": 20})
    assert two["en"] < one["en"] < 1.0 == one["pt"] == two["pt"]


def test_a_language_of_few_pages_is_taken_for_a_mistake() -> None:
    assert "eo" not in likely(modules={"eo": 3})


def test_words_that_no_page_has_tell_nothing() -> None:
    assert likely(xyzzy={}) == {}
    assert likely() == {}
    assert likely_languages(["a"], {}) == {}


def test_words_that_only_ask_are_not_counted() -> None:
    assert content_words(parse("what is the firewall")) == ("firewall",)
    assert content_words(parse("+firewall -proxy site:a.test")) == ("firewall",)


def test_words_that_ask_name_their_language() -> None:
    assert question_languages(parse("how to install debian")) == ("en", "en")
    assert question_languages(parse("onde fica o arquivo")) == ("pt", "pt")
    assert question_languages(parse("do a as me")) == (), "words of both"


def test_a_question_in_english_is_english_though_its_other_words_are_everywhere() -> None:
    words = {"install": {"en": 40, "pt": 60}, "debian": {"en": 400, "pt": 420}}
    shares = likely_languages(words, {EVERY_PAGE: PAGES, **words}, ("en", "en"))
    assert shares["en"] == 1.0
    assert shares["pt"] < 0.01
    assert likely_languages(words, {EVERY_PAGE: PAGES, **words})["pt"] == 1.0, "without them nobody could tell"


def test_a_language_of_few_pages_is_none_unless_it_is_asked_in() -> None:
    pages = {EVERY_PAGE: {"pt": 1_000, "en": 5}, "debian": {"pt": 400, "en": 3}}
    assert likely_languages(["debian"], pages) == {"pt": 1.0}
    assert likely_languages(["debian"], pages, ["en"])["en"] == 1.0
    assert likely_languages([], {EVERY_PAGE: {"pt": 3, "en": 2}}, ["en"]) == {"en": 1.0}, "others are foreign"


def test_words_of_one_romance_language_do_not_speak_against_another() -> None:
    pages = {EVERY_PAGE: {"pt": 500, "es": 500, "en": 500}, "debian": {"pt": 100, "es": 100, "en": 100}}
    shares = likely_languages(["debian"], pages, ["pt"])
    assert shares["es"] == shares["pt"] == 1.0
    assert shares["en"] < 0.1


def test_what_the_reader_reads_decides_where_words_do_not_and_no_more() -> None:
    both = {EVERY_PAGE: PAGES, "backup": {"en": 100, "pt": 100}, "modules": {"en": 200, "pt": 3}}
    assert likely_languages(["backup"], both, (), ["pt"]) == {"pt": 1.0, "en": pytest.approx(0.1)}
    assert likely_languages(["modules"], both, (), ["pt"])["en"] == 1.0


@pytest.mark.parametrize(
    ("header", "languages"),
    [
        ("pt-BR,pt;q=0.9,en;q=0.5", ("pt", "en")),
        ("en;q=0.5, pt", ("pt", "en")),
        ("de, en;q=0, *;q=0.1", ("de",)),
        ("", ()),
        (";q=x,,pt;q=nonsense,en", ("en",)),
    ],
)
def test_a_header_names_languages_by_their_weight(header: str, languages: tuple[str, ...]) -> None:
    assert accepted_languages(header) == languages


@pytest.mark.parametrize(
    ("environ", "languages"),
    [
        ({"LANG": "pt_BR.UTF-8"}, ("pt",)),
        ({"LANG": "pt_BR.UTF-8", "LC_ALL": "en_US.UTF-8"}, ("en",)),
        ({"LANG": "pt_BR.UTF-8", "LC_ALL": "C"}, ()),
        ({"LANG": "C.UTF-8"}, ()),
        ({"LANG": "pt_BR.UTF-8", "LANGUAGE": "gl:pt_BR:en"}, ("gl", "pt", "en")),
        ({}, ()),
    ],
)
def test_an_environment_names_languages(environ: dict[str, str], languages: tuple[str, ...]) -> None:
    assert environment_languages(environ) == languages


# ---- a library in two languages -------------------------------------------------------------------------------------

ENGLISH = "This is the manual of the system and it tells you which of the parts of debian to install and when."
PORTUGUESE = (
    "Este é o manual do sistema. Para que o debian funcione, use apt install debian; debian install é o comando."
)


@pytest.fixture(scope="module")
def bilingual(tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    """Portuguese pages that name the command more often than the English ones speak of it, and are many more."""
    folder: Path = tmp_path_factory.mktemp("bilingual")
    english = [page(f"http://a.test/en{n}", f"{ENGLISH} Part {n} of it.", language="en") for n in range(6)]
    portuguese = [page(f"http://a.test/pt{n}", f"{PORTUGUESE} Parte {n}.", language="pt") for n in range(60)]
    return searcher_over(folder, *english, *portuguese)


def languages(searcher: Searcher, text: str, **how: object) -> list[str]:
    return [path[:2] for path in found(searcher, text, 5, grouped=False, **how)]


def test_a_plainly_english_query_finds_english_pages_first(bilingual: Searcher) -> None:
    assert languages(bilingual, "how to install debian") == ["en"] * 5
    assert languages(bilingual, "como instalar o debian") == ["pt"] * 5
    assert languages(bilingual, "install debian") == ["pt"] * 5, "nothing speaks for English"


def test_what_the_reader_reads_or_says_comes_first(bilingual: Searcher) -> None:
    assert languages(bilingual, "install debian", reader_languages=("en",)) == ["en"] * 5
    assert languages(bilingual, "install debian", language="en") == ["en"] * 5
    assert languages(bilingual, "how to install debian", language="pt") == ["pt"] * 5, "what is said decides"
    assert languages(bilingual, "como instalar o debian", reader_languages=("en",)) == ["pt"] * 5, "the words are plain"
