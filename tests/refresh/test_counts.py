"""Phase 1 of PSP (P4): the threshold rule gives what the literal greedy gives."""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.errors import UsageError
from teia.refresh import counts, formulas, segments
from teia.refresh.counts import gain, plan_counts
from teia.refresh.formulas import even_staleness
from teia.refresh.model import Numbers, RefreshWorld

from .worlds import small_worlds

DAY_S = 86_400.0


def literal_greedy(world: RefreshWorld) -> Numbers:
    """One visit after the other to whoever gains most; ties by page id."""
    counts = np.zeros(len(world), dtype=np.int64)
    room = world.caps("floor").copy()
    left = (1 << 62) if world.budget is None else world.budget
    waiting: list[tuple[float, int, int]] = []

    def offer(row: int) -> None:
        if world.worth_visiting[row]:
            worth = float(gain(world, np.array([row]), counts[[row]])[0])
            if worth > 0:
                heapq.heappush(waiting, (-worth, int(world.page[row]), row))

    for row in range(len(world)):
        offer(row)
    server = world.server
    while left > 0 and waiting:
        _, _, row = heapq.heappop(waiting)
        if room[server[row]] > 0:
            counts[row] += 1
            room[server[row]] -= 1
            left -= 1
            offer(row)
    return counts


def freshness(world: RefreshWorld, counts: Numbers) -> float:
    return 1.0 - float(world.weight @ even_staleness(world, counts))


@settings(max_examples=300)
@given(small_worlds())
def test_counts_are_those_of_the_literal_greedy(world: RefreshWorld) -> None:
    """P4: the same objective within 1e-9, and the same counts but for gains that differ in the last digits only."""
    ours, literal = plan_counts(world), literal_greedy(world)
    assert freshness(world, ours) == pytest.approx(freshness(world, literal), abs=1e-9)
    assert ours.sum() == literal.sum()
    rows = np.flatnonzero(ours != literal)
    if len(rows):
        lower = np.minimum(ours, literal)[rows]
        near = gain(world, rows, lower)
        assert np.ptp(near) <= 1e-12 * near.max()


@settings(max_examples=200)
@given(small_worlds())
def test_no_server_and_no_budget_is_overdrawn(world: RefreshWorld) -> None:
    counts = plan_counts(world)
    assert (np.bincount(world.server, counts, minlength=world.servers) <= world.caps()).all()
    assert world.budget is None or counts.sum() <= world.budget


@pytest.mark.parametrize("rates", [np.full(9, 1.0), np.full(9, 5000.0)])
def test_pages_alike_are_served_by_id(rates: np.ndarray) -> None:
    """The second case is so fast that many visits of one page gain the same: greedy then stays with that page."""
    world = RefreshWorld.build(
        [0, 1, 0, 1, 0, 1, 0, 1, 0],
        rates / DAY_S,
        horizon_s=DAY_S,
        politeness_s=DAY_S / 7,
        page=np.arange(9)[::-1],
        budget=11,
    )
    assert plan_counts(world).tolist() == literal_greedy(world).tolist()


def test_a_thousand_pages_alike_differ_by_one_visit_at_most() -> None:
    world = RefreshWorld.build(np.zeros(1000), np.full(1000, 1 / DAY_S), horizon_s=DAY_S, politeness_s=15.0)
    counts = plan_counts(world)
    assert counts.sum() == 5760
    assert counts.tolist() == [6] * 760 + [5] * 240


@pytest.mark.heavy
def test_large_random_worlds_agree_with_the_literal_greedy() -> None:
    chance = np.random.default_rng(5)
    for unit_s in (3600.0, DAY_S):
        world = RefreshWorld.build(
            chance.integers(0, 20, 3000) ** 2 // 20,
            chance.uniform(0.01, 1, 3000) / unit_s,
            weight=chance.random(3000),
            horizon_s=DAY_S,
            politeness_s=120.0,
            budget=9000,
            age_s=chance.exponential(DAY_S, 3000),
        )
        assert plan_counts(world).tolist() == literal_greedy(world).tolist()


def test_without_politeness_and_budget_there_is_no_plan() -> None:
    world = RefreshWorld.build([0, 0], [1.0, 2.0], horizon_s=10.0, politeness_s=0.0)
    with pytest.raises(UsageError, match="needs a budget"):
        plan_counts(world)
    limited = RefreshWorld.build([0, 0], [1.0, 2.0], horizon_s=10.0, politeness_s=0.0, budget=7)
    assert plan_counts(limited).sum() == 7


