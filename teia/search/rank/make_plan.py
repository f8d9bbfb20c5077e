"""Planning: from a query to weighted terms of the index's fields.

A word is searched in four fields and is one clause: the text and, with lower weights, title and headings, links to
the page, and the word as it is written. Neighbours in the query are searched as neighbours in the text. Weights are
data; they were chosen on the tuning half of the judged set (docs/search.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from teia.search.query import tree
from teia.search.query.analysis import folded_of, stem_of
from teia.search.query.filters import media_types
from teia.search.query.tree import Clauses, FilterChoice, Filters, Phrase, Prefix, Query, Word, starts_s
from teia.search.query.words import words_of
from teia.search.rank.plan import AnyOf, Condition, Dated, Group, InTitle, Near, Part, Plan, Term
from teia.search.rank.statistics import CountsDemand, TermCounts, TermKey
from teia.search.rank.tantivy_query import idf
from teia.urls import key_of

MAX_PAIRS = 12
"""Greatest number of neighbouring pairs that are searched: the rarest."""

PAIR_SLOP = 5
MAX_PAIRED_WORDS = 16
"""Greatest number of words for pairs; in a longer query pairs cost more than all words together, and gain nothing."""

THOUSANDS = 3
"""Digits of a group in `1,000`."""


@dataclass(frozen=True, slots=True)
class FieldWeights:
    """Weight of each part of the text score, relative to a word's stem in the text, which is 1."""

    text: float = 1.0
    head: float = 0.5
    anchor: float = 0.15
    exact: float = 0.4
    pair: float = 0.2
    phrase: float = 1.0


def term_of(word: str) -> TermKey:
    """Return the term by which a word is counted: its stem, or the word itself if it has none."""
    stem = stem_of(word)
    return ("all", stem) if stem else ("exact", folded_of(word))


def counted_term(word: str, counts: TermCounts) -> TermKey:
    """Return the term by which a query's word was counted: its stem, or the word itself where it stood in a phrase."""
    term = term_of(word)
    return term if term in counts.terms else ("exact", folded_of(word))


def needed_counts(query: Query) -> CountsDemand:
    """Return all counts of terms that planning this query will need."""
    terms: dict[TermKey, None] = {}
    prefixes: dict[str, None] = {}
    for leaf in tree.leaves(query.clauses):
        match leaf:
            case Word(text):
                # The word as it is written, too: a misspelling may have the stem of the right word.
                terms |= {term_of(text): None, ("exact", folded_of(text)): None}
            case Prefix(text):
                prefixes.update({folded_of(text): None} if folded_of(text) else {})
            case Phrase(words, joined):
                terms.update(dict.fromkeys(("exact", folded_of(word)) for word in words))
                if joined:
                    # `e-mail` is also searched as `e`, `mail` and `email` (see `_joined`).
                    terms.update(dict.fromkeys(map(term_of, (*words, *run_together(words)))))
    for each in query.exact:
        if each.phrase is not None:
            terms.update(dict.fromkeys(("exact", folded_of(word)) for word in each.phrase.words))
    return CountsDemand(tuple(terms), tuple(prefixes))


def run_together(words: Sequence[str]) -> tuple[str, ...]:
    """Return joined words as one word: `email`; none for numbers other than thousands, because 3.11 is not 311."""
    is_other = all(map(str.isdigit, words)) and any(len(word) != THOUSANDS for word in words[1:])
    return () if is_other else ("".join(words),)


