"""Division of text into terms, for the rankings of the benchmark: tantivy's analysers, in the order of one recipe.

Letters and digits make words; words over 40 characters are dropped; lower case; stop words are dropped; accents are
removed; the rest is stemmed. Stop words come before folding because their lists have accents, folding before stemming
because a query may have none.
"""

from __future__ import annotations

from tantivy import Filter, TextAnalyzer, TextAnalyzerBuilder, Tokenizer

LANGUAGES = {"en": "english", "pt": "portuguese"}
LONGEST_WORD = 40


def stems(language: str) -> TextAnalyzer:
    name = LANGUAGES[language]
    return (
        _words()
        .filter(Filter.stopword(name))
        .filter(Filter.ascii_fold())
        .filter(Filter.stemmer(name))
        .build()
    )  # fmt: skip


def folded_words() -> TextAnalyzer:
    """Return the analyser for lower case without accents, and nothing else."""
    return _words().filter(Filter.ascii_fold()).build()


def plain_words() -> TextAnalyzer:
    """Return the analyser for lower case with accents."""
    return _words().build()


def _words() -> TextAnalyzerBuilder:
    return TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(LONGEST_WORD)).filter(Filter.lowercase())
