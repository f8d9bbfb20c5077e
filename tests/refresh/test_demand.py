"""Curves of what hosts could use: their sum divides a budget as a plan for all hosts together would (P4, P5)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from teia.refresh.demand import (
    POINTS,
    PRICES,
    DemandCurve,
    demand_by_count,
    demand_by_price,
    level_for,
    level_of,
    price_at,
)
from teia.refresh.formulas import Objective, steady_staleness
from teia.refresh.intensities import plan_intensities
from teia.refresh.model import DAY_S, Crawlers, Floats, RefreshWorld
from teia.refresh.policies import POLICIES, find_policy

HOSTS = 12
BUDGET_PER_S = 200 / DAY_S


def some_hosts() -> list[RefreshWorld]:
    """Hosts of 1 to 100 pages, whose rates differ by a factor of 1,000 and whose delays are long on some."""
    chance = np.random.default_rng(1)
    hosts = []
    for host in range(HOSTS):
        pages = int(chance.geometric(0.05))
        rate = 10 ** chance.uniform(-2, 1, pages) * 4 ** chance.uniform(-1, 1) / DAY_S
        weight = chance.uniform(0.5, 3, pages)
        politeness_s = 14_400.0 if host % 3 else 60.0
        server = np.zeros(pages, dtype=np.int64)
        host_world = RefreshWorld.build(server, rate, horizon_s=DAY_S, politeness_s=politeness_s, weight=weight)
        hosts.append(replace(host_world, weight=weight))
    return hosts


def together(hosts: list[RefreshWorld]) -> RefreshWorld:
    server = np.repeat(np.arange(len(hosts)), [len(host) for host in hosts])
    rate, weight = (np.concatenate([getattr(host, name) for host in hosts]) for name in ("rate", "weight"))
    politeness_s = np.concatenate([host.politeness_s for host in hosts])
    return RefreshWorld.build(
        server,
        rate,
        horizon_s=DAY_S,
        politeness_s=politeness_s,
        weight=weight,
        crawlers=Crawlers(1, BUDGET_PER_S),
        budget=round(BUDGET_PER_S * DAY_S),
    )


def divided(name: str) -> Floats:
    """The visits per second of each host, by the sum of all curves."""
    hosts, policy = some_hosts(), find_policy(name)
    curves = [DemandCurve.of(policy.demand(host, host.weight)) for host in hosts]
    level = level_for(np.sum([curve.column() for curve in curves], axis=0), BUDGET_PER_S)
    return np.array([curve.at(level) for curve in curves])


@pytest.mark.parametrize(
    ("name", "objective"), [("edf", "periodic"), ("azar", "poisson"), ("lambda-crawl", "harmonic")]
)
def test_hosts_that_know_the_price_alone_divide_the_budget_as_one_plan_would(name: str, objective: Objective) -> None:
    world = together(some_hosts())
    best = np.add.reduceat(plan_intensities(world, objective=objective).visits_per_s, world.starts[:-1])
    found = divided(name)
    assert found.sum() == pytest.approx(BUDGET_PER_S, rel=1e-5)
    assert found == pytest.approx(best, rel=0.02, abs=0.002 * BUDGET_PER_S)


def test_the_freshness_of_hosts_that_know_the_price_alone_is_the_best() -> None:
    """The gap of one octave in sixteen to the joint optimum is below a thousandth."""
    hosts = some_hosts()
    world = together(hosts)

    def stale(visits_per_s: Floats) -> float:
        return float(world.weight @ steady_staleness(world.rate, visits_per_s))

    alone = [
        plan_intensities(replace(host, weight=host.weight / host.weight.sum()), visits_per_s=visits).visits_per_s
        for host, visits in zip(hosts, divided("edf"), strict=True)
    ]
    assert stale(np.concatenate(alone)) == pytest.approx(stale(plan_intensities(world).visits_per_s), rel=1e-3)


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_uses_the_budget_up_and_no_more(name: str) -> None:
    if name == "sampling":  # visits a page once in a cycle, and the pages of a host only after its sample
        assert 0 < divided(name).sum() <= BUDGET_PER_S * (1 + 1e-5)
    else:
        assert divided(name).sum() == pytest.approx(BUDGET_PER_S, rel=1e-5)


def test_policies_divide_a_budget_differently() -> None:
    """P5, P9: on one host alone these pairs are the same; the division of visits between hosts tells them apart."""
    limits = np.array([1.0 / host.politeness_s[0] for host in some_hosts()])
    for polite, other in (("mp2", "m-wolf"), ("round-robin", "uniform"), ("edf", "cho")):
        assert (divided(polite) <= limits * (1 + 1e-6)).all()
        assert np.abs(divided(polite) - divided(other)).max() > 0.02 * BUDGET_PER_S, (polite, other)
    assert (divided("m-wolf") > limits).any()
    assert (divided("cho") > limits).any()


def test_counts_are_those_of_a_greedy_plan() -> None:
    from teia.refresh.counts import plan_counts

    world = together(some_hosts())
    host = some_hosts()[0]
    assert demand_by_count(host.weight, host.rate, DAY_S)[0] > 0
    best = np.add.reduceat(plan_counts(world.with_ages(0.0)), world.starts[:-1])
    assert divided("mp2") * DAY_S == pytest.approx(best, abs=4.0)


def test_a_curve_is_stored_compactly_and_read_anywhere() -> None:
    column = np.minimum(demand_by_price("periodic", np.ones(3), np.array([1e-5, 1e-4, 1e-3])), 1 / 600.0)
    curve = DemandCurve.of(column)
    assert len(curve.visits) < 100
    assert curve.column() == pytest.approx(column, rel=1e-6)
    assert curve.at(0.0) == pytest.approx(1 / 600.0)
    assert curve.at(POINTS - 1.0) == 0.0
    level = level_of(2e3)
    below = int(level)
    assert curve.at(level) == pytest.approx(
        column[below] + (level - below) * (column[below + 1] - column[below]), rel=1e-6
    )
    assert price_at(level) == pytest.approx(2e3)
    assert DemandCurve.of(np.zeros(POINTS)).at(10.0) == 0.0


def test_a_budget_that_nobody_can_use_up_has_no_price() -> None:
    total = np.where(PRICES < 1.0, 5.0, 0.0)
    assert level_for(total, 5.0) == 0.0
    assert level_for(total, 2.5) == pytest.approx(level_of(1.0) - 0.5)
    assert level_for(total, 0.0) == pytest.approx(level_of(1.0))
