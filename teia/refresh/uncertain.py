"""Visits of pages whose rates are only known as distributions: as many as are worth a price, on average over them.

One more visit of a page at even gaps `d` is worth w E[q(lam d) / lam], where q is `formulas.marginal` and the mean is
over all rates that its visits leave possible. With a Gamma distribution of shape a and time b that is

    w b v(d / b),    v(x) = ((1 + x)^(1 - a) - 1) / (1 - a) - x (1 + x)^-a.

A plan by the mean rate alone gives a page up when that rate is too fast. This one gives it up when it is surely too
fast: v has the limit 1/(a - 1), which is above the value of the mean rate, 1/a, and is infinite for a shape of 1 or
less. So a page of which little is known is visited until it is known, and no visits need to be set aside for that.
Pages whose rates are certain have the same visits by both.
"""

from __future__ import annotations

import numpy as np

from teia.refresh.model import Floats
from teia.refresh.rates import Gamma, mean_lifetime_s
from teia.refresh.threshold import Flags, is_solved, narrow

SAMPLE = 2_000
"""Number of pages from which the price of a host's visits is found."""

MAX_STEPS, ENOUGH = 40, 1e-7

LOWEST_PRICE = 1e-300
"""Price of visits where there are more of them than pages can use."""


def gaps_worth(level: Floats, shape: Floats) -> Floats:
    """Return the x at which v(x) is `level`, for Gamma distributions of these shapes and time 1; infinity if none is.

    ln v is a concave function of ln x. Newton's method from below, where v is a x^2 / 2, never goes beyond the root.
    """
    time, slowly = np.ones_like(shape), shape > 1.0
    limit = np.where(slowly, 1.0 / np.where(slowly, shape - 1.0, 1.0), np.inf)
    log_x, wanted = 0.5 * np.log(2.0 * level / shape), np.log(level)
    for _ in range(MAX_STEPS):
        x = np.exp(log_x)
        still_fresh = np.exp(-shape * np.log1p(x))
        value = np.maximum(mean_lifetime_s(Gamma(shape, time), x) - x * still_fresh, 1e-300)
        slope = shape * x * x * still_fresh / (1.0 + x) / value
        step = np.where(level < limit, (wanted - np.log(value)) / np.maximum(slope, 1e-12), 0.0)
        step = np.clip(step, -1.0, 3.0)
        log_x += step
        if not (np.abs(step) > ENOUGH).any():
            break
    return np.where(level < limit, np.exp(np.minimum(log_x, 300.0)), np.inf)


def visits_worth(price: Floats, weight: Floats, found: Gamma) -> Floats:
    """Return visits per second at even intervals, where one more is worth `price`."""
    of_use = weight > 0
    level = np.where(of_use, price / (np.where(of_use, weight, 1.0) * found.time_s), np.inf)
    visits = np.zeros(len(level))
    visits[of_use] = 1.0 / (found.time_s[of_use] * gaps_worth(level[of_use], found.changes[of_use]))
    return visits


def price_for(weight: Floats, found: Gamma, visits_per_s: float, floor: float, most: float) -> float:
    """Return the price at which pages have so many visits together, each at least `floor` and at most `most`."""
    every = max(1, len(weight) // SAMPLE)
    weight, found = weight[::every], Gamma(found.changes[::every], found.time_s[::every])
    scale = every * most / visits_per_s
    if scale * len(weight) <= 1.0:
        return LOWEST_PRICE

    def shares(at: Floats, wanted: Flags) -> Floats:  # noqa: ARG001  # there is one group
        visits = visits_worth(np.full(len(weight), np.exp(at[0])), weight, found)
        return np.array([np.clip(visits, floor, most).sum() * every / visits_per_s])

    # Where pages are visited often, a visit is worth w lam / 2 rho^2.
    start = 2.0 * np.log(every * np.sqrt(weight * found.mean / 2.0).sum() / visits_per_s)
    state = narrow(shares, np.ones(1), np.array([start]), is_solved, np.ones(1, dtype=np.bool_))
    return float(np.exp(state.ends_at(1.0)[1][0]))
