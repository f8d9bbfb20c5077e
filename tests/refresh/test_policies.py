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
from teia.refresh.policy import Intervals, Policy
from teia.refresh.scenario import draw_world

DAY_S = 86_400.0
PAPERS = {"psp", "psp-centred", "mp2", "m-wolf", "uniform", "proportional", "cho", "rate-update", "round-robin"}
NAMES = PAPERS | {"edf", "index", "azar", "lambda-crawl", "ebr", "sampling", "user-centric"}


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


def cycle(changed: list[int], *, rates: float | list[float] = 1.0, now_s: float = 7_200.0) -> RefreshWorld:
    """Two servers of 40 pages, two hours after the first sample; so many pages of each sample were found changed."""
    world = RefreshWorld.build(
        np.repeat([0, 1], 40), np.repeat(rates, 80 // np.size(rates)) / DAY_S, horizon_s=DAY_S, politeness_s=60.0,
        budget=24 * 15,
    )  # fmt: skip
    first = POLICIES["sampling"].plan(replace(world, budget=None))
    assert isinstance(first, Timetable)
    age_s, ago_s = np.full(80, now_s), np.full(80, np.inf)
    for server, number in enumerate(changed):
        sample = first.page[first.starts[server] : first.starts[server + 1]]
        age_s[sample] = now_s - 1_800.0
        ago_s[sample[:number]] = now_s - 1_800.0
    return replace(world.with_ages(age_s), changed_ago_s=ago_s, now_s=now_s)


def test_sampling_visits_a_new_random_sample_of_each_server_every_cycle() -> None:
    """P5, Cho and Ntoulas: ten pages of each server in the first hour, others the day after."""
    world = cycle([0, 0], now_s=DAY_S)
    plans = [POLICIES["sampling"].plan(replace(world, now_s=day * DAY_S, budget=None)) for day in (0, 1, 2)]
    samples = [frozenset(plan.page.tolist()) for plan in plans if isinstance(plan, Timetable)]
    assert [np.diff(plan.starts).tolist() for plan in plans if isinstance(plan, Timetable)] == [[10, 10]] * 3
    assert len(set(samples)) == 3


@pytest.mark.parametrize(("changed", "visits"), [([2, 7], [0, 15]), ([7, 2], [15, 0]), ([0, 0], [0, 0])])
def test_sampling_goes_where_samples_changed_most(changed: list[int], visits: list[int]) -> None:
    """P5: the results of visits decide, not the rates, which say the opposite of the first case here."""
    world = cycle(changed, rates=[50.0, 0.1])
    plan = POLICIES["sampling"].plan(world)
    assert isinstance(plan, Timetable)
    assert np.diff(plan.starts).tolist() == visits
    assert (world.age_s[plan.page] == world.now_s).all()  # a page is visited once in a cycle
    assert plan.due_s.max(initial=0.0) < 3_600.0


def test_a_server_waits_for_its_whole_sample() -> None:
    world = cycle([9, 9])
    late = np.flatnonzero(world.age_s < world.now_s)[0]
    plan = POLICIES["sampling"].plan(world.with_ages(np.where(np.arange(80) == late, world.now_s, world.age_s)))
    assert isinstance(plan, Timetable)
    assert plan.page[: plan.starts[1]].tolist() == [late]
    assert np.diff(plan.starts).tolist() == [1, 14]


def one_server(weight: list[float] | None = None, **more: object) -> RefreshWorld:
    rate = np.array([0.5, 1.0, 2.0, 4.0]) / DAY_S
    return RefreshWorld.build(
        [0] * 4, rate, weight=weight or [4.0, 3.0, 2.0, 1.0], horizon_s=DAY_S, politeness_s=DAY_S / 8, **more
    )  # type: ignore[arg-type]


def test_azar_has_the_closed_form_of_random_visits() -> None:
    """P5, Azar and others (2018): rho = sqrt(w lam) (B + sum lam)/sum sqrt(w lam) - lam."""
    world = one_server()
    plan = POLICIES["azar"].plan(world)
    root = np.sqrt(world.weight * world.rate)
    best = root * (8 / DAY_S + world.rate.sum()) / root.sum() - world.rate
    assert isinstance(plan, Intervals)
    assert 1 / plan.interval_s == pytest.approx(best, rel=1e-6)
    assert 1 / plan.interval_for(0, world.weight[1], world.rate[1]) == pytest.approx(best[1], rel=1e-6)


def test_lambda_crawl_gives_up_no_page() -> None:
    """P5, Kolobov and others (2019): rho (rho + lam) is in proportion to w lam, for pages that edf gives up too."""
    world = replace(one_server(), rate=np.array([0.5, 1.0, 2.0, 4000.0]) / DAY_S)
    plans = {name: POLICIES[name].plan(world) for name in ("lambda-crawl", "edf")}
    often = {name: 1 / plan.interval_s for name, plan in plans.items() if isinstance(plan, Intervals)}
    spent = often["lambda-crawl"] * (often["lambda-crawl"] + world.rate) / (world.weight * world.rate)
    assert spent == pytest.approx(spent[0], rel=1e-6)
    assert often["lambda-crawl"][3] > 0 == often["edf"][3]


def test_ebr_counts_pages_by_what_searchers_click() -> None:
    """P5: by given clicks, or by those that a page of its importance is expected to have; edf does not read them."""
    known, weighed = one_server(clicks=[1.0, 1.0, 5.0, 1.0]), one_server([1.0, 1.0, 5.0, 1.0])
    ebr, edf = POLICIES["ebr"], POLICIES["edf"]
    assert plan_intervals(ebr, known) == pytest.approx(plan_intervals(edf, weighed))
    assert plan_intervals(edf, known) == pytest.approx(plan_intervals(edf, one_server()))
    expected = one_server([4.0**2.25, 3.0**2.25, 2.0**2.25, 1.0])
    assert plan_intervals(ebr, one_server()) == pytest.approx(plan_intervals(edf, expected))


def plan_intervals(policy: Policy, world: RefreshWorld) -> list[float]:
    plan = policy.plan(world)
    assert isinstance(plan, Intervals)
    return plan.interval_s.tolist()


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
