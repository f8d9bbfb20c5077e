"""Visits of pages whose rates are distributions."""

from __future__ import annotations

import numpy as np
import pytest

from teia.refresh.formulas import marginal, steady_staleness
from teia.refresh.intensities import intensity_at
from teia.refresh.rates import Floats, Gamma
from teia.refresh.uncertain import LOWEST_PRICE, gaps_worth, price_for, visits_worth

DAY_S = 86_400.0
SHAPES = np.array([0.3, 0.9, 1.0, 1.5, 4.0, 60.0])


def drawn_rates(shape: float, time_s: float) -> Floats:
    """The middles of equal shares of a distribution."""
    from scipy.special import gammaincinv

    found: Floats = gammaincinv(shape, (np.arange(200_000) + 0.5) / 200_000) / time_s
    return found


@pytest.mark.parametrize("shape", SHAPES.tolist())
def test_a_visit_is_worth_the_mean_over_all_possible_rates(shape: float) -> None:
    """The price is the mean of q(lam d)/lam at the gap that was found, by drawing rates."""
    found, weight = Gamma(np.array([shape]), np.array([3.0 * DAY_S])), np.array([2.0])
    for price in (0.01 * DAY_S, 0.2 * DAY_S, DAY_S):
        (visits,) = visits_worth(np.array([price]), weight, found)
        if visits:
            rates = drawn_rates(shape, 3.0 * DAY_S)
            assert 2.0 * np.mean(marginal(rates / visits) / rates) == pytest.approx(price, rel=0.01)
        else:
            assert price > 2.0 * 3.0 * DAY_S / (shape - 1.0)


def test_a_page_with_a_certain_rate_has_the_visits_of_that_rate() -> None:
    rate, price = np.array([0.1, 1.0, 5.0, 11.0]) / DAY_S, 0.1 * DAY_S
    sure = Gamma(np.full(4, 1e7), 1e7 / rate)
    best = intensity_at("periodic", price, np.ones(4), rate)
    assert visits_worth(np.full(4, price), np.ones(4), sure) == pytest.approx(best, rel=1e-4)
    assert best[-1] == 0.0


def test_a_page_is_given_up_only_if_it_is_surely_too_fast() -> None:
    """Four changes in a day: too fast by the mean rate. It may be slow as long as that rests on little."""
    price = 0.3 * DAY_S
    found = Gamma(np.array([4.0, 40.0]), np.array([1.0, 10.0]) * DAY_S)
    assert not intensity_at("periodic", price, 1.0, found.mean).any()
    little_known, known = visits_worth(np.full(2, price), np.ones(2), found)
    assert little_known > known == 0.0


def test_gaps_of_any_shape_and_value_are_found() -> None:
    level, shape = np.meshgrid(np.geomspace(1e-9, 1e3, 60), np.geomspace(0.25, 1e6, 40))
    x = gaps_worth(level.ravel(), shape.ravel())
    a, wanted = shape.ravel(), level.ravel()
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.where(a > 1.0, 1.0 / (a - 1.0), np.inf)
        value = np.expm1((1.0 - a) * np.log1p(x)) / (1.0 - a) - x * np.exp(-a * np.log1p(x))
    found = wanted < least
    assert np.array_equal(np.isfinite(x), found)
    near = wanted < 0.9 * least
    assert value[near] == pytest.approx(wanted[near], rel=1e-3)


def test_the_price_fills_the_visits_between_floor_and_most() -> None:
    chance = np.random.default_rng(3)
    found = Gamma(chance.uniform(0.3, 9.0, 300), chance.uniform(0.2, 20.0, 300) * DAY_S)
    weight, floor, most = chance.uniform(0.5, 2.0, 300), 0.01 / DAY_S, 2.0 / DAY_S
    price = price_for(weight, found, 100.0 / DAY_S, floor, most)
    visits = np.clip(visits_worth(np.full(300, price), weight, found), floor, most)
    assert visits.sum() == pytest.approx(100.0 / DAY_S, rel=1e-6)
    assert price_for(weight, found, 1_000.0 / DAY_S, floor, most) == LOWEST_PRICE


def test_a_large_host_has_the_price_of_a_sample() -> None:
    chance = np.random.default_rng(4)
    found = Gamma(chance.uniform(0.3, 9.0, 9_000), chance.uniform(0.2, 20.0, 9_000) * DAY_S)
    price = price_for(np.ones(9_000), found, 3_000.0 / DAY_S, 0.0, 24.0 / DAY_S)
    assert visits_worth(np.full(9_000, price), np.ones(9_000), found).sum() * DAY_S == pytest.approx(3_000.0, rel=0.05)


def test_visits_by_distributions_keep_more_than_visits_by_mean_rates() -> None:
    """Few visits of many pages; true rates are drawn from the distributions that the planner knows."""
    chance = np.random.default_rng(5)
    found = Gamma(chance.uniform(1.0, 4.0, 2_000), np.full(2_000, DAY_S))
    rates, per_s, ones = chance.gamma(found.changes) / found.time_s, 400.0 / DAY_S, np.ones(2_000)
    price = price_for(ones, found, per_s, 0.0, 1.0)
    sure = Gamma(np.full(2_000, 1e7), 1e7 / found.mean)
    by_mean = price_for(ones, sure, per_s, 0.0, 1.0)
    kept = [
        1.0 - float(np.mean(steady_staleness(rates, visits_worth(np.full(2_000, at), ones, known))))
        for at, known in ((price, found), (by_mean, sure))
    ]
    assert kept[0] > 1.02 * kept[1]
