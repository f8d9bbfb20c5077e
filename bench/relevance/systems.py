"""Who can be measured: a name, and a function that is given the pages and returns a way to search them.

To measure another ranking, add it to `SYSTEMS`. Document ids come best first, at most `n` of them; what a system
indexes, and in what process, is its own affair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bench.relevance.analysis import LANGUAGES
from bench.relevance.baseline import Baseline
from bench.relevance.corpus import Document
from bench.relevance.judged import Query
from bench.relevance.ours import Ours, Setup
from teia.search.serve.searcher import Options

Search = Callable[[Query, int], list[str]]
System = Callable[[Sequence[Document]], Search]


def by_text(search: Callable[[str, int], list[str]]) -> Search:
    """A system that is given what is typed and nothing else."""
    return lambda query, n: search(query.text, n)


def baseline(documents: Sequence[Document]) -> Search:
    return by_text(Baseline(documents).search)


def monolingual(documents: Sequence[Document]) -> Search:
    """The baseline with an index for each language, told which one to ask: no other language gets in the way."""
    indexes = {language: Baseline([each for each in documents if each.language == language]) for language in LANGUAGES}
    return lambda query, n: indexes[query.language].search(query.text, n)


def teia(documents: Sequence[Document]) -> Search:
    """What a user gets."""
    return by_text(Ours(documents).search)


def semantic(documents: Sequence[Document]) -> Search:
    """The same with a model of meaning; of so few pages a collection gets none by itself."""
    return by_text(Ours(documents, Setup(semantics=True)).search)


def expanded(documents: Sequence[Document]) -> Search:
    """The same where the reader asks for related words too."""
    return by_text(Ours(documents, Setup(options=Options(expand=True))).search)


SYSTEMS: Mapping[str, System] = {
    "baseline": baseline,
    "monolingual": monolingual,
    "teia": teia,
    "semantic": semantic,
    "expanded": expanded,
}
