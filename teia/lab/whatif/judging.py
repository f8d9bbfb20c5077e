"""Visits judged in worlds drawn from the posteriors: the expected freshness, and its random variation.

A world is one draw of every rate from its posterior. A host's priors may be wrong for all its pages alike. So each
world also has a factor for each host, which moves a rate as far as it depends on the prior; and one for all rates, by
the error that the collection's own visits showed (backtest.py). If a host's 304s may be false, they are so in a part of
the worlds, and its rates there are those of the visits that brought a body. In each world freshness is the exact
expectation over the visits. The changes themselves are random too: the variance of the time for which a copy is fresh
is added, in closed form. The interval does not cover pages that do not change as a Poisson process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from teia.lab.simulate.timeline import Visits
from teia.lab.whatif.backtest import Backtest
from teia.lab.whatif.past import HostPages
from teia.refresh.formulas import marginal
from teia.refresh.model import Floats, RefreshWorld, Rows
from teia.refresh.priors import PARENT_PAGES
from teia.refresh.rates import Gamma

ERRORS = 1.645
"""Number of standard deviations of an interval that holds 90%."""

SLOWEST_DRAW = 1e-12


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean, and the interval that holds the true value in 90 of 100 cases if the model is right."""

    mean: float
    low: float
    high: float


def draw_worlds(parts: Sequence[HostPages], tested: Backtest, worlds: int, chance: np.random.Generator) -> Floats:
    """Draw the rates of all pages, a row for each world."""
    of_all = tested.factor * np.exp(tested.error * chance.standard_normal((worlds, 1)))
    drawn = np.empty((worlds, sum(map(len, parts))))
    begin = 0
    doubt = chance.spawn(1)[0]
    of_all_304s, of_host_304s = doubt.standard_normal((worlds, 1)), dict[int, Floats]()
    for part in parts:
        rows = slice(begin, begin := begin + len(part))
        seen = float((part.columns.histories.visits > 0).sum())
        # The error of the mean of these rates is that of one of them over the root of their number.
        spread = np.sqrt(1.0 / (float(part.prior.changes.mean()) * (seen + PARENT_PAGES)))
        factor = np.exp(spread * chance.standard_normal((worlds, 1)) * part.prior_share[None, :])
        own = _draw_rates(part.posterior, worlds, chance)
        if part.unproven is not None:
            # All 304s of a host are true, or all are false, and all hosts share the error of the probability.
            drawn_304s = of_host_304s.setdefault(part.host, doubt.random((worlds, 1)))
            are_false = drawn_304s < part.unproven.probability + part.unproven.deviation * of_all_304s
            own = np.where(are_false, _draw_rates(part.unproven.found, worlds, doubt), own)
        drawn[:, rows] = np.maximum(own * factor * of_all, SLOWEST_DRAW)
    return drawn


def _draw_rates(found: Gamma, worlds: int, chance: np.random.Generator) -> Floats:
    rates: Floats = chance.standard_gamma(np.broadcast_to(found.changes, (worlds, len(found.changes)))) / found.time_s
    return rates


class Judge:
    """Takes visits in order, from 0 on, and sums the time for which copies were fresh between two instants."""

    def __init__(self, world: RefreshWorld, rates: Floats, begin_s: float, end_s: float) -> None:
        self._weight, self._rates, self._mean = world.weight, rates, world.rate
        self._begin_s, self._end_s = begin_s, end_s
        self._last_s = -world.age_s
        self._fresh_s = np.zeros(len(rates))
        self._variance = 0.0
        self.visits = np.zeros(len(world), dtype=np.int64)

    def add(self, visits: Visits) -> None:
        self._add(visits.page, visits.before_s, visits.time_s)
        self._last_s[visits.page] = visits.time_s  # of several visits of a page the last is written last
        inside = visits.page[(visits.time_s >= self._begin_s) & (visits.time_s < self._end_s)]
        self.visits += np.bincount(inside, minlength=len(self.visits))

    def finish(self) -> tuple[Floats, float]:
        """Return the freshness of each world, and the variance that random changes add to any of them."""
        pages = np.arange(len(self._last_s))
        self._add(pages, self._last_s, np.full(len(pages), self._end_s))
        self._last_s = np.full(len(pages), self._end_s)
        length_s = self._end_s - self._begin_s
        return self._fresh_s / length_s, self._variance / length_s**2

    def _add(self, page: Rows, before_s: Floats, until_s: Floats) -> None:
        """Add gaps between visits, as far as they lie between the two instants."""
        from_s = np.maximum(before_s, self._begin_s)
        counts = np.minimum(until_s, self._end_s) > from_s
        page, age_s = page[counts], (from_s - before_s)[counts]
        length_s = np.minimum(until_s, self._end_s)[counts] - from_s[counts]
        weight = self._weight[page]
        for number, rate in enumerate(self._rates):
            self._fresh_s[number] += float((weight * _fresh_s(rate[page], age_s, length_s)).sum())
        rate = np.maximum(self._mean[page], SLOWEST_DRAW)
        mean_s, u = _fresh_s(rate, age_s, length_s), rate * length_s
        # Second moment of the fresh time, min(next change, length), if the copy is fresh at first: 2 q(u) / rate^2.
        square = np.exp(-rate * age_s) * 2.0 * marginal(u) / rate**2
        self._variance += float((weight**2 * np.maximum(square - mean_s**2, 0.0)).sum())


def _fresh_s(rate: Floats, age_s: Floats, length_s: Floats) -> Floats:
    """Return the expected time for which a copy is fresh during `length_s`, if its age is `age_s` at the beginning."""
    fresh: Floats = np.exp(-rate * age_s) * -np.expm1(-rate * length_s) / rate
    return fresh


def estimate_mean(values: Floats, variance: float = 0.0, least: float = 0.0, most: float = 1.0) -> MeanEstimate:
    """Return the mean over worlds, and an interval from their differences and the random variation."""
    mean, error = float(values.mean()), ERRORS * float(np.sqrt(values.var(ddof=1) + variance))
    return MeanEstimate(mean, max(least, mean - error), min(most, mean + error))
