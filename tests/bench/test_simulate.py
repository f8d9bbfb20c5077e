"""`teia bench simulate` in small."""

from __future__ import annotations

import pytest

from bench.simulate import measure

pytestmark = pytest.mark.slow


def test_rows_tell_what_a_simulated_day_took() -> None:
    """P2: the size is small here, and the bounds are generous; docs/measured.md has the paper's size."""
    result = measure([2000], ["psp", "edf"], rounds=1, theta=1.0, unit="hour", seed=1, progress=lambda _: None)
    assert [(row["n"], row["policy"]) for row in result["rows"]] == 2 * [(2000, "psp"), (2000, "edf")]
    for row in result["rows"]:
        assert 0.9 * 8.64 * 2000 < row["visits"] <= 8.64 * 2000
        assert 0 < row["simulate_s"] < 20
    fast, plain = result["rows"][:2], result["rows"][2:]
    assert [row["staleness"] for row in fast] == [row["staleness"] for row in plain]
