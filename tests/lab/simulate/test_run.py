"""Policies carried out for days (P2, P5): staleness, age, drawn changes, and what a horizon of one day does to PSP."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.clock import VirtualClock
from teia.errors import UsageError
from teia.lab.simulate.bounds import compute_bounds, inf_crawlers, steady_optimum, timetable_staleness, weak_politeness
from teia.lab.simulate.measures import Lateness, Window, visited_staleness
from teia.lab.simulate.run import PolicyResult, SimulationSettings, simulate
from teia.lab.simulate.timeline import Visits
from teia.refresh.model import DAY_S, Crawlers, RefreshWorld
from teia.refresh.policies import POLICIES
from teia.refresh.policy import Plan
from teia.refresh.scenario import draw_world
from tests.refresh.worlds import small_worlds


def drawn(pages: int = 1000, servers: int = 5, *, politeness_s: float = 75.0, unit_s: float = 3600.0) -> RefreshWorld:
    return draw_world(
        np.random.default_rng(1), pages=pages, servers=servers, horizon_s=DAY_S, politeness_s=politeness_s,
        rate_unit_s=unit_s, budget=int(8.64 * pages),
    )  # fmt: skip


def execute_plan(world: RefreshWorld, name: str, days: float = 1.0, **settings: object) -> tuple[PolicyResult, Visits]:
    parts: list[Visits] = []
    outcome = simulate(
        world, POLICIES[name], SimulationSettings(days * DAY_S, **settings), VirtualClock(0.0), on_visits=parts.append
    )  # type: ignore[arg-type]
    return outcome, Visits(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


@pytest.mark.parametrize("name", ["psp", "edf", "rate-update"])
@pytest.mark.parametrize("days", [1.0, 2.5])
def test_staleness_and_age_are_those_of_the_visits_that_were_made(name: str, days: float) -> None:
    """P3: measured day by day, and the same as over all visits at once, from the formula for any visits."""
    world = drawn(200)
    outcome, visits = execute_plan(world, name, days)
    whole = replace(world, horizon_s=days * DAY_S)
    assert outcome.visits == len(visits.page)
    assert outcome.staleness == pytest.approx(
        float(world.weight @ visited_staleness(whole, visits.page, visits.time_s)), abs=1e-12
    )
    at_once, last_s = Window(whole, 0.0), -whole.age_s
    at_once.add(visits)
    np.maximum.at(last_s, visits.page, visits.time_s)
    assert outcome.age_s == pytest.approx(at_once.close(last_s, days * DAY_S)[1])
    assert len(outcome.by_day) == math.ceil(days)


def test_drawn_changes_come_to_what_was_expected() -> None:
    """A run with drawn changes is one sample; its pages are thousands, so it is close."""
    outcome, _ = execute_plan(drawn(4000, 8), "edf", 2, sampled=True)
    assert outcome.sampled == pytest.approx(outcome.staleness, abs=0.006)


def test_wolfs_mix_is_not_what_a_poisson_page_would_do() -> None:
    """P7: bursts and silences leave copies fresh for longer than independent changes with the same mean rate."""
    world = drawn(4000, 8)
    poisson, _ = execute_plan(world, "edf", 2, sampled=True)
    mix, _ = execute_plan(world, "edf", 2, sampled=True, process="mix")
    assert mix.staleness == poisson.staleness
    assert mix.sampled is not None
    assert abs(mix.sampled - mix.staleness) > 0.01


def test_the_same_seed_gives_the_same_run_and_another_does_not() -> None:
    world = drawn(200)
    one, again, other = (execute_plan(world, "rate-update", 3, sampled=True, seed=seed) for seed in (1, 1, 2))
    assert one[0].sampled == again[0].sampled != other[0].sampled
    assert one[1].time_s.tolist() == again[1].time_s.tolist()
    assert one[1].page.tolist() != other[1].page.tolist()


@settings(max_examples=80)
@given(small_worlds(), st.sampled_from(sorted(POLICIES)), st.builds(Crawlers, st.integers(1, 3), st.just(2.0)))
def test_nobody_beats_the_bounds(world: RefreshWorld, name: str, crawlers: Crawlers) -> None:
    """P3: WP is below every policy, from the same ages over the same time, also when crawlers limit it."""
    most = int(crawlers.visits_per_s * world.horizon_s)
    world = replace(world, crawlers=crawlers, budget=most if world.budget is None else min(world.budget, most))
    outcome = simulate(world, POLICIES[name], SimulationSettings(world.horizon_s), VirtualClock(0.0))
    assert weak_politeness(world) <= outcome.staleness + 1e-9


def test_nobody_beats_the_slot_price_bound_either() -> None:
    world = drawn(60, 2, politeness_s=900.0)
    bounds = compute_bounds(world, DAY_S)
    best = min(execute_plan(world, name)[0].staleness for name in ("psp", "edf", "index"))
    assert bounds["non_polite"] <= bounds["wp"] < bounds["slot_price"] <= best


def test_with_crawlers_to_spare_a_timetable_is_carried_out_as_it_is() -> None:
    """P3: that is what InfCrawlers is. The centred plan is polite, so nothing ever waits."""
    world = replace(drawn(), crawlers=Crawlers(50, 100.0))
    outcome, _ = execute_plan(world, "psp-centred")
    assert outcome.staleness == pytest.approx(timetable_staleness(world, POLICIES["psp-centred"].plan(world)), abs=1e-4)
    assert outcome.lateness.quantile_s(0.99) < 1.0
    assert inf_crawlers(world, DAY_S) == pytest.approx(timetable_staleness(world, POLICIES["psp"].plan(world)))


def test_the_papers_four_observations_hold_on_a_small_world() -> None:
    """P6, rates per hour: PSP below MP2 and M-Wolf, next to InfCrawlers, near WP."""
    world = replace(drawn(4000, 8, politeness_s=15.0), crawlers=Crawlers(10, 0.04))
    psp, mp2, wolf = (execute_plan(world, name)[0].staleness for name in ("psp", "mp2", "m-wolf"))
    bounds = compute_bounds(world, DAY_S)
    assert bounds["wp"] < psp < mp2 < wolf
    assert psp < 1.005 * bounds["inf_crawlers"]
    assert psp < 1.06 * bounds["wp"]


@pytest.mark.parametrize(
    ("politeness_s", "unit_s", "days"), [(75.0, DAY_S, 30), (600.0, DAY_S, 60), (75.0, 3600.0, 20)]
)
def test_over_weeks_the_live_policy_reaches_the_optimum(politeness_s: float, unit_s: float, days: int) -> None:
    """Within 0.2% of the best that is possible in the long run, with rates known, for 20 days or more."""
    world = drawn(2000, 10, politeness_s=politeness_s, unit_s=unit_s)
    best = steady_optimum(world)
    for name in ("edf", "index"):
        outcome, _ = execute_plan(world, name, days)
        assert best * 0.998 < outcome.second_half_staleness < best * 1.002


def test_psp_every_day_gives_pages_up_and_from_actual_ages_it_does_not() -> None:
    """The trap that matters: "all is fresh at the beginning" is true once."""
    world = drawn(2000, 10, politeness_s=600.0, unit_s=DAY_S)
    psp, aged, robin, best = (execute_plan(world, name, 30)[0] for name in ("psp", "psp-aged", "round-robin", "edf"))
    assert psp.second_half_staleness > 1.4 * best.second_half_staleness
    assert psp.second_half_staleness > robin.second_half_staleness
    assert aged.second_half_staleness < 1.2 * best.second_half_staleness
    assert psp.by_day == sorted(psp.by_day)


def test_every_pair_of_policies_makes_different_visits() -> None:
    """P5, P9: on servers of unequal size, with delays and a budget that bind, each policy is itself."""
    world = draw_world(
        np.random.default_rng(1), pages=200, servers=6, horizon_s=DAY_S, politeness_s=900.0, rate_unit_s=DAY_S,
        weights="zipf:1", budget=300,
    )  # fmt: skip
    made = {name: execute_plan(world, name, 2)[1] for name in POLICIES}
    rows = {name: [*visits.page.tolist(), *visits.time_s.tolist()] for name, visits in made.items()}
    assert [pair for pair in combinations(rows, 2) if rows[pair[0]] == rows[pair[1]]] == []
    assert min(map(len, rows.values())) > 2 * 200


def test_ebr_has_the_least_embarrassment_and_edf_the_least_staleness() -> None:
    """P5: clicks fall with the weight here, so that pages which matter to one matter little to the other."""
    world = drawn(500, 5, politeness_s=300.0, unit_s=DAY_S)
    chance = np.random.default_rng(2)
    world = replace(world, weight=chance.dirichlet(np.ones(500)), clicks=chance.dirichlet(np.full(500, 0.2)))
    found = {name: execute_plan(world, name, 12)[0] for name in ("ebr", "edf", "azar", "round-robin", "user-centric")}
    assert min(found, key=lambda name: found[name].embarrassment) == "ebr"
    assert min(found, key=lambda name: found[name].staleness) == "edf"
    assert found["ebr"].embarrassment < 0.8 * found["edf"].embarrassment


@pytest.mark.parametrize("name", ["psp", "edf", "index", "azar"])
def test_a_plan_that_counts_large_pages_keeps_more_of_the_store_fresh(name: str) -> None:
    """P1: sizes from 2 kB to 14 GB, servers of three speeds, crawlers of two; against a plan that ignores sizes."""
    chance = np.random.default_rng(1)
    world = RefreshWorld.build(
        chance.integers(0, 3, 300), chance.uniform(0.03, 3.0, 300) / 3600, weight=chance.uniform(1, 3, 300),
        horizon_s=DAY_S, politeness_s=60.0, size_bytes=chance.lognormal(14.0, 2.5, 300), bytes_per_s=[1e6, 2e5, 1e7],
        crawlers=Crawlers.of_speeds([1.0, 0.2]),
    )  # fmt: skip
    policy = POLICIES[name]

    class Blind:
        name = policy.name
        renew_s = None

        def plan(self, world: RefreshWorld) -> Plan:
            return policy.plan(replace(world, size_bytes=np.zeros(len(world))))

    settings = SimulationSettings(2 * DAY_S)
    knows, ignores = (simulate(world, each, settings, VirtualClock(0.0)) for each in (policy, Blind()))
    assert knows.staleness < 0.95 * ignores.staleness
    assert steady_optimum(world) < 1.001 * knows.second_half_staleness
    assert knows.bytes > 0


def test_sampling_finds_the_servers_that_change_from_its_visits() -> None:
    """P5: of four servers the two whose pages change are visited whole; of the others little more than the samples."""
    rate = np.repeat([0.01, 3.0, 0.01, 3.0], 50) / DAY_S
    world = RefreshWorld.build(np.repeat(range(4), 50), rate, horizon_s=DAY_S, politeness_s=60.0, budget=200)
    _, visits = execute_plan(world, "sampling", 4)
    each = np.bincount(world.server[visits.page], minlength=4)
    assert each[[1, 3]].tolist() == [200, 200]
    assert 40 <= each[[0, 2]].min() <= each[[0, 2]].max() <= 80


def test_rate_update_learns_from_the_results_of_its_visits() -> None:
    """F2: after ten days pages that change are visited more often than those that hardly do."""
    rate = np.repeat([0.02, 2.0], 50) / DAY_S
    world = RefreshWorld.build(np.zeros(100, dtype=int), rate, horizon_s=DAY_S, politeness_s=60.0, budget=200)
    _, visits = execute_plan(world, "rate-update", 12)
    later = visits.page[visits.time_s > 8 * DAY_S]
    assert np.count_nonzero(later >= 50) > 1.5 * np.count_nonzero(later < 50)


def test_freshness_is_measured_as_often_as_configured() -> None:
    outcome, _ = execute_plan(drawn(200), "edf", 1, sampled=True, sample_interval_s=7200.0)
    assert [sample.time_s for sample in outcome.samples] == [7200.0 * number for number in range(13)]
    assert outcome.samples[0].expected == pytest.approx(1.0)
    assert all(sample.sampled == pytest.approx(sample.expected, abs=0.15) for sample in outcome.samples)


def test_a_quantile_of_lateness_is_exact_to_a_quarter_percent() -> None:
    lateness = Lateness()
    values = np.random.default_rng(1).exponential(100.0, 10_000)
    lateness.add(values)
    assert lateness.quantile_s(0.99) == pytest.approx(np.quantile(values, 0.99), rel=0.005)
    assert Lateness().quantile_s(0.99) == 0.0


def test_a_simulation_of_no_time_is_refused() -> None:
    with pytest.raises(UsageError, match="must be > 0"):
        SimulationSettings(0.0)
