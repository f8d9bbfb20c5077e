"""In which language a query is."""

from __future__ import annotations

from teia.search.languages import likely_languages, telling_words
from teia.search.parser import parse
from teia.search.statistics import EVERY_PAGE

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
    assert telling_words(parse("what is the firewall")) == ("firewall",)
    assert telling_words(parse("+firewall -proxy site:a.test")) == ("firewall",)
