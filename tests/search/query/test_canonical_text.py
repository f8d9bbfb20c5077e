"""The canonical text of a query."""

from __future__ import annotations

import pytest
from hypothesis import example, given

from teia.search.query.canonical_text import render
from teia.search.query.parser import parse
from tests.search.texts import queries


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("Café  CAFÉ bolo", "café café bolo"),
        ("bolo +Café -chá site:B.test", "site:b.test +café -chá bolo"),
        ("a AND b OR c", "(+a +b) c"),
        ('c OR "a b"', 'c OR "a b"'),
        ("título:Renda tipo:pdf idioma:português depois:2026", "lang:pt type:pdf title:renda after:2026-01-01"),
        ('AT&T 12:30 +"x"', '"x" at-t 12-30'),
        ("-after:7d before:36h expand:sim x", "before:36h expand:on x"),
        ("=“d\"e” x", "=“d\"e” x"),
        ("link:http://a.test/(b)", 'link:"http://a.test/(b)"'),
        ("word* AND NOT other*", "+word* -other*"),
        ("Straße AND ÎLE", "+straße +île"),
        ("", ""),
    ],
)  # fmt: skip
def test_canonical_text(text: str, canonical: str) -> None:
    assert render(parse(text)) == canonical


@given(queries)
@example('-("a b" OR c) x')
@example("(" * 8 + "a AND b OR c" + ")" * 8)
@example("+(a OR (b AND -(c d))) e")
def test_reading_the_canonical_text_gives_the_same_query(text: str) -> None:
    query = parse(text)
    again = parse(render(query))
    assert again == query
    assert render(again) == render(query)


@given(queries)
def test_the_canonical_text_needs_no_note(text: str) -> None:
    """What remains to be said is about the query, not about how it was written."""
    query = parse(text)
    said = {note.code for note in parse(render(query)).notes}
    assert said <= {note.code for note in query.notes}
