"""The parameters and the result of `teia lab whatif`: a collection as it is and as it might be, side by side.

The prediction is the mean over `days` in a settled state: from the current copies and knowledge, a full pass later (or
`days` later, if a pass takes longer). Both sides are evaluated in the same drawn worlds, so their difference is more
certain than either. The further learning of a policy is not modelled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from teia.clock import Clock
from teia.config.sections import Config
from teia.crawler.keep_fresh.freshness import WEEK_S
from teia.errors import UsageError
from teia.frontier.cell import revisits
from teia.frontier.cell.rows import url_from
from teia.lab.simulate.bounds import steady_optimum
from teia.lab.simulate.run import SimulationSettings, simulate
from teia.lab.whatif.backtest import Backtest, backtest
from teia.lab.whatif.finish import first_visits
from teia.lab.whatif.judging import ERRORS, Judge, MeanEstimate, draw_worlds, estimate_mean
from teia.lab.whatif.live import LivePolicy, make_world, part_slots, slots_within_budget
from teia.lab.whatif.pace import HostBehaviour, Paces, Terms, compute_paces, mean_delays, read_behaviour
from teia.lab.whatif.past import Past, read_past
from teia.lib.message import Message
from teia.refresh.history import DAY_S
from teia.refresh.model import Crawlers, Floats, Numbers, RefreshWorld
from teia.refresh.policies import find_policy
from teia.refresh.priors import MODEL_ERROR
from teia.urls import site_of, slot_of
from teia.views.reports.source import Source

WORLDS = 40
FEWEST_WORLDS = 8
WORK = 4e7
"""Approximate limit of visits and pages times worlds; large collections are evaluated in fewer worlds."""

# Each bound is an optimisation over all pages, so only some of the worlds get one.
BOUND_WORLDS = 8
ENOUGH_REVISITS = 200
LONGEST_DAYS = 365.0
LATE_URLS = 5

EXTRAPOLATION_ERROR = 0.15
"""Standard deviation of the logarithm of all rates, if pages are visited e times as often as before, or as seldom."""

SLOPE_STEP = 0.1
FREE = Crawlers(1, 1e6)
"""A machine that was never observed to be the limit."""


@dataclass(frozen=True, slots=True)
class WhatIfRequest:
    """The alternative settings; None keeps the current value. `top` is the number of hosts listed."""

    delay_s: float | None = None
    budget: int | None = None
    policy: str | None = None
    nodes: int | None = None
    days: float = 14.0
    seed: int = 1
    top: int = 10

    def __post_init__(self) -> None:
        if self.delay_s is not None and not 0 <= self.delay_s < math.inf:
            raise UsageError(f"--delay: {self.delay_s:g} must be 0 s or more")
        if self.budget is not None and self.budget < 1:
            raise UsageError(f"--budget: {self.budget} must be 1 or more visits per day")
        if self.nodes is not None and self.nodes < 1:
            raise UsageError(f"--nodes: {self.nodes} must be 1 or more")
        if not 0 < self.days <= LONGEST_DAYS:
            raise UsageError(f"--days: {self.days:g} must be between 0 and {LONGEST_DAYS:g}")
        if self.policy is not None:
            find_policy(self.policy)

    @property
    def changes_anything(self) -> bool:
        return (self.delay_s, self.budget, self.policy, self.nodes) != (None, None, None, None)

    def terms(self, now: Terms) -> Terms:
        wanted = {"delay_s": self.delay_s, "budget": self.budget, "policy": self.policy, "nodes": self.nodes}
        return replace(now, **{name: value for name, value in wanted.items() if value is not None})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class HostLoad:
    """One host: requests a day, the share of the day it spends answering, the time between visits of known pages.

    `late_pages` cannot be visited every week; with a delay of `week_delay_s` all could (None: with no delay).
    """

    host: str
    pages: int
    requests_per_day: float
    busy_share: float
    slot_s: float
    full_pass_s: float
    late_pages: int
    week_delay_s: float | None


@dataclass(frozen=True, slots=True)
class Side:
    """A collection under some terms. `bound` is the best that any policy could do in the long run under the same terms.

    `full_pass_s` is the time until every page was visited once; `slowest_host` is the last to finish. `finish_s` is the
    time until all URLs that wait now for their first visit had it; None if none waits. `limited_by` names the limit on
    the number of visits. `unvisited` pages have no visit at all in the predicted days. `requests` is
    `requests_per_day` with its interval.
    """

    terms: Terms
    fresh: MeanEstimate
    bound: float
    visits_per_day: float
    requests_per_day: float
    full_pass_s: float
    slowest_host: str
    late_pages: int
    late_urls: tuple[str, ...]
    unvisited: int
    crawl_delay_hosts: int
    limited_by: str
    hosts: tuple[HostLoad, ...]
    requests: MeanEstimate
    finish_s: MeanEstimate | None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The result. `prior_only` pages were visited once; `prior_share` of the knowledge of rates comes from priors.

    `gain` is the increase of freshness. `what_if` is None if no setting was changed.
    """

    pages: int
    hosts: int
    visited_again: int
    prior_only: int
    prior_share: float
    settling_days: float
    days: float
    worlds: int
    seed: int
    tested: Backtest
    as_is: Side
    what_if: Side | None
    gain: MeanEstimate | None
    notes: tuple[str, ...]


