"""What URLs look like: numbers, words and values apart, they are the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.frontier.traps.patterns import is_list, is_token, is_variant, pattern_of, wider, years_away

TOKEN = "8f3a9c0d1e2f3a4b5c6d7e8f"


@pytest.mark.parametrize(
    ("tail", "pattern"),
    {
        "/": "/",
        "/about": "/w",
        "/17": "/0",
        ":8800/agenda/2026/11": "/agenda/0/0",
        "s/agenda/2026-11-05": "/agenda/d",
        "s:8443/noticias/a-ponte-velha-1234.html": "/noticias/w0.html",
        "/noticias/": "/noticias/",
        "/maze/amber": "/maze/w",
        "/maze/amber/lantern/river": "/maze/w",
        "/maze/amber/lantern/": "/maze/w",
        "/2026/11/05/slug": "/0/0/0/w",
        f"/s/{TOKEN}/page-12.html": "/s/*/w0.html",
        "/shop?size=m&colour=red": "/shop?colour&size",
        "/shop?size=l&colour=blue&size=m": "/shop?colour&size",
        "/forum/show.php?t=3": "/forum/show.php?t",
        "/noticias/?page=2": "/noticias/?page",
        "/noticias/a-ponte-velha-1234?ref=x": "*?ref",
        "/search?": "/search?",
    }.items(),
)
def test_urls_that_differ_in_values_have_one_pattern(tail: str, pattern: str) -> None:
    assert pattern_of(tail) == pattern


def test_many_parameters_are_not_distinguished() -> None:
    assert pattern_of("/f?" + "&".join(f"p{n}=1" for n in range(40))) == "/f?*"


@pytest.mark.parametrize(
    ("pattern", "family"),
    {
        "/shop?colour&size": "/shop?*",
        "*?ref": "*?*",
        "/apple/w": "/w",
        "/news/w0.html": "/w/w0.html",
        "/0/0": "/0/0",
        "/w": "/w",
        "other": "other",
    }.items(),
)
def test_family_leaves_out_what_names_the_part_of_a_site(pattern: str, family: str) -> None:
    assert wider(pattern) == family


@pytest.mark.parametrize(
    "pattern", ["/list?page", "/list?Page&q", "/cal?month&year", "/agenda/0/0", "/agenda/0/0/0", "/agenda/d", "/shop?*"]
)
def test_lists_and_calendars_are_seen(pattern: str) -> None:
    assert is_list(pattern)


@pytest.mark.parametrize("pattern", ["/article/0", "/0/0/0/w", "/shop?id", "/w", "*?ref", "/v/0/w"])
def test_pages_are_no_lists(pattern: str) -> None:
    assert not is_list(pattern)


def test_variants_are_pages_with_something_added() -> None:
    assert is_variant("*?ref")
    assert is_variant("/s/*/w0.html")
    assert not is_variant("/shop?id")
    assert not is_variant("/doc/*"), "the last segment names the page"


@pytest.mark.parametrize("text", [TOKEN, TOKEN.upper(), "550e8400-e29b-41d4-a716-446655440000", "aB3dE5gH7jK9mN1p"])
def test_tokens_look_drawn(text: str) -> None:
    assert is_token(text)


@pytest.mark.parametrize(
    "text", ["a-ponte-velha-em-debate-1234", "internationalisation", "20261105", "UPPERCASEWORDSONLY"]
)
def test_words_do_not(text: str) -> None:
    assert not is_token(text)


def test_years_between_now_and_a_date_in_a_url() -> None:
    assert years_away("/agenda/2031/05", 2026) == 5
    assert years_away("/agenda/1999-05-01", 2026) == 27
    assert years_away("/cal?month=5&year=2050", 2026) == 24
    assert years_away("/topic/2345/2", 2026) == 0, "no month has one digit here"
    assert years_away("/noticias/1234.html", 2026) == 0


@given(
    st.lists(st.sampled_from(["a", "b1", "17", TOKEN, "x.html", "", "%C3%A7"]), max_size=8),
    st.text("ab=&?", max_size=8),
)
def test_every_tail_has_a_pattern_and_a_family(segments: list[str], query: str) -> None:
    pattern = pattern_of("/" + "/".join(segments) + (f"?{query}" if query else ""))
    assert pattern
    assert wider(wider(pattern)) == wider(wider(wider(pattern)))
