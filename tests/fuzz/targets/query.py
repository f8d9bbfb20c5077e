"""Queries: any text is a query, and its canonical text is the same query."""

from __future__ import annotations

from teia.search.query.canonical_text import render
from teia.search.query.describe import describe
from teia.search.query.parser import parse
from teia.search.query.query_language import accepted_languages, content_words, question_languages
from teia.search.query.tree import MAX_CHARS
from teia.search.query.words import words_of
from tests.fuzz.pieces import text_of
from tests.search.texts import FRAGMENTS

SEEDS = (
    'café +bolo -chá site:b.test "two words" a AND b OR NOT c'.encode(),
    b"(a OR (b AND -(c d))) e title:x after:7d before:2026-01-02 -lang:pt expand:on",
    '="d”e" =“x"y” word* -other* AT&T 12:30 e-mail link:http://a.test/(b)'.encode(),
    b'((((((((a))))))))) ) ( NOT NOT AND OR + - " * ~9',
    *(fragment.encode("utf-8", "surrogatepass") for fragment in FRAGMENTS),
)


def fuzz_one(data: bytes) -> None:
    text = text_of(data)
    query = parse(text)
    canonical = render(query)
    if len(canonical) <= MAX_CHARS:
        assert parse(canonical) == query, "the canonical text is another query"
    describe(query)
    content_words(query)
    question_languages(query)
    list(words_of(text))
    assert len(accepted_languages(text)) <= 10
