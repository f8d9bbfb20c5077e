"""The table of the ten figures says what was measured and when, what failed, and what was never measured."""

from __future__ import annotations

import pytest

from tests.figures import TARGETS, Measured, table, with_reports

DAY, LATER = "2026-11-17", "2026-11-18"


def report(test: str, outcome: str, *properties: tuple[str, str]) -> pytest.TestReport:
    made = pytest.TestReport(test, ("t", 0, "t"), {}, "passed", None, "call")
    made.outcome = outcome  # type: ignore[assignment]  # one of three words
    made.user_properties = list(properties)
    return made


def measured_by(*reports: pytest.TestReport) -> Measured:
    return with_reports({}, reports, DAY)


def test_counts_are_added_up_and_figures_without_a_report_say_so() -> None:
    measured = measured_by(
        report("a", "passed", ("figure 2", "1,000 faults: 0 losses")),
        report("b", "passed", ("figure 2", "20 faults: 0 losses")),
    )
    lines = list(table(measured))
    assert f"    measured  {DAY}  1,020 faults: 0 losses" in lines
    assert sum("not measured" in line for line in lines) == len(TARGETS) - 1
    assert len([line for line in lines if "target" in line]) == 10


def test_a_test_that_failed_does_not_count_as_a_measurement() -> None:
    lines = list(table(measured_by(report("a", "failed", ("figure 3", "5 combinations: 0 forbidden connections")))))
    assert f"    FAILED    {DAY}  5 combinations: 0 forbidden connections" in lines


def test_a_later_run_takes_the_place_of_the_same_test_alone() -> None:
    saved = measured_by(
        report("a", "passed", ("figure 5", "77 fetches: 0 early"), ("figure 9", "20 faults: 0 lost")),
        report("b", "passed", ("figure 5", "50 fetches: 0 early")),
    )
    again = with_reports(saved, [report("a", "passed", ("figure 5", "400 fetches: 0 early"))], LATER)
    lines = list(table(again))
    assert f"    measured  {DAY}  50 fetches: 0 early" in lines
    assert f"    measured  {LATER}  400 fetches: 0 early" in lines
    assert not [line for line in lines if "77 fetches" in line or "20 faults" in line]


def test_a_test_that_fails_before_it_says_anything_takes_its_earlier_figure_away() -> None:
    saved = measured_by(report("a", "passed", ("figure 1", "1,000 kills: 0 lost")))
    lines = list(table(with_reports(saved, [report("a", "failed")], LATER)))
    assert f"    FAILED    {LATER}  1,000 kills: 0 lost" in lines
    assert not [line for line in lines if "measured  2026" in line]
