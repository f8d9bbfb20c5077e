"""Which kinds of pages lead to the topic, though they are not about it (Altingovde & Ulusoy 2004).

A focused crawler that only looks at how relevant a page is cannot learn that departments lead to papers. So every
visit is counted: a page of kind b was found through a page of kind a. The share of these is the rule a -> b, and what
a kind promises is the probability of being on the topic after some links:

    promise_1(a) = P(topic | a)      promise_n(a) = P(topic | a) + FARTHER * sum over other b of P(b | a) promise_n-1(b)

Rules are learnt while the crawl goes on. `UNSEEN` visits that led nowhere are assumed beforehand, so that a kind has
to prove itself before it promises anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from teia.lib.topic import TOPIC

UNSEEN = 10
FARTHER = 0.5


def promises(rules: Iterable[tuple[int, int, int]], hops: int) -> dict[int, float]:
    """Return what each kind promises within so many links, from (kind, kind it led to, how often)."""
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
