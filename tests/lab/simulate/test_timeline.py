"""The timeline of events (P2): who is visited when, by the loop in Python and by the compiled one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.lab.simulate.changes import Modifications
from teia.lab.simulate.compiled import CompiledTimeline, make_timeline
from teia.lab.simulate.timeline import PlainTimeline, Timeline, Visits
from teia.refresh.merge import Timetable
from teia.refresh.model import Crawlers, RefreshWorld
from teia.refresh.policies import POLICIES
from teia.refresh.policy import Intervals, Plan
from teia.refresh.scenario import draw_world
from tests.refresh.worlds import small_worlds

PLENTY = 1 << 40


def run(timeline: Timeline, plan: Plan, until_s: float, allowed: int = PLENTY) -> Visits:
    timeline.allow_visits(allowed, 0.0)
    timeline.follow(plan, 0.0)
    return timeline.run(until_s)


def smallest_gaps(world: RefreshWorld, visits: Visits) -> np.ndarray:
    """The shortest time between two visits of each server, infinity where there are not two."""
    server = world.server[visits.page]
    return np.array(
        [np.diff(np.sort(visits.time_s[server == each])).min(initial=math.inf) for each in range(world.servers)]
    )


TIMELINES = [PlainTimeline, pytest.param(make_timeline, id="fastest")]
CRAWLERS = st.builds(Crawlers, st.integers(1, 4), st.sampled_from([0.5, 1.0, 3.0, 100.0]))


@pytest.mark.parametrize("make", TIMELINES)
@settings(max_examples=100)
@given(world=small_worlds(), crawlers=CRAWLERS, name=st.sampled_from(sorted(POLICIES)))
def test_no_visit_is_early_and_no_server_is_requested_too_soon(
    make: type[PlainTimeline], world: RefreshWorld, crawlers: Crawlers, name: str
) -> None:
    """P4: gaps are at least P at every server, whatever the policy and the crawlers; exactly, no epsilon."""
    world = replace(world, crawlers=crawlers, budget=60 if world.budget is None else world.budget)
    plan = POLICIES[name].plan(world)
    visits = run(make(world), plan, world.horizon_s, 60)
    assert (smallest_gaps(world, visits) >= world.politeness_s).all()
    assert ((visits.time_s >= 0) & (visits.time_s < world.horizon_s)).all()
    assert (np.diff(visits.time_s) >= 0).all()
    assert len(visits.page) <= 60
    if isinstance(plan, Timetable):
        assert_never_early(world, plan, visits)
    busy = np.searchsorted(visits.time_s, visits.time_s + 1 / crawlers.pages_per_s - 1e-9) - np.arange(len(visits.page))
    assert (busy <= crawlers.count).all()


def assert_never_early(world: RefreshWorld, plan: Timetable, visits: Visits) -> None:
    """Visits of each server are those of the timetable, in its order, none before it is due."""
    server = world.server[visits.page]
    for each in range(world.servers):
        made = server == each
        first = int(plan.starts[each])
        planned = slice(first, first + int(made.sum()))
        assert visits.page[made].tolist() == plan.page[planned].tolist()
        assert (visits.time_s[made] >= plan.due_s[planned]).all()
        assert visits.late_s[made] == pytest.approx(visits.time_s[made] - plan.due_s[planned])


@settings(max_examples=200)
@given(
    small_worlds(),
    CRAWLERS,
    st.sampled_from(sorted(POLICIES)),
    st.sampled_from(["poisson", "mix", None]),
    st.integers(1, 3),
)
def test_both_loops_make_the_same_visits(
    world: RefreshWorld, crawlers: Crawlers, name: str, process: str | None, horizons: int
) -> None:
    """Also over several plans, with drawn changes and with a sample in between."""
    world = replace(world, crawlers=crawlers, budget=40 if world.budget is None else world.budget)
    modifications = process and Modifications.draw(world, process, np.random.default_rng(5))
    plan = POLICIES[name].plan(world)
    timelines = [PlainTimeline(world, modifications), CompiledTimeline(world, modifications)]
    for number in range(horizons):
        start_s = number * world.horizon_s
        made = []
        for timeline in timelines:
            timeline.allow_visits(world.budget or 0, start_s)
            if number == 0 or isinstance(plan, Timetable):
                timeline.follow(plan, start_s)
            made += [timeline.run(start_s + world.horizon_s / 3), timeline.run(start_s + world.horizon_s)]
        for one, other in zip(made[:2], made[2:], strict=True):
            assert [column.tolist() for column in one] == [column.tolist() for column in other]
    plain, fast = timelines
    assert plain.fresh_s.tolist() == fast.fresh_s.tolist()
    if modifications:
        assert plain.seen.tolist() == fast.seen.tolist()
        assert plain.fresh_weight == pytest.approx(fast.fresh_weight, abs=1e-12)
        assert plain.fresh_area == pytest.approx(fast.fresh_area, abs=1e-9)


@pytest.mark.parametrize("name", ["psp", "m-wolf", "edf", "index", "user-centric"])
@pytest.mark.parametrize("speed", [0.4, 0.025])
def test_both_loops_make_the_same_visits_in_a_world_of_the_paper(name: str, speed: float) -> None:
    """By value pages are looked at in blocks, which only a server with many of them has; slow crawlers are behind."""
    world = draw_world(
        np.random.default_rng(4), pages=1500, servers=6, horizon_s=86_400.0, politeness_s=60.0, rate_unit_s=3600.0,
        budget=8000, crawlers=Crawlers(4, speed),
    )  # fmt: skip
    plan = POLICIES[name].plan(world)
    plain, fast = (run(make(world), plan, world.horizon_s, 8000) for make in (PlainTimeline, CompiledTimeline))
    assert len(plain.page) > 5000
    assert [column.tolist() for column in plain] == [column.tolist() for column in fast]


@pytest.mark.parametrize("speed", [1.0, 0.02])
def test_both_loops_follow_an_uneven_timetable_of_many_servers(speed: float) -> None:
    """Crowds that are due at one instant, and hours without a visit: the buckets in which servers wait fit neither."""
    rng = np.random.default_rng(7)
    world = draw_world(
        rng, pages=1200, servers=300, horizon_s=86_400.0, politeness_s=20.0, budget=6000, crawlers=Crawlers(5, speed)
    )
    crowds_s, wave_s = rng.uniform(0, 3000.0, 20), rng.choice([0.0, 40_000.0, 80_000.0], 6000)
    due_s = wave_s + np.where(rng.random(6000) < 0.3, rng.choice(crowds_s, 6000), rng.uniform(0, 3000.0, 6000))
    page = rng.integers(0, len(world), 6000)
    order = np.lexsort((due_s, world.server[page]))
    starts = np.searchsorted(world.server[page][order], np.arange(world.servers + 1))
    plan = Timetable(starts, page[order], due_s[order])
    plain, fast = (run(make(world), plan, world.horizon_s, 6000) for make in (PlainTimeline, CompiledTimeline))
    assert len(plain.page) > 3000
    assert [column.tolist() for column in plain] == [column.tolist() for column in fast]


@pytest.mark.parametrize("make", TIMELINES)
def test_a_free_crawler_gets_the_most_overdue_page(make: type[PlainTimeline]) -> None:
    """P4, in the report's words; not the server that may be visited soonest, which is another one here."""
    world = RefreshWorld.build([0, 1, 1], 1.0, horizon_s=100.0, politeness_s=2.0, budget=9, crawlers=Crawlers(1, 0.1))
    plan = Timetable(np.array([0, 1, 3]), np.array([0, 1, 2]), np.array([3.0, 1.0, 2.0]))
    visits = run(make(world), plan, 100.0)
    assert visits.page.tolist() == [1, 2, 0]
    assert visits.time_s.tolist() == [1.0, 11.0, 21.0]
    assert visits.late_s.tolist() == [0.0, 9.0, 18.0]


