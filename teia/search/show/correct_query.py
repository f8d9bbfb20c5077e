"""Correction of queries: what a misspelt word probably means, other spellings, and the words that no page has.

Words of the index have no accents; a suggestion is shown with the spelling of the pages that have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import log

from teia.errors import IndexFailure
from teia.index.entry import IndexEntry
from teia.search.query.analysis import folded_of, stem_of
from teia.search.query.canonical_text import render
from teia.search.query.question_words import is_question_word
from teia.search.query.rewrite import replace_word
from teia.search.query.tree import Query, Word, wanted_words
from teia.search.rank.formula import Candidates
from teia.search.rank.make_plan import counted_term
from teia.search.rank.plan import Group, Plan, Term
from teia.search.rank.statistics import TermCounts
from teia.search.serve.gateway import QueryFanOut, StartedRequests
from teia.search.serve.shards import Shard, Show
from teia.search.serve.wire_format import unpack_received
from teia.search.show.snippets import forms_in
from teia.search.show.spelling import (
    FAR_MIN_CHARS,
    FREQUENCY_WORTH,
    Suggestion,
    is_other_form,
    may_be_misspelt,
    most_likely,
    slip_cost,
)

FEW_RESULTS = 5
FEW_PAGES = 10
"""A word that more pages have is assumed to be meant as it is written."""

MANY_PAGES = 20
"""A similar word at distance 1 on so many pages ends the search: none at distance 2 is more likely."""

MAX_WORDS = 3
MAX_SUGGESTIONS = 3
MUCH_MORE = 50
"""Factor by which a suggestion for an existing word must be more frequent."""

RARE_SHARE = 2_000
"""A word on at most one of so many pages may be a misspelling that pages have."""

COMMON_SLIP = 300
"""Factor by which the right word must be more frequent than a misspelling that pages have, to be searched instead."""

SURE_RARE_CHARS = 6
"""Least length of a word on some pages that is corrected."""

USUAL_SLIP = 0.9
"""Greatest cost of a usual slip, such as two letters that change places."""

MIN_WORTH, MIN_RELATIVE_WORTH = 1.5, 7.0
"""Least worth of a word that is offered for one that no page has: the logarithm of its pages less the slip's cost.

In a small collection, where no word has many pages, its worth may be so much less than that of a word on all pages.
"""

LETTER_WORTH, USUAL_CHARS = 0.25, 7
"""Worth of each letter of a word beyond so many: a long word is near to few others."""

SimilarWords = Mapping[str, Mapping[str, int]]
"""Answer of `Shard.similar_words`."""

EXAMPLES = 3
EXAMPLE_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Words that no page has, other spellings, and the spellings that are searched instead, by word."""

    missing: tuple[str, ...] = ()
    spellings: tuple[Suggestion, ...] = ()
    corrections: Mapping[str, str] = field(default_factory=dict)


