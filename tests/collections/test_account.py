"""How the numbers of a crawl went: bounded, and with gaps where nobody crawled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from teia.collections.account import (
    COARSE_S,
    FINE_S,
    RETENTION_S,
    SeriesPoint,
    SeriesWriter,
    Summary,
    empty_summary,
    forecast_catch_up,
    points_of,
    rates_of,
)
from teia.collections.control_file import CrawlReports


def summary(requests: int, queued: int = 0, fresh: dict[str, float] | None = None) -> Summary:
    return replace(empty_summary("main"), requests=requests, pages=requests // 2, urls_queued=queued, freshness=fresh)


def test_a_series_is_as_long_as_its_time_and_no_longer(tmp_path: Path) -> None:
    control = CrawlReports(tmp_path / "control.sqlite")
    series = SeriesWriter(control)
    for second in range(5_000):
        series.note(summary(second), 1e9 + second)
    fine, coarse = (points_of(control, "main", step_s, 0.0) for step_s in (FINE_S, COARSE_S))
    assert len(fine) == RETENTION_S[FINE_S] / FINE_S + 1
    assert len(coarse) == 9
    assert points_of(control, "other", FINE_S, 0.0) == []
    assert {rate for _, rate in rates_of(fine, FINE_S)} == {1.0}
    assert {rate for _, rate in rates_of(fine, FINE_S, "pages")} <= {0.4, 0.6}
    control.close()


def test_between_two_runs_there_is_a_gap_and_no_rate() -> None:
    points = [
        SeriesPoint(at, n, n, 0, 0, None, None) for at, n in ((0, 0), (5, 50), (10, 0), (15, 20), (300, 40), (305, 45))
    ]
    assert rates_of(points, FINE_S) == [(5, 10.0), (10, None), (15, 4.0), (300, None), (305, 1.0)]
    assert rates_of(points[:1], FINE_S) == []


def test_freshness_is_written_down_once_enough_was_seen_again(tmp_path: Path) -> None:
    control = CrawlReports(tmp_path / "control.sqlite")
    series = SeriesWriter(control)
    few = {"pages": 300, "visited_again": 199, "fresh": 0.9, "fresh_error": 0.1, "best": 0.95, "possible": 0.97}
    series.note(summary(1, fresh=few), 1e9)
    series.note(summary(2, fresh=few | {"visited_again": 200}), 1e9 + 10)
    assert [(point.fresh, point.best, point.possible) for point in points_of(control, "main", FINE_S, 0.0)] == [
        (None, None, None),
        (0.9, 0.95, 0.97),
    ]
    control.close()


def test_known_and_visited_meet_only_if_the_queue_shrinks() -> None:
    def queued(*numbers: int) -> list[SeriesPoint]:
        return [SeriesPoint(10.0 * at, 0, 0, 0, number, None, None) for at, number in enumerate(numbers)]

    shrinking = forecast_catch_up(queued(100, 90, 80))
    assert shrinking is not None
    assert (shrinking.seconds, shrinking.grows_per_s) == (80.0, -1.0)
    growing = forecast_catch_up(queued(10, 30))
    assert growing is not None
    assert (growing.seconds, growing.grows_per_s) == (None, 2.0)
    assert forecast_catch_up(queued(10)) is None
