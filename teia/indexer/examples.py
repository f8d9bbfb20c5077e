"""Example queries, made from the titles of some pages, or from their texts where titles give no words.

Each example query finds at least one page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Protocol

from teia.index.entry import IndexEntry
from teia.search.query.analysis import stem_of
from teia.search.query.words import WORD
from teia.search.show.results import Results

PAGES = 200
WANTED = 3
SHORTEST, LONGEST = 4, 20


class Searchable(Protocol):
    """Source of example queries: a collection on this machine, or one of a cluster."""

    def some(self, n: int) -> list[IndexEntry]:
        """Return up to `n` arbitrary pages."""

    def search(self, text: str, n: int) -> Results:
        """Answer a query."""


def examples_of(opened: Searchable) -> list[str]:
    """Return a word, a phrase of two words, and a word on one host; fewer if the titles do not yield them."""
    entries = opened.some(PAGES)
    titles = [_words(entry.title) or _words(entry.text) for entry in entries]
    common = Counter(word.lower() for words in titles for word in dict.fromkeys(words))
    # A word in every title is the name of a site.
    telling = [word for word, times in common.most_common() if times <= max(1, len(entries) // 4)]
    found: list[str] = []
    for candidates in (telling, _pairs(titles, telling), _on_hosts(entries, telling)):
        # Each candidate is searched for: an example without results would mislead.
        example = next((each for each in candidates if opened.search(each, 1).total), None)
        if example is not None and example not in found:
            found.append(example)
    return found[:WANTED]


def _words(text: str) -> list[str]:
    words = [match.group() for match in WORD.finditer(text[:300])]
    return [word for word in words if SHORTEST <= len(word) <= LONGEST and word.isalpha() and stem_of(word)]


def _pairs(titles: Sequence[Sequence[str]], telling: Sequence[str]) -> Iterator[str]:
    """Yield pairs of adjacent title words, at least one of them telling and not the first example's."""
    wanted = set(telling[1:50])
    for words in titles[:50]:
        for one, other in pairwise(words):
            if one.lower() in wanted or other.lower() in wanted:
                yield f'"{one.lower()} {other.lower()}"'


def _on_hosts(entries: Sequence[IndexEntry], telling: Sequence[str]) -> Iterator[str]:
    wanted = set(telling[:50])
    for entry in entries[:50]:
        for word in _words(entry.title) or _words(entry.text):
            if word.lower() in wanted:
                yield f"site:{entry.host} {word.lower()}"
