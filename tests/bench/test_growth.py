"""`python -m bench.growth`: exponents of known curves, and the figures of docs/measured.md."""

from __future__ import annotations

import json

import pytest

from bench.growth import RESULTS, exponent, figure, rows_of
from tests.conventions.tree import ROOT


def test_the_exponent_of_a_power_is_found_and_small_sizes_do_not_count() -> None:
    rows = [{"urls": 10**power, "cpu_us_a_link": 2.0 * 10 ** (0.3 * power)} for power in range(5, 9)]
    assert exponent([{"urls": 10, "cpu_us_a_link": 500.0}, *rows], "urls", "cpu_us_a_link") == pytest.approx(0.3)
    assert exponent(rows[:2], "urls", "cpu_us_a_link") is None


def test_rows_of_several_runs_are_put_in_order() -> None:
    run = {"links_per_s_at_the_end": 5, "cpu_us_at_the_end": 9.0, "rss_mb": 8, "reopen_s": 0.1, "filled": 0}
    first = {"urls": 300, "growth": [{"urls": 100, "cpu_us_a_link": 7.0}], **run}
    rows = rows_of([{"rows": [{"hosts": 50}, {"hosts": 10}]}, {"urls": 9_000, "growth": [], **run}, first])
    assert [row["urls"] for row in rows["urls"]] == [100, 300, 9_000]
    assert [row["hosts"] for row in rows["hosts"]] == [10, 50]


def test_the_document_has_the_saved_exponents_and_the_plot() -> None:
    saved = json.loads(RESULTS.read_text("utf-8"))
    text = (ROOT / "docs" / "measured.md").read_text("utf-8")
    drawn = figure(saved["rows"], saved["exponents"])
    assert "(growth.svg)" in text
    assert len(drawn.series) >= 3
    for kind, costs in saved["exponents"].items():
        for cost, slope in costs.items():
            assert slope == exponent(saved["rows"][kind], kind, cost)
            assert slope is None or f"{slope:.2f}" in text, (kind, cost)
