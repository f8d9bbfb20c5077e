"""How the pages that match are spread over hosts, languages, types and years, to narrow a search by."""

from __future__ import annotations

from collections import Counter

from teia.search.gateway import Turn
from teia.search.plan import Plan
from teia.search.shards import FACETS, FacetCounts

SHOWN = 10
BY_VALUE = frozenset({"year"})
"""Facets whose values come in their own order, the latest first, and not by how many pages have them."""


def facets_of(turn: Turn, plan: Plan) -> FacetCounts:
    """The most frequent values of each facet over all shards; a rare value may lack the pages of some."""
    answers = list(turn.ask(lambda shard: shard.facets(plan)).values())
    return {name: _top(name, [answer.get(name, {}) for answer in answers]) for name in FACETS}


def _top(name: str, answers: list[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in answers:
        total.update(each)
    best = sorted(total.items(), key=lambda each: (-each[1], each[0]))[:SHOWN]
    return dict(sorted(best, reverse=True) if name in BY_VALUE else best)
