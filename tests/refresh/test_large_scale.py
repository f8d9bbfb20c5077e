"""Plans of very many pages: the numbers of `counts` and `intensities`, from tiles and parts of any size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from teia.errors import UsageError
from teia.refresh import large_scale
from teia.refresh.arrays import Arrays, NumpyArrays, TorchArrays
from teia.refresh.counts import plan_counts
from teia.refresh.formulas import Objective
from teia.refresh.intensities import plan_intensities
from teia.refresh.large_scale import LargePages, plan_large_counts, plan_large_rates
from teia.refresh.model import Floats, Numbers, RefreshWorld
from teia.refresh.scenario import draw_world

from .test_arrays import needs_torch
from .worlds import small_worlds

DAY_S = 86_400.0


class SmallParts(NumpyArrays):
    """numpy with so little memory that a server lies over several parts."""

    pages_at_once = 3 * large_scale.WIDTH


@pytest.fixture(params=["numpy", "small parts", pytest.param("torch", marks=needs_torch)])
def arrays(request: pytest.FixtureRequest) -> Arrays:
    return {"numpy": NumpyArrays, "small parts": SmallParts, "torch": lambda: TorchArrays("cpu")}[request.param]()


def pages_of(world: RefreshWorld, arrays: Arrays) -> LargePages:
    columns = map(arrays.array, (world.starts, world.rate, world.weight))
    return LargePages(arrays, *columns, world.horizon_s, arrays.array(world.page))


def counts_of(world: RefreshWorld, arrays: Arrays, *, polite: bool = True) -> Numbers:
    found = plan_large_counts(pages_of(world, arrays), world.caps() if polite else None, world.budget)
    result: Numbers = arrays.to_numpy(found)
    return result


def rates_of(
    world: RefreshWorld, arrays: Arrays, limit: float, objective: Objective, *, polite: bool
) -> tuple[Floats, Floats]:
    pages = pages_of(world, arrays)
    limits = arrays.array(np.minimum(1.0 / world.politeness_s, limit)) if polite else None
    plan = plan_large_rates(pages, limits, limit, objective)
    rates = arrays.full(len(world), 0.0, arrays.xp.float64)
    plan.write(rates)
    return arrays.to_numpy(rates), arrays.to_numpy(plan.price)


def drawn(*, budget: int | None = None, politeness_s: float = 600.0, alike: bool = False) -> RefreshWorld:
    """Some servers are larger than a part, some smaller than a tile, one has no pages."""
    chance = np.random.default_rng(3)
    pages = 1500
    rates = chance.choice([0.5, 2.0, 2.0, 300.0], pages) if alike else chance.uniform(0.01, 20.0, pages)
    rates[chance.random(pages) < 0.05] = 0.0
    return RefreshWorld.build(
        np.minimum(chance.zipf(1.5, pages), 40),
        rates / DAY_S,
        weight=1.0 if alike else chance.random(pages),
        page=chance.permutation(pages),
        horizon_s=DAY_S,
        politeness_s=politeness_s,
        budget=budget,
    )


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("budget", [None, 0, 700, 100_000])
def test_counts_are_those_of_the_processors_plan(arrays: Arrays, budget: int | None, alike: bool) -> None:
    """Pages that are alike are served by id, also between servers."""
    world = drawn(budget=budget, alike=alike)
    assert counts_of(world, arrays).tolist() == plan_counts(world).tolist()
    if budget is not None:
        assert counts_of(world, arrays, polite=False).tolist() == plan_counts(world, caps="none").tolist()


@settings(max_examples=150)
@given(small_worlds(ages=False))
def test_odd_worlds_have_the_same_counts(world: RefreshWorld) -> None:
    """Rates of 0 and infinity, weights of 0, servers without pages, no budget at all."""
    assert counts_of(world, NumpyArrays()).tolist() == plan_counts(world).tolist()


@pytest.mark.parametrize("objective", ["periodic", "poisson", "harmonic"])
@pytest.mark.parametrize("limit", [0.002, 0.02, 10.0])
@pytest.mark.parametrize("polite", [True, False])
def test_rates_are_those_of_the_processors_plan(
    arrays: Arrays, objective: Objective, limit: float, polite: bool
) -> None:
    world = drawn()
    expected = plan_intensities(world, objective=objective, visits_per_s=limit, polite=polite)
    found, price = rates_of(world, arrays, limit, objective, polite=polite)
    assert found == pytest.approx(expected.visits_per_s, rel=1e-9, abs=1e-9 * expected.visits_per_s.mean())
    assert price == pytest.approx(expected.price, rel=1e-9)


def test_pages_too_fast_to_keep_share_what_there_is() -> None:
    """The rates jump at a price that no threshold hits; a share of the way between two thresholds uses the limit up."""
    world = RefreshWorld.build([0] * 500, 1.0, horizon_s=DAY_S, politeness_s=15.0)
    found, _ = rates_of(world, NumpyArrays(), 100.0, "periodic", polite=True)
    assert found.sum() == pytest.approx(1 / 15.0)


@pytest.mark.heavy
def test_a_large_world_has_the_same_numbers() -> None:
    world = draw_world(
        np.random.default_rng(1),
        pages=60_000,
        servers=120,
        weights="zipf:1",
        rate_unit_s=3600.0,
        horizon_s=DAY_S,
        politeness_s=15.0,
        budget=400_000,
    )
    assert counts_of(world, NumpyArrays()).tolist() == plan_counts(world).tolist()
    expected = plan_intensities(world, visits_per_s=5.0).visits_per_s
    found, _ = rates_of(world, NumpyArrays(), 5.0, "periodic", polite=True)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9 * expected.mean())


def test_columns_of_four_octets_are_computed_with_eight() -> None:
    world = drawn(budget=700)
    short = replace(world, rate=world.rate.astype(np.float32).astype(np.float64))
    short = replace(short, weight=world.weight.astype(np.float32).astype(np.float64))
    pages = pages_of(short, NumpyArrays())
    pages.rate, pages.weight = pages.rate.astype(np.float32), pages.weight.astype(np.float32)
    assert plan_large_counts(pages, short.caps(), 700).tolist() == plan_counts(short).tolist()


def test_a_world_chooses_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(large_scale, "open_arrays", lambda device: opened.append(device) or NumpyArrays())
    world = drawn(budget=700)
    on_gpu = replace(world, device="cuda")
    assert plan_counts(on_gpu).tolist() == plan_counts(world).tolist()
    assert plan_intensities(on_gpu).visits_per_s == pytest.approx(plan_intensities(world).visits_per_s, rel=1e-9)
    assert opened == ["cuda", "cuda"]
    with pytest.raises(UsageError, match="without ages"):
        plan_counts(on_gpu.with_ages(3.0))
    with pytest.raises(UsageError, match="without ages, and without sizes"):
        plan_intensities(replace(on_gpu, size_bytes=np.full(len(world), 1e9), bytes_per_s=np.full(world.servers, 1e5)))
    with pytest.raises(UsageError, match="floors"):
        plan_intensities(on_gpu, floor_share=0.1)
