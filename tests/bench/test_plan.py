"""`teia bench plan` in small."""

from __future__ import annotations

import pytest

from bench.plan import measure

pytestmark = pytest.mark.slow


def test_rows_tell_what_planning_took() -> None:
    """P8: the size is small here, and the bounds are generous; docs/measured.md has the paper's size."""
    result = measure([2000, 20_000], rounds=1, theta=1.0, unit="hour", seed=1, progress=lambda _: None)
    assert [row["n"] for row in result["rows"]] == [2000, 20_000]
    for row in result["rows"]:
        assert 0 < row["visits"] <= 8.64 * row["n"]
        assert 0 < row["counts_s"] + row["merge_s"] + row["rates_s"] < 20
        assert row["wp"] < row["inf_crawlers"] < 1
