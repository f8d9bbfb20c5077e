"""`python -m bench.plan_scale` in small, with numpy."""

from __future__ import annotations

from bench.plan_scale import check, measure


def test_results_keep_the_limits() -> None:
    found = measure("cpu", 3000, 40, theta=1.0, unit="hour", octets=4, visits=2.0, rounds=1, seed=1)
    assert found["visits"]["counts"] == 6000
    assert abs(found["over_budget"]["rates"]) < 1e-6
    assert max(found["over_cap"].values()) < 1e-6
    assert 0 < found["rates_passes"] < 60


def test_numbers_are_compared_with_those_of_the_processor() -> None:
    found = check("cpu", 3000, theta=1.0, unit="hour", visits=8.64, seed=1)
    for name in ("modules of the processor", "the same module on numpy"):
        assert found[name]["counts_that_differ"] == 0
        assert found[name]["rates_that_are_zero_only_once"] == 0
        assert found[name]["rates_over_mean"] < 1e-9
