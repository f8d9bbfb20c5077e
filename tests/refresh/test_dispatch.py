"""Phase 3 for one host (P4, P9): which page next, and when."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.lab.plan import execute_plan
from teia.refresh.dispatch import DuePage, DueQueue, PageState, ValueQueue, make_queue
from teia.refresh.formulas import marginal
from teia.refresh.model import RefreshWorld
from teia.refresh.policies import POLICIES
from teia.refresh.policy import ByValue, Intervals

from .worlds import small_worlds

WORLD = RefreshWorld.build([0, 0, 0], [0.1, 0.2, 0.4], page=[5, 6, 7], horizon_s=100.0, politeness_s=5.0)


def test_a_timetable_is_never_early_and_goes_in_its_order() -> None:
    """P4: nothing is visited before its time."""
    table = POLICIES["psp"].plan(WORLD)
    queue = make_queue(table, WORLD, 0, start_s=1000.0)
    seen = []
    while (due := queue.next(1000.0)) is not None:
        assert due.not_before_s == due.due_s
        seen.append((due.page, due.due_s))
        queue.record_visit(due.page, due.due_s)
    assert seen == [(WORLD.page[row], 1000.0 + at) for row, at in zip(table.page, table.due_s, strict=True)]


def test_a_failed_visit_leaves_the_page_where_it_is() -> None:
    for name in ("psp", "edf", "index"):
        queue = make_queue(POLICIES[name].plan(WORLD), WORLD, 0)
        assert queue.next(50.0) == queue.next(50.0)


def test_a_page_that_comes_gets_its_interval_from_the_price() -> None:
    plan = POLICIES["edf"].plan(WORLD)
    assert isinstance(plan, Intervals)
    queue = make_queue(plan, WORLD, 0, start_s=0.0)
    row = 1
    queue.update(PageState(page=8, weight=WORLD.weight[row], rate=WORLD.rate[row], fresh_s=3.0))
    assert isinstance(queue, DueQueue)
    for page in (5, 6, 7):
        queue.load(page, math.inf, math.inf)
    due = queue.next(0.0)
    assert due is not None
    assert due.page == 8
    assert due.due_s == pytest.approx(3.0 + plan.interval_s[row])


def test_a_new_estimate_moves_a_page() -> None:
    plan = Intervals(np.array([10.0, 20.0]), np.array([10.0, 20.0]), np.array([1.0]))
    queue = DueQueue(plan, 0, 0.0)
    queue.load(1, 10.0, 10.0)
    queue.load(2, 20.0, 20.0)
    assert queue.next(0.0) == DuePage(1, 10.0)
    queue.load(1, 30.0, 30.0)
    assert queue.next(0.0) == DuePage(2, 20.0)
    queue.load(2, math.inf, math.inf)
    assert queue.next(0.0) == DuePage(1, 30.0)


def test_the_heap_of_due_times_does_not_grow_with_visits() -> None:
    queue = make_queue(POLICIES["edf"].plan(WORLD), WORLD, 0)
    assert isinstance(queue, DueQueue)
    for step in range(5000):
        queue.record_visit(5 + step % 3, float(step))
    assert len(queue._waiting) < 200


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("pv"), st.floats(0.1, 5.0)), max_size=60))
def test_the_most_valuable_page_is_next_whatever_came_before(deeds: list[tuple[int, str, float]]) -> None:
    queue = ValueQueue(ByValue(np.array([1.0])), 1.0)
    known: dict[int, PageState] = {}
    now_s = 0.0
    for page, deed, number in deeds:
        now_s += number
        if deed == "p":
            known[page] = PageState(page, number, 1.0 / number, now_s - 1.0)
            queue.update(known[page])
        else:
            queue.record_visit(page, now_s)
            if page in known:
                known[page] = PageState(page, known[page].weight, known[page].rate, now_s)
        later = now_s + 0.5
        worth = {p: s.weight / s.rate * float(marginal(s.rate * (later - s.fresh_s))) for p, s in known.items()}
        due = queue.next(later)
        assert (due is None) == (not worth)
        if due is not None:
            assert worth[due.page] == pytest.approx(max(worth.values()))


@settings(max_examples=150)
@given(small_worlds(), st.sampled_from([name for name in POLICIES if name != "m-wolf"]))
def test_every_policy_plans_every_world(world: RefreshWorld, name: str) -> None:
    """P5, P9: also odd ones; slots are never closer than politeness allows."""
    plan = POLICIES[name].plan(world)
    if isinstance(plan, Intervals | ByValue):
        assert (plan.slot_s >= world.politeness_s).all()
    table = execute_plan(plan, world)
    assert len(table.page) == table.starts[-1]
    assert ((table.due_s >= 0) & (table.due_s <= world.horizon_s)).all()
    assert (world.server[table.page] == np.repeat(np.arange(world.servers), np.diff(table.starts))).all()
