"""The plan for the pages of one host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat

import numpy as np
import pytest

from teia.config.sections import RefreshSettings
from teia.crawler.keep_fresh.host_plan import (
    GONE_S,
    HostPlan,
    PageColumns,
    choose_explored,
    due_time_changes,
    intervals,
    learn_priors,
    plan_host,
    priors_of,
    solve_price,
    to_columns,
)
from teia.frontier.cell.revisits import CapturedPage
from teia.frontier.cell.schema import LANE_NEW, LANE_REFRESH, STATE_DONE, STATE_FAILED
from teia.refresh.history import DAY_S, History, VisitResult
from teia.refresh.priors import FIRST_CHANGES, FIRST_TIME_S
from teia.refresh.rates import Floats, Gamma, repeat_prior

NOW_S = 1_700_000_000.0
OF_ALL = repeat_prior(FIRST_CHANGES, FIRST_TIME_S, 1)
SETTINGS = RefreshSettings(least_s=60.0, explore=0.0)


def equal(pages: Sequence[CapturedPage]) -> Floats:
    return np.ones(len(pages))


def seen(changes: int, visits: int, every_s: float = DAY_S) -> bytes:
    """What is kept of a page that was visited regularly and found changed so often, the last times."""
    history = History.start(NOW_S - visits * every_s)
    for visit in range(visits):
        sight = VisitResult.CHANGED if visit >= visits - changes else VisitResult.SAME_BYTES
        history.observe(sight, NOW_S - (visits - 1 - visit) * every_s, half_life_s=float("inf"))
    return history.encode()


def held(
    key: int, record: bytes = b"", status: int = 200, state: int = STATE_DONE, lane: int = LANE_REFRESH
) -> CapturedPage:
    return CapturedPage(
        key, f"/p/{key}", 2, 1, "text/html", status, state, lane, int(NOW_S * 1000), 0, NOW_S, NOW_S, record
    )


def planned(
    rows: Sequence[CapturedPage], slot_s: float, settings: RefreshSettings = SETTINGS
) -> tuple[PageColumns, HostPlan, Gamma]:
    columns = to_columns(rows, equal)
    plan, found = plan_host(columns, OF_ALL, False, slot_s, settings, NOW_S, warm=False)
    return columns, plan, found


def intervals_of(rows: Sequence[CapturedPage], slot_s: float, settings: RefreshSettings = SETTINGS) -> Floats:
    columns, plan, found = planned(rows, slot_s, settings)
    return intervals(
        columns, found, priors_of(repeat(plan.priors), columns.kind), [plan.price] * len(columns), settings
    )


@pytest.mark.parametrize("slot_s", [600.0, 3_600.0, 40_000.0])
def test_the_intervals_of_a_host_fill_its_slots(slot_s: float) -> None:
    """No slot is left unused and none is promised twice, whatever the mixture of pages."""
    rows = [held(n, seen(n % 4, 8)) for n in range(60)] + [held(100 + n) for n in range(40)]
    assert np.sum(1.0 / intervals_of(rows, slot_s)) == pytest.approx(1.0 / slot_s, rel=0.05)


def test_no_page_comes_sooner_than_it_may() -> None:
    interval = intervals_of([held(n, seen(n % 4, 8)) for n in range(20)], 1.0, replace(SETTINGS, least_s=3_600.0))
    assert interval.min() >= 3_600.0
    assert interval.max() == pytest.approx(3_600.0)


def test_pages_that_change_more_often_come_more_often_up_to_a_point() -> None:
    """Where visits are many; pages that change faster than they can be visited are not worth the most."""
    rows = [held(n, seen(changes, 20)) for n, changes in enumerate([0, 2, 6] * 20)]
    slow, medium, fast = intervals_of(rows, 1_000.0)[:3]
    assert slow > medium > fast


def test_a_page_that_is_gone_is_looked_for_seldom_and_takes_nothing_from_others() -> None:
    here = [held(n, seen(2, 8)) for n in range(10)]
    gone = [held(20, status=404), held(21, seen(2, 8), state=STATE_FAILED)]
    interval = intervals_of([*here, *gone], 6 * 3_600.0)
    assert interval[10:].tolist() == [GONE_S, GONE_S]
    assert np.sum(1.0 / interval[:10]) == pytest.approx(1.0 / (6 * 3_600.0), rel=0.02)


def test_nothing_is_given_up() -> None:
    """A page that always was another would be worth no visit at all; the floor gives it its part."""
    slot_s = 4 * DAY_S
    rows = [held(n, seen(1, 12)) for n in range(10)] + [held(50, seen(12, 12))]
    interval = intervals_of(rows, slot_s, replace(SETTINGS, floor=0.1))
    assert interval[10] <= 1.3 * slot_s * len(rows) / 0.1
    assert interval[10] > 3 * interval[:10].max()


def test_a_share_of_the_pages_is_explored_another_after_each_visit() -> None:
    columns = to_columns([held(n * 7_919 - 10**15) for n in range(4_000)], equal)
    chosen = choose_explored(columns, 0.05)
    assert chosen.mean() == pytest.approx(0.05, abs=0.015)
    later = choose_explored(replace(columns, requested_s=columns.requested_s + 3_600.0), 0.05)
    assert (chosen & later).mean() < 0.01
    assert np.array_equal(chosen, choose_explored(columns, 0.05))
    assert not choose_explored(columns, 0.0).any()


def test_exploring_never_makes_a_page_wait_longer() -> None:
    rows = [held(n, seen(n % 4, 6)) for n in range(200)]
    columns, plan, found = planned(rows, 3_600.0)
    prior, prices = priors_of(repeat(plan.priors), columns.kind), [plan.price] * len(columns)
    plain = intervals(columns, found, prior, prices, SETTINGS)
    tried = intervals(columns, found, prior, prices, replace(SETTINGS, explore=1.0))
    assert (tried <= plain + 1e-6).all()
    assert (tried < plain).any()


def test_important_pages_are_worth_more() -> None:
    weight, rate = np.array([1.0, 4.0]), np.full(2, 1.0 / DAY_S)
    price = solve_price(weight, rate, DAY_S, SETTINGS)
    assert price.price > 0
    heavy = to_columns(
        [held(n, seen(3, 9)) for n in range(40)], lambda rows: np.where(np.arange(len(rows)) < 20, 9.0, 1.0)
    )
    plan, found = plan_host(heavy, OF_ALL, False, 3_600.0, SETTINGS, NOW_S, warm=False)
    interval = intervals(heavy, found, priors_of(repeat(plan.priors), heavy.kind), [plan.price] * 40, SETTINGS)
    assert interval[:20].max() < interval[20:].min()


def test_only_pages_whose_time_changes_are_moved() -> None:
    in_a_day = int((NOW_S + DAY_S) * 1000)
    columns = to_columns([held(1)._replace(rank=in_a_day), held(2, lane=LANE_NEW), held(3)], equal)
    interval = np.array([1.05 * DAY_S, DAY_S, DAY_S])
    assert [move.key for move in due_time_changes(columns, interval)] == [2, 3]
    assert {move.due_s for move in due_time_changes(columns, interval)} == {NOW_S + DAY_S}


def test_a_host_without_anything_left_has_no_price() -> None:
    _, plan, _ = planned([held(1, status=410)], 60.0)
    assert plan.price is None


def test_a_sitemap_says_nothing_about_the_rates_of_pages() -> None:
    """It changes with any page it names; counted as one of twenty pages, it would double the rate of the others."""
    rows = [held(n, seen(1, 8)) for n in range(19)] + [held(19, seen(8, 8))]
    columns = to_columns(rows, equal)
    marked = replace(columns, is_source=columns.key == 19)
    counted, left_out = (learn_priors(each, OF_ALL, np.zeros(20, dtype=np.bool_)) for each in (columns, marked))
    (of_all_shape, of_all_s), (shape, time_s) = counted[0].of_host, left_out[0].of_host
    assert shape / time_s < 0.8 * of_all_shape / of_all_s
    assert (counted[2].pages, left_out[2].pages) == (20, 19)
