"""A policy carried out for a while: plans, visits, and their results.

A timetable is for one horizon and is made anew for the next, from the ages that copies have then. Other plans are valid
for the `renew_s` of their policy, or forever. The budget is for one horizon. The timeline runs without interruption
between two marks (a new plan, a new budget, a new day, a sample of freshness). Visits are measured as they are made and
then dropped, so memory does not grow with the days. The cost of copies that wait for their next visit is added once a
day.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from teia.clock import Clock
from teia.errors import UsageError
from teia.lab.simulate.changes import Modifications, ProcessName
from teia.lab.simulate.compiled import make_timeline
from teia.lab.simulate.measures import Lateness, Window, expected_freshness
from teia.lab.simulate.timeline import Timeline, Visits
from teia.refresh.merge import Timetable
from teia.refresh.model import DAY_S, Numbers, RefreshWorld
from teia.refresh.policy import Plan, Policy

VISITS_AT_ONCE = 1 << 21
"""Approximate number of visits between two marks (at least one per page), for callers that receive visits or wait."""

WITHOUT_LIMIT = 1 << 62

MakeTimeline = Callable[[RefreshWorld, Modifications | None], Timeline]
VisitsCallback = Callable[[Visits], None]
Reached = Callable[[float], None]
"""Callback that receives the completed share of a simulation."""


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """The parameters of a simulation; `sampled` also draws changes by `process`.

    `sample_interval_s` is the time between samples of freshness.
    """

    length_s: float
    sampled: bool = False
    process: ProcessName = "poisson"
    seed: int = 1
    sample_interval_s: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.length_s < math.inf:
            raise UsageError(f"the duration of a simulation must be > 0, not {self.length_s:g} s")


@dataclass(frozen=True, slots=True)
class FreshnessSample:
    """Freshness at an instant: expected, and of the drawn changes where there are any."""

    time_s: float
    expected: float
    sampled: float | None


@dataclass(slots=True)
class PolicyResult:
    """The result of a policy. Staleness is the exact expectation over the visits that were made.

    `by_day` is the staleness of each day; the last may be a shorter one. `sampled` is that of the drawn changes.
    """

    policy: str
    length_s: float
    visits: int = 0
    bytes: float = 0.0
    stale_s: float = 0.0
    aged_s2: float = 0.0
    embarrassing_s: float = 0.0
    sampled: float | None = None
    days: dict[int, tuple[float, float]] = field(default_factory=dict)
    lateness: Lateness = field(default_factory=Lateness)
    samples: list[FreshnessSample] = field(default_factory=list)
    plan_s: float = 0.0
    simulate_s: float = 0.0

    @property
    def staleness(self) -> float:
        return self.stale_s / self.length_s

    @property
    def age_s(self) -> float:
        """Mean time since copies became stale, 0 for a fresh one (Cho)."""
        return self.aged_s2 / self.length_s

    @property
    def embarrassment(self) -> float:
        """Share of searchers' clicks that meet a stale copy."""
        return self.embarrassing_s / self.length_s

    @property
    def by_day(self) -> list[float]:
        return [stale_s / length_s for stale_s, length_s in self.days.values()]

    @property
    def second_half_staleness(self) -> float:
        """Staleness over the second half of the days, when the initial freshness no longer matters."""
        later = list(self.days.values())[len(self.days) // 2 :]
        return sum(stale_s for stale_s, _ in later) / sum(length_s for _, length_s in later)

    def add(self, begin_s: float, end_s: float, staleness: float, age_s: float, embarrassment: float) -> None:
        length_s = end_s - begin_s
        self.stale_s += staleness * length_s
        self.aged_s2 += age_s * length_s
        self.embarrassing_s += embarrassment * length_s
        day = int(begin_s // DAY_S)
        stale_s, day_length_s = self.days.get(day, (0.0, 0.0))
        self.days[day] = (stale_s + staleness * length_s, day_length_s + length_s)


def simulate(
    world: RefreshWorld,
    policy: Policy,
    settings: SimulationSettings,
    clock: Clock,
    *,
    on_visits: VisitsCallback | None = None,
    reached: Reached = lambda _: None,
    timeline: MakeTimeline = make_timeline,
) -> PolicyResult:
    """Carry a policy out; `on_visits` gets the visits, in order. For a policy that learns, changes are drawn."""
    learns = policy.renew_s is not None
    world = replace(world, clicks=world.click_shares)  # computed once, not for every day
    # 17 is arbitrary: it keeps this stream apart from others with the same seed.
    drawn = Modifications.draw(world, settings.process, np.random.default_rng((settings.seed, 17)))
    started = timeline(world, drawn if learns or settings.sampled else None)
    return _Simulation(world, policy, settings, clock, started).run(on_visits, reached)


class _Simulation:
    def __init__(
        self, world: RefreshWorld, policy: Policy, settings: SimulationSettings, clock: Clock, timeline: Timeline
    ) -> None:
        self._world, self._policy, self._settings, self._clock = world, policy, settings, clock
        self._timeline = timeline
        self._outcome = PolicyResult(policy.name, settings.length_s)
        self._window = Window(world, 0.0)
        self._plan: Plan | None = None
        self._has_sizes = bool(world.size_bytes.any())
        # What a policy that learns knows: visits that found a change, up to the last plan, and the time of the last.
        self._seen: Numbers | int = 0
        self._changed_s = -world.changed_ago_s if world.changed_ago_s is not None else np.full(len(world), -np.inf)
        self._horizons_s = {0.0, *_multiples(world.horizon_s, settings.length_s)}
        # The end closes a day too, so that a shorter last day is measured.
        self._days_s = {settings.length_s, *_multiples(DAY_S, settings.length_s)}
        self._renewals_s = set(_multiples(policy.renew_s, settings.length_s))
        self._samples_s = set(_multiples(settings.sample_interval_s, settings.length_s))

    def run(self, on_visits: VisitsCallback | None, reached: Reached) -> PolicyResult:
        if self._samples_s:
            self._add_sample(0.0)
        for begin_s, end_s in self._intervals():
            # 1. A horizon begins: its budget is allowed. Marks compare exactly, both sides being the same floats.
            if begin_s in self._horizons_s:
                budget = self._world.budget
                self._timeline.allow_visits(WITHOUT_LIMIT if budget is None else budget, begin_s)
            # 2. A plan that is over is replaced, from the ages that copies have now.
            if self._needs_plan(begin_s):
                self._replan(begin_s)
            # 3. Visits are made up to the next mark.
            self._run_to(end_s, on_visits)
            reached(end_s / self._settings.length_s)
            if end_s in self._samples_s:
                self._add_sample(end_s)
        if self._settings.sampled:
            self._outcome.sampled = 1.0 - self._timeline.fresh_area / self._settings.length_s
        return self._outcome

    def _run_to(self, end_s: float, on_visits: VisitsCallback | None) -> None:
        """Run to the next mark: make visits, and measure them."""
        outcome, started_s = self._outcome, self._clock.ticks_s()
        # A caller that takes visits gets them in order of time. Measuring needs no order, and is faster in parts.
        in_order = self._timeline.run(end_s) if on_visits is not None else None
        for visits in self._timeline.run_in_parts(end_s) if in_order is None else (in_order,):
            outcome.visits += len(visits.page)
            outcome.bytes += float(self._world.size_bytes[visits.page].sum()) if self._has_sizes else 0.0
            outcome.lateness.add(visits.late_s)
            self._window.add(visits)
        if end_s in self._days_s:
            outcome.add(self._window.begin_s, end_s, *self._window.close(self._timeline.fresh_s, end_s))
            self._window = Window(self._world, end_s)
        outcome.simulate_s += self._clock.ticks_s() - started_s
        if on_visits is not None and in_order is not None:
            on_visits(in_order)

    def _intervals(self) -> list[tuple[float, float]]:
        """Return the intervals between consecutive marks."""
        length_s = self._settings.length_s
        marks = self._horizons_s | self._renewals_s | self._samples_s
        marks |= self._days_s | set(_multiples(self._part_s(), length_s))
        return list(pairwise(sorted(marks)))

    def _part_s(self) -> float:
        world = self._world
        # Without politeness the sum is infinite, and the crawlers' speed is the limit.
        with np.errstate(divide="ignore"):
            most_per_s = min(world.crawlers.visits_per_s, float((1.0 / world.politeness_s).sum()))
        parts = math.ceil(most_per_s * world.horizon_s / max(VISITS_AT_ONCE, len(world)))
        return world.horizon_s / max(1, parts)

    def _needs_plan(self, now_s: float) -> bool:
        """Tell whether the current plan is over."""
        if self._plan is None or now_s in self._renewals_s:
            return True
        return isinstance(self._plan, Timetable) and now_s in self._horizons_s

    def _replan(self, now_s: float) -> None:
        started_s = self._clock.ticks_s()
        world = self._world
        if now_s > 0:
            world = replace(world.with_ages(now_s - self._timeline.fresh_s), now_s=now_s)
            # Only a policy that learns may know the drawn changes; for the others the given counts stay.
            if self._policy.renew_s is not None:
                world = self._with_results(world)
        self._plan = self._policy.plan(world)
        self._outcome.plan_s += self._clock.ticks_s() - started_s
        self._timeline.follow(self._plan, now_s)

    def _with_results(self, world: RefreshWorld) -> RefreshWorld:
        """Return the world with the results of all visits so far; a page's last visit counts for those of one plan."""
        seen = self._timeline.seen.copy()
        found = seen > self._seen
        self._changed_s[found] = self._timeline.fresh_s[found]
        self._seen = seen
        return replace(world, changes=seen, changed_ago_s=world.now_s - self._changed_s)

    def _add_sample(self, now_s: float) -> None:
        sampled = self._timeline.fresh_weight if self._settings.sampled else None
        expected = expected_freshness(self._world, self._timeline.fresh_s, now_s)
        self._outcome.samples.append(FreshnessSample(now_s, expected, sampled))


def _multiples(step_s: float | None, end_s: float) -> list[float]:
    """Return step, 2 step … up to the end; none for None."""
    if step_s is None:
        return []
    # The tiny factor keeps the last multiple if the quotient was rounded to just below a whole number.
    count = math.floor(end_s / step_s * (1 + 1e-12))
    return [number * step_s for number in range(1, count + 1) if number * step_s <= end_s]
