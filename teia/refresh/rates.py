"""Estimators of change rates from the results of visits, for a million pages at a time.

A visit shows if a page changed since the one before, not how many times. So pages that change faster than they are
visited look slower than they are. `estimate` returns the posterior under a Gamma(a, b) prior, "a imaginary changes in b
seconds", of intervals of any lengths; where dates are trusted it takes the intervals from them. docs/rates.md compares
it with the estimators of the literature.

The likelihood of one-bit observations times the prior is, as a function of the logarithm of the rate, concave. So
Newton's method from any start, limited to steps of 2, finds its peak. The posterior is then approximated by the Gamma
distribution with the same peak and the same curvature there (a Laplace approximation in ln rate, with the skewed tail
that rates have). It is exact where no gap is open: for pages that never changed, and for trusted dates. Its quantiles
are the credible interval; tests/refresh/test_rates.py measures its coverage of the true rate.

Rates are per second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from teia.refresh.history import DAY_S, Histories

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

SLOWEST = 1.0 / (3_650 * DAY_S)
FASTEST = 1.0
"""Limits of an estimate: once in ten years, once a second. Visits cannot measure rates beyond them."""

MAX_STEPS = 40
ENOUGH = 1e-9
# Tolerance for "all changes are dated": the counts decay and are stored as 4-octet floats.
_ALL_DATED = 1e-3
# e^709 is the largest power of e in double precision.
_LARGE = 700.0


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gamma distributions of rates, one per page: as a prior, `changes` imaginary changes in `time_s` seconds."""

    changes: Floats
    time_s: Floats

    @property
    def mean(self) -> Floats:
        return self.changes / self.time_s

    def quantile(self, share: float) -> Floats:
        from scipy.special import gammaincinv

        found: Floats = gammaincinv(self.changes, share) / self.time_s
        return found

    def interval(self, share: float = 0.9) -> tuple[Floats, Floats]:
        """Return the central credible interval that holds `share` of the probability."""
        return self.quantile((1.0 - share) / 2.0), self.quantile((1.0 + share) / 2.0)


def repeat_prior(changes: float, time_s: float, pages: int) -> Gamma:
    """Return one prior repeated for every page."""
    return Gamma(np.full(pages, changes), np.full(pages, time_s))


def estimate(histories: Histories, prior: Gamma, trusted: Flags | None = None) -> Gamma:
    """Return the posterior of every page's rate. `trusted` marks the pages whose Last-Modified is believed (trust.py).

    A trusted page whose changes are all dated has the exact posterior: X changes in the time that is known to have
    passed without one. ValueError for a prior that is not positive.
    """
    if not (np.all(prior.changes > 0) and np.all(prior.time_s > 0)):
        raise ValueError("a prior needs a positive number of changes in a positive time")
    quiet_s = histories.quiet_s + prior.time_s
    # Without open gaps the posterior is a Gamma distribution. Only the other pages need Newton's method.
    exact = histories.changes <= 0.0
    if trusted is not None:
        exact = exact | (trusted & (histories.dated >= histories.changes * (1.0 - _ALL_DATED)))
    shape, time_s = prior.changes + histories.changes, quiet_s + histories.dated_s
    is_open = ~exact[histories.page_of_gap]
    pages = np.flatnonzero(~exact)
    if pages.size:
        number = np.zeros(len(histories), dtype=np.int64)
        number[pages] = np.arange(pages.size)
        gaps = _Gaps(
            number[histories.page_of_gap[is_open]], histories.gap_s[is_open], histories.gap_weight[is_open], pages.size
        )
        rate, curvature = _peak(gaps, prior.changes[pages], quiet_s[pages])
        shape[pages], time_s[pages] = curvature, curvature / rate
    return _within_limits(Gamma(shape, time_s))