class Spellings:
    """Other spellings of words that no page has, or hardly any; where few results were found, few pages are enough.

    The requests for the rarest words start with the object, those for the others with `check_rare_words`.
    """

    def __init__(self, fan_out: QueryFanOut, query: Query, counts: TermCounts) -> None:
        self._fan_out = fan_out
        self._query = query
        words = [word for word in wanted_words(query) if not is_question_word(word)]
        # Words in quotes, or with a sign, are meant as they are written.
        self._plain = {node.text for node in query.clauses.should if isinstance(node, Word)}
        self._stem_pages = {word: counts.pages_with(*counted_term(word, counts)) for word in words}
        self._pages = {word: counts.pages_with("exact", folded_of(word)) for word in words}
        self._all_pages = counts.pages
        self._folded = self._rare_words(1 + counts.pages // RARE_SHARE)
        self._requests = [self._start(list(self._folded.values()), 1)]

    def check_rare_words(self, total: int) -> None:
        """Search also for words that few pages have, if few results were found."""
        if total < FEW_RESULTS:
            known, self._folded = self._folded, self._rare_words(FEW_PAGES)
            self._requests.append(
                self._start([each for each in self._folded.values() if each not in known.values()], 1)
            )

    def _rare_words(self, few: int) -> dict[str, str]:
        """Return the rarest words that fewer pages have, each with its folded form."""
        rare = {word: folded for word, pages in self._pages.items() if pages < few and (folded := folded_of(word))}
        words = sorted((word for word in rare if may_be_misspelt(rare[word])), key=self._pages.__getitem__)
        return {word: rare[word] for word in words[:MAX_WORDS]}

    def collect(self) -> Suggestions:
        """Wait for the answers and return the suggestions."""
        missing = tuple(word for word, pages in self._stem_pages.items() if not pages)
        best = self._best()
        written = restore_accents(self._fan_out, sorted({other for other, _ in best.values()})) if best else {}
        found = [
            Suggestion(word, written[other], count, render(replace_word(self._query, word, written[other])))
            for word, (other, count) in best.items()
        ]
        sure = {word: written[other] for word, (other, pages) in best.items() if self._is_sure(word, other, pages)}
        return Suggestions(missing, tuple(found[:MAX_SUGGESTIONS]), sure)

    def _best(self) -> dict[str, tuple[str, int]]:
        """Return for each word the one that was probably meant, if it is much more frequent."""
        similar = _sum_answers(*self._requests)
        # Distance 2 takes longest: only for words for which all shards together found little at distance 1.
        unmatched = [
            folded
            for word, folded in self._folded.items()
            if may_be_misspelt(folded, FAR_MIN_CHARS)
            and not self._pages[word]
            and max(similar.get(folded, {}).values(), default=0) < MANY_PAGES
        ]
        for word, far in (_sum_answers(self._start(unmatched, 2)) if unmatched else {}).items():
            similar.setdefault(word, Counter()).update(far)
        best: dict[str, tuple[str, int]] = {}
        for word, folded in self._folded.items():
            others = {other: pages for other, pages in similar.get(folded, {}).items() if other != folded}
            meant = most_likely(folded, others)
            if meant is not None and self._is_plausible(word, *meant) and not _has_frequent_form(folded, others):
                best[word] = meant
        return best

    def _is_plausible(self, word: str, meant: str, pages: int) -> bool:
        """Tell whether a word may stand for another that so many pages have."""
        folded, own_pages = self._folded[word], self._pages[word]
        cost = slip_cost(folded, meant)
        if own_pages or len(folded) < FAR_MIN_CHARS:
            return cost <= USUAL_SLIP and pages > MUCH_MORE * own_pages
        worth = log(pages) - FREQUENCY_WORTH * cost + LETTER_WORTH * max(0, len(folded) - USUAL_CHARS)
        return worth >= min(MIN_WORTH, log(max(1, self._all_pages)) - MIN_RELATIVE_WORTH)

    def _is_sure(self, word: str, meant: str, pages: int) -> bool:
        """Tell whether a word was certainly not meant as it is written."""
        folded, own_pages = self._folded[word], self._pages[word]
        if word not in self._plain:
            return False
        if own_pages:
            return pages >= COMMON_SLIP * own_pages and len(folded) >= SURE_RARE_CHARS
        # The stem of a word that no page has can be on pages: then it may be a form of a word that they have.
        is_form = self._stem_pages[word] and stem_of(meant) != stem_of(folded)
        return not is_form or slip_cost(folded, meant) <= USUAL_SLIP

    def _start(self, words: Sequence[str], distance: int) -> StartedRequests[SimilarWords] | None:
        return self._fan_out.start_all(lambda shard: shard.similar_words(words, distance)) if words else None


def _has_frequent_form(folded: str, others: Mapping[str, int]) -> bool:
    """Tell whether a word is another form of a frequent one, and so is spelt well."""
    forms = {other for other in others if stem_of(other) == stem_of(folded) and is_other_form(folded, other)}
    most = max(others.values(), default=0)
    return any(MUCH_MORE * others[form] >= most for form in forms)


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