@pytest.mark.parametrize("make", TIMELINES)
def test_slots_lost_to_busy_crawlers_are_made_up_elsewhere(make: type[PlainTimeline]) -> None:
    """Two crawlers are just fast enough; without using slots early a few in a hundred would be lost."""
    world = draw_world(
        np.random.default_rng(2), pages=400, servers=8, horizon_s=86_400.0, politeness_s=75.0, rate_unit_s=3600.0,
        budget=3456, crawlers=Crawlers(2, 0.02),
    )  # fmt: skip
    visits = run(make(world), POLICIES["edf"].plan(world), world.horizon_s, 3456)
    assert len(visits.page) >= 3456 - world.servers - 2


@pytest.mark.parametrize("make", [PlainTimeline, CompiledTimeline])
def test_a_large_page_keeps_its_server_and_its_crawler_busy(make: type[PlainTimeline]) -> None:
    """P1: pages have sizes and servers speeds."""
    world = RefreshWorld.build(
        [0, 0, 0], 1.0, horizon_s=100.0, politeness_s=1.0, budget=9, size_bytes=[5000, 10, 10], bytes_per_s=1000.0,
        crawlers=Crawlers(1, 10.0),
    )  # fmt: skip
    plan = Timetable(np.array([0, 3]), np.array([0, 1, 2]), np.array([1.0, 2.0, 3.0]))
    assert run(make(world), plan, 100.0).time_s.tolist() == [1.0, 6.0, 7.0]


