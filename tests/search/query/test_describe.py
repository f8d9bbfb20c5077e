"""A query in plain words."""

from __future__ import annotations

import pytest
from hypothesis import given

from teia.search.query.describe import describe
from teia.search.query.parser import parse
from tests.search.texts import queries


@pytest.mark.parametrize(
    ("text", "described"),
    [
        ("café", "pages with café"),
        ("café carro bolo", "pages with café, carro or bolo"),
        (
            '+imposto +renda "pessoa física" prazo -2025 -2024',
            'pages with imposto, renda and "pessoa física", preferably with prazo, without 2025 or 2024',
        ),
        ("a AND b OR c", "pages with (a and b) or c"),
        ("(a OR b) AND c NOT (d AND e)", "pages with (a or b) and c, without (d and e)"),
        ("AT&T mund*", "pages with AT&T or words that begin with mund…"),
        (
            "lei site:camara.test site:br -site:x.br lang:pt type:pdf",
            "pages with lei, from camara.test or br, not from x.br, in the language pt, of type pdf",
        ),
        (
            "host:a.test link:b.test title:lei after:2026 before:7d",
            'pages on the host a.test, that link to http://b.test/, with "lei" in the title, dated 2026-01-01 '
            "or later, dated before 7 days ago",
        ),
        ('="US" -="Us" x', 'pages with x, with exactly "US", without exactly "Us"'),
        ("expand:on gato", "pages with gato, and with related words"),
        ("-x", "nothing to search for"),
    ],
)
def test_a_query_is_explained(text: str, described: str) -> None:
    assert describe(parse(text)) == described


def test_of_very_many_words_the_first_are_named() -> None:
    described = describe(parse(" ".join(f"w{number}" for number in range(100))))
    assert described.endswith("w30, w31 or 68 more")


@given(queries)
def test_every_query_is_explained_in_one_printable_line(text: str) -> None:
    described = describe(parse(text))
    assert described
    assert "\n" not in described
    assert len(described) < 20_000
