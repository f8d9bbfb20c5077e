"""Counts of the matching pages by host, language, type and year, to narrow a search."""

from __future__ import annotations

from collections import Counter

from teia.search.rank.plan import Plan
from teia.search.serve.gateway import QueryFanOut, StartedRequests
from teia.search.serve.shards import FACETS, FacetCounts

SHOWN = 10
BY_VALUE = frozenset({"year"})
"""Facets whose values are shown in their own order, the latest first, and not by their counts."""


def start_facets(fan_out: QueryFanOut, plan: Plan) -> StartedRequests[FacetCounts]:
    """Request the counts of all shards, without waiting."""
    return fan_out.start_all(lambda shard: shard.facets(plan))


def collect_facets(counting: StartedRequests[FacetCounts]) -> FacetCounts:
    """Return the most frequent values of each facet over all shards; a rare value may lack the pages of some."""
    answers = list(counting.collect().values())
    return {name: _top(name, [answer.get(name, {}) for answer in answers]) for name in FACETS}


def _top(name: str, answers: list[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in answers:
        total.update(each)
    best = sorted(total.items(), key=lambda each: (-each[1], each[0]))[:SHOWN]
    return dict(sorted(best, reverse=True) if name in BY_VALUE else best)