@dataclass(frozen=True, slots=True)
class _Gaps:
    """Intervals that ended with a change: the page, length and weight of each; and the number of pages."""

    page: npt.NDArray[np.int64]
    seconds: Floats
    weight: Floats
    pages: int

    def select(self, chosen: npt.NDArray[np.int64]) -> _Gaps:
        """Return the gaps of the chosen pages, numbered anew."""
        number = np.full(self.pages, -1, dtype=np.int64)
        number[chosen] = np.arange(chosen.size)
        page = number[self.page]
        is_selected = page >= 0
        return _Gaps(page[is_selected], self.seconds[is_selected], self.weight[is_selected], chosen.size)


def _peak(gaps: _Gaps, changes: Floats, quiet_s: Floats) -> tuple[Floats, Floats]:
    """Return the peak of the posterior in ln rate, as a rate, and its curvature there.

    With u = rate x gap, the slope is the sum of w u / (e^u - 1), plus a, less rate x (quiet + b).
    """
    weight = np.bincount(gaps.page, gaps.weight, gaps.pages)
    seconds = np.bincount(gaps.page, gaps.weight * gaps.seconds, gaps.pages)
    log_rate = np.log((weight + changes) / (seconds + quiet_s))
    curvature = np.empty_like(log_rate)
    active, held = np.arange(gaps.pages), gaps
    for _ in range(MAX_STEPS):
        slope, bend = _slope_and_bend(held, log_rate[active], changes[active], quiet_s[active])
        curvature[active] = bend
        step = np.clip(slope / bend, -2.0, 2.0)
        log_rate[active] += step
        moving = np.abs(step) > ENOUGH
        if not moving.any():
            break
        # Continue with the unfinished pages alone; copying them pays only when enough others have converged.
        if moving.sum() < 0.7 * moving.size:
            active, held = active[moving], held.select(np.flatnonzero(moving))
    return np.exp(log_rate), curvature


def _slope_and_bend(gaps: _Gaps, log_rate: Floats, changes: Floats, quiet_s: Floats) -> tuple[Floats, Floats]:
    """Return the first derivative of the log posterior in ln rate, and the negated second derivative."""
    rate = np.exp(log_rate)
    u = np.minimum(rate[gaps.page] * gaps.seconds, _LARGE)
    grown = np.expm1(u)
    ratio = u / grown
    slope = np.bincount(gaps.page, gaps.weight * ratio, gaps.pages) + changes - rate * quiet_s
    # d/d ln rate of u / (e^u - 1) is ratio (1 - u - ratio): from 0 to below, so the sum below is above 0.
    bent = gaps.weight * ratio * (u + ratio - 1.0)
    bend = np.bincount(gaps.page, bent, gaps.pages) + rate * quiet_s
    return slope, bend


def _within_limits(found: Gamma) -> Gamma:
    rate = np.clip(found.mean, SLOWEST, FASTEST)
    return Gamma(found.changes, found.changes / rate)


def fresh_probability_of(found: Gamma, age_s: Floats) -> Floats:
    """Return the probability that a copy of that age is still fresh, averaged over the possible rates."""
    share: Floats = (1.0 + np.maximum(age_s, 0.0) / found.time_s) ** -found.changes
    return share


def mean_lifetime_s(found: Gamma, within_s: Floats | float) -> Floats:
    """Return for how long a copy is expected to be fresh, of the time `within_s` after its visit.

    For a long time that is the mean of 1/rate, which is above 1/(mean rate): slow pages keep their copies for long.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        power, growth = 1.0 - found.changes, np.log1p(within_s / found.time_s)
        # Near shape 1 the power law becomes a logarithm, and the quotient would lose all digits.
        area = np.where(np.abs(power * growth) < 1e-9, growth, np.expm1(power * growth) / power)
    return np.asarray(area * found.time_s, dtype=np.float64)


def mean_fresh_probability(found: Gamma, visits_per_s: Floats) -> Floats:
    """Return that probability averaged over the time between two visits at this intensity; 0 without visits."""
    with np.errstate(divide="ignore", invalid="ignore"):
        gap_s = 1.0 / visits_per_s
        share = np.where(gap_s > 0, mean_lifetime_s(found, gap_s) / gap_s, 1.0)
    return np.where(visits_per_s > 0, share, 0.0)
