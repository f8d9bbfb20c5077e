"""Fields of an indexed page, and the analysis of its words (docs/decisions/0015-search.md).

    all          title, headings and text, as stems
    head         title and headings, as stems
    anchor       the words on links to it, as stems
    exact        title, headings and text, folded but neither stemmed nor stripped of stop words
    title        the title as `exact` has it, for `title:`
    host, within the host; the host and every name above it up to the root, for `site:`
    links        the keys of the pages it links to, so that the links to a page are one term
    languages    the bits of the languages it can be read in (languages.py)
    entry        the whole page again, packed: for snippets, cached text, and to be indexed again
    text_of      the page that holds the text of this one, where two have the same (text_holders.py); then `words` are
                 those of `anchor`, so that this one can be indexed again

Words are folded *before* they are stemmed, so that a query without accents meets the same stems; stop words are dropped
before they are folded, because the lists have accents. Before all that some plurals become singular (plurals.py).

Every page is stemmed alike, by the English and then the Portuguese rules, in any language. A field for each language
was tried and is worse: pages whose language was mistaken are lost, a word is rare in the field of the other language
and so weighs much there, and the mean length of a field counts pages that do not have it.

A key is a signed number everywhere: tantivy does not delete by an unsigned one (seen in 0.27).
"""

from __future__ import annotations

from collections.abc import Mapping

import tantivy
from tantivy import Filter, SchemaBuilder, TextAnalyzer, TextAnalyzerBuilder, Tokenizer

MAX_WORD_BYTES = 40
STEMS, EXACT = "stems", "exact"
GAP = "."
"""Stands in a text of stems for a word that has none; it is no word, and is not indexed."""

MAX_FOLDED_BYTES = 128
"""More than a folded word has: an accent or a ligature becomes a few letters."""

LONG_GAP = "." * MAX_FOLDED_BYTES
"""Stands in a text of folded words for one that was dropped. Few are, and to see that a word is long takes tantivy a
tenth of the time of a look into a set; a text of stems has a gap for every stop word, and so a short one."""

EXACT_FIELDS = ("exact", "title")
ROOT = ""
"""The name above all hosts: a term of `within` that every page has, so that pages can be counted as terms are."""


def stemming_analyser() -> TextAnalyzer:
    """Return the analyser that makes the stems of words; the stemmed fields get its results (stems.py)."""
    # The order matters: stop words have accents, stems are made from folded words.
    builder = _words().filter(Filter.stopword("english")).filter(Filter.stopword("portuguese"))
    builder = builder.filter(Filter.ascii_fold())
    return builder.filter(Filter.stemmer("english")).filter(Filter.stemmer("portuguese")).build()


def folding_analyser() -> TextAnalyzer:
    """Return the analyser that keeps every word as it is, but for case and accents; `exact` gets its results."""
    return _words().filter(Filter.ascii_fold()).build()


def words_analyser() -> TextAnalyzer:
    """Return the analyser that only divides a text into words."""
    return TextAnalyzerBuilder(Tokenizer.simple()).build()


def stems_divider() -> TextAnalyzer:
    """Return the analyser of fields whose texts are stems and gaps already."""
    return TextAnalyzerBuilder(Tokenizer.whitespace()).filter(Filter.custom_stopword([GAP])).build()


def folded_divider() -> TextAnalyzer:
    """Return the analyser of fields whose texts are folded words and long gaps already."""
    return TextAnalyzerBuilder(Tokenizer.whitespace()).filter(Filter.remove_long(MAX_FOLDED_BYTES)).build()


def _words() -> TextAnalyzerBuilder:
    builder = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(MAX_WORD_BYTES))
    return builder.filter(Filter.lowercase())


def analysers() -> Mapping[str, TextAnalyzer]:
    """Return every analyser by the name under which an index knows it."""
    return {STEMS: stems_divider(), EXACT: folded_divider()}


def make_schema() -> tantivy.Schema:
    builder = SchemaBuilder()
    builder.add_integer_field("key", indexed=True, fast=True)
    builder.add_text_field("all", tokenizer_name=STEMS)
    # No query needs the places of words in these.
    for name in ("head", "anchor"):
        builder.add_text_field(name, tokenizer_name=STEMS, index_option="freq")
    for name in EXACT_FIELDS:
        builder.add_text_field(name, tokenizer_name=EXACT)
    # `basic`: these fields filter and never score, so they need neither frequencies nor positions.
    for name in ("host", "lang", "type"):
        builder.add_text_field(name, fast=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("within", tokenizer_name="raw", index_option="basic")
    builder.add_bytes_field("entry", stored=True)
    builder.add_integer_field("text_of", stored=True, indexed=True)
    builder.add_bytes_field("words", stored=True)
    builder.add_integer_field("links", indexed=True)
    for name in ("date_s", "visited_s", "year"):
        builder.add_integer_field(name, indexed=True, fast=True)
    for name in ("text_digest", "simhash", "languages"):
        builder.add_integer_field(name, fast=True)
    return builder.build()
