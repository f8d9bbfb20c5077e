"""The systems that can be measured: a name, and a function that takes the pages and returns a way to search them.

To measure another ranking, add it to `SYSTEMS`. Document ids come best first, at most `n` of them. A system may index
in any way, and in any process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bench.relevance.analysis import LANGUAGES
from bench.relevance.baseline import Baseline
from bench.relevance.corpus import Document
from bench.relevance.judged import Query
from bench.relevance.ours import Ours, Setup
from teia.search.serve.searcher import SearchOptions

Search = Callable[[Query, int], list[str]]
System = Callable[[Sequence[Document]], Search]


def by_text(search: Callable[[str, int], list[str]]) -> Search:
    """Make a system that gets the text of a query and nothing else."""
    return lambda query, n: search(query.text, n)


def baseline(documents: Sequence[Document]) -> Search:
    return by_text(Baseline(documents).search)


def monolingual(documents: Sequence[Document]) -> Search:
    """Make the baseline with an index for each language, told which one to search."""
    indexes = {language: Baseline([each for each in documents if each.language == language]) for language in LANGUAGES}
    return lambda query, n: indexes[query.language].search(query.text, n)


def teia(documents: Sequence[Document]) -> Search:
    """Make teia's search as a user gets it."""
    return by_text(Ours(documents).search)


def words(documents: Sequence[Document]) -> Search:
    """Make the same without a semantic model."""
    return by_text(Ours(documents, Setup(semantics=False)).search)


def expanded(documents: Sequence[Document]) -> Search:
    """Make the same with related words added to the query."""
    return by_text(Ours(documents, Setup(options=SearchOptions(expand=True))).search)


SYSTEMS: Mapping[str, System] = {
    "baseline": baseline,
    "monolingual": monolingual,
    "teia": teia,
    "words": words,
    "expanded": expanded,
}
