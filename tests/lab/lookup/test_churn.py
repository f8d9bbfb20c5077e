"""Look-ups while nodes come and go, by Chord's messages and by the table of members (A2)."""

from __future__ import annotations

from teia.lab.lookup.churn import LOOK_UPS_PER_S, measure_churn


def test_short_lives_cost_look_ups_and_both_ways_lose_some() -> None:
    calm, busy = (measure_churn(16, lifetime_s, 60, seed=5) for lifetime_s in (1e9, 40.0))
    assert calm.look_ups == busy.look_ups == 60 * LOOK_UPS_PER_S
    assert (calm.right, calm.right_by_table, calm.late_s) == (calm.look_ups, calm.look_ups, 0.0)
    assert 0 < busy.right < busy.look_ups
    assert 0 < busy.right_by_table < busy.look_ups
    assert busy.late_s > 0, "silent points are waited for"
    assert calm.messages > 0
    assert measure_churn(16, 40.0, 60, seed=5) == busy, "equal seeds give equal runs"
