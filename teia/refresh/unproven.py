"""Probability that a host's 304s are false, as long as no change of a page has proved them true.

A server that answers 304 to everything looks like one whose pages do not change. What tells the two apart is the time
that bodies cover: with a rate of changes r, pages that stayed the same through quiet_s had the chance exp(-r quiet_s),
if 304s are believed, and exp(-r with_body_s), if only bodies are. The rates are those of all pages, with a factor for
the host, because a host may change less than others.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from teia.refresh.priors import PARENT_PAGES
from teia.refresh.rates import Floats, Gamma

FIRST_HOSTS, FIRST_FALSE = 5.0, 0.5
"""Imaginary hosts whose validators were tested, and those of them that were found to be false."""

HIDDEN_BY_CHANCE = 0.02
"""Probability that an honest host hides one change: it came in the second of the visit."""

MOST_SURE = 0.98
_FACTORS, _CHANCES = np.polynomial.hermite_e.hermegauss(9)


class FalseShare(NamedTuple):
    """The share of hosts whose 304s are false, and the standard deviation of the logarithm of its odds."""

    mean: float
    deviation: float


def false_share(false: int, proven: int) -> FalseShare:
    """Return the share by the hosts that were found out and those that were proven true."""
    from scipy.special import polygamma

    found_out, honest = FIRST_FALSE + false, FIRST_HOSTS - FIRST_FALSE + proven
    return FalseShare(found_out / (found_out + honest), sqrt(float(polygamma(1, found_out) + polygamma(1, honest))))


def false_probability(quiet_s: Floats, with_body_s: Floats, of_all: Gamma, hidden: int, share: float) -> float:
    """Return the probability that a host's 304s are false; `hidden` changes were found, and no change was announced."""
    shape, time_s = float(of_all.changes[0]), float(of_all.time_s[0])
    factor = np.exp(_FACTORS / np.sqrt(PARENT_PAGES * shape))[:, None]
    believed, by_bodies = (
        -shape * np.log1p(factor * span_s[None, :] / time_s).sum(axis=1) for span_s in (quiet_s, with_body_s)
    )
    # The largest exponent is taken out, so that none of the others overflows.
    most = float(by_bodies.max())
    true, false = (float(_CHANCES @ np.exp(each - most)) for each in (believed, by_bodies))
    odds = share / (1.0 - share) * false / max(true * HIDDEN_BY_CHANCE**hidden, 1e-300)
    return min(MOST_SURE, odds / (1.0 + odds))
