"""A page's fingerprints, and its own address, which is no part of what it says."""

from __future__ import annotations

import pytest

from teia.parse.text.fingerprint import KnownText, fingerprints, without_address
from teia.parse.text.normal import normalised

HERE = "http://www.here.test:8080/news/A-Page-12.html?x=1"


@pytest.mark.parametrize(
    "text",
    [
        "there is nothing at {} today",
        "sorry: {} (not found on this server)",
    ],
)
@pytest.mark.parametrize(
    "shown",
    [
        HERE,
        "/news/A-Page-12.html?x=1",
        "/news/A-Page-12.html",
        "A-Page-12.html",
        "a-page-12",
        "www.here.test",
    ],
)
def test_whatever_a_page_shows_of_its_address_leaves_the_same_simhash(text: str, shown: str) -> None:
    other = "https://other.test/x/yyyy"
    one = fingerprints(b"", text.format(shown), HERE)
    assert one.simhash == fingerprints(b"", text.format("/x/yyyy"), other).simhash
    assert one.text_digest != fingerprints(b"", text.format("/x/yyyy"), other).text_digest, "the text is what it is"


def test_an_escaped_address_is_found_as_people_write_it() -> None:
    url = "http://a.test/caf%C3%A9/p%C3%A3o%20doce"
    assert without_address(normalised("não há /café/pão doce aqui"), url).split() == ["nao", "ha", "aqui"]


def test_short_parts_of_an_address_are_left_in_the_text() -> None:
    assert without_address("a b c of us", "http://x.y/a/b/of") == "a b c of us"


def test_a_home_page_loses_its_name_alone() -> None:
    assert without_address("welcome to www.here.test / all", "http://www.here.test/").split() == [
        "welcome",
        "to",
        "/",
        "all",
    ]


def test_a_page_without_url_keeps_everything() -> None:
    assert without_address("some text", "") == "some text"


@pytest.mark.parametrize(
    ("url", "text", "is_taken"),
    [
        ("http://a.test/de/page.html", "a page about page and www.a.test", True),
        ("http://a.test/de/page.html", "this is /DE/page.html of a.test", False),
        ("http://a.test/de/page.html", "see http://a.test/en/page.html", False),
        ("http://a.test/de/other.html", "a page about other pages", False),
        ("http://a.test/de/page.html?x", "a page with x", False),
        ("http://a.test/d%20e/page.html", "a page in d e", False),
        ("http://b.test/de/page.html", "a page of a.test and b.test", False),
    ],
)
def test_fingerprints_of_a_body_at_another_url_are_taken_where_they_are_the_same(
    url: str, text: str, is_taken: bool
) -> None:
    other = "http://a.test/en/page.html"
    there = fingerprints(b"", text, other)
    known = KnownText(other, "en", there.text_digest, there.simhash, 1)
    assert fingerprints(b"", text, url, "", known) == fingerprints(b"", text, url)
    marked = KnownText(other, "en", "marked", 1, 1)
    assert (fingerprints(b"", text, url, "", marked).text_digest == "marked") == is_taken
