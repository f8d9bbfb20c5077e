"""The exact freshness of a crawl's captures by the lab's truth: no model, no estimate.

A capture is fresh from the visit that made or confirmed it until the page's next meaningful change. Before its first
visit a page is not in the store. It is then left out, or counts as stale where all pages of a world are compared.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PageTruth:
    """One page: the times of its changes and of its visits, both sorted, and its weight."""

    changes_s: Sequence[float]
    visits_s: Sequence[float]
    weight: float = 1.0


def fresh_time_s(page: PageTruth, begin_s: float, end_s: float) -> float:
    """Return the seconds for which the capture was fresh within a span of time."""
    visits = page.visits_s
    # The last visit before the span counts too: its capture may be fresh within the span.
    first = max(0, bisect_right(visits, begin_s) - 1)
    fresh_s = 0.0
    for index in range(first, bisect_left(visits, end_s)):
        visit_s = visits[index]
        # A change at the very instant of the visit is part of the capture.
        changed = bisect_right(page.changes_s, visit_s)
        stale_s = page.changes_s[changed] if changed < len(page.changes_s) else end_s
        next_s = visits[index + 1] if index + 1 < len(visits) else end_s
        fresh_s += max(0.0, min(stale_s, next_s, end_s) - max(visit_s, begin_s))
    return fresh_s


def true_freshness(pages: Iterable[PageTruth], begin_s: float, end_s: float) -> float:
    """Return the weighted share of time for which captures were fresh; 0 if there is no page."""
    total = fresh = 0.0
    for page in pages:
        total += page.weight
        fresh += page.weight * fresh_time_s(page, begin_s, end_s)
    return fresh / (total * (end_s - begin_s)) if total else 0.0