def test_pages_that_no_visit_helps_get_none() -> None:
    """Rates of 0 and infinity, and weight 0: the right limit."""
    world = RefreshWorld.build(
        [0, 0, 0, 0], [0.0, np.inf, 1.0, 1.0], weight=[1, 1, 0, 1], horizon_s=10.0, politeness_s=1.0
    )
    assert plan_counts(world).tolist() == [0, 0, 0, 10]


@pytest.mark.heavy
def test_counts_do_not_depend_on_where_blocks_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that lie over several blocks, pages left out, bounds, and pages alike: the same as in one block."""
    chance = np.random.default_rng(6)
    pages = 600
    worlds = [
        RefreshWorld.build(
            chance.integers(0, 12, pages) ** 2 // 12,
            np.where(chance.random(pages) < share, 0.0, chance.choice([0.5, 2.0, 2.0, 5000.0], pages)) / DAY_S,
            horizon_s=DAY_S,
            politeness_s=DAY_S / 130,
            budget=budget,
            age_s=age_s,
        )
        for share in (0.0, 0.3)
        for budget in (None, 500)
        for age_s in (0.0, chance.exponential(DAY_S, pages))
    ]
    for world in worlds:
        at_once = plan_counts(world)
        with monkeypatch.context() as patch:
            patch.setattr(counts, "PAGES_AT_ONCE", 50)
            for module in (formulas, segments, counts):
                patch.setattr(module, "BLOCK", 7)
            assert plan_counts(world).tolist() == at_once.tolist()


# ---- large pages ----------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(small_worlds(), st.lists(st.sampled_from([0.0, 100.0, 700.0, 3_000.0]), min_size=12, max_size=12))
def test_costs_of_large_pages_are_within_the_caps(world: RefreshWorld, sizes: list[float]) -> None:
    """P1: no server and no crawler is planned for more than its time; what is left is too little for any page."""
    world = replace(world, size_bytes=np.array(sizes[: len(world)]), bytes_per_s=np.full(world.servers, 400.0))
    planned = plan_counts(world)
    costs = np.ones(len(world)) if world.server_costs is None else world.server_costs
    left = world.caps("floor") - np.bincount(world.server, costs * planned, minlength=world.servers)
    assert left.min() >= -1e-6
    if world.budget is not None:
        paid = world.crawler_costs(world.budget / world.horizon_s)
        assert float((planned if paid is None else planned * paid).sum()) <= world.budget + 1e-6
    elif world.worth_visiting.any():
        useful = np.flatnonzero(world.worth_visiting)
        gains = gain(world, useful, planned[useful])
        assert (left[world.server[useful]][gains > 1e-9] < costs[useful][gains > 1e-9] + 1e-6).all()


def test_a_gigabyte_is_visited_as_rarely_as_its_cost_demands() -> None:
    """P1: at the optimum the last visit of every page gains the same for its cost, here 67 visits of the server."""
    world = RefreshWorld.build(
        [0] * 21, 20.0 / DAY_S, horizon_s=DAY_S, politeness_s=15.0, size_bytes=[1e9] + [10_000] * 20, bytes_per_s=1e6
    )
    planned = plan_counts(world)
    alike = plan_counts(replace(world, size_bytes=np.zeros(21)))
    assert np.ptp(alike) <= 1
    assert planned[0] < 0.2 * planned[1:].min()
    gains = gain(world, np.arange(21), planned) / world.server_costs
    assert gains[0] == pytest.approx(gains[1:].mean(), rel=0.15)
    assert 5_700 < 1000 / 15 * planned[0] + planned[1:].sum() <= 5_760


def test_a_page_that_does_not_fit_leaves_its_room_to_the_others() -> None:
    """One visit of the large page takes 60 of 100 visits; a second does not fit, and the small one has the 40."""
    world = RefreshWorld.build(
        [0, 0], 1.0, weight=[1000.0, 1.0], horizon_s=100.0, politeness_s=1.0, size_bytes=[60.0, 0.0], bytes_per_s=1.0
    )
    assert plan_counts(world).tolist() == [1, 40]