class Planner:
    """Planner of queries, using the counts of their terms."""

    def __init__(self, counts: TermCounts, weights: FieldWeights | None = None) -> None:
        self.counts = counts
        self._weights = weights or FieldWeights()

    def worth(self, node: Word | Phrase) -> float:
        """Return the worth of a plain word for `rewrite.drop_weak_words`: its idf, and 0 if no page has it."""
        terms = [term_of(node.text)] if isinstance(node, Word) else [("exact", folded_of(word)) for word in node.words]
        # The idf of a word that no page has is the highest of all; it would crowd out words that find something.
        if not all(self.counts.pages_with(*term) for term in terms):
            return 0.0
        return sum(self.counts.idf(*term) for term in terms)

    def plan(self, query: Query, now_s: float, added_terms: Iterable[Term] = ()) -> Plan:
        """Return the plan of a query; `added_terms` are terms that expansion adds."""
        phrases = [each.phrase for each in query.exact if not each.excluded and each.phrase is not None]
        clauses = query.clauses
        must = (*self._required(clauses.must), *map(self._phrase, phrases))
        should = (*self._alternatives(clauses.should), *self._pairs(clauses), *added_terms)
        scored = Group(must, should) if must or should else None
        excluded = tuple(map(self._excluded, clauses.must_not))
        return Plan(scored, excluded, tuple(make_conditions(query.filters, now_s)))

    def _required(self, nodes: Iterable[tree.Node]) -> Iterator[Part]:
        return map(self._part, nodes)

    def _alternatives(self, nodes: Iterable[tree.Node]) -> Iterator[Part]:
        """Yield alternatives; the term of a word in each field is an alternative like others."""
        for node in nodes:
            if isinstance(node, Word):
                yield from self._word(node.text, node.times)
            elif isinstance(node, Phrase) and node.joined:
                yield from self._joined(node)
            else:
                yield self._part(node)

    def _part(self, node: tree.Node) -> Part:
        match node:
            case Word(text):
                return Group(should=tuple(self._word(text, 1)))
            case Prefix(text):
                return self._prefix(text)
            case Phrase():
                return self._phrase(node)
            case Clauses(must, should, must_not):
                excluded = tuple(map(self._excluded, must_not))
                return Group(tuple(self._required(must)), tuple(self._alternatives(should)), excluded)

    def _word(self, word: str, times: float) -> Iterator[Term]:
        stem, folded, weights = stem_of(word), folded_of(word), self._weights
        # One idf for all fields, that of the text (plan.py).
        term_idf = self.counts.idf(*term_of(word))
        if stem:
            yield Term("all", stem, weights.text * times, term_idf, word)
            yield Term("head", stem, weights.head * times, term_idf, word)
            yield Term("anchor", stem, weights.anchor * times, term_idf, word)
        if folded:
            # A stop word is in `exact` only, so that field carries its whole weight.
            yield Term("exact", folded, (weights.exact if stem else weights.text) * times, term_idf, word)

    def _joined(self, phrase: Phrase) -> Iterator[Part]:
        """Yield the alternatives of a joined phrase: its single words, the phrase, and the words run together."""
        for word in (*phrase.words, *run_together(phrase.words)):
            if stem_of(word):
                yield from self._word(word, 1)
        yield self._phrase(phrase)

    def _prefix(self, text: str) -> Group:
        """Return every word with this beginning, as if all were one word."""
        completions = self.counts.completions(folded_of(text))
        pages = self.counts.pages
        # Pages with several completions are counted more than once; the sum is an upper limit.
        term_idf = idf(min(pages, sum(completions.values())), pages)
        weight = self._weights.text
        return Group(should=tuple(Term("exact", word, weight, term_idf, f"{text}*") for word in completions))

    def _phrase(self, phrase: Phrase) -> Near:
        texts = tuple(map(folded_of, phrase.words))
        term_idf = sum(self.counts.idf("exact", text) for text in texts)
        return Near("exact", texts, 0, self._weights.phrase, term_idf, " ".join(phrase.words))

    def _pairs(self, clauses: Clauses) -> Iterator[Near]:
        """Yield pairs of words that stand side by side in the query, the rarest first."""
        found: dict[tuple[str, str], Near] = {}
        for nodes in (clauses.must, clauses.should):
            words = [node.text for node in nodes if isinstance(node, Word) and stem_of(node.text)]
            for one, other in pairwise(words if len(words) <= MAX_PAIRED_WORDS else ()):
                stems = stem_of(one), stem_of(other)
                term_idf = self.counts.idf("all", stems[0]) + self.counts.idf("all", stems[1])
                # Two forms of one stem are no pair of neighbours.
                if stems[0] != stems[1]:
                    found[stems] = Near("all", stems, PAIR_SLOP, self._weights.pair, term_idf, f"{one} {other}")
        return iter(sorted(found.values(), key=lambda pair: -pair.idf)[:MAX_PAIRS])

    def _excluded(self, node: tree.Node) -> Part:
        """Return an excluded part: a word by its stem in the text; links to the page are not considered."""
        if isinstance(node, Word):
            field, text = term_of(node.text)
            return Term(field, text, 1.0, self.counts.idf(field, text), node.text)
        return self._part(node)


# ---- filters --------------------------------------------------------------------------------------------------------


def make_conditions(filters: Filters, now_s: float) -> Iterator[Condition]:
    """Yield filters as conditions on fields of the index."""
    for name, choice in filters.choices():
        if name == "title":
            yield from _in_title(choice)
        else:
            yield from _any_of(name, choice)
    if filters.after is not None or filters.before is not None:
        moments = (filters.after, filters.before)
        # Dates are whole seconds in the index; rounding up keeps both bounds exact.
        yield Dated(*(None if moment is None else ceil(starts_s(moment, now_s)) for moment in moments))


def _any_of(name: str, choice: FilterChoice) -> Iterator[AnyOf]:
    field = {"site": "within", "link": "links"}.get(name, name)
    for values, excluded in ((choice.any_of, False), (choice.none_of, True)):
        if values:
            yield AnyOf(field, tuple(term for value in values for term in _terms(name, value)), excluded)


def _terms(name: str, value: str) -> tuple[str | int, ...]:
    match name:
        case "type":
            return media_types(value)
        case "link":
            return (key_of(value),)
        case _:
            return (value,)


def _in_title(choice: FilterChoice) -> Iterator[InTitle]:
    for values, excluded in ((choice.any_of, False), (choice.none_of, True)):
        if values:
            yield InTitle(tuple(tuple(map(folded_of, words_of(value))) for value in values), excluded)