def what_if(
    source: Source, request: WhatIfRequest, clock: Clock, reached: Callable[[float], None] = lambda _: None
) -> WhatIf:
    """Predict from a collection's visits; LabError if it has none yet. `reached` receives the completed share."""
    # 1. Observations: posteriors of rates, ages of captures, behaviour of hosts.
    past, config = read_past(source, clock.now_s()), source.config
    behaviour = read_behaviour(source, past)
    budget = config.refresh.budget if config.refresh.budget_unit == "requests" else 0
    now = Terms(config.courtesy.delay_s, config.refresh.policy, budget or None)
    all_terms = [now, request.terms(now)] if request.changes_anything else [now]
    # 2. The collection under the current settings, and under the alternative ones.
    futures = [_Future.build(terms, past, behaviour, source, request.days * DAY_S) for terms in all_terms]
    settling_s = min(request.days * DAY_S, max(float(future.pass_s.max()) for future in futures))
    # 3. Rates are drawn from their posteriors, corrected by the backtest. Both sides share these worlds.
    worlds = _worlds(past, futures, settling_s + request.days * DAY_S)
    tested = backtest(past)
    rates = draw_worlds(past.parts, tested, worlds, np.random.default_rng(request.seed))
    # 4. Each side is simulated once; its visits are evaluated in every world.
    evaluations = []
    for at, future in enumerate(futures):
        reached((0.5 + at) / (1 + len(futures)))
        evaluations.append(_evaluate(future, rates, settling_s, request, clock))
    reached(1.0)
    # 5. Both sides list the same hosts, so that a reader can compare their loads.
    busiest = np.argsort(-np.max([each.requests for each in evaluations], axis=0), kind="stable").tolist()[
        : request.top
    ]
    sides = [_side(each, evaluations[0], busiest) for each in evaluations]
    share = np.concatenate([part.prior_share for part in past.parts])
    return WhatIf(
        pages=past.pages,
        hosts=sum(1 for host in past.hosts if host.pages),
        visited_again=past.visited_again,
        prior_only=past.pages - past.visited_again,
        prior_share=float(futures[0].world.weight @ share),
        settling_days=settling_s / DAY_S,
        days=request.days,
        worlds=worlds,
        seed=request.seed,
        tested=tested,
        as_is=sides[0],
        what_if=sides[1] if len(sides) > 1 else None,
        gain=_gain(*evaluations) if len(evaluations) > 1 else None,
        notes=tuple(_notes(past, behaviour, tested, futures[-1], config)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Future:
    """A collection under some terms, ready to be simulated; `own_slot_world` has the slots without the budget."""

    terms: Terms
    past: Past
    behaviour: HostBehaviour
    pace: Paces
    own_slot_world: RefreshWorld
    world: RefreshWorld
    config: Config

    @classmethod
    def build(cls, terms: Terms, past: Past, behaviour: HostBehaviour, source: Source, length_s: float) -> _Future:
        config, machine = source.config, behaviour.machine
        pace = compute_paces(past, behaviour, mean_delays(source, past, terms.delay_s), config, terms, length_s)
        crawlers = Crawlers(terms.nodes, machine.pages_per_s) if machine.was_the_limit else FREE
        world = own_slot_world = make_world(past, part_slots(past, pace.slot_s), config.refresh, crawlers)
        if terms.budget is not None:
            world = replace(
                own_slot_world, politeness_s=slots_within_budget(own_slot_world, terms.budget, config.refresh.floor)
            )
            # The bound distributes the budget itself: it needs the hosts' own slots, and the budget as a number.
            own_slot_world = replace(
                own_slot_world, budget=max(1, round(terms.budget * own_slot_world.horizon_s / DAY_S))
            )
        return cls(terms, past, behaviour, pace, own_slot_world, world, config)

    @property
    def visits_per_s(self) -> float:
        return min(float((1.0 / self.world.politeness_s).sum()), self.world.crawlers.visits_per_s)

    @property
    def slot_s(self) -> Floats:
        """Time between the visits of each host's known pages, when nothing else delays them."""
        per_s = np.bincount(
            [part.host for part in self.past.parts], 1.0 / self.world.politeness_s, len(self.past.hosts)
        )
        with np.errstate(divide="ignore"):
            return 1.0 / per_s * self.slowdown

    @property
    def slowdown(self) -> float:
        """Factor by which the machine makes all slots longer."""
        return max(1.0, float((1.0 / self.world.politeness_s).sum()) / self.world.crawlers.visits_per_s)

    @property
    def pages(self) -> Numbers:
        return np.array([host.pages for host in self.past.hosts], dtype=np.int64)

    @property
    def pass_s(self) -> Floats:
        """Time that a visit of every page of each host takes."""
        return np.where(self.pages > 0, self.pages * np.where(self.pages > 0, self.slot_s, 0.0), 0.0)

    def finish_s(self) -> MeanEstimate | None:
        """Return the time until all URLs that wait now were visited once; None if none waits."""
        of_hosts = first_visits(self.past, self.pace.request_s, self.config.refresh)
        if not of_hosts:
            return None
        last = max(of_hosts, key=lambda number: of_hosts[number].seconds)
        mean_s, request_s = of_hosts[last].seconds * self.slowdown, float(self.pace.request_s[last]) * self.slowdown
        # Which known pages are due before is known roughly, and the next request comes at once or after a delay.
        variance = (mean_s * float(self.behaviour.pace_error[last])) ** 2 + of_hosts[last].known * request_s**2
        error_s = ERRORS * math.sqrt(variance) + request_s
        return MeanEstimate(mean_s, max(0.0, mean_s - error_s), mean_s + error_s)

    def limiting_factor(self) -> str:
        """Return the name of the limit on the number of visits."""
        least = self.config.refresh.least_s / np.maximum(self.pages, 1)
        if self.terms.budget is not None and self.world is not self.own_slot_world and self.slowdown == 1.0:
            allowed_per_s = float((1.0 / self.own_slot_world.politeness_s).sum())
            if allowed_per_s * DAY_S > self.terms.budget:
                return Message("budget")
        if self.slowdown > 1.0:
            return Message("machine")
        if self.pace.crowd > 1.0:
            return Message("hosts in parallel")
        # A tolerance of a thousandth, for slots that `least_s` itself has set.
        return (
            "least_s" if bool((self.pace.slot_s <= least * 1.001)[self.pages > 0].all()) else Message("delays of hosts")
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Evaluation:
    """A simulated future: visits of each page, a day's requests and late pages of each host, freshness.

    `values` is the freshness of each world, `variance` the random variation of any of them, and `slope` their change
    with the logarithm of all rates.
    """

    future: _Future
    visits: Numbers
    per_day: Floats
    requests: Floats
    late: Numbers
    values: Floats
    variance: float
    bound: float
    days: float
    slope: float


def _evaluate(future: _Future, rates: Floats, settling_s: float, request: WhatIfRequest, clock: Clock) -> _Evaluation:
    """Carry the policy out, and evaluate the result in every world."""
    parts, end_s = future.past.parts, settling_s + request.days * DAY_S
    # The last world is the first with other rates.
    judge = Judge(future.world, np.vstack([rates, rates[:1] * np.exp(SLOPE_STEP)]), settling_s, end_s)
    policy = LivePolicy(future.terms.policy, parts, future.config.refresh)
    simulate(future.world, policy, SimulationSettings(end_s, seed=request.seed), clock, on_visits=judge.add)
    values, variance = judge.finish()
    of_page = np.repeat([part.host for part in parts], [len(part) for part in parts])
    per_day = np.bincount(of_page, judge.visits, len(future.past.hosts)) / request.days
    return _Evaluation(
        future,
        judge.visits,
        per_day,
        # A failed visit is a request too; those for robots.txt and new URLs are added.
        requests=per_day / (1.0 - np.minimum(future.behaviour.failed, 0.99)) + future.pace.others_per_day,
        late=np.maximum(0, future.pages - np.floor(WEEK_S / future.slot_s + 1e-9)).astype(np.int64),
        values=values[:-1],
        variance=variance,
        bound=float(
            np.mean([1.0 - steady_optimum(replace(future.own_slot_world, rate=rate)) for rate in rates[:BOUND_WORLDS]])
        ),
        days=request.days,
        slope=float(values[-1] - values[0]) / SLOPE_STEP,
    )


def _model_error(evaluation: _Evaluation, as_is: _Evaluation) -> float:
    """Return the standard deviation of the freshness because pages need not change as Poisson processes.

    A rate is that of the intervals at which a page was visited. At other ones, pages that change in bursts or at
    regular times seem to have other rates.
    """
    return abs(evaluation.slope) * (MODEL_ERROR + EXTRAPOLATION_ERROR * _moved(evaluation, as_is))


def _moved(evaluation: _Evaluation, as_is: _Evaluation) -> float:
    """Return the mean logarithm of the factor by which pages are visited more or less often."""
    before, after, weight = as_is.visits + 1.0, evaluation.visits + 1.0, as_is.future.world.weight
    return float(weight @ np.abs(np.log(after / before))) / float(weight.sum())


def _gain(before: _Evaluation, after: _Evaluation) -> MeanEstimate:
    # An error of all rates moves both sides; that of other intervals is another error, and moves one.
    shared = MODEL_ERROR * (after.slope - before.slope)
    other = EXTRAPOLATION_ERROR * _moved(after, before) * after.slope
    return estimate_mean(after.values - before.values, before.variance + after.variance + shared**2 + other**2, -1.0)


def _side(evaluation: _Evaluation, as_is: _Evaluation, busiest: list[int]) -> Side:
    future = evaluation.future
    return Side(
        terms=future.terms,
        fresh=estimate_mean(evaluation.values, evaluation.variance + _model_error(evaluation, as_is) ** 2),
        bound=evaluation.bound,
        visits_per_day=float(evaluation.per_day.sum()),
        requests_per_day=float(evaluation.requests.sum()),
        full_pass_s=float(future.pass_s.max()),
        slowest_host=future.past.hosts[int(future.pass_s.argmax())].name,
        late_pages=int(evaluation.late.sum()),
        late_urls=_late_urls(evaluation),
        unvisited=int(((evaluation.visits == 0) & (future.world.weight > 0)).sum()),
        crawl_delay_hosts=future.pace.crawl_delays,
        limited_by=future.limiting_factor(),
        hosts=tuple(_load(evaluation, host) for host in busiest if future.pages[host]),
        requests=_requests(evaluation),
        finish_s=future.finish_s(),
    )


def _requests(evaluation: _Evaluation) -> MeanEstimate:
    """Return the requests a day of all hosts, with an interval: the errors of their paces, and one request each."""
    requests = evaluation.requests
    error = ERRORS * float(np.sqrt(np.square(requests * evaluation.future.behaviour.pace_error).sum()))
    error += int((requests > 0).sum()) / evaluation.days
    mean = float(requests.sum())
    return MeanEstimate(mean, max(0.0, mean - error), mean + error)


def _load(evaluation: _Evaluation, host: int) -> HostLoad:
    future, requests = evaluation.future, float(evaluation.requests[host])
    pages, took_s = int(future.pages[host]), float(future.behaviour.took_s[host])
    # Of the time that each page of a week has, answers and lateness are not delay.
    week_s = WEEK_S / pages - took_s - float(future.behaviour.late_s[host])
    return HostLoad(
        host=future.past.hosts[host].name,
        pages=pages,
        requests_per_day=requests,
        busy_share=min(1.0, requests * took_s / DAY_S),
        slot_s=float(future.slot_s[host]),
        full_pass_s=float(future.pass_s[host]),
        late_pages=int(evaluation.late[host]),
        week_delay_s=week_s if week_s > 0 else None,
    )


def _late_urls(evaluation: _Evaluation) -> tuple[str, ...]:
    """Return some pages of hosts that cannot be visited within a week: those with the fewest visits."""
    found: list[tuple[int, str]] = []
    past, starts = evaluation.future.past, evaluation.future.world.starts
    for server, part in enumerate(past.parts):
        # These URLs are examples, so a few candidates are enough.
        if evaluation.late[part.host] and len(found) < 4 * LATE_URLS:
            rows = evaluation.visits[starts[server] : starts[server + 1]]
            few = np.argsort(np.where(part.weight > 0, rows, np.iinfo(np.int64).max), kind="stable")[:LATE_URLS]
            found += [(int(rows[each]), _url(past, part.host, int(part.columns.key[each]))) for each in few.tolist()]
    return tuple(url for _, url in sorted(found)[:LATE_URLS])


def _url(past: Past, host: int, key: int) -> str:
    of_host = past.hosts[host]
    (row,) = revisits.captured_pages_at(of_host.cell.frontier, [(slot_of(site_of(of_host.name)), of_host.host_id, key)])
    return url_from(of_host.name, row.tail) if row is not None else of_host.name


def _worlds(past: Past, futures: list[_Future], length_s: float) -> int:
    work = sum(len(part) for part in past.parts) + max(future.visits_per_s for future in futures) * length_s
    return int(np.clip(WORK / work, FEWEST_WORLDS, WORLDS))


def _notes(past: Past, behaviour: HostBehaviour, tested: Backtest, last: _Future, config: Config) -> list[str]:
    """Return notes that a reader needs to interpret the numbers; `last` is the alternative."""
    notes = [
        f"tested on past visits: of the later {tested.visits:,}, {tested.changed:,} found a change and "
        f"{tested.expected:,.0f} were expected; rates are multiplied by {tested.factor:.2f}"
    ]
    if past.revisits < ENOUGH_REVISITS:
        notes.append(f"not enough visits for a good estimate: {past.revisits:,.0f} of {ENOUGH_REVISITS}")
    if not config.refresh.keep:
        notes.append("the collection is not kept fresh now: the current settings are evaluated as if it were")
    if config.refresh.budget and config.refresh.budget_unit == "bytes":
        notes.append(
            f"the budget of {config.refresh.budget:,} bytes per day is not included: the current settings are evaluated"
            " as if there were none"
        )
    if last.pace.crawl_delays:
        notes.append(
            f"{last.pace.crawl_delays:,} hosts demand a Crawl-delay longer than {last.terms.delay_s:g} s, which applies"
        )
    waiting = sum(host.waiting for host in past.hosts)
    if waiting:
        notes.append(
            f"{waiting:,} URLs are queued for their first visit and use part of the requests; they are not predicted"
        )
    if waiting and last.terms.budget is not None:
        notes.append(
            "the budget limits visits of known pages only: the requests for queued URLs are added to it, and the time"
            " until these are visited does not include it"
        )
    if last.terms.nodes > 1:
        each = config.courtesy.max_hosts
        notes.append(
            f"{last.terms.nodes} nodes: the number of hosts crawled in parallel ({each:,} per node) and pages per"
            " second change; the delays of hosts do not, they apply to all nodes together"
        )
    notes.append(_machine_note(behaviour, last))
    notes.append(
        "policies use the rates known now; what they would learn meanwhile is not included. Intervals contain 90%;"
        " they are wider if pages are visited more or less often than before"
    )
    return [note for note in notes if note]


def _machine_note(behaviour: HostBehaviour, last: _Future) -> str:
    machine, wanted = behaviour.machine, float((1.0 / last.own_slot_world.politeness_s).sum())
    most = machine.pages_per_s * last.terms.nodes
    if machine.was_the_limit:
        return (
            f"a machine sent {machine.pages_per_s:.3g} requests per second while hosts were waiting for it: its"
            " limit here"
        )
    if wanted > most:
        return (
            f"hosts would allow {wanted:.3g} visits per second; the busiest ten minutes of the log had "
            f"{machine.pages_per_s:.3g}, and no host was waiting: the limit of the machine is not known"
        )
    return ""
