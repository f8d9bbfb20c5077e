"""Search: what a person typed goes in; results come out, with words for what could not be taken as it was.

    searching   Searcher: the way of a query through all of this; begin here
    inquiry     one query on that way

What was typed:

    query       the syntax tree, its limits, and how it is asked of an index
    parser      parse(text) -> Query: total, linear, never raises
    lexer       text into words, phrases, filters and operators
    filters     what the values of site:, lang:, type:, link:, after: … mean
    normal      one normal form for clauses that mean the same, within the limits
    rewrite     queries from queries: the best 32 words, another spelling, a word left out
    render      the canonical text of a query: parse(render(query)) == query
    describe    a query in plain words, in English and Portuguese
    notes       what a person is told about their query; messages, about the answer
    words       where words begin and end, as the index sees them; text spelt exactly so
    questions   words that ask rather than tell

What is asked of the index:

    analysis    words as the index has them
    statistics  how frequent terms are over all shards
    plan        a query as shards are asked it; planning makes it, compile makes a tantivy query of it
    shards      what is asked of a shard, and the one on this machine; gateway asks all of them in time
    letters     the same as octets, for shards on other machines: carrying asks them, serving answers
    expansion   words that the best results have in common (F7); similar, pages like a page

What is made of the answers:

    ranking     the order: one formula; languages tells which one a query is in
    semantic    meaning without a neural model (F10); training makes the model
    grouping    pages that read alike are one result
    snippets    the words that show why a page was found
    facets, explaining, suggesting, spelling     what stands beside results
    results     the answer as records and as JSON

The language is described for its users in docs/query-language.md, the order of results in docs/search.md.

`teia.search` is also the function of that name: `teia.search("words", data="archive")`. A package and a function cannot
share a name otherwise, so the package can be called. The function belongs to the package above, for it opens what only
`teia.crawl` knows; it is looked up there when it is called.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teia.search.results import Results


class CallablePackage(ModuleType):
    """This package; see the module's text."""

    def __call__(self, *words: Any, **how: Any) -> Results:
        found: Results = sys.modules[__name__.partition(".")[0]].search_collection(*words, **how)
        return found


sys.modules[__name__].__class__ = CallablePackage
