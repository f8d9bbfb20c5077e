"""The bound is below what anybody reaches (P3)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.lab.plan import execute_plan
from teia.lab.simulate.bounds import non_polite, steady_optimum, timetable_staleness, weak_politeness
from teia.lab.simulate.measures import visited_staleness
from teia.lab.simulate.slotprice import slot_price
from teia.refresh.formulas import steady_staleness
from teia.refresh.merge import Timetable
from teia.refresh.model import RefreshWorld
from teia.refresh.policies import POLICIES
from tests.refresh.worlds import small_worlds


def made_polite(world: RefreshWorld, table: Timetable) -> tuple[np.ndarray, np.ndarray]:
    """Visits in their order, each when it is due and its server may be asked again; what is too late is not made."""
    rows, times = [], []
    for server in range(world.servers):
        free_s = 0.0
        for visit in range(table.starts[server], table.starts[server + 1]):
            at = max(free_s, float(table.due_s[visit]))
            if at >= world.horizon_s:
                break
            rows.append(int(table.page[visit]))
            times.append(at)
            free_s = at + float(world.politeness_s[server])
    return np.array(rows[: world.budget], dtype=np.int64), np.array(times[: world.budget])


def staleness(world: RefreshWorld, rows: np.ndarray, times: np.ndarray) -> float:
    return float(world.weight @ visited_staleness(world, rows, times))


@settings(max_examples=250)
@given(small_worlds(), st.sampled_from([name for name in POLICIES if name != "m-wolf"]))
def test_no_policy_is_better_than_the_bound(world: RefreshWorld, name: str) -> None:
    """Over the same window from the same ages, exactly."""
    visits = made_polite(world, execute_plan(POLICIES[name].plan(world), world))
    reached = staleness(world, *visits)
    assert weak_politeness(world) <= reached + 1e-12
    assert non_polite(world) <= reached + 1e-12
    if (world.caps("ceil") <= 40).all():
        assert slot_price(world, rounds=4) <= reached + 1e-12


@settings(max_examples=250)
@given(small_worlds(), st.data())
def test_no_schedule_by_chance_is_better_than_the_bound(world: RefreshWorld, data: st.DataObject) -> None:
    """Also such as begin at once, and use every moment that politeness leaves."""
    chance = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows, times = [], []
    for server in range(world.servers):
        pages = np.arange(world.starts[server], world.starts[server + 1])
        at = data.draw(st.sampled_from([0.0, 0.1, 0.5])) * float(world.politeness_s[server])
        while len(pages) and at < world.horizon_s:
            rows.append(int(chance.choice(pages)))
            times.append(at)
            at += float(world.politeness_s[server]) * (1.0 + data.draw(st.sampled_from([0.0, 0.0, 0.3])))
    made = np.array(rows[: world.budget], dtype=np.int64), np.array(times[: world.budget])
    assert weak_politeness(world) <= staleness(world, *made) + 1e-12
    assert slot_price(world, rounds=3) <= staleness(world, *made) + 1e-12


def test_the_slot_price_bound_is_nearly_tight_where_wp_is_loose() -> None:
    """One visit for two pages, slow ones: WP lets all have the middle of the day."""
    chance = np.random.default_rng(1)
    world = RefreshWorld.build(
        np.zeros(60), chance.uniform(0.01, 1, 60) / 86_400, horizon_s=86_400.0, politeness_s=2880.0
    )
    reached = timetable_staleness(world, execute_plan(POLICIES["index"].plan(world), world))
    assert weak_politeness(world) < 0.9 * reached
    assert 0.95 * reached < slot_price(world) < reached


def test_as_printed_wp_is_no_bound() -> None:
    """The trap of floor(T/P): four visits fit where three are counted."""
    world = RefreshWorld.build([0], [0.3], horizon_s=10.0, politeness_s=3.0)
    four = staleness(world, np.zeros(4, dtype=np.int64), np.array([0.5, 3.5, 6.5, 9.5]))
    times = np.array([0.4, 3.4, 6.4, 9.4])
    assert weak_politeness(world) <= min(four, staleness(world, np.zeros(4, dtype=np.int64), times))
    fast = RefreshWorld.build([0], [3.0], horizon_s=10.0, politeness_s=3.0)
    assert staleness(fast, np.zeros(4, dtype=np.int64), np.array([0.5, 3.5, 6.5, 9.5])) < weak_politeness(fast, "floor")


def test_without_any_limit_only_pages_that_always_change_are_stale() -> None:
    world = RefreshWorld.build([0, 0, 1], [1.0, np.inf, 0.5], weight=[2, 1, 1], horizon_s=10.0, politeness_s=[0.0, 5.0])
    assert non_polite(world) == pytest.approx(0.25)
    assert 0.25 < weak_politeness(world) < 0.5


def test_the_steady_optimum_is_what_its_intensities_give() -> None:
    world = RefreshWorld.build([0, 0], [9.0, 1.0], horizon_s=10.0, politeness_s=1.0)
    assert steady_optimum(world) == pytest.approx(float(0.5 * steady_staleness([9.0, 1.0], [0.0, 1.0]).sum()), abs=1e-6)


def test_over_weeks_policies_come_to_the_steady_optimum_and_psp_by_days_does_not() -> None:
    """The last trap in docs/refresh.md, in small: 300 pages on one server, rates per day, P = 600 s, 60 days."""
    chance = np.random.default_rng(1)
    day_s = 86_400.0
    world = RefreshWorld.build(
        np.zeros(300), chance.uniform(0.01, 1, 300) / day_s, horizon_s=60 * day_s, politeness_s=600.0
    )
    optimum = steady_optimum(world)
    late = {
        name: over_the_last_half(world, execute_plan(POLICIES[name].plan(world), world)) for name in ("edf", "index")
    }
    assert late["edf"] == pytest.approx(optimum, rel=0.002)
    assert late["index"] == pytest.approx(optimum, rel=0.002)
    one_day = replace(world, horizon_s=day_s)
    table = POLICIES["psp"].plan(one_day)
    days = np.arange(60) * day_s
    rows = np.tile(np.asarray(table.page), 60)
    times = (days[:, None] + table.due_s).ravel()
    daily = over_the_last_half(world, Timetable(np.array([0, len(rows)]), rows, times))
    assert daily > 1.2 * optimum


def over_the_last_half(world: RefreshWorld, table: Timetable) -> float:
    half = world.horizon_s / 2
    whole = timetable_staleness(world, table)
    early = table.due_s < half
    first = replace(world, horizon_s=half)
    begin = staleness(first, np.asarray(table.page)[early], table.due_s[early])
    return 2 * whole - begin
