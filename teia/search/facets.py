"""How the pages that match are spread over hosts, languages, types and years, to narrow a search by."""

from __future__ import annotations

from collections import Counter

from teia.search.gateway import Turn, Underway
from teia.search.plan import Plan
from teia.search.shards import FACETS, FacetCounts

SHOWN = 10
BY_VALUE = frozenset({"year"})
"""Facets whose values come in their own order, the latest first, and not by how many pages have them."""


def begin_facets(turn: Turn, plan: Plan) -> Underway[FacetCounts]:
    """Have all shards count, and wait for nobody yet."""
    return turn.begin(lambda shard: shard.facets(plan))


def facets_of(counting: Underway[FacetCounts]) -> FacetCounts:
    """The most frequent values of each facet over all shards; a rare value may lack the pages of some."""
    answers = list(counting.answers().values())
    return {name: _top(name, [answer.get(name, {}) for answer in answers]) for name in FACETS}


def _top(name: str, answers: list[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in answers:
        total.update(each)
    best = sorted(total.items(), key=lambda each: (-each[1], each[0]))[:SHOWN]
    return dict(sorted(best, reverse=True) if name in BY_VALUE else best)
