"""Visits per second for a crawl without end: optima under politeness and a limit for all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.errors import UsageError
from teia.refresh.formulas import Objective, marginal, steady_staleness
from teia.refresh.intensities import intensity_at, plan_intensities
from teia.refresh.model import RefreshWorld
from teia.refresh.segments import Segments

from .worlds import small_worlds

OBJECTIVES: list[Objective] = ["periodic", "poisson", "harmonic"]


def drawn(pages: int = 400, seed: int = 4, politeness_s: float = 15.0) -> RefreshWorld:
    chance = np.random.default_rng(seed)
    return RefreshWorld.build(
        chance.integers(0, 8, pages) ** 2 // 8,
        chance.uniform(0.01, 1.0, pages) / 3600,
        weight=chance.random(pages),
        horizon_s=86_400.0,
        politeness_s=politeness_s,
    )


def penalty(objective: Objective, world: RefreshWorld, rho: np.ndarray) -> float:
    if objective == "periodic":
        each = steady_staleness(world.rate, rho)
    elif objective == "poisson":
        each = world.rate / (world.rate + rho)
    else:
        each = np.log1p(world.rate / rho)
    return float(world.weight @ each)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("limit", [0.05, 0.3, 1.0])
def test_limits_are_used_up_and_no_shift_between_pages_helps(objective: Objective, limit: float) -> None:
    world = drawn()
    best = plan_intensities(world, objective=objective, visits_per_s=limit).visits_per_s
    per_server = Segments(world.starts).sums(best)
    room = 1 / world.politeness_s
    assert (per_server <= room * (1 + 1e-9)).all()
    assert best.sum() == pytest.approx(min(limit, room[world.pages_per_server > 0].sum()), rel=1e-6)
    before, chance = penalty(objective, world, best), np.random.default_rng(1)
    visited = np.flatnonzero(best > 0)
    for _ in range(300):
        giver, taker = chance.choice(visited), chance.integers(len(world))
        moved = best.copy()
        step = 0.05 * best[giver]
        moved[giver] -= step
        moved[taker] += step
        if (Segments(world.starts).sums(moved) <= room * (1 + 1e-9)).all():
            assert penalty(objective, world, moved) >= before - 1e-12


def test_at_the_optimum_a_visit_is_worth_the_same_on_all_pages_of_a_server() -> None:
    world = drawn()
    plan = plan_intensities(world)
    worth = world.weight / world.rate * marginal(world.rate / np.maximum(plan.visits_per_s, 1e-300))
    price = Segments(world.starts).spread(plan.price)
    visited = plan.visits_per_s > 0
    assert worth[visited] == pytest.approx(price[visited], rel=1e-5)
    assert (world.weight / world.rate <= price)[~visited].all()


def test_a_page_that_comes_later_gets_what_the_plan_would_have_given_it() -> None:
    world = drawn()
    plan = plan_intensities(world)
    again = intensity_at("periodic", Segments(world.starts).spread(plan.price), world.weight, world.rate)
    assert again == pytest.approx(plan.visits_per_s)


def test_poisson_without_politeness_is_azars_closed_form() -> None:
    world, limit = drawn(), 0.5
    best = plan_intensities(world, objective="poisson", polite=False, visits_per_s=limit).visits_per_s
    active = best > 0
    root = np.sqrt(world.weight * world.rate)
    closed = root * (limit + world.rate[active].sum()) / root[active].sum() - world.rate
    assert best[active] == pytest.approx(closed[active], rel=1e-6)
    assert (closed[~active] <= 1e-9).all()


def test_too_fast_pages_are_given_up_but_not_with_a_floor_or_the_harmonic_objective() -> None:
    world = drawn(politeness_s=600.0)
    assert (plan_intensities(world).visits_per_s == 0).any()
    assert (plan_intensities(world, objective="harmonic").visits_per_s > 0).all()
    floored = plan_intensities(world, floor_share=0.1).visits_per_s
    counts = np.repeat(world.pages_per_server, world.pages_per_server)
    assert (floored >= 0.1 / 600.0 / counts * (1 - 1e-9)).all()
    assert (Segments(world.starts).sums(floored) <= (1 + 1e-9) / 600.0).all()
    with pytest.raises(UsageError, match="between 0 and 1"):
        plan_intensities(world, floor_share=1.5)


@settings(max_examples=150)
@given(small_worlds(), st.sampled_from(OBJECTIVES), st.sampled_from([0.0, 0.1, 1.0]))
def test_odd_worlds_have_finite_intensities(world: RefreshWorld, objective: Objective, floor_share: float) -> None:
    """Rates of 0 and infinity, weights of 0, servers without pages, no budget at all."""
    plan = plan_intensities(world, objective=objective, floor_share=floor_share)
    assert np.isfinite(plan.visits_per_s).all()
    assert (plan.visits_per_s >= 0).all()
    assert (plan.visits_per_s[~world.worth_visiting] == 0).all()
    assert (Segments(world.starts).sums(plan.visits_per_s) <= (1 + 1e-6) / world.politeness_s).all()


def test_no_politeness_is_no_limit() -> None:
    world = RefreshWorld.build([0, 0], [1.0, 2.0], horizon_s=10.0, politeness_s=0.0)
    assert plan_intensities(world).visits_per_s.sum() == pytest.approx(100.0)


def test_pages_too_fast_to_keep_share_what_there_is() -> None:
    """A thousand changes between two visits: every visit is worth the same, and all are made."""
    world = RefreshWorld.build([0] * 500, 1.0, horizon_s=86_400.0, politeness_s=15.0)
    assert plan_intensities(world).visits_per_s.sum() == pytest.approx(1 / 15.0)
    assert plan_intensities(world, polite=False).visits_per_s.sum() == pytest.approx(100.0, rel=0.2)


def test_a_visit_is_paid_by_its_cost() -> None:
    """P1: at the optimum the value of the last visit is the price of the server times the cost of the page."""
    chance = np.random.default_rng(3)
    world = replace(drawn(60), size_bytes=chance.lognormal(16.0, 2.0, 60), bytes_per_s=np.full(drawn(60).servers, 1e6))
    costs = world.server_costs
    assert costs is not None
    best = plan_intensities(world, visits_per_s=1e9)
    value = world.weight / world.rate * marginal(world.rate / best.visits_per_s)
    visited = best.visits_per_s > 0
    assert (value / costs)[visited] == pytest.approx(best.price[world.server][visited], rel=1e-5)
    used = Segments(world.starts).sums(best.visits_per_s * costs)
    assert used[world.pages_per_server > 0] == pytest.approx(1 / 15.0)
    limited = plan_intensities(world, visits_per_s=0.05)
    paid = world.crawler_costs(0.05)
    assert float((limited.visits_per_s * (1.0 if paid is None else paid)).sum()) == pytest.approx(0.05)
