"""P7: three renewal processes with the right means, and a history that does not depend on who asks."""

from __future__ import annotations

from itertools import pairwise
from math import exp
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.lab.world.change import PARETO, POISSON, REGULAR, ChangeHistories
from teia.lab.world.spec import ChangesSpec


def _changes(**values: object) -> ChangeHistories:
    return ChangeHistories(ChangesSpec(**values), seed=1, pages=10_000)  # type: ignore[arg-type]  # each test names its own


def test_processes_have_the_shares_of_wolfs_mix() -> None:
    changes = _changes()
    kinds = [changes.change_process(0, slot).process for slot in range(20_000)]
    assert kinds.count(POISSON) / 20_000 == pytest.approx(0.6, abs=0.015)
    assert kinds.count(PARETO) / 20_000 == pytest.approx(0.3, abs=0.015)
    assert kinds.count(REGULAR) / 20_000 == pytest.approx(0.1, abs=0.01)


def test_rates_are_uniform_by_default() -> None:
    rates = [_changes().change_process(0, slot).rate_per_day for slot in range(10_000)]
    assert min(rates) >= 0.01
    assert max(rates) <= 1.0
    assert fmean(rates) == pytest.approx(0.505, abs=0.01)


def test_zipf_rates_are_mostly_slow() -> None:
    rates = sorted(_changes(rates="zipf:1", slowest=0.0).change_process(0, slot).rate_per_day for slot in range(5_000))
    assert rates[2_500] == pytest.approx(1 / 5_000, rel=0.1)
    assert rates[-1] > 0.05


def test_hosts_may_change_at_different_paces() -> None:
    spread = ChangeHistories(ChangesSpec(host_spread=8.0), 1, 1_000)
    alike = ChangeHistories(ChangesSpec(), 1, 1_000)
    paces = [
        spread.change_process(host, 1).rate_per_day / alike.change_process(host, 1).rate_per_day for host in range(50)
    ]
    assert 1 / 8 <= min(paces) < 0.3
    assert 3 < max(paces) <= 8
    assert spread.change_process(7, 2).rate_per_day == pytest.approx(paces[7] * alike.change_process(7, 2).rate_per_day)


def test_poisson_gaps_are_exponential() -> None:
    changes = _changes(pareto=0.0, regular=0.0, slowest=1.0, fastest=1.0)
    unchanged = sum(changes.state(1, slot, 1.0).version == 0 for slot in range(10_000))
    assert unchanged / 10_000 == pytest.approx(exp(-1), abs=0.02)
    assert fmean(changes.state(1, slot, 40.0).version for slot in range(2_000)) == pytest.approx(40, rel=0.02)


def test_pareto_gaps_have_the_mean_of_their_rate_and_a_smallest_gap() -> None:
    changes = _changes(poisson=0.0, regular=0.0, slowest=1.0, fastest=1.0, pareto_shape=3.0)
    gaps = []
    for slot in range(300):
        times = [0.0, *(days for days, _ in changes.events(1, slot, 100.0))]
        gaps += [later - earlier for earlier, later in pairwise(times)]
    assert fmean(gaps) == pytest.approx(1.0, rel=0.03)
    assert min(gaps) >= 2 / 3


def test_regular_gaps_stay_near_their_period() -> None:
    changes = _changes(poisson=0.0, pareto=0.0, slowest=0.5, fastest=0.5)
    times = [days for days, _ in changes.events(0, 7, 200.0)]
    assert times[0] <= 2.0
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert all(1.8 <= gap <= 2.2 for gap in gaps)
    assert len(times) == pytest.approx(100, abs=2)


def test_cosmetic_changes_have_their_share() -> None:
    changes = _changes(cosmetic=0.3)
    events = [meaningful for slot in range(200) for _, meaningful in changes.events(0, slot, 100.0)]
    assert 1 - fmean(events) == pytest.approx(0.3, abs=0.02)


@given(slot=st.integers(0, 10**9), days=st.lists(st.floats(0, 400), min_size=1, max_size=8))
def test_state_is_what_the_events_say_in_any_order_of_questions(slot: int, days: list[float]) -> None:
    changes = _changes()
    for instant in days:
        events = list(_changes().events(3, slot, instant))
        state = changes.state(3, slot, instant)
        assert state.version == len(events)
        assert state.meaningful == sum(meaningful for _, meaningful in events)
        began = -changes.change_process(3, slot).age
        assert state.changed == (events[-1][0] if events else began)
        assert state.rewritten == max((when for when, meaningful in events if meaningful), default=began)


def test_a_full_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.lab.world.change._REMEMBERED_PAGES", 3)
    changes, fresh = _changes(), _changes()
    for slot in range(20):
        assert changes.state(0, slot, 300.0) == fresh.state(0, slot, 300.0)
    assert [changes.state(0, slot, 200.0) for slot in range(20)] == [_changes().state(0, s, 200.0) for s in range(20)]


def test_nothing_has_changed_at_the_epoch_or_before() -> None:
    changes = _changes()
    assert changes.state(0, 5, 0.0).version == changes.state(0, 5, -3.0).version == 0
    assert changes.state(0, 5, 0.0).changed < 0
    assert list(changes.events(0, 5, 0.0)) == []


def test_pages_of_rate_zero_never_change() -> None:
    changes = _changes(slowest=0.0, fastest=0.0)
    assert changes.state(0, 1, 1e6).version == 0
    assert list(changes.events(0, 1, 1e6)) == []
