"""Kinds of pages that lead to the topic without being about it (Altingovde & Ulusoy 2004).

A focused crawler that only looks at the relevance of a page cannot learn that departments lead to papers. So every
visit is counted: a page of kind b was found through a page of kind a. The share of these is the rule a -> b, and
the promise of a kind is the probability of being on the topic after some links:

    promise_1(a) = P(topic | a)      promise_n(a) = P(topic | a) + FARTHER * sum over other b of P(b | a) promise_n-1(b)

Rules are learnt while the crawl continues. `UNSEEN` visits that led nowhere are assumed beforehand, so that a kind
needs evidence before it promises anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from teia.lib.topic import TOPIC

UNSEEN = 10
FARTHER = 0.5


def promises(rules: Iterable[tuple[int, int, int]], hops: int) -> dict[int, float]:
    """Return the promise of each kind within so many links, from (kind, kind it led to, count)."""
    seen: Counter[tuple[int, int]] = Counter()
    for via, kind, times in rules:
        seen[via, kind] += times
    totals: Counter[int] = Counter()
    for (via, _), times in seen.items():
        totals[via] += times
    shares = {(via, kind): times / (totals[via] + UNSEEN) for (via, kind), times in seen.items()}
    promise = dict.fromkeys(totals, 0.0)
    for _ in range(hops):
        promise = {kind: _promise(kind, shares, promise) for kind in totals}
    return promise


def _promise(via: int, shares: dict[tuple[int, int], float], promise: dict[int, float]) -> float:
    onward = sum(
        share * promise.get(kind, 0.0) for (start, kind), share in shares.items() if start == via and kind != TOPIC
    )
    return shares.get((via, TOPIC), 0.0) + FARTHER * onward
