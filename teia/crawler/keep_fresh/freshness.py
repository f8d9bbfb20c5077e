"""Freshness of a host's captures, with its upper bounds and the effect of its politeness delay.

`fresh` is the mean over pages, by weight, of the probability that the capture equals the page (estimate.py). Its error
has four parts: chance, which shrinks with the number of pages; the errors of the priors, which pages have in common
(refresh/priors.py `shared_error`); 304s that may be false (`Unproven`); and signals whose value is not known yet
(`shift_error`). Three numbers bound the freshness (refresh/possible.py), all from the same estimates of the rates and
the slots that the host grants:

  possible    the limit of any polite policy now; `fresh` never exceeds it, at any moment
  best        the most that can be kept in the long run; right after a crawl captures may be fresher
  best_next   the limit of any polite policy on average over the next horizon, from the current captures (WP)

The gap to `best` is attributed page by page (`ExcessLoss`). Where a capture is less fresh than under the best plan,
there are three causes: its page did not answer lately, or too few visits have shown how fast it changes, or the visits
came at other times than that plan's. The loss of the best plan because rates are not known counts as learning too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, field, replace
from itertools import repeat
from math import sqrt
from typing import NamedTuple

import numpy as np

from teia.crawler.keep_fresh.apply_signals import without_sources
from teia.crawler.keep_fresh.estimate import (
    FIRST_KEY,
    CommonKnowledge,
    HostEstimate,
    HostKey,
    HostKnowledge,
    HostRecords,
)
from teia.crawler.keep_fresh.host_plan import (
    SHORTEST_SLOT_S,
    HostPriors,
    PageColumns,
    Weigh,
    fresh_probabilities,
    host_world,
    priors_of,
)
from teia.frontier.cell import revisits
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.revisits import CapturedPage
from teia.lib.message import Message, joined
from teia.refresh.history import DAY_S
from teia.refresh.intensities import plan_intensities
from teia.refresh.possible import ServerCaptures, possible_freshness, possible_freshness_within
from teia.refresh.priors import SharedError, shared_error
from teia.refresh.rates import Flags, Floats, Gamma, mean_fresh_probability

WEEK_S = 7 * DAY_S
PART = 50_000
"""Pages of one host that are looked at together; keys are hashes, so a part is a fair sample."""

UNANSWERED_S = 1.0
"""A page requested so long after it was last seen did not answer that request."""

ERRORS = 1.96
"""Standard deviations of an interval that holds 95%."""


BOUND_LIFETIME_S, ALIKE = 300.0, 0.1
"""Lifetime of bounds, and the relative change of pages and slots up to which they hold."""

_SHARED = ("slope", "information", "model")

FEW_VISITS = 5
"""A page with fewer visits is one whose rate is still being learnt."""


@dataclass(frozen=True, slots=True)
class ExcessLoss:
    """Loss of freshness against the best plan, as sums of weights; negative where captures are fresher.

    `unknown` is the gain of the best plan if rates were known. `uniform` is the freshness if all pages were visited
    equally often. `changes_per_s` is of all pages together, `well_known` counts those with FEW_VISITS or more.
    """

    failing: float = 0.0
    learning: float = 0.0
    unknown: float = 0.0
    schedule: float = 0.0
    uniform: float = 0.0
    changes_per_s: float = 0.0
    well_known: int = 0

    def __add__(self, other: ExcessLoss) -> ExcessLoss:
        return ExcessLoss(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))


class BoundInputs(NamedTuple):
    """Time of a computation of bounds, and the pages and slots it was made for."""

    time_s: float
    pages: int
    slot_s: float

    def is_like(self, before: BoundInputs) -> bool:
        """Tell whether bounds computed for `before` still hold."""
        alike = (abs(now - then) <= ALIKE * then for now, then in zip(self[1:], before[1:], strict=True))
        return all(alike) and 0.0 <= self.time_s - before.time_s < BOUND_LIFETIME_S


@dataclass(frozen=True, slots=True)
class FreshnessBound:
    """One host, or a part of one: `weight` sums its pages' weights, `variance` is that of the sum of fresh ones.

    `best_variance` is that of the sum that can be kept fresh, because rates are not known. `best_next` and `excess` are
    None where they were not requested. `bounded` is the computation that the bounds come from.
    """

    pages: int
    weight: float
    fresh: float
    variance: float
    best: float
    slot_s: float
    best_next: float | None = None
    excess: ExcessLoss | None = None
    possible: float = 1.0
    best_variance: float = 0.0
    bounded: BoundInputs | None = None
    shared: SharedError = field(default_factory=SharedError)

    @property
    def best_error(self) -> float:
        """Half the width of an interval that holds `best` in 95 of 100 cases."""
        return ERRORS * sqrt(self.best_variance) / self.weight if self.weight > 0 else 0.0

    @property
    def error(self) -> float:
        """Half the width of an interval that holds `fresh` in 95 of 100 cases."""
        if not self.weight > 0:
            return 0.0
        return ERRORS * sqrt(self.variance + self.shared.variance) / self.weight

    @property
    def full_pass_s(self) -> float:
        """Time to visit every page once."""
        return self.pages * self.slot_s

    @property
    def late_share(self) -> float:
        """Share of pages that cannot be visited every week under any plan."""
        return max(0.0, 1.0 - WEEK_S / self.full_pass_s) if self.pages else 0.0

    @property
    def week_slot_s(self) -> float:
        """Time between requests at which every page could be visited once a week."""
        return WEEK_S / self.pages if self.pages else 0.0


class _FreshSum(NamedTuple):
    """The sum of the weights of fresh captures, its variance, and the error that it shares with other hosts."""

    fresh: float
    variance: float
    shared: SharedError

    @classmethod
    def of_pages(cls, columns: PageColumns, found: Gamma, priors: HostPriors, here: Flags, now_s: float) -> _FreshSum:
        weight = columns.weight[here]
        fresh = fresh_probabilities(columns, found, now_s)[here]
        age_s = np.maximum(now_s - columns.fresh_s + columns.shift_s, 0.0)[here]
        kinds = [columns.kind[row] for row in np.flatnonzero(here)]
        numbers: dict[str, int] = {}
        kind = np.array([numbers.setdefault(each, len(numbers)) for each in kinds], dtype=np.int64)
        rates = Gamma(found.changes[here], found.time_s[here])
        variance, shared = shared_error(rates, priors_of(repeat(priors), kinds), age_s, weight, kind)
        own = float(np.square(weight) @ (fresh * (1.0 - fresh)))
        return cls(float(weight @ fresh), own + variance + _signal_variance(columns, here), shared)

    def mix(self, other: _FreshSum, probability: float, deviation: float) -> _FreshSum:
        """Return the sum if the other one is true with a probability, which has an error in common with others."""
        parts = ((1.0 - probability, self), (probability, other))
        between = probability * (1.0 - probability) * (self.fresh - other.fresh) ** 2
        own = {name: sum(share * getattr(each.shared, name) for share, each in parts) for name in _SHARED}
        return _FreshSum(
            sum(share * each.fresh for share, each in parts),
            sum(share * each.variance for share, each in parts) + between,
            SharedError(**own, doubt=deviation * abs(self.fresh - other.fresh)),
        )


def _signal_variance(columns: PageColumns, here: Flags) -> float:
    """Return the variance of the sum of a host's fresh captures because of its signals, whose value is an estimate.

    That value is the same for all pages that are reported, and for all that are not.
    """
    errors = np.broadcast_to(columns.weight * columns.shift_error, len(columns))[here]
    is_reported = np.broadcast_to(columns.shift_s, len(columns))[here] > 0
    return float(errors[is_reported].sum()) ** 2 + float(errors[~is_reported].sum()) ** 2


def _sum_fresh(pages: HostEstimate, here: Flags, now_s: float) -> _FreshSum:
    found = _FreshSum.of_pages(pages.columns, pages.found, pages.priors, here, now_s)
    unproven = pages.unproven
    if unproven is None:
        return found
    columns = replace(unproven.columns, weight=pages.columns.weight)
    if_false = _FreshSum.of_pages(columns, unproven.found, unproven.priors, here, now_s)
    return found.mix(if_false, unproven.probability, unproven.deviation)


def compute_bound(
    pages: HostEstimate,
    slot_s: float,
    now_s: float,
    horizon_s: float | None = None,
    before: FreshnessBound | None = None,
) -> FreshnessBound | None:
    """Return the freshness, with bounds, of pages that have their host's slots to themselves; None if all are gone.

    The bounds take longer to compute than a plan, and hardly move. So they are taken over from `before`, while that is
    recent and similar (`BoundInputs`).
    """
    columns, found = pages.columns, pages.found
    here = ~columns.is_gone & (columns.weight > 0)
    if not here.any():
        return None
    captures = ServerCaptures(
        weight=columns.weight[here],
        found=Gamma(found.changes[here], found.time_s[here]),
        age_s=np.maximum(now_s - columns.fresh_s + columns.shift_s, 0.0)[here],
        slot_s=max(slot_s, SHORTEST_SLOT_S),
    )
    estimated = _sum_fresh(pages, here, now_s)
    total = float(captures.weight.sum())
    share, variance, shared = estimated.fresh / total, estimated.variance, estimated.shared
    bounded = BoundInputs(now_s, len(captures), captures.slot_s)
    # Recent bounds of similar pages are taken over: only the freshness itself is computed.
    if before is not None and before.bounded is not None and horizon_s is None and bounded.is_like(before.bounded):
        current = FreshnessBound(
            len(captures), total, share, variance, before.best, captures.slot_s, bounded=before.bounded, shared=shared
        )
        # The variance of a sum of weights grows with the square of the total.
        best_variance = before.best_variance * (total / before.weight) ** 2
        return replace(current, possible=max(before.possible, share), best_variance=best_variance)
    world = host_world(captures.weight, captures.found.mean, slot_s, horizon_s or DAY_S)
    plan = plan_intensities(world)
    at_best = possible_freshness(captures, plan)
    unknown, is_requested = at_best.long_run - at_best.planned, horizon_s is not None
    fresh = pages.fresh(now_s)[here]
    return FreshnessBound(
        pages=len(captures),
        weight=total,
        fresh=share,
        variance=variance,
        best=at_best.long_run / total,
        slot_s=captures.slot_s,
        best_next=possible_freshness_within(captures, horizon_s) / total if horizon_s is not None else None,
        excess=_excess(columns, here, captures, fresh, plan.visits_per_s, unknown) if is_requested else None,
        possible=at_best.moment / total,
        best_variance=at_best.variance,
        bounded=bounded,
        shared=shared,
    )


def _excess(
    columns: PageColumns, here: Flags, captures: ServerCaptures, fresh: Floats, plan: Floats, unknown: float
) -> ExcessLoss:
    """Attribute the gap to the best plan; all arguments but `columns` are of the pages that are `here`.

    `plan` is the best for the known rates, and `unknown` the gain beyond it if rates were known.
    """
    weight, visits = captures.weight, columns.histories.visits[here]
    missing = weight * (mean_fresh_probability(captures.found, plan) - fresh)
    is_failing = columns.requested_s[here] > columns.fresh_s[here] + UNANSWERED_S
    # The first visit of a page is not in its history.
    is_few = (visits + 1 < FEW_VISITS) & ~is_failing
    alike = mean_fresh_probability(captures.found, np.full(len(weight), 1.0 / (captures.slot_s * len(weight))))
    return ExcessLoss(
        failing=float(missing[is_failing].sum()),
        learning=float(missing[is_few].sum()),
        unknown=unknown,
        schedule=float(missing[~is_failing & ~is_few].sum()),
        uniform=float(weight @ alike),
        changes_per_s=float(captures.found.mean.sum()),
        well_known=int((visits + 1 >= FEW_VISITS).sum()),
    )


@dataclass(frozen=True, slots=True)
class LostFreshness:
    """Causes of lost freshness, as shares of 1: `fresh` and these add up to 1."""

    courtesy: float
    learning: float
    schedule: float
    failures: float


def attribute_loss(whole: FreshnessBound) -> LostFreshness:
    """Split the freshness that is missing: the part no plan could have at these delays, and the gap to that.

    Right after a crawl captures are fresher than they can be kept. Then there is no gap, and the loss is the ageing
    since.
    """
    missing = max(0.0, whole.best - whole.fresh)
    excess = whole.excess or ExcessLoss()
    parts = [max(0.0, excess.learning) + excess.unknown, max(0.0, excess.schedule), max(0.0, excess.failing)]
    # The parts are estimates; scaled, they add up to the freshness that is missing.
    scale = missing / sum(parts) if sum(parts) > 0 else 0.0
    learning, schedule, failures = (each * scale for each in parts)
    if not scale:
        schedule = missing
    return LostFreshness(1.0 - max(whole.best, whole.fresh), learning, schedule, failures)


class CountedBounds(NamedTuple):
    """Freshness of each part of a host, the number of its pages with a revisit, and whether its 304s are in doubt."""

    bounds: list[FreshnessBound]
    revisited: int
    is_unproven: bool


def bounds_of_host(
    frontier: FrontierCell,
    host_key: HostKey,
    slot_s: float,
    weigh: Weigh,
    common: CommonKnowledge,
    now_s: float,
    horizon_s: float | None = None,
) -> CountedBounds:
    """Count the freshness of one host, whose requests are `slot_s` apart, from the records of all its pages."""
    total = revisits.count_captured(frontier, *host_key)
    found, revisited, is_unproven = list[FreshnessBound](), 0, False
    for rows in parts_of_host(frontier, host_key):
        pages = HostRecords.read(frontier, host_key, rows, now_s, weigh)
        known = HostKnowledge.learn(frontier, host_key, pages, common)
        made = known.estimate(frontier, host_key, pages, now_s)
        made = replace(made, columns=without_sources(made.columns))
        revisited += count_revisited(made.columns)
        is_unproven |= made.unproven is not None
        # A part of a host has its part of the slots.
        bound = compute_bound(made, slot_s * total / len(rows), now_s, horizon_s)
        found += [bound] if bound is not None else []
    return CountedBounds(found, revisited, is_unproven)


def parts_of_host(frontier: FrontierCell, host_key: HostKey) -> Iterator[list[CapturedPage]]:
    """Yield the captured pages of a host, PART at a time."""
    after = FIRST_KEY
    while rows := revisits.captured_pages(frontier, *host_key, after, PART):
        after = rows[-1].key
        yield rows


def count_revisited(columns: PageColumns) -> int:
    """Return the number of pages that were visited again, of those that figures of freshness are about."""
    return int(((columns.histories.visits > 0) & (columns.weight > 0) & ~columns.is_gone).sum())


def combine_bounds(bounds: Iterable[FreshnessBound]) -> FreshnessBound | None:
    """Combine several hosts, or parts of one with their parts of its slots; None if there are none."""
    each = list(bounds)
    weight = sum(one.weight for one in each)
    if not weight > 0:
        return None
    all_next = [one.best_next for one in each]
    # Hosts add up by visits per second, not by seconds per visit.
    visits_per_s = sum(1.0 / one.slot_s for one in each)
    attributed = [one.excess for one in each if one.excess is not None]
    return FreshnessBound(
        pages=sum(one.pages for one in each),
        weight=weight,
        fresh=sum(one.weight * one.fresh for one in each) / weight,
        variance=sum(one.variance for one in each),
        best=sum(one.weight * one.best for one in each) / weight,
        slot_s=1.0 / visits_per_s,
        best_next=None if None in all_next else sum(one.weight * (one.best_next or 0.0) for one in each) / weight,
        excess=sum(attributed, ExcessLoss()) if len(attributed) == len(each) else None,
        possible=sum(one.weight * one.possible for one in each) / weight,
        best_variance=sum(one.best_variance for one in each),
        shared=sum((one.shared for one in each), SharedError()),
    )


def feasibility(host: str, bound: FreshnessBound, response_s: float) -> str:
    """Describe the effect of a host's delay in a sentence; empty if every page can be visited every week."""
    if bound.late_share <= 0:
        return ""
    wanted_s = bound.week_slot_s - response_s
    remedy = Message("no delay would be short enough, its responses are too slow")
    if wanted_s > 0:
        remedy = Message("a delay of {n:.2g} s would be short enough", n=wanted_s)
    takes = Message("at this delay a full pass takes {span}", span=days(bound.full_pass_s))
    late = Message("{n:.0%} of the pages cannot be revisited within a week", n=bound.late_share)
    return Message("{field}: {why}", field=host, why=joined("; ", (takes, late, remedy)))


def days(seconds: float) -> str:
    """Format a duration: `31 days`, `5 hours`, `12 minutes`."""
    if seconds >= 2 * DAY_S:
        return Message("{n:.0f} days", n=seconds / DAY_S)
    if seconds >= 7_200.0:
        return Message("{n:.0f} hours", n=seconds / 3_600.0)
    return Message("{n:.0f} minutes", n=seconds / 60.0) if seconds >= 120.0 else f"{seconds:.0f} s"
