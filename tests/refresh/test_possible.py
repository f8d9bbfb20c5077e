"""How fresh copies could be where rates are not known: never below what anybody has, at any time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from teia.lab.simulate.bounds import steady_optimum, weak_politeness
from teia.refresh.intensities import Intensities, plan_intensities
from teia.refresh.model import DAY_S, Crawlers, Floats, RefreshWorld
from teia.refresh.possible import (
    SAMPLE,
    PossibleFreshness,
    Sample,
    ServerCaptures,
    possible_freshness,
    possible_freshness_within,
)
from teia.refresh.rates import Gamma, fresh_probability_of, mean_fresh_probability

KNOWN = 1e7
"""As many changes as leave no doubt of a rate."""


def some(seed: int, pages: int, shape: float | None = None) -> ServerCaptures:
    """Pages of one server that was visited slot by slot, each time a page by chance; most by what is little known.

    They weigh the same, or more or less, or a few of them nearly all.
    """
    rng = np.random.default_rng(seed)
    rate = np.exp(rng.normal(-1.0, rng.uniform(0.0, 2.0), pages)) / DAY_S
    changes = np.full(pages, shape) if shape is not None else rng.uniform(0.3, 12.0, pages)
    weight = (rng.uniform(0.1, 3.0, pages), np.ones(pages), skewed(rng, pages, rng.uniform(1.0, 3.0)))[seed % 3]
    slot_s = float(np.exp(rng.uniform(-3.0, 2.0))) * DAY_S / pages
    visited = rng.integers(0, pages, 5 * pages)  # the last first
    age_s = np.array([np.append(np.flatnonzero(visited == page), 5 * pages)[0] for page in range(pages)]) * slot_s
    return ServerCaptures(weight, Gamma(changes, changes / rate), age_s, slot_s)


def skewed(rng: np.random.Generator, pages: int, power: float = 1.3) -> Floats:
    return rng.permutation(np.arange(1, pages + 1) ** -power)


def best_plan(copies: ServerCaptures) -> Intensities:
    return plan_intensities(steady(copies, copies.found.mean))


def steady(copies: ServerCaptures, rate: Floats) -> RefreshWorld:
    return RefreshWorld.build(
        np.zeros(len(rate), dtype=np.int64),
        rate,
        horizon_s=DAY_S,
        politeness_s=copies.slot_s,
        weight=copies.weight,
        age_s=copies.age_s,
        crawlers=Crawlers(1, 1.0 / copies.slot_s),
    )


def found_of(copies: ServerCaptures) -> PossibleFreshness:
    return possible_freshness(copies, best_plan(copies))


def live(copies: ServerCaptures) -> float:
    return float(copies.weight @ fresh_probability_of(copies.found, copies.age_s))


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), pages=st.integers(1, 30))
def test_copies_are_never_fresher_than_they_can_be_at_a_moment(seed: int, pages: int) -> None:
    """Issue 5, UX acceptance 19: whatever was visited when, and also where more was granted once than is now."""
    copies = some(seed, pages)
    slower = ServerCaptures(copies.weight, copies.found, copies.age_s, 7 * copies.slot_s)
    for each in (copies, slower):
        found = found_of(each)
        assert live(each) <= found.moment * (1 + 1e-9)
        assert found.planned <= found.long_run <= found.moment <= each.weight.sum() * (1 + 1e-9)


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), pages=st.integers(1, 12), visits=st.integers(0, 40))
def test_no_policy_is_above_the_bound_of_a_window(seed: int, pages: int, visits: int) -> None:
    """Issue 5: the exact expected freshness of any polite policy, over the same window from the same ages."""
    copies, rng = some(seed, pages), np.random.default_rng(seed)
    horizon_s = float(rng.uniform(0.3, 6.0)) * DAY_S
    bound = possible_freshness_within(copies, horizon_s)
    begin_s = float(rng.uniform(0.0, copies.slot_s))
    times_s = (begin_s + np.arange(visits) * copies.slot_s)[: int(np.ceil((horizon_s - begin_s) / copies.slot_s))]
    by_chance = rng.integers(0, pages, len(times_s))
    in_turns = np.argsort(-copies.age_s)[np.arange(len(times_s)) % pages]
    for chosen in (by_chance, in_turns, np.argsort(copies.found.mean)[np.arange(len(times_s)) % max(1, pages // 2)]):
        assert by(copies, chosen, times_s, horizon_s) <= bound * (1 + 1e-9)


def by(copies: ServerCaptures, chosen: np.ndarray, times_s: Floats, horizon_s: float) -> float:
    """The sum of weights that are fresh on average, if these pages are visited then."""
    total = 0.0
    for page in range(len(copies)):
        found = Gamma(copies.found.changes[page : page + 1], copies.found.time_s[page : page + 1])
        begins = [-float(copies.age_s[page]), *times_s[(chosen == page) & (times_s < horizon_s)].tolist()]
        for begin, end in zip(begins, [*begins[1:], horizon_s], strict=True):
            area = _area(found, end - begin) - (_area(found, -begin) if begin < 0 else 0.0)
            total += float(copies.weight[page]) * area / horizon_s
    return total


def _area(found: Gamma, until_s: float) -> float:
    """For how long a copy is fresh until it is so old."""
    return until_s * float(mean_fresh_probability(found, np.array([1 / until_s]))[0]) if until_s > 0 else 0.0


def test_freshness_between_visits_is_the_mean_over_the_rates() -> None:
    for changes in (0.4, 1.0, 6.0):
        found = Gamma(np.array([changes]), np.array([2.0 * DAY_S]))
        ages = (np.arange(200_000) + 0.5) / 200_000 * DAY_S
        mean = fresh_probability_of(found, ages).mean()
        assert mean_fresh_probability(found, np.array([1 / DAY_S]))[0] == pytest.approx(mean, rel=1e-9)
    assert mean_fresh_probability(found, np.array([0.0]))[0] == 0.0


@pytest.mark.parametrize("seed", range(6))
def test_where_rates_are_known_they_are_the_bounds_of_known_rates(seed: int) -> None:
    copies = some(seed, 40, shape=KNOWN)
    found, total = found_of(copies), float(copies.weight.sum())
    world = steady(copies, copies.found.mean)
    assert found.long_run / total == pytest.approx(1 - steady_optimum(world), abs=1e-4)
    assert possible_freshness_within(copies, DAY_S) / total == pytest.approx(1 - weak_politeness(world), abs=1e-4)
    ages = np.minimum(np.arange(40) * copies.slot_s, np.sort(copies.age_s))
    worth = copies.weight[:, None] * np.exp(-copies.found.mean[:, None] * ages)
    exact = worth[linear_sum_assignment(worth, maximize=True)].sum()
    assert found.moment / total == pytest.approx(max(exact, found.long_run) / total, abs=1e-3)
    assert found.moment >= exact * (1 - 1e-6)
    assert np.sqrt(found.variance) / total < 1e-3


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(4))
def test_whoever_knows_the_rates_is_not_above_the_long_run_either(seed: int) -> None:
    """The optimum for true rates, in many worlds that they may be: on average below, and spread as is said."""
    copies, rng = some(seed, 25, shape=2.0), np.random.default_rng(seed)
    drawn = rng.gamma(copies.found.changes, 1 / copies.found.time_s, (300, 25))
    total = float(copies.weight.sum())
    optima = np.array([1 - steady_optimum(steady(copies, np.maximum(rates, 1e-12))) for rates in drawn])
    found = found_of(copies)
    assert optima.mean() <= found.long_run / total + 3 * optima.std() / np.sqrt(len(optima))
    assert optima.mean() == pytest.approx(found.long_run / total, abs=0.03)
    assert np.sqrt(found.variance) / total == pytest.approx(optima.std(), rel=0.35)


@pytest.mark.parametrize("seed", [3, 4, 5, 8])
def test_a_sample_of_a_large_host_says_what_all_its_pages_would(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = some(seed, 3 * SAMPLE)
    by_sample, window = found_of(copies), possible_freshness_within(copies, DAY_S)
    monkeypatch.setattr("teia.refresh.possible.SAMPLE", len(copies))
    by_all, total = found_of(copies), float(copies.weight.sum())
    for name in ("long_run", "moment"):
        assert getattr(by_sample, name) / total == pytest.approx(getattr(by_all, name) / total, abs=0.004), name
    assert window / total == pytest.approx(possible_freshness_within(copies, DAY_S) / total, abs=0.004)
    assert by_sample.variance == pytest.approx(by_all.variance, rel=0.3)


def test_it_matters_little_which_of_many_pages_are_the_heavy_ones() -> None:
    """A few pages have nearly all weight: in a sample they stand for themselves alone, and are never left out."""
    pages, rng = 3_000, np.random.default_rng(0)
    changes, age_s = np.full(pages, 2.0), rng.permutation(pages) * 3 * DAY_S / pages
    time_s = changes / (np.exp(rng.normal(-1.0, 1.0, pages)) / DAY_S)
    found = []
    for _ in range(6):
        copies = ServerCaptures(skewed(rng, pages), Gamma(changes, time_s), age_s, 3 * DAY_S / pages)
        sample, total, here = Sample.from_captures(copies), float(copies.weight.sum()), found_of(copies)
        assert len(sample.rows) == SAMPLE
        assert sample.count @ sample.pages.weight == pytest.approx(total)
        assert here.moment <= total
        found.append([here.long_run / total, here.moment / total, np.sqrt(here.variance) / total])
    spread = np.ptp(found, axis=0)
    assert spread[0] < 0.02, "what is best does depend on it"
    assert spread[1] < 0.004
    assert np.max(found, axis=0)[2] < 4 * np.min(found, axis=0)[2]
