"""Quality of one ranking, and the probability that two systems differ by chance.

Binary measures take a page as relevant from grade 1 on, as trec_eval does; nDCG uses all grades, with gain 2^grade - 1.
Rankings are cut at `DEPTH`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2

import numpy as np

from bench.relevance.judged import Grades

DEPTH = 100
RELEVANT_FROM = 1
PERMUTATIONS = 100_000
SEED = 1

Measure = Callable[[Sequence[str], Grades], float]


def relevant_in(grades: Grades) -> set[str]:
    return {document for document, grade in grades.items() if grade >= RELEVANT_FROM}


def average_precision(ranking: Sequence[str], grades: Grades) -> float:
    """Return the precision at each relevant page, averaged over all relevant pages, found or not."""
    relevant = relevant_in(grades)
    found, total = 0, 0.0
    for rank, document in enumerate(ranking[:DEPTH], start=1):
        if document in relevant:
            found += 1
            total += found / rank
    return total / len(relevant)


def ndcg_at_10(ranking: Sequence[str], grades: Grades) -> float:
    """Return the discounted gain of the first ten, as a share of that of the best order of the judged pages."""
    ideal = sorted(grades.values(), reverse=True)[:10]
    return _discounted([grades.get(document, 0) for document in ranking[:10]]) / _discounted(ideal)


def _discounted(grades: Sequence[int]) -> float:
    return sum((2.0**grade - 1) / log2(rank + 1) for rank, grade in enumerate(grades, start=1))


def precision_at_10(ranking: Sequence[str], grades: Grades) -> float:
    return len(relevant_in(grades) & set(ranking[:10])) / 10


def recall_at_100(ranking: Sequence[str], grades: Grades) -> float:
    relevant = relevant_in(grades)
    return len(relevant & set(ranking[:DEPTH])) / len(relevant)


def reciprocal_rank_at_10(ranking: Sequence[str], grades: Grades) -> float:
    relevant = relevant_in(grades)
    return next((1 / rank for rank, document in enumerate(ranking[:10], start=1) if document in relevant), 0.0)


MEASURES: Mapping[str, Measure] = {
    "MAP": average_precision,
    "nDCG@10": ndcg_at_10,
    "P@10": precision_at_10,
    "R@100": recall_at_100,
    "MRR@10": reciprocal_rank_at_10,
}


# ---- two systems ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems on the same queries: the means, the change in per cent of the first, the queries better and worse,
    and `p`.

    `p` is the two-sided probability of a difference at least this large if the systems were interchangeable.
    """

    before: float
    after: float
    change_percent: float
    wins: int
    losses: int
    p: float


def compare(before: Sequence[float], after: Sequence[float]) -> Comparison:
    old, new = np.asarray(before), np.asarray(after)
    change = 100 * (new.mean() / old.mean() - 1) if old.mean() else 0.0
    return Comparison(
        before=float(old.mean()),
        after=float(new.mean()),
        change_percent=float(change),
        wins=int((new > old).sum()),
        losses=int((new < old).sum()),
        p=permutation_p(new - old),
    )


def permutation_p(differences: Sequence[float] | np.ndarray, seed: int = SEED, times: int = PERMUTATIONS) -> float:
    """Return `p` by the paired permutation test.

    It flips the sign of each query's difference at random and counts how often the sum is as far from 0. The observed
    signs count as one of the permutations, so `p` is never 0.
    """
    values = np.asarray(differences)
    values = values[values != 0]
    if not values.size:
        return 1.0
    random = np.random.default_rng(seed)
    observed = abs(values.sum()) - 1e-12
    as_far = 0
    for size in [10_000] * (times // 10_000) + ([times % 10_000] if times % 10_000 else []):
        signs = random.integers(0, 2, size=(size, values.size)) * 2 - 1
        as_far += int((abs(signs @ values) >= observed).sum())
    return (1 + as_far) / (1 + times)
