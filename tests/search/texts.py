"""Texts that look like queries, for property tests: pieces that mean something, in any order."""

from __future__ import annotations

from hypothesis import strategies as st

from teia.search.query.tree import Clauses, Node, Phrase, Prefix, Word

FRAGMENTS = [
    "a", "b", "café", "İ", "Σ", "ß", "e-mail", "12:30", "gato/cachorro", "de", "what", "x" * 40, "हिन्दी", "a\u0301",
    "AND", "OR", "NOT", "AND NOT", "+", "-", "+a", "-b", "+(", "-(", "(", ")", "()", '"', '"a b"', '+"c d"', '-"e f"',
    "“a", "b”", "«", '="A b"', '-="C"', "=“d\"e”", "ab*", "a*", "*a", "+ab*", "*", "site:a.test", "-site:b.test/x",
    "site:", "host:A.test", "lang:pt-BR", "-lang:en", "type:pdf", "type:x/y", "link:http://a/(b)", 'link:"http://a/b)"',
    'title:"a b"', "title:e-mail", "after:2026", "before:7d", "-after:2025-02-30", "-after:2025-02", "expand:on",
    "foo:bar", ":", "~9", "^2", "\0", "\ud800", "\u200d", "\u00ad", "\N{MINUS SIGN}c", "NEAR", "1" * 17, "1." * 20,
]  # fmt: skip

queries = st.one_of(
    st.text(),
    st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(" ".join),
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.sampled_from([" ", " ", "x"])), max_size=40).map("".join),
    st.text(alphabet='ab +-()"=*:“”\u0301\u0345ANDORT\N{ZERO WIDTH JOINER}', max_size=60),
)


def matches(node: Node, page: frozenset[str]) -> bool:
    """Whether a page of these words is found: what the tree promises, on the simplest of indexes."""
    match node:
        case Word(text):
            return text in page
        case Prefix(text):
            return any(word.startswith(text) for word in page)
        case Phrase(words):
            return set(words) <= page
        case Clauses(must, should, must_not):
            if any(matches(each, page) for each in must_not):
                return False
            if must:
                return all(matches(each, page) for each in must)
            return any(matches(each, page) for each in should)
