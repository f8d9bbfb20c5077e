"""What to offer where little was found: words that are spelt alike, and which words no page has.

Words of the index have no accents; to be shown, a word is written as the pages write it that have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from teia.index.entry import Entry
from teia.search.gateway import Turn
from teia.search.plan import Group, Plan, Term
from teia.search.planning import counted
from teia.search.query import Query, wanted_words
from teia.search.questions import only_asks
from teia.search.render import render
from teia.search.rewrite import replaced
from teia.search.shards import Shard
from teia.search.snippets import forms_in
from teia.search.spelling import Suggestion
from teia.search.statistics import Counts

FEW_RESULTS = 5
FEW_PAGES = 10
"""A word that more pages have is meant as it is written."""

MAX_WORDS = 3
MAX_SUGGESTIONS = 3
MUCH_MORE = 10
"""Another spelling is offered for a word that exists only if so many times as many pages have it."""

EXAMPLES = 3
EXAMPLE_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Words that no page has, and other spellings."""

    missing: tuple[str, ...] = ()
    spellings: tuple[Suggestion, ...] = ()


def suggestions(turn: Turn, query: Query, counts: Counts, total: int) -> Suggestions:
    """Look for other spellings of words that no page has or, where few results were found, few pages have."""
    words = {word: counts.pages_with(*counted(word, counts)) for word in wanted_words(query) if not only_asks(word)}
    missing = tuple(word for word, pages in words.items() if not pages)
    few = FEW_PAGES if total < FEW_RESULTS else 1
    doubtful = [word for word, pages in words.items() if pages < few][:MAX_WORDS]
    found = [each for word in doubtful for each in _spellings(turn, query, word, words[word])]
    return Suggestions(missing, tuple(found[:MAX_SUGGESTIONS]))


def _spellings(turn: Turn, query: Query, word: str, pages: int) -> Iterator[Suggestion]:
    alike: Counter[str] = Counter()
    for answer in turn.ask(lambda shard: shard.words_like(word)).values():
        alike.update(answer)
    best = [(other, count) for other, count in alike.most_common(1) if count > MUCH_MORE * pages]
    for other, count in best:
        written = as_written(turn, other)
        yield Suggestion(word, written, count, render(replaced(query, word, written)))


def as_written(turn: Turn, folded: str) -> str:
    """A word with the accents that pages give it, or without where none has it."""
    plan = Plan(Group(should=(Term("exact", folded, 1.0, 1.0, folded),)))
    found = turn.ask(lambda shard: shard.candidates(plan, EXAMPLES))
    keys = {number: candidates.rows["key"].tolist() for number, candidates in found.items() if len(candidates.rows)}
    forms: Counter[str] = Counter()
    for entries in turn.ask_each({number: partial(_entries, some) for number, some in keys.items()}).values():
        for entry in entries.values():
            forms.update(forms_in(f"{entry.title}\n{entry.text[:EXAMPLE_CHARS]}", folded))
    return min(forms, key=lambda form: (-forms[form], form)) if forms else folded


def _entries(keys: Sequence[int], shard: Shard) -> Mapping[int, Entry]:
    return shard.entries(keys)
