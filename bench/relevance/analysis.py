"""How the rankings of the bench cut text into terms: tantivy's analysers, in the order of one recipe.

Letters and digits make words; words over 40 characters go; lower case; stop words go; accents go; the rest is stemmed.
Stop words come before folding because their lists have accents, folding before stemming because a query may have none.
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
    """Lower case without accents, and nothing else done to the words."""
    return _words().filter(Filter.ascii_fold()).build()


def plain_words() -> TextAnalyzer:
    """Lower case, accents kept."""
    return _words().build()


def _words() -> TextAnalyzerBuilder:
    return TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(LONGEST_WORD)).filter(Filter.lowercase())
