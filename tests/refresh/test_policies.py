"""The policies by name (P5)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from teia.errors import UsageError
from teia.lab.plan import execute_plan
from teia.lab.simulate.bounds import timetable_staleness, weak_politeness
from teia.refresh.counts import plan_counts
from teia.refresh.merge import Timetable
from teia.refresh.model import RefreshWorld
from teia.refresh.policies import POLICIES, find_policy
from teia.refresh.policy import Intervals
from teia.refresh.scenario import draw_world

DAY_S = 86_400.0
PAPERS = {"psp", "psp-centred", "mp2", "m-wolf", "uniform", "proportional", "cho", "rate-update", "round-robin"}
NAMES = PAPERS | {"edf", "index"}


def drawn(unit_s: float = 3600.0) -> RefreshWorld:
    return draw_world(
        np.random.default_rng(1), pages=1000, servers=5, horizon_s=DAY_S, politeness_s=75.0, rate_unit_s=unit_s,
        budget=8640,
    )  # fmt: skip


def test_every_policy_of_the_paper_and_the_modern_ones_are_there() -> None:
    assert set(POLICIES) >= NAMES
    assert all(find_policy(name).name == name for name in NAMES)


def test_the_message_on_an_unknown_policy_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown policy 'pspp'; did you mean psp\?"):
        find_policy("pspp")


def test_psp_assumes_all_is_fresh_and_its_aged_form_does_not() -> None:
    chance = np.random.default_rng(3)
    world = drawn().with_ages(chance.exponential(DAY_S, 1000))
    fresh, aged = POLICIES["psp"].plan(world), POLICIES["psp-aged"].plan(world)
    assert isinstance(fresh, Timetable)
    assert isinstance(aged, Timetable)
    assert np.bincount(fresh.page, minlength=1000).tolist() == plan_counts(world.with_ages(0.0)).tolist()
    assert timetable_staleness(world, aged) < timetable_staleness(world, fresh)


def test_m_wolf_forgets_politeness_and_mp2_does_not() -> None:
    world = drawn()
    plans = {name: POLICIES[name].plan(world) for name in ("mp2", "m-wolf")}
    per_server = {name: np.diff(plan.starts) for name, plan in plans.items() if isinstance(plan, Timetable)}
    assert (per_server["mp2"] <= world.caps()).all()
    assert (per_server["m-wolf"] > world.caps()).any()
    assert per_server["m-wolf"].sum() == world.budget


def test_intensities_are_as_their_names_say() -> None:
    world = drawn()
    uniform, proportional = POLICIES["uniform"].plan(world), POLICIES["proportional"].plan(world)
    assert isinstance(uniform, Intervals)
    assert isinstance(proportional, Intervals)
    assert np.ptp(uniform.interval_s) == 0
    assert proportional.interval_s * world.rate == pytest.approx(proportional.interval_s[0] * world.rate[0])
    assert (1 / uniform.interval_s).sum() == pytest.approx(8640 / DAY_S)


def test_sampling_goes_where_samples_changed_most() -> None:
    """P5: the budget is for one server only; the one with the fast pages gets it."""
    world = RefreshWorld.build(
        [0] * 40 + [1] * 40, [0.1 / DAY_S] * 40 + [5.0 / DAY_S] * 40, horizon_s=DAY_S, politeness_s=60.0, budget=50
    )
    plan = POLICIES["sampling"].plan(world)
    assert isinstance(plan, Timetable)
    assert np.diff(plan.starts).tolist() == [10, 40]
    assert np.bincount(plan.page, minlength=80)[:40].reshape(10, 4).tolist() == [[1, 0, 0, 0]] * 10


def test_rate_update_reads_changes_and_days() -> None:
    """F2: two changes in three days are 2/3; both are kept between 1 and 10."""
    world = RefreshWorld.build(
        [0, 0, 0], 1.0, changes=[2, 0, 50], age_s=[3 * DAY_S, 20 * DAY_S, 0.0], horizon_s=DAY_S, politeness_s=10.0
    )
    plan = POLICIES["rate-update"].plan(world)
    assert isinstance(plan, Intervals)
    often = 1 / plan.interval_s
    assert often / often[0] * (2 / 3) == pytest.approx([2 / 3, 0.1, 10.0])
    assert POLICIES["rate-update"].renew_s == DAY_S


@pytest.mark.parametrize("unit_s", [3600.0, DAY_S])
def test_on_one_day_edf_and_index_beat_psp_and_nobody_the_bound(unit_s: float) -> None:
    world = replace(drawn(unit_s), budget=None)
    reached = {
        name: timetable_staleness(world, execute_plan(POLICIES[name].plan(world), world))
        for name in ("psp-centred", "edf", "index", "round-robin", "uniform", "proportional")
    }
    assert weak_politeness(world) < min(reached.values())
    assert max(reached["edf"], reached["index"]) < reached["psp-centred"] < reached["round-robin"]
