"""Freshness of Poisson pages, held against sums, integrals and draws that know nothing of the formulas (P3)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq

from teia.lab.simulate.measures import visited_staleness
from teia.refresh import formulas
from teia.refresh.model import RefreshWorld

from .worlds import ideal_times, small_worlds

US = [0.0, 1e-12, 1e-6, 0.0199, 0.0201, 0.5, 3.0, 40.0, 700.0]


@pytest.mark.parametrize("u", US[1:-1])
def test_staleness_of_a_gap_is_the_integral(u: float) -> None:
    expected, _ = quad(lambda a: -np.expm1(-u * a), 0.0, 1.0, epsrel=1e-12)
    assert formulas.staleness(u) == pytest.approx(expected, rel=1e-10)
    assert formulas.stale_time(u) == pytest.approx(u * expected, rel=1e-10)


def test_limits_of_a_gap_are_right() -> None:
    """P1: a page that never changes, and one that always does."""
    assert formulas.staleness([0.0, np.inf]).tolist() == [0.0, 1.0]
    assert formulas.marginal([0.0, np.inf]).tolist() == [0.0, 1.0]
    assert formulas.rough_gap_for(np.array([0.0, 1.0, 2.0])).tolist() == [0.0, np.inf, np.inf]
    assert formulas.steady_staleness([0.0, 1.0, np.inf, 1.0], [0.0, 0.0, 1.0, np.inf]).tolist() == [0.0, 1.0, 1.0, 0.0]


def test_the_series_meet_the_formulas() -> None:
    edge = formulas.SERIES_BELOW
    for function in (formulas.staleness, formulas.stale_time, formulas.marginal):
        below, above = function([edge * (1 - 1e-12), edge * (1 + 1e-12)])
        assert below == pytest.approx(above, rel=1e-10)


@given(st.floats(1e-14, 1 - 1e-8))
def test_the_inverse_of_q_is_its_inverse(z: float) -> None:
    """To seven digits of the gap: brentq finds the root without the table."""
    exact = brentq(lambda u: float(formulas.marginal(u)) - z, 0.0, 50.0, xtol=1e-300, rtol=1e-12)
    assert formulas.rough_gap_for(np.array(z)) == pytest.approx(exact, rel=1e-7)


@settings(max_examples=60)
@given(small_worlds(budget=False), st.data())
def test_staleness_of_any_visits_is_the_integral(world: RefreshWorld, data: st.DataObject) -> None:
    """From any age, visits in any order."""
    times = data.draw(st.lists(st.floats(0.0, world.horizon_s), max_size=6))
    rows = data.draw(st.lists(st.integers(0, len(world) - 1), min_size=len(times), max_size=len(times)))
    got = visited_staleness(world, np.array(rows, dtype=np.int64), np.array(times))
    for row in range(len(world)):
        mine = sorted(time for time, each in zip(times, rows, strict=True) if each == row)
        assert got[row] == pytest.approx(by_integral(world, row, mine), abs=1e-7)


def by_integral(world: RefreshWorld, row: int, visits: list[float]) -> float:
    rate, total, fresh_at = world.rate[row], 0.0, -world.age_s[row]
    if np.isinf(rate):
        return 1.0
    for begin, end in zip([0.0, *visits], [*visits, world.horizon_s], strict=True):
        fresh_at = begin if begin in visits else fresh_at
        total += quad(lambda t, since=fresh_at: -np.expm1(-rate * (t - since)), begin, end)[0]
    return total / world.horizon_s


@settings(max_examples=100)
@given(small_worlds(budget=False), st.data())
def test_even_visits_are_as_good_as_predicted_and_no_others_are_better(
    world: RefreshWorld, data: st.DataObject
) -> None:
    counts = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(world), max_size=len(world))))
    best = formulas.even_staleness(world, counts)
    rows = np.repeat(np.arange(len(world)), counts)
    ideal = [ideal_times(world.horizon_s, age, x) for age, x in zip(world.age_s, counts, strict=True)]
    said = visited_staleness(world, rows, np.concatenate([*ideal, []]))
    assert said == pytest.approx(best, abs=1e-9)
    other = data.draw(st.lists(st.floats(0.0, world.horizon_s), min_size=len(rows), max_size=len(rows)))
    assert (visited_staleness(world, rows, np.array(other)) >= best - 1e-9).all()


def test_steady_staleness_is_that_of_many_visits() -> None:
    world = RefreshWorld.build([0], [1.3], horizon_s=400.0, politeness_s=1.0)
    times = np.arange(1, 200) * 2.0
    rows = np.zeros(199, dtype=np.int64)
    assert formulas.steady_staleness(1.3, 0.5) == pytest.approx(visited_staleness(world, rows, times)[0])


def test_uniform_beats_proportional_and_the_slow_page_gets_the_visit() -> None:
    """Cho's two pages: nine changes a day and one a day, one visit a day in all."""
    rates = np.array([9.0, 1.0])

    def fresh(visits: list[float]) -> float:
        return 2.0 - float(formulas.steady_staleness(rates, visits).sum())

    assert fresh([0.0, 1.0]) > fresh([0.5, 0.5]) > fresh([0.9, 0.1])
