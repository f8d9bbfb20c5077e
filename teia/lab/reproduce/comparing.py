"""How A12 compares its strategies: Shapiro-Wilk, Student's t-test and Mann-Whitney, each as scipy has it.

A statistic that there are too few rounds for, or that numbers without any spread do not have, is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
from scipy import stats


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


def described(sample: Sequence[float]) -> Described:
    w = p = None
    if len(sample) >= 3 and _has_spread(sample):
        w, p = (_finite(value) for value in stats.shapiro(sample))
    deviation = float(np.std(sample, ddof=1)) if len(sample) >= 2 else None
    return Described(float(np.mean(sample)), float(np.median(sample)), deviation, w, p)


def t_test(one: Sequence[float], other: Sequence[float]) -> float | None:
    """The probability that means as different as these come of equal ones (Welch: their spread need not be equal)."""
    if min(len(one), len(other)) < 2 or not _has_spread(one, other):
        return None
    return _finite(stats.ttest_ind(one, other, equal_var=False).pvalue)


def mann_whitney(one: Sequence[float], other: Sequence[float]) -> float | None:
    """The same for their ranks, whatever the distribution."""
    if min(len(one), len(other)) < 2 or not _has_spread([*one, *other]):
        return None
    return _finite(stats.mannwhitneyu(one, other).pvalue)
