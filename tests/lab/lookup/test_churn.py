"""Look-ups while nodes come and go, by Chord's messages and by the table of members (A2)."""

from __future__ import annotations

import pytest

from teia.lab.lookup.churn import LOOK_UPS_PER_S, measure_churn


def test_short_lives_cost_look_ups_and_both_ways_lose_some() -> None:
    calm, busy = (measure_churn(16, lifetime_s, 60, seed=5) for lifetime_s in (1e9, 40.0))
    assert calm.look_ups == busy.look_ups == 60 * LOOK_UPS_PER_S
    assert (calm.right, calm.right_by_table, calm.late_s) == (calm.look_ups, calm.look_ups, 0.0)
    assert 0 < busy.right < busy.look_ups
    assert 0 < busy.right_by_table < busy.look_ups
    assert busy.late_s > 0, "silent points are waited for"
    assert calm.messages > 0
    assert busy.right <= busy.ended < busy.look_ups, "look-ups that fail have no hops and no waits to count"
    assert measure_churn(16, 40.0, 60, seed=5) == busy, "equal seeds give equal runs"


def test_messages_are_those_of_the_measured_seconds() -> None:
    """Twice the time has as many messages a second: the minute in which the last look-ups end does not count."""
    short, long = (measure_churn(16, 1e9, seconds, seed=5).messages for seconds in (40, 80))
    assert short == pytest.approx(long, rel=0.15)