def test_crawlers_of_different_speeds_share_the_visits_by_their_speeds() -> None:
    """P1: five pages a second and one; the faster one goes first where both are idle."""
    world = RefreshWorld.build(
        np.arange(60), 1.0, horizon_s=20.0, politeness_s=10.0, budget=99, crawlers=Crawlers.of_speeds([1.0, 5.0])
    )
    at_once = Timetable(np.arange(61), np.arange(60), np.zeros(60))
    visits = run(make_timeline(world), at_once, 20.0)
    assert np.count_nonzero(visits.time_s < 1.99) == 2 + 10
    assert visits.time_s[:8] == pytest.approx([0.0, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.0])
    later = Timetable(np.arange(61), np.arange(60), np.repeat([0.0, 5.0, 5.1, 5.3], [1, 1, 1, 57]))
    assert run(make_timeline(world), later, 20.0).time_s[:4] == pytest.approx([0.0, 5.0, 5.1, 5.3])


def test_a_large_page_takes_as_many_slots_as_it_costs() -> None:
    """P1: ten seconds of transfer are ten of the server's visits; other pages have the rest, a second apart."""
    world = RefreshWorld.build(
        [0] * 3, 0.05, horizon_s=1000.0, politeness_s=1.0, size_bytes=[10_000, 0, 0], bytes_per_s=1000.0, budget=5000,
        crawlers=Crawlers(3, 10.0),
    )  # fmt: skip
    for name in ("edf", "psp"):
        visits = run(make_timeline(world), POLICIES[name].plan(world), world.horizon_s)
        after = np.diff(visits.time_s)
        assert after[visits.page[:-1] == 0].min() >= 10.0
        assert np.median(after[visits.page[:-1] != 0]) == pytest.approx(1.0, abs=0.3)
        each = np.bincount(visits.page, minlength=3)
        assert 0.15 < each[0] / each[1] < 0.5


@pytest.mark.parametrize("make", TIMELINES)
def test_no_more_visits_than_were_granted(make: type[PlainTimeline]) -> None:
    world = RefreshWorld.build([0, 0], 1.0, horizon_s=100.0, politeness_s=1.0, budget=5)
    plan = Intervals(np.array([2.0, 3.0]), np.array([2.0, 3.0]), np.array([1.0]))
    timeline = make(world)
    assert len(run(timeline, plan, 50.0, 5).page) == 5
    timeline.allow_visits(7, 50.0)
    later = timeline.run(100.0)
    assert len(later.page) == 7
    assert later.time_s[0] == 50.0


@pytest.mark.parametrize("make", TIMELINES)
def test_pages_that_no_visit_helps_are_left_alone(make: type[PlainTimeline]) -> None:
    world = RefreshWorld.build([0, 0, 1], [0.0, math.inf, 0.0], horizon_s=10.0, politeness_s=1.0, budget=50)
    for name in ("psp", "edf", "index", "cho"):
        assert len(run(make(world), POLICIES[name].plan(world), 10.0).page) == 0


@pytest.mark.parametrize("make", TIMELINES)
@pytest.mark.parametrize("name", ["psp", "m-wolf", "edf", "index", "round-robin"])
def test_without_politeness_crawlers_are_the_only_limit(make: type[PlainTimeline], name: str) -> None:
    """P = 0: four crawlers at 2 pages a second make 80 visits in 10 seconds, and no more than were allowed."""
    world = RefreshWorld.build([0, 0, 1], 1.0, horizon_s=10.0, politeness_s=0.0, budget=80, crawlers=Crawlers(4, 2.0))
    visits = run(make(world), POLICIES[name].plan(world), 10.0, 80)
    assert 60 < len(visits.page) <= 80


