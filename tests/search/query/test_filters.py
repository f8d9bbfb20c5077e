"""Values of filters."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.search.query.filters import TYPES, find_filter, media_types
from teia.search.query.parser import parse
from teia.search.query.tree import Ago, starts_s


def read(name: str, value: str) -> object:
    found = find_filter(name)
    assert found is not None
    return found.parse(value)


@pytest.mark.parametrize(
    ("name", "value", "meaning"),
    [
        ("site", "Example.COM", "example.com"),
        ("site", ".br", "br"),
        ("site", "*.gov.br", "gov.br"),
        ("site", "https://www.example.com:8080/a?b", "www.example.com"),
        ("site", "são.test", "xn--so-sia.test"),
        ("host", "127.0.0.1", "127.0.0.1"),
        ("host", "[::1]", "[::1]"),
        ("host", "a b", None),
        ("site", "ftp://a.test", None),
        ("site", ".", None),
        ("lang", "pt-BR", "pt"),
        ("lang", "PT_br", "pt"),
        ("lang", "Português", "pt"),
        ("lang", "eng", "en"),
        ("lang", "gl", "gl"),
        ("lang", "c++", None),
        ("type", "PDF", "pdf"),
        ("type", ".docx", "word"),
        ("type", "página", "html"),
        ("type", "Text/HTML", "text/html"),
        ("type", "text/*", None),
        ("link", "example.com", "http://example.com/"),
        ("link", "HTTPS://Example.com/%7ea#b", "https://example.com/~a"),
        ("link", "javascript:alert(1)", None),
        ("link", "http://a.test/" + "é" * 1_000, None),
        ("title", "Imposto de Renda!", "imposto de renda"),
        ("title", "…", None),
        ("after", "2026", date(2026, 1, 1)),
        ("after", "2026-03", date(2026, 3, 1)),
        ("after", "2026/3/5", date(2026, 3, 5)),
        ("after", "2024-02-29", date(2024, 2, 29)),
        ("after", "2025-02-29", None),
        ("after", "0000", None),
        ("after", "05/03/2026", None),
        ("after", "٢٠٢٦", None),
        ("lang", "Galego", "gl"),
        ("lang", "dutch", "nl"),
        ("before", "12h", Ago(12)),
        ("before", "2W", Ago(336)),
        ("before", "1y", Ago(8_760)),
        ("before", "99999d", None),
        ("expand", "Não", False),
        ("expand", "", None),
    ],
)  # fmt: skip
def test_a_value_means(name: str, value: str, meaning: object) -> None:
    assert read(name, value) == meaning


def test_a_name_may_be_written_in_portuguese_and_in_any_case() -> None:
    for said, name in [
        ("Título", "title"),
        ("TIPO", "type"),
        ("idioma", "lang"),
        ("domínio", "site"),
        ("antes", "before"),
    ]:
        found = find_filter(said)
        assert found is not None
        assert found.name == name
    assert find_filter("inurl") is None


def test_a_type_stands_for_its_media_types() -> None:
    assert media_types("html") == ("text/html", "application/xhtml+xml")
    assert media_types("image/png") == ("image/png",)
    assert len({each for types in TYPES.values() for each in types}) == sum(map(len, TYPES.values()))


def test_a_day_begins_at_midnight_in_utc_and_an_age_counts_from_now() -> None:
    assert starts_s(date(1970, 1, 2), 0.0) == 86_400.0
    assert starts_s(date(1, 1, 1), 0.0) < 0
    assert starts_s(Ago(24), 100_000.0) == 13_600.0


@given(st.sampled_from(["site", "host", "lang", "type", "link", "title", "after", "before", "expand"]), st.text())
def test_no_value_raises_and_what_is_read_can_be_read_again(name: str, value: str) -> None:
    meaning = read(name, value)
    if isinstance(meaning, str):
        assert read(name, meaning) == meaning


def test_what_is_not_after_a_moment_is_before_it() -> None:
    assert parse("x -after:2026-03") == parse("x before:2026-03")
    assert parse("x NOT before:7d") == parse("x after:7d")
