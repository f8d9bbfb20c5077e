"""`python -m bench.calibration` in small: the truth lies inside the interval of the estimate (P3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.calibration import (
    AGES,
    CASES,
    CalibrationCase,
    CalibrationPoint,
    WebSize,
    run_case,
    summarize,
    table,
)

SMALL = WebSize(pages=160, hosts=8, seed=2)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "case",
    [CalibrationCase("Wolf's mix", "lying", "slow"), CalibrationCase("Poisson", "honest", "fast", "sitemaps")],
    ids=lambda case: case.name,
)
def test_the_truth_is_inside_where_servers_lie_and_where_sitemaps_choose_the_visits(case: CalibrationCase) -> None:
    """Rates and intervals by visits alone are wrong in the first days: 95% ± 3.3 where 91% are fresh, 67% for 74%."""
    for point in run_case(case, SMALL, ages=(1.0, 2.0)):
        assert point.is_inside, point
        assert abs(point.difference) <= 0.05
        assert 0.02 < point.error < 0.1


def test_there_are_twelve_webs_at_three_ages() -> None:
    assert len(set(CASES)) == 12
    assert AGES == (1.0, 3.0, 10.0)
    for name in ("process", "validators", "speed", "sitemaps"):
        assert len({getattr(case, name) for case in CASES}) == 2


def test_a_summary_says_what_is_not_reached() -> None:
    good = [CalibrationPoint(case, age, 0.8, 0.81, 0.02) for case in CASES for age in AGES]
    assert summarize(good).is_reached
    assert not summarize(good, kept=0.9).is_reached
    assert not summarize([replace(point, error=0.005) for point in good]).is_reached
    assert not summarize([replace(point, estimate=0.83, error=0.1) for point in good]).is_reached
    worst = [replace(point, estimate=0.9) if point.case == CASES[3] else point for point in good]
    assert summarize(worst).worst == CASES[3].name
    assert not summarize(worst).is_reached
    assert "| Poisson, lying, slow | 1 | 80.0 | 90.0 | 2.0 | +10.0 | no |" in table(worst, SMALL, (0.8, 0.78))
