"""The table of the ten figures says what was measured, what failed, and what was not measured."""

from __future__ import annotations

import pytest

from tests.figures import TARGETS, table


def report(outcome: str, *properties: tuple[str, str]) -> pytest.TestReport:
    made = pytest.TestReport("t", ("t", 0, "t"), {}, "passed", None, "call")
    made.outcome = outcome  # type: ignore[assignment]  # one of three words
    made.user_properties = list(properties)
    return made


def test_counts_are_added_up_and_figures_without_a_report_say_so() -> None:
    lines = list(
        table(
            [
                report("passed", ("figure 2", "1,000 faults: 0 losses")),
                report("passed", ("figure 2", "20 faults: 0 losses")),
            ]
        )
    )
    assert "    measured  1,020 faults: 0 losses" in lines
    assert sum("not measured" in line for line in lines) == len(TARGETS) - 1
    assert len([line for line in lines if "target" in line]) == 10


def test_a_test_that_failed_does_not_count_as_a_measurement() -> None:
    lines = list(table([report("failed", ("figure 3", "5 combinations: 0 forbidden connections"))]))
    assert "    FAILED    5 combinations: 0 forbidden connections" in lines
