"""Measures of a simulation, held against draws that know nothing of the formulas (P3)."""

from __future__ import annotations

import numpy as np
import pytest

from teia.lab.simulate.measures import gap_costs


def test_age_is_what_draws_say() -> None:
    """Cho's age: 0 while fresh, else the time since the first change that was missed."""
    chance = np.random.default_rng(3)
    for rate, age_s, visits in ((0.4, 1.5, [2.0, 7.0]), (2.0, 0.0, [1.0, 5.0, 6.0])):
        begins, ends = np.array([0.0, *visits]), np.array([*visits, 10.0])
        ages = np.array([age_s, *[0.0] * len(visits)])
        _, aged = gap_costs(np.full(len(ages), rate), ages, ends - begins)
        total = 0.0
        for begin, end in zip([-age_s, *visits], ends, strict=True):
            change = begin + chance.exponential(1 / rate, 200_000)
            low = np.maximum(change, max(begin, 0.0))
            area = np.where(low < end, ((end - change) ** 2 - (low - change) ** 2) / 2, 0.0)
            total += float(area.mean())
        assert aged.sum() == pytest.approx(total, rel=0.01)


def test_age_of_a_page_that_always_changes_is_the_time_since_its_visit() -> None:
    stale, aged = gap_costs(np.array([np.inf, 0.0]), np.array([2.0, 2.0]), np.array([4.0, 4.0]))
    assert stale.tolist() == [4.0, 0.0]
    assert aged.tolist() == [2.0 * 4.0 + 8.0, 0.0]
