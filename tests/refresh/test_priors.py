"""Priors by host and kind of page."""

from __future__ import annotations

import numpy as np
import pytest

from teia.refresh import priors, rates
from teia.refresh.history import DAY_S, Histories, decode_columns

from .simulated import Floats, seen_by

HOSTS, PAGES_A_HOST, KINDS = 60, 50, 2


def simulated_hosts(seed: int, visits: int) -> tuple[Floats, Histories, priors.Groups, priors.Groups]:
    """Hosts whose mean rates are spread over a factor of a hundred, with two kinds of pages, one ten times as fast."""
    rng = np.random.default_rng(seed)
    host = np.repeat(np.arange(HOSTS), PAGES_A_HOST)
    kind = host * KINDS + rng.integers(0, KINDS, host.size)
    mean = np.exp(rng.uniform(np.log(0.01), np.log(1.0), HOSTS))[host] * np.where(kind % KINDS, 1.0, 0.1)
    rate = np.maximum(rng.gamma(2.0, mean / 2.0), 1e-4) / DAY_S
    intervals = DAY_S * 7 * np.exp(rng.uniform(np.log(0.2), np.log(3.0), (host.size, visits)))
    return rate, seen_by(rng, rate, intervals), host, kind


def squared_log_error(found: Floats, rate: Floats) -> float:
    return float((np.log(found / rate) ** 2).mean())


def visits_a_second(rate: Floats, total: float) -> Floats:
    """Spread visits so that freshness is greatest if the rates are right (random visits; Azar et al. 2018)."""
    root = np.sqrt(rate)
    active = np.ones(rate.size, dtype=np.bool_)
    while True:
        found = np.where(active, root * (total + rate[active].sum()) / root[active].sum() - rate, 0.0)
        if np.all(found >= 0):
            return np.asarray(found)
        active &= found > 0


def staleness(believed: Floats, rate: Floats, total: float) -> float:
    spread = visits_a_second(believed, total)
    return float((rate / (spread + rate)).mean())


@pytest.mark.parametrize("visits", [1, 2, 4, 8])
def test_shrunk_estimates_beat_those_of_each_page_alone(visits: int) -> None:
    """In squared log error, and in the staleness of what is planned by them, on six webs."""
    for seed in range(6):
        rate, seen, host, kind = simulated_hosts(seed, visits)
        shrunk = rates.estimate(seen, priors.learn_priors(seen, host, kind)).mean
        weak = rates.repeat_prior(priors.FIRST_CHANGES, priors.FIRST_TIME_S, rate.size)
        alone = rates.estimate(seen, weak).mean
        assert squared_log_error(shrunk, rate) < 0.8 * squared_log_error(alone, rate)
        total = rate.size / (7 * DAY_S)
        assert staleness(shrunk, rate, total) < staleness(alone, rate, total)


def test_kinds_help_where_hosts_alone_do_not_tell() -> None:
    rate, seen, host, kind = simulated_hosts(9, 2)
    by_kind = rates.estimate(seen, priors.learn_priors(seen, host, kind)).mean
    by_host = rates.estimate(seen, priors.learn_priors(seen, host, host)).mean
    assert squared_log_error(by_kind, rate) < squared_log_error(by_host, rate)


def hosts_with_kinds(seed: int, kinds: int, deviation: float) -> tuple[Floats, Histories, priors.Groups, priors.Groups]:
    """Hosts of 60 pages, whose kinds deviate from their host by a normal factor of this logarithm; six visits."""
    rng = np.random.default_rng(seed)
    host, kind = np.repeat(np.arange(10), 60), np.tile(np.arange(60) % kinds, 10)
    of_kind = np.exp(rng.normal(0.0, deviation, (10, kinds)))
    mean = np.exp(rng.uniform(np.log(0.01), np.log(1.0), 10))[host] * of_kind[host, kind]
    rate = np.maximum(rng.gamma(2.0, mean / 2.0), 1e-4) / DAY_S
    return rate, seen_by(rng, rate, DAY_S * 7 * np.exp(rng.uniform(np.log(0.2), np.log(3.0), (600, 6)))), host, kind


