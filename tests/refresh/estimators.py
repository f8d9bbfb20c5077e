"""Estimators of change rates from the literature, which ours is compared with (docs/rates.md).

    naive      X / T. Low by half at one change a visit
    improved   -ln((n - X + 0.5) / (n + 0.5)) / I for visits at a regular interval I (Cho & Garcia-Molina 2003)
    complete   (X + 0.5) / (T + 0.5 day), where every change is known: feeds, sitemaps
    dated      X' / E where Last-Modified gives the time of the last change (Cho), corrected for its bias

Rates are per second.
"""

from __future__ import annotations

import numpy as np

from teia.refresh.history import DAY_S
from teia.refresh.rates import Floats


def naive(changes: Floats, elapsed_s: Floats) -> Floats:
    """Return changes seen per time. Biased low."""
    return changes / elapsed_s


def improved(visits: Floats, changes: Floats, interval_s: float) -> Floats:
    """Return Cho's estimate for visits at a regular interval; defined for X = n too."""
    rate: Floats = -np.log((visits - changes + 0.5) / (visits + 0.5)) / interval_s
    return rate


def complete(changes: Floats, elapsed_s: Floats) -> Floats:
    """Return the rate of pages all of whose changes were seen."""
    return (changes + 0.5) / (elapsed_s + 0.5 * DAY_S)


def dated(visits: Floats, changes: Floats, exposed_s: Floats) -> Floats:
    """Return Cho's estimate from dates of last change.

    `exposed_s` sums the age of the change for visits that found one, and the whole interval for the others.
    """
    n, x = np.asarray(visits, dtype=np.float64), np.asarray(changes, dtype=np.float64)
    between = (x > 0) & (x < n)
    share = np.where(between, x / np.maximum(n, 1.0), 0.5)
    # Cho's correction for the bias of small samples.
    corrected = x - 1.0 - np.where(between, x / (n * np.log1p(-share)), 0.0)
    corrected = np.where(x > 0, corrected, 0.0)
    rate: Floats = np.divide(corrected, exposed_s, out=np.zeros_like(corrected), where=exposed_s > 0)
    return rate
