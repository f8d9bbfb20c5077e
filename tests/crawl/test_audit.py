"""The fetch log replayed: early requests are found, and a changed delay raises no false alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.config import CourtesySettings
from teia.crawl.audit import audit_politeness
from teia.frontier.ledger import InForce
from teia.store.fetchlog import FetchRow, LogPart
from teia.store.sql import FetchLog

START_S = 1_700_000_000.0


def row(at_s: float, rest_s: float | None, host: str = "a.test", kind: str = "page") -> FetchRow:
    return FetchRow(
        started=START_S + at_s,
        ended=START_S + at_s + 0.1,
        url=f"http://{host}/{at_s}",
        host=host,
        site=host,
        outcome="200",
        kind=kind,
        address="127.77.0.1",
        rest_s=rest_s,
    )


def violations(folder: Path, rows: list[FetchRow], *history: InForce, delay_s: float = 5.0, per_host: int = 1) -> int:
    courtesy = CourtesySettings(delay_s=delay_s, per_host=per_host)
    with FetchLog([LogPart(folder, 0, [row(-100, None, kind="robots"), *rows])]) as log:
        return audit_politeness(log, courtesy, history).violations


def test_a_request_before_its_hosts_rest_was_over_is_found(tmp_path: Path) -> None:
    assert violations(tmp_path, [row(0, None), row(5.2, 5.0)]) == 0
    assert violations(tmp_path, [row(0, None), row(3.0, 5.0)]) == 2, "early for its host and for its address"


def test_another_name_of_the_address_owes_it_our_own_delay(tmp_path: Path) -> None:
    other = [row(0, None), row(-50, None, "b.test", "robots"), row(3.0, None, "b.test")]
    assert violations(tmp_path, other) == 1


@pytest.mark.parametrize(("second_at_s", "expected"), [(0.6, 0), (0.3, 2)])
def test_requests_of_a_time_with_a_shorter_delay_owe_that(tmp_path: Path, second_at_s: float, expected: int) -> None:
    """The delay was half a second until it was made five: what came before is judged by the half."""
    history = [InForce(START_S - 1000, 0.5, 1), InForce(START_S + 60, 5.0, 1)]
    rows = [row(0, None), row(second_at_s, 0.5), row(70, 5.0), row(75.2, 5.0)]
    assert violations(tmp_path, rows, *history) == expected


def test_after_the_delay_was_made_longer_the_longer_one_is_owed(tmp_path: Path) -> None:
    history = [InForce(START_S - 1000, 0.5, 1), InForce(START_S + 60, 5.0, 1)]
    assert violations(tmp_path, [row(70, None), row(71, 0.5)], *history) == 1


def test_across_a_change_the_shorter_of_the_two_is_owed(tmp_path: Path) -> None:
    history = [InForce(START_S - 1000, 5.0, 1), InForce(START_S + 2, 0.5, 1)]
    assert violations(tmp_path, [row(0, None), row(2.5, 0.5)], *history) == 0


def test_nothing_is_owed_while_several_at_once_were_allowed(tmp_path: Path) -> None:
    history = [InForce(START_S - 1000, 5.0, 4), InForce(START_S + 60, 5.0, 1)]
    assert violations(tmp_path, [row(0, 5.0), row(0.01, 5.0), row(0.02, 5.0)], *history) == 0
    assert violations(tmp_path, [row(70, 5.0), row(71, 5.0)], *history) == 2
    assert violations(tmp_path, [row(0, 5.0), row(0.01, 5.0)], per_host=4) == 0