def by_host(seen: Histories, host: priors.Groups, kind: priors.Groups) -> Floats:
    """Return the rates as a plan learns them, host by host."""
    of_all, found = priors.learn_common_prior(seen, np.zeros(len(seen), dtype=np.bool_)), np.empty(len(seen))
    for each in range(int(host.max()) + 1):
        here = host == each
        of_kinds, _ = priors.learn_host_priors(seen.select(here), kind[here], of_all)
        prior = rates.Gamma(of_kinds.changes[kind[here]], of_kinds.time_s[kind[here]])
        found[here] = rates.estimate(seen.select(here), prior).mean
    return found


@pytest.mark.parametrize(
    ("kinds", "deviation", "error", "stale"),
    [(20, 0.0, 0.99, 0.0001), (6, 0.0, 0.998, 0.0), (6, 0.3, 1.01, 0.0), (6, 0.6, 1.01, 0.0), (6, 1.2, 0.95, 0.0003)],
)
def test_how_much_kinds_tell_is_learnt(
    kinds: int, deviation: float, error: float, stale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a host that always counts as five pages: better where kinds change alike, or quite differently.

    Nothing is lost between.
    """
    webs = [hosts_with_kinds(seed, kinds, deviation) for seed in range(4)]
    learnt = [by_host(seen, host, kind) for _, seen, host, kind in webs]
    monkeypatch.setattr(priors, "_pages_of_host", lambda *_: priors.PARENT_PAGES)
    fixed = [by_host(seen, host, kind) for _, seen, host, kind in webs]
    errors, stales = (
        [np.mean([judge(found, web[0]) for found, web in zip(each, webs, strict=True)]) for each in (learnt, fixed)]
        for judge in (squared_log_error, lambda found, rate: staleness(found, rate, rate.size / (7 * DAY_S)))
    )
    assert errors[0] <= error * errors[1]
    assert stales[0] <= stales[1] - stale


def test_a_slow_host_is_not_taken_for_a_fast_one_because_other_hosts_are_fast() -> None:
    """Sixty pages, a hundred times slower than all pages: five more at their mean made them look 9 times as fast."""
    of_all = rates.repeat_prior(0.5, 0.5 * DAY_S, 1)
    found = rates.repeat_prior(2.0, 200 * DAY_S, 60)
    prior = priors.fit(found, np.ones(60), np.zeros(60, dtype=np.int64), of_all)
    assert 0.01 < prior.mean[0] * DAY_S < 0.015
    assert 1.0 < prior.changes[0] < 2.0


def test_a_large_group_finds_the_distribution_it_was_drawn_from() -> None:
    rng = np.random.default_rng(3)
    rate = rng.gamma(2.0, 0.1 / DAY_S, 20_000)
    seen = seen_by(rng, rate, np.full((rate.size, 10), 3 * DAY_S))
    one = np.zeros(rate.size, dtype=np.int64)
    prior = priors.learn_priors(seen, one, one)
    assert prior.mean[0] * DAY_S == pytest.approx(0.2, rel=0.03)
    assert prior.changes[0] == pytest.approx(2.0, rel=0.15)


def test_a_page_never_seen_twice_is_thought_of_as_its_host() -> None:
    rng = np.random.default_rng(4)
    rate = np.concatenate([np.full(100, 0.5), np.full(100, 0.005)]) / DAY_S
    intervals = np.full((200, 10), 2 * DAY_S)
    intervals[[0, 100]] = 1e-6
    seen = seen_by(rng, rate, intervals)
    host = np.repeat([0, 1], 100)
    found = rates.estimate(seen, priors.learn_priors(seen, host, host)).mean * DAY_S
    assert found[0] == pytest.approx(0.5, rel=0.2)
    assert found[100] == pytest.approx(0.005, rel=0.6)


def test_a_host_with_one_page_is_drawn_towards_all() -> None:
    rng = np.random.default_rng(5)
    rate = np.full(101, 0.05) / DAY_S
    rate[100] = 50.0 / DAY_S
    seen = seen_by(rng, rate, np.full((101, 6), 3 * DAY_S))
    host = np.array([0] * 100 + [1])
    prior = priors.learn_priors(seen, host, host)
    assert prior.mean[0] < prior.mean[100] < rates.estimate(seen, prior).mean[100]


def test_nothing_has_no_priors() -> None:
    nobody = np.zeros(0, dtype=np.int64)
    assert priors.learn_priors(decode_columns([]), nobody, nobody).changes.size == 0


@pytest.mark.parametrize(
    ("path", "depth", "kind"),
    [
        ("/news/2024/05/storm-in-may.html", 3, "news/#/#/*.html 3 text/html"),
        ("/news/2019/11/fair.html", 3, "news/#/#/*.html 3 text/html"),
        ("/", 0, " 0 text/html"),
        ("/item?id=7&lang=pt", 9, "*?id&lang 3 text/html"),
        ("/a/b/c/d/e", 4, "a/b/c/* 3 text/html"),
    ],
)
def test_pages_made_by_one_template_are_of_one_type(path: str, depth: int, kind: str) -> None:
    assert priors.page_type(path, depth, "text/html") == kind


def test_the_prior_of_all_pages_is_learnt_from_one_revisit_of_each() -> None:
    """Plain EM is still at two thirds of the rate after as many rounds: each visit tells little."""
    rng = np.random.default_rng(5)
    rate = rng.gamma(2.0, 0.5, 400) / DAY_S
    seen = seen_by(rng, rate, np.full((400, 1), 0.3 * DAY_S))
    found = priors.learn_common_prior(seen, np.zeros(400, dtype=np.bool_))
    chance = 1 - (1 + 0.3 * DAY_S / found.time_s[0]) ** -found.changes[0]
    assert chance == pytest.approx(seen.changes.mean(), abs=0.02)
    nothing = seen_by(rng, rate[:0], np.empty((0, 1)))
    unknown = priors.learn_common_prior(nothing, np.zeros(0, dtype=np.bool_))
    assert unknown.mean[0] == priors.FIRST_CHANGES / priors.FIRST_TIME_S


def test_the_error_that_pages_share_makes_intervals_true() -> None:
    """Webs of which each page was revisited once: far fewer truths are inside if pages count as independent."""
    rng = np.random.default_rng(6)
    webs, pages = 100, 150
    kind, age_s, weight = np.zeros(pages, dtype=np.int64), np.full(pages, 0.3 * DAY_S), np.ones(pages)
    inside, alone = [], []
    for _ in range(webs):
        rate = rng.gamma(1.0, 1.0, pages) / DAY_S
        seen = seen_by(rng, rate, rng.uniform(0.05, 0.3, (pages, 1)) * DAY_S)
        of_all = priors.learn_common_prior(seen, np.zeros(pages, dtype=np.bool_))
        of_host, _ = priors.learn_host_priors(seen, kind, of_all)
        prior = rates.repeat_prior(float(of_host.changes[0]), float(of_host.time_s[0]), pages)
        found = rates.estimate(seen, prior)
        chances = rates.fresh_probability_of(found, age_s)
        variance, shared = priors.shared_error(found, prior, age_s, weight, kind)
        true = float((rng.random(pages) < np.exp(-rate * age_s)).sum())
        own = float((chances * (1 - chances)).sum())
        error = abs(true - float(chances.sum()))
        inside.append(error <= 1.96 * np.sqrt(own + variance + shared.variance))
        alone.append(error <= 1.96 * np.sqrt(own))
    assert np.mean(inside) >= 0.9
    assert np.mean(alone) < 0.85
