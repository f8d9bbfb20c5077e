"""Suggestions where little was found: similar spellings, and the words that no page has.

Words of the index have no accents; a suggestion is shown with the spelling of the pages that have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from teia.errors import IndexFailure
from teia.index.entry import IndexEntry
from teia.search.query.analysis import folded_of
from teia.search.query.canonical_text import render
from teia.search.query.question_words import is_question_word
from teia.search.query.rewrite import replace_word
from teia.search.query.tree import Query, wanted_words
from teia.search.rank.formula import Candidates
from teia.search.rank.make_plan import counted_term
from teia.search.rank.plan import Group, Plan, Term
from teia.search.rank.statistics import TermCounts
from teia.search.serve.gateway import QueryFanOut, StartedRequests
from teia.search.serve.shards import Shard, Show
from teia.search.serve.wire_format import unpack_received
from teia.search.show.snippets import forms_in
from teia.search.show.spelling import FAR_MIN_CHARS, Suggestion, may_be_misspelt

FEW_RESULTS = 5
FEW_PAGES = 10
"""A word that more pages have is assumed to be meant as it is written."""

MAX_WORDS = 3
MAX_SUGGESTIONS = 3
MUCH_MORE = 10
"""Factor by which a suggestion for an existing word must be more frequent."""

SimilarWords = Mapping[str, Mapping[str, int]]
"""Answer of `Shard.similar_words`."""

EXAMPLES = 3
EXAMPLE_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Words that no page has, and other spellings."""

    missing: tuple[str, ...] = ()
    spellings: tuple[Suggestion, ...] = ()


class Spellings:
    """Other spellings of words that no page has or, where few results were found, few pages have.

    The requests for words that no page has start with the object, those for the others with `check_rare_words`.
    """

    def __init__(self, fan_out: QueryFanOut, query: Query, counts: TermCounts) -> None:
        self._fan_out = fan_out
        self._query = query
        self._pages = {
            word: counts.pages_with(*counted_term(word, counts))
            for word in wanted_words(query)
            if not is_question_word(word)
        }
        self._folded = self._rare_words(1)
        self._requests = [self._start(list(self._folded.values()), 1)]

    def check_rare_words(self, total: int) -> None:
        """Search also for words that few pages have, if few results were found."""
        if total < FEW_RESULTS:
            known, self._folded = self._folded, self._rare_words(FEW_PAGES)
            self._requests.append(
                self._start([each for each in self._folded.values() if each not in known.values()], 1)
            )

    def _rare_words(self, few: int) -> dict[str, str]:
        """Return the first words that fewer pages have, each with its folded form."""
        words = [word for word, pages in self._pages.items() if pages < few][:MAX_WORDS]
        return {word: folded for word in words if may_be_misspelt(folded := folded_of(word))}

    def collect(self) -> Suggestions:
        """Wait for the answers and return the suggestions."""
        missing = tuple(word for word, pages in self._pages.items() if not pages)
        best = self._best()
        written = restore_accents(self._fan_out, sorted({other for other, _ in best.values()})) if best else {}
        found = [
            Suggestion(word, written[other], count, render(replace_word(self._query, word, written[other])))
            for word, (other, count) in best.items()
        ]
        return Suggestions(missing, tuple(found[:MAX_SUGGESTIONS]))

    def _best(self) -> dict[str, tuple[str, int]]:
        """Return for each word the most frequent similar one, if it is much more frequent."""
        similar = _sum_answers(*self._requests)
        # Distance 2 takes longest: only for words for which no shard found anything at distance 1.
        unmatched = [
            word for word in self._folded.values() if word not in similar and may_be_misspelt(word, FAR_MIN_CHARS)
        ]
        similar |= _sum_answers(self._start(unmatched, 2)) if unmatched else {}
        best: dict[str, tuple[str, int]] = {}
        for word, folded in self._folded.items():
            others = [each for each in similar.get(folded, {}).items() if each[0] != folded]
            first = min(others, key=lambda each: (-each[1], each[0]), default=(folded, 0))
            # For a word that no page has, any existing word is more frequent.
            if first[1] > MUCH_MORE * self._pages[word]:
                best[word] = first
        return best

    def _start(self, words: Sequence[str], distance: int) -> StartedRequests[SimilarWords] | None:
        return self._fan_out.start_all(lambda shard: shard.similar_words(words, distance)) if words else None


def _sum_answers(*requests: StartedRequests[SimilarWords] | None) -> dict[str, Counter[str]]:
    """Return the sums over all shards, without words for which nothing was found."""
    similar: dict[str, Counter[str]] = {}
    for answer in [answer for each in requests if each is not None for answer in each.collect().values()]:
        for word, others in answer.items():
            if others:
                similar.setdefault(word, Counter()).update(others)
    return similar


def restore_accents(fan_out: QueryFanOut, words: Sequence[str]) -> dict[str, str]:
    """Return for each folded word its form with the accents of the pages, or itself if no page has it."""
    # Two rounds for all words together: find example pages, then read those that were not sent along.
    searches = {word: fan_out.start_all(partial(_find_examples, word)) for word in words}
    found = {word: each.collect() for word, each in searches.items()}
    entry_requests = {
        word: fan_out.start_keys(_missing_keys(answers), lambda shard, keys: shard.entries(keys))
        for word, answers in found.items()
    }
    return {word: _form(word, _pages(found[word], each)) for word, each in entry_requests.items()}


def _pages(
    found: Mapping[int, Candidates], entry_requests: StartedRequests[Mapping[int, IndexEntry]]
) -> Iterator[IndexEntry]:
    """Yield the found pages: some were sent along, the others requested."""
    for octets in (octets for best in found.values() for octets in best.pages.values()):
        with suppress(IndexFailure):  # then other pages serve
            yield unpack_received(octets)
    for entries in entry_requests.collect().values():
        yield from entries.values()


def _form(folded: str, pages: Iterable[IndexEntry]) -> str:
    """Return the most frequent form of a word in these pages."""
    forms: Counter[str] = Counter()
    for entry in pages:
        forms.update(forms_in(f"{entry.title}\n{entry.text[:EXAMPLE_CHARS]}", folded))
    return min(forms, key=lambda form: (-forms[form], form)) if forms else folded


def _find_examples(folded: str, shard: Shard) -> Candidates:
    """Return some pages that have a word."""
    plan = Plan(Group(should=(Term("exact", folded, 1.0, 1.0, folded),)))
    return shard.candidates(plan, EXAMPLES, Show(0, EXAMPLES, is_of_each=True))


def _missing_keys(found: Mapping[int, Candidates]) -> dict[int, list[int]]:
    """Return the keys of found pages that were not sent along, by shard number."""
    missing = {
        number: [key for key in best.rows["key"].tolist() if key not in best.pages] for number, best in found.items()
    }
    return {number: keys for number, keys in missing.items() if keys}