@pytest.mark.parametrize("name", ["psp", "edf", "index", "user-centric"])
def test_visits_may_be_had_server_by_server(name: str) -> None:
    """The same visits; those of each server in their order."""
    world = draw_world(
        np.random.default_rng(4), pages=600, servers=6, horizon_s=86_400.0, politeness_s=60.0, rate_unit_s=3600.0,
        budget=4000, crawlers=Crawlers(4, 0.4),
    )  # fmt: skip
    plan = POLICIES[name].plan(world)
    in_order = run(CompiledTimeline(world), plan, world.horizon_s, 4000)
    timeline = CompiledTimeline(world)
    timeline.allow_visits(4000, 0.0)
    timeline.follow(plan, 0.0)
    by_server = timeline.run(world.horizon_s, in_order=False)
    assert (np.diff(by_server.time_s) < 0).any()
    order = np.argsort(world.server[in_order.page], kind="stable")
    assert [column[order].tolist() for column in in_order] == [column.tolist() for column in by_server]


@pytest.mark.parametrize("name", ["psp", "edf", "index"])
def test_visits_in_parts_are_those_of_one_run(name: str) -> None:
    """Visits that are booked and find no room in a part come with the next; a part is lost then, so it is copied."""
    world = draw_world(
        np.random.default_rng(4), pages=600, servers=6, horizon_s=86_400.0, politeness_s=2.0, rate_unit_s=3600.0,
        budget=40_000, crawlers=Crawlers(4, 0.4),
    )  # fmt: skip
    plan = POLICIES[name].plan(world)
    at_once, in_parts = CompiledTimeline(world), CompiledTimeline(world)
    for timeline in (at_once, in_parts):
        timeline.allow_visits(40_000, 0.0)
        timeline.follow(plan, 0.0)
    half_s, end_s = world.horizon_s / 2, world.horizon_s
    for until_s in (half_s, end_s):
        whole = at_once.run(until_s, in_order=False)
        parts = [[column.copy() for column in part] for part in in_parts.run_in_parts(until_s)]
        assert len(parts) > 1
        for column, pieces in zip(whole, zip(*parts, strict=True), strict=True):
            assert column.tolist() == np.concatenate(pieces).tolist()
    assert at_once.fresh_s.tolist() == in_parts.fresh_s.tolist()


def test_visits_of_a_run_in_parts_are_not_put_in_order_halfway_and_their_plan_is_not_changed() -> None:
    world = RefreshWorld.build(
        [0] * 10, 1.0, horizon_s=40_000.0, politeness_s=1.0, budget=40_000, crawlers=Crawlers(1, 2.0)
    )
    timeline = CompiledTimeline(world)
    timeline.allow_visits(40_000, 0.0)
    timeline.follow(POLICIES["edf"].plan(world), 0.0)
    next(timeline.run_in_parts(world.horizon_s))
    with pytest.raises(RuntimeError, match="not carried out"):
        timeline.run(world.horizon_s)
    for name in ("psp", "edf", "index"):  # a timetable, intervals, values
        with pytest.raises(RuntimeError, match="not carried out"):
            timeline.follow(POLICIES[name].plan(world), 0.0)


@pytest.mark.parametrize("rate", [1e-120, 1e-3])
def test_a_server_with_nothing_worth_a_visit_yet_loses_no_visit(rate: float) -> None:
    """By value, all copies are fresh at the beginning, or rates so small that nothing is ever worth a visit."""
    world = RefreshWorld.build(
        [0, 0, 1], [rate, rate, 1e-3], horizon_s=100.0, politeness_s=0.0, budget=50, crawlers=Crawlers(2, 5.0)
    )
    plan = replace(POLICIES["index"].plan(world), slot_s=np.array([1e-9, 3.0]))
    plain, fast = (run(make(world), plan, 20.0, 50) for make in (PlainTimeline, CompiledTimeline))
    assert len(plain.page) > 5
    assert [column.tolist() for column in plain] == [column.tolist() for column in fast]
