"""The visits that a host would have at each price of a visit: curves that can be summed over hosts, cells and nodes.

A budget for all hosts together has one dual variable, the price of a visit (`intensities`, mu). At the optimum every
page is visited as often as it is worth at that price, or as politeness allows. So hosts need not be planned together.
Each computes its visits for all prices, the sum of these curves shows at which price the budget is used up, and each
host reads its own visits at that price.

A curve is a column of visits per second at the prices of a fixed grid, an eighth of an octave apart, and is linear in
between. So the visits of all hosts at a price are exactly the sum over hosts. The unit of the price is that of weight
times seconds: one page of weight 1 kept fresh for a second.

An intensity of `intensities` is lam G(price lam/w): on a logarithmic grid all pages have the same curve, shifted by
log(w/lam) and scaled by lam. So a host's curve is a histogram of its pages, convolved with G. That costs the same for
50 pages and for 50,000.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from teia.refresh.formulas import Objective, rough_gap_for
from teia.refresh.intensities import intensity_at
from teia.refresh.model import Floats

FIRST, STEPS, POINTS = -30, 8, 641
"""Power of two of the lowest price, prices in an octave, and their number."""

SAMPLE = 2_000
"""Number of a host's pages from which its counts at all prices are computed."""

MOST_PER_S = 1_000.0
"""Visits per second of one host at most, where a policy ignores politeness."""

PRICES: Floats = 2.0 ** (FIRST + np.arange(POINTS) / STEPS)


@dataclass(frozen=True, slots=True, eq=False)
class DemandCurve:
    """One host's visits per second; `visits` begins at the price `first`. It is constant before, and 0 behind."""

    first: int
    visits: NDArray[np.float32]

    @classmethod
    def of(cls, column: Floats) -> DemandCurve:
        """Store a column compactly: most hosts are at their limit at most prices, and have no visits at many others."""
        visits = np.clip(column, 0.0, MOST_PER_S).astype(np.float32)
        first = int(np.argmin(visits == visits[0])) if (visits != visits[0]).any() else POINTS
        first = max(first - 1, 0)
        used = np.flatnonzero(visits)
        return cls(first, visits[first : int(used[-1]) + 1 if len(used) else first].copy())

    def column(self) -> Floats:
        """Return the visits at all prices of the grid."""
        column = np.zeros(POINTS)
        if len(self.visits):
            column[: self.first] = self.visits[0]
            column[self.first : self.first + len(self.visits)] = self.visits
        return column

    def at(self, level: float) -> float:
        """Return the visits per second at a level: a place on the grid, whole or in between."""
        index = min(max(int(level), 0), POINTS - 1)
        here, behind = self._value(index), self._value(min(index + 1, POINTS - 1))
        return here + min(max(level - index, 0.0), 1.0) * (behind - here)

    def _value(self, index: int) -> float:
        if not len(self.visits) or index >= self.first + len(self.visits):
            return 0.0
        return float(self.visits[max(index - self.first, 0)])


def level_of(price: float) -> float:
    """Return the place of a price on the grid."""
    return float(np.clip((np.log2(max(price, 1e-300)) - FIRST) * STEPS, 0.0, POINTS - 1.0))


def price_at(level: float) -> float:
    return float(2.0 ** (FIRST + level / STEPS))


def level_for(total: Floats, visits_per_s: float) -> float:
    """Return the level at which all curves together have so many visits; 0 if they never have more."""
    if total[0] <= visits_per_s:
        return 0.0
    # The first price at which there are no more visits than that; the one before has more.
    under = int(np.argmax(total <= visits_per_s)) if total[-1] <= visits_per_s else POINTS - 1
    many, few = float(total[under - 1]), float(total[under])
    return under - 1 + (min((many - visits_per_s) / (many - few), 1.0) if many > few else 1.0)


def demand_by_price(objective: Objective, weight: Floats, rate: Floats) -> Floats:
    """Return the visits per second of pages at every price of the grid."""
    of_use = (weight > 0) & (rate > 0) & np.isfinite(rate)
    if not of_use.any():
        return np.zeros(POINTS)
    rate, place = rate[of_use], (np.log2(weight[of_use] / rate[of_use]) - FIRST) * STEPS
    place = np.clip(place, 0.0, POINTS - 1.0)
    below = np.minimum(place.astype(np.int64), POINTS - 2)
    share = place - below
    # A page between two prices of the grid counts for both.
    mass = np.bincount(below, rate * (1.0 - share), minlength=POINTS)
    mass += np.bincount(below + 1, rate * share, minlength=POINTS)
    return np.asarray(np.convolve(_kernel(objective), mass)[POINTS - 1 : 2 * POINTS - 1], dtype=np.float64)


def demand_by_count(weight: Floats, rate: Floats, horizon_s: float) -> Floats:
    """Return the visits per second of counts for a horizon at whose beginning all captures are fresh (`counts`).

    A page has x visits where the gain of the last is at least the price. x lies within 1 of the continuous count.
    """
    of_use = (weight > 0) & (rate > 0) & np.isfinite(rate)
    column = np.zeros(POINTS)
    every = max(1, int(of_use.sum()) // SAMPLE)
    weight, rate = weight[of_use][::every], rate[of_use][::every]
    for index, price in enumerate(PRICES.tolist() if len(rate) else ()):
        with np.errstate(divide="ignore", over="ignore"):
            gaps = horizon_s * rate / rough_gap_for(price * rate / weight)
        # x + 1 gaps; the gain of visit x lies between the derivatives at x and at x + 1.
        column[index] = np.floor(np.maximum(gaps - 0.5, 0.0)).sum() * every / horizon_s
    return column


def demand_by_worth(worth: Floats, within_s: float) -> Floats:
    """Return the visits per second if every page is visited once within a time that is worth at least the price."""
    above = np.searchsorted(np.sort(worth), PRICES, side="left")
    return np.asarray((len(worth) - above) / within_s, dtype=np.float64)


def demand_in_proportion(mass: float) -> Floats:
    """Return a demand that is divided between hosts in proportion to some quantity, whatever the price."""
    return mass / PRICES


@cache
def _kernel(objective: Objective) -> Floats:
    """Return G at all differences of prices that the grid has, for a page with rate 1 and weight 1."""
    differences = np.arange(1 - POINTS, POINTS) / STEPS
    kernel = intensity_at(objective, 2.0**differences, np.ones(1), np.ones(1))
    kernel.flags.writeable = False
    return kernel
