"""Wolf's third phase (P5): planned instants, and why even gaps are better where slots are taken."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.errors import UsageError
from teia.lab.simulate.bounds import timetable_staleness
from teia.lab.simulate.transport import evenest_slots, nearest_slots, transport_visits
from teia.refresh.counts import plan_counts
from teia.refresh.formulas import stale_time
from teia.refresh.merge import merge
from teia.refresh.model import DAY_S, RefreshWorld
from teia.refresh.scenario import draw_world

HORIZON, RATE = 12.0, 0.3


def staleness(times: np.ndarray, rate: float = RATE, horizon: float = HORIZON) -> float:
    gaps = np.diff(np.concatenate([[0.0], np.sort(times), [horizon]]))
    return float(stale_time(rate * gaps).sum() / (rate * horizon))


def test_the_papers_picture() -> None:
    """The report's example: a page is planned for T/12, 4T/12, 7T/12 and 10T/12, and just these slots are taken.

    Every slot beside is as near, so Wolf's phase cannot tell situation 2 (pairs, and long gaps between) from the even
    one; freshness can.
    """
    planned = np.array([1.0, 4.0, 7.0, 10.0])
    free = np.array([slot for slot in range(12) if slot not in planned], dtype=float)
    pairs, even = np.array([2.0, 3.0, 8.0, 9.0]), np.array([2.0, 5.0, 8.0, 11.0])
    cost = np.abs(nearest_slots(planned, free) - planned).sum()
    assert np.abs(pairs - planned).sum() == np.abs(even - planned).sum() == cost
    assert staleness(pairs) > 1.1 * staleness(even)
    assert staleness(evenest_slots(RATE, HORIZON, 4, free)) == pytest.approx(staleness(even))


@settings(max_examples=60)
@given(st.sets(st.integers(0, 11), min_size=3, max_size=9), st.integers(1, 3), st.floats(0.05, 2.0))
def test_the_evenest_slots_are_the_best_of_all(free: set[int], count: int, rate: float) -> None:
    slots = np.array(sorted(free), dtype=float)
    best = min(staleness(np.array(chosen_policies), rate) for chosen_policies in itertools.combinations(slots, count))
    planned = np.arange(1, count + 1) * HORIZON / (count + 1)
    assert staleness(evenest_slots(rate, HORIZON, count, slots), rate) == pytest.approx(best)
    assert staleness(nearest_slots(planned, slots), rate) >= best - 1e-12


@settings(max_examples=40)
@given(st.lists(st.floats(0.0, 12.0), min_size=1, max_size=4), st.sets(st.integers(0, 11), min_size=4, max_size=7))
def test_no_other_slots_are_closer_to_the_plan(planned: list[float], free: set[int]) -> None:
    times, slots = np.array(planned), np.array(sorted(free), dtype=float)
    best = min(np.abs(np.array(each) - times).sum() for each in itertools.permutations(slots, len(times)))
    chosen_policies = nearest_slots(times, slots)
    assert len(set(chosen_policies.tolist())) == len(times)
    assert np.abs(chosen_policies - times).sum() == pytest.approx(best)


def one_server(visits: int, seed: int) -> RefreshWorld:
    return draw_world(
        np.random.default_rng(seed), pages=60, servers=1, horizon_s=DAY_S, politeness_s=300.0, rate_unit_s=DAY_S / 4,
        budget=visits,
    )  # fmt: skip


@pytest.mark.parametrize(("visits", "even_gaps_win"), [(288, True), (96, False)])
def test_even_gaps_win_on_a_full_server_and_planned_instants_on_one_with_room(visits: int, even_gaps_win: bool) -> None:
    """P5: with a visit in each of 288 slots MERGE is better, with a third of them Wolf's phase is."""
    ratios = []
    for seed in range(6):
        world = one_server(visits, seed)
        counts = plan_counts(world)
        assert counts.sum() == visits
        wolf = transport_visits(world, counts)
        assert np.diff(wolf.due_s).min() >= 300.0 - 1e-6
        ratios.append(timetable_staleness(world, wolf) / timetable_staleness(world, merge(world, counts, "centred")))
    assert all(ratio > 1.01 for ratio in ratios) if even_gaps_win else all(ratio < 0.99 for ratio in ratios)


def test_more_visits_than_slots_are_refused() -> None:
    with pytest.raises(UsageError, match="3 visits in 2 slots"):
        nearest_slots(np.zeros(3), np.zeros(2))
