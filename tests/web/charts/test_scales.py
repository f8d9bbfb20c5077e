"""Where values lie, and the round numbers beside them."""

from __future__ import annotations

import pytest

from teia.web.charts.scales import Axis, axis_limits, linear_ticks, log_ticks, pieces, round_up, time_ticks


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 38.2, [0, 10, 20, 30]),
        (0, 1, [0, 0.5, 1]),
        (0.78, 0.9, [0.8, 0.85, 0.9]),
        (0, 1_204_511, [0, 500_000, 1_000_000]),
        (5, 5, [5]),
    ],
)
def test_ticks_are_round_and_inside(low: float, high: float, ticks: list[float]) -> None:
    assert linear_ticks(low, high, 4) == pytest.approx(ticks)


def test_logarithmic_ticks_are_powers_of_ten() -> None:
    assert log_ticks(1, 10_000, 6) == [1, 10, 100, 1_000, 10_000]
    assert log_ticks(0.5, 20, 6) == [1, 10]
    assert len(log_ticks(1e-6, 1e9, 4)) <= 5


def test_ticks_of_time_are_whole_minutes_hours_or_days() -> None:
    noon = 1_700_000_000 // 86_400 * 86_400 + 43_200
    assert time_ticks(noon, noon + 900, 3) == [noon, noon + 300, noon + 600, noon + 900]
    assert all(at % 86_400 == 0 for at in time_ticks(noon, noon + 30 * 86_400, 6))
    assert 3 <= len(time_ticks(noon, noon + 7 * 86_400, 6)) <= 7


def test_a_value_lies_where_it_should() -> None:
    assert Axis(0, 10).position(5, 100, 200) == 150
    assert Axis(0, 10).position(0, 180, 20) == 180, "up is from the bottom"
    assert Axis(1, 100, kind="log").position(10, 0, 100) == 50
    assert Axis(0, 10).position(99, 0, 100) == 100, "nothing is drawn outside"
    assert Axis(3, 3).position(3, 0, 100) == 0


def test_a_line_has_gaps_where_nothing_was_measured() -> None:
    assert pieces([(0, 1), (1, None), (2, 2), (3, 3), (4, None), (5, None)]) == [[(0, 1)], [(2, 2), (3, 3)]]
    assert pieces([]) == []


@pytest.mark.parametrize(("most", "top"), [(38.2, 40), (0.97, 1), (1, 1), (0, 1), (1_204_511, 1_500_000), (7, 8)])
def test_an_axis_from_zero_ends_at_a_round_number(most: float, top: float) -> None:
    assert round_up([None, most, 0]) == pytest.approx(top)


def test_an_axis_that_does_not_begin_at_zero_is_wide_enough() -> None:
    low, high = axis_limits([0.81, 0.82, None], 0.1)
    assert low <= 0.81
    assert high >= 0.82
    assert high - low >= 0.1
    assert axis_limits([1.0, 1.0], 0.1) == (0.9, 1.0)
    assert axis_limits([None], 0.1)[1] == 1.0
