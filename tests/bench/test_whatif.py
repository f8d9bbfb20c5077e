"""`python -m bench.whatif`: its table, and what it calls a failure; the predictions are in tests/lab/whatif."""

from __future__ import annotations

from bench.whatif import CASES, WhatIfPoint, table

POINTS = [
    WhatIfPoint("skewed", "delay 2700 s", "fresh", 0.88, 0.86, 0.90, 0.89),
    WhatIfPoint("skewed", "delay 2700 s", "requests a day", 128.0, 127.0, 129.0, 120.0),
]


def test_there_are_three_webs() -> None:
    assert list(CASES) == ["skewed", "uniform", "mix"]
    assert len({case.world["hosts"] for case in CASES.values()}) == 3


def test_a_table_names_the_largest_error_and_how_many_intervals_held() -> None:
    text = table(POINTS, 8.0, 1)
    assert "| skewed | delay 2700 s | fresh | 0.8800 | 0.8600 to 0.9000 | 0.8900 | -1.1% | yes |" in text
    assert "| requests a day | 128.0 | 127.0 to 129.0 | 120.0 | +6.7% | no |" in text
    assert "largest error is +6.7% (skewed, delay 2700 s, requests a day); 50% of 2 intervals hold the truth" in text
