"""In which language a query is, from the words it is made of: nobody has to say it, and three words are often enough.

A word is told by the pages that have it, as it is written: *modules* is on English pages, *módulos* on Portuguese ones,
and *backup* on both alike, so that it says nothing. Of each language the likelihood of the words is taken (naive Bayes,
every language equally likely at first); languages of few pages are left out, for a parser's slip of the pen is not one.

Ranking then prefers pages that can be read in a likely language, gently: see ranking.py. Where the query has `lang:`,
or the caller says which language the reader speaks, that decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp, log

from teia.search.query import Query, wanted_words
from teia.search.questions import only_asks
from teia.search.statistics import EVERY_PAGE

MAX_WORDS = 8
MIN_PAGES, MIN_SHARE = 20, 0.02
"""A language counts with so many pages, and this share of all."""

SMOOTHING_PAGES = 20
"""A language is taken to have so many pages more, in which each word is as frequent as over all."""

Shares = Mapping[str, float]
"""How likely each language is, the likeliest being 1; a language that is not named is not likely at all."""


def telling_words(query: Query) -> tuple[str, ...]:
    """The words that may tell the language; those that only ask are too frequent to be counted for it."""
    return tuple(word for word in wanted_words(query) if not only_asks(word))[:MAX_WORDS]


def likely_languages(words: Iterable[str], pages: Mapping[str, Mapping[str, int]]) -> Shares:
    """How likely each language is, by how many pages of each language have a word; empty where nothing can be said."""
    all_pages = pages.get(EVERY_PAGE, {})
    total = sum(all_pages.values())
    least = max(MIN_PAGES, MIN_SHARE * total)
    logs = {language: 0.0 for language, count in all_pages.items() if language and count >= least}
    has_evidence = False
    for word in words:
        having = pages.get(word, {})
        share = sum(having.values()) / total if total else 0.0
        if share == 0:
            continue
        has_evidence = True
        for language in logs:
            likely = having.get(language, 0) + SMOOTHING_PAGES * share
            logs[language] += log(likely / (all_pages[language] + SMOOTHING_PAGES))
    if not has_evidence or not logs:
        return {}
    best = max(logs.values())
    return {language: exp(value - best) for language, value in logs.items()}
