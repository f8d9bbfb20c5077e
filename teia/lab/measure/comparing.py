"""The statistical tests of A12's strategies: Shapiro-Wilk, Student's t-test and Mann-Whitney, each from scipy.

A statistic is None if there are too few rounds for it, or if the numbers have no spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np


@dataclass(frozen=True, slots=True)
class Described:
    """A sample, as the paper's table 2 describes it; `w` and `p` are those of Shapiro-Wilk."""

    mean: float
    median: float
    deviation: float | None
    w: float | None
    p: float | None


def _finite(value: float) -> float | None:
    return float(value) if isfinite(value) else None


def _has_spread(*samples: Sequence[float]) -> bool:
    return any(len(set(sample)) > 1 for sample in samples)


def describe(sample: Sequence[float]) -> Described:
    w = p = None
    if len(sample) >= 3 and _has_spread(sample):
        from scipy import stats  # takes a second to import; the other experiments do not need it

        w, p = (_finite(value) for value in stats.shapiro(sample))
    deviation = float(np.std(sample, ddof=1)) if len(sample) >= 2 else None
    return Described(float(np.mean(sample)), float(np.median(sample)), deviation, w, p)


def t_test(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return the p-value of equal means (Welch's test, which does not assume equal variances)."""
    if min(len(one), len(other)) < 2 or not _has_spread(one, other):
        return None
    from scipy import stats

    return _finite(stats.ttest_ind(one, other, equal_var=False).pvalue)


def mann_whitney(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return the p-value of the rank test, which assumes no distribution."""
    if min(len(one), len(other)) < 2 or not _has_spread([*one, *other]):
        return None
    from scipy import stats

    return _finite(stats.mannwhitneyu(one, other).pvalue)
