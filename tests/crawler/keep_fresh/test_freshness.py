"""How fresh a host is, how fresh it could be, and what its delay allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from teia.crawler.keep_fresh.estimate import HostEstimate
from teia.crawler.keep_fresh.freshness import (
    FreshnessBound,
    attribute_loss,
    combine_bounds,
    compute_bound,
    feasibility,
)
from teia.crawler.keep_fresh.host_plan import plan_host, to_columns
from teia.refresh.history import DAY_S
from tests.crawler.keep_fresh.test_host_plan import NOW_S, OF_ALL, SETTINGS, equal, held, seen


def bound_of(slot_s: float, age_s: float = 0.0, pages: int = 40) -> FreshnessBound:
    columns = to_columns([held(n, seen(n % 5, 8)) for n in range(pages)], equal)
    plan, found = plan_host(columns, OF_ALL, False, slot_s, SETTINGS, NOW_S, warm=False)
    made = compute_bound(HostEstimate(columns, found, plan.priors), slot_s, NOW_S + age_s, DAY_S)
    assert made is not None
    return made


def test_copies_are_fresh_when_they_were_just_seen_and_less_so_later() -> None:
    now, later, long_after = bound_of(3_600.0), bound_of(3_600.0, DAY_S), bound_of(3_600.0, 30 * DAY_S)
    assert now.fresh == pytest.approx(1.0)
    assert now.error == 0.0
    assert 0.99 > later.fresh > long_after.fresh > 0
    assert 0 < later.error < 0.2


def test_what_could_be_is_less_where_requests_are_further_apart() -> None:
    best = [bound_of(slot_s, DAY_S).best for slot_s in (60.0, 3_600.0, DAY_S)]
    assert 1 > best[0] > best[1] > best[2] > 0
    following = [bound_of(slot_s, DAY_S).best_next or 0.0 for slot_s in (60.0, 3_600.0, DAY_S)]
    assert following[0] > following[1] > following[2]


def test_nobody_exceeds_the_bound_of_the_next_day() -> None:
    """Leaving all pages alone, for one, is a polite policy; so is having just seen them all."""
    for age_s in (0.0, DAY_S, 10 * DAY_S):
        columns = to_columns([held(n, seen(n % 5, 8)) for n in range(40)], equal)
        plan, found = plan_host(columns, OF_ALL, False, 3_600.0, SETTINGS, NOW_S, warm=False)
        made = compute_bound(HostEstimate(columns, found, plan.priors), 3_600.0, NOW_S + age_s, DAY_S)
        assert made is not None
        assert made.best_next is not None
        alone = np.exp(-found.mean * age_s) * -np.expm1(-found.mean * DAY_S) / (found.mean * DAY_S)
        assert made.best_next >= alone.mean()


def test_hosts_together_are_the_mean_by_weight() -> None:
    one, other = bound_of(3_600.0, DAY_S), bound_of(60.0, DAY_S, pages=80)
    both = combine_bounds([one, other])
    assert both is not None
    assert both.pages == 120
    assert both.fresh == pytest.approx((40 * one.fresh + 80 * other.fresh) / 120)
    assert min(one.best, other.best) < both.best < max(one.best, other.best)
    assert both.error < max(one.error, other.error)
    assert combine_bounds([]) is None


def test_a_host_that_needs_no_delay_and_answers_at_once_has_slots_all_the_same() -> None:
    """Issue 5, P = 0: a delay of 0, and nothing known of how long its answers take."""
    made = bound_of(0.0, DAY_S)
    assert made.slot_s > 0
    assert combine_bounds([made, made]) is not None
    assert made.fresh <= made.possible <= 1


def test_bounds_are_taken_over_for_some_minutes_while_pages_and_slots_are_much_the_same() -> None:
    columns = to_columns([held(n, seen(n % 5, 8)) for n in range(40)], equal)
    plan, found = plan_host(columns, OF_ALL, False, 3_600.0, SETTINGS, NOW_S, warm=False)
    first = compute_bound(HostEstimate(columns, found, plan.priors), 3_600.0, NOW_S + DAY_S)
    assert first is not None
    made = {
        name: compute_bound(HostEstimate(columns, found, plan.priors), slot_s, NOW_S + DAY_S + later_s, before=first)
        for name, slot_s, later_s in (("soon", 3_700.0, 200.0), ("late", 3_600.0, 400.0), ("slower", 7_200.0, 1.0))
    }
    computed = {name: getattr(made["soon"], name) for name in ("fresh", "variance", "shared")}
    assert made["soon"] == replace(first, slot_s=3_700.0, **computed)
    assert made["soon"].fresh < first.fresh, "how fresh they are is asked each time"
    assert made["late"].bounded != first.bounded != made["slower"].bounded
    assert made["slower"].best < first.best
    pages = HostEstimate(columns, found, plan.priors)
    fresher = compute_bound(pages, 3_600.0, NOW_S + DAY_S + 1.0, before=replace(first, possible=0.01))
    assert fresher is not None
    assert fresher.possible == fresher.fresh


def test_a_sentence_states_what_a_delay_does_not_allow() -> None:
    """178,560 pages at 15 s take 31 days, 22.6% of them can be kept within a week, and 3.3 s a request would do."""
    host = FreshnessBound(178_560, 1.0, 0.5, 0.0, 0.6, 15.0)
    assert host.full_pass_s == pytest.approx(31 * DAY_S)
    assert feasibility("news.test", host, 0.1) == (
        "news.test: at this delay a full pass takes 31 days; 77% of the pages cannot be revisited within a week;"
        " a delay of 3.3 s would be short enough"
    )
    assert feasibility("small.test", FreshnessBound(100, 1.0, 0.5, 0.0, 0.6, 15.0), 0.1) == ""
    assert "its responses are too slow" in feasibility("slow.test", host, 8.0)


def test_what_is_lost_adds_up_to_what_is_not_fresh() -> None:
    """UX acceptance 19: the parts and the freshness are 1, whatever is wrong."""
    for slot_s in (60.0, 3_600.0, DAY_S):
        for age_s in (0.0, DAY_S, 30 * DAY_S):
            whole = bound_of(slot_s, age_s)
            lost = attribute_loss(whole)
            parts = (lost.courtesy, lost.learning, lost.schedule, lost.failures)
            assert min(parts) >= 0
            assert whole.fresh + sum(parts) == pytest.approx(1.0)
            assert lost.courtesy == pytest.approx(1 - max(whole.best, whole.fresh))


def test_pages_that_were_seen_seldom_are_where_rates_are_learnt() -> None:
    seldom = [held(n, seen(0, 2)) for n in range(40)]
    columns = to_columns(seldom, equal)
    plan, found = plan_host(columns, OF_ALL, False, 60.0, SETTINGS, NOW_S, warm=False)
    whole = compute_bound(HostEstimate(columns, found, plan.priors), 60.0, NOW_S + 30 * DAY_S, DAY_S)
    assert whole is not None
    lost = attribute_loss(whole)
    assert lost.learning > 0
    assert lost.schedule == lost.failures == 0
    assert whole.excess is not None
    assert whole.excess.well_known == 0
    often = bound_of(60.0, 30 * DAY_S)
    assert 0 < attribute_loss(often).learning < 0.001, "more is known, and still not all"
    assert attribute_loss(often).schedule > 0
    assert often.excess is not None
    assert often.excess.well_known == 40


def test_visiting_all_alike_is_never_better_than_the_best() -> None:
    for slot_s in (60.0, 3_600.0, DAY_S):
        whole = bound_of(slot_s, DAY_S)
        assert whole.excess is not None
        assert whole.excess.uniform / whole.weight <= whole.best + 1e-9
