"""How fresh a host's copies are, how fresh they could be, and what its delay allows (the live bound).

`fresh` is the mean over pages, by weight, of the probability that the copy is what the page is, with what is known of
the rates now. Whether one page changed tells nothing of another, so its error shrinks with their number; what is wrong
with all rates alike is not in it. Three numbers say how fresh copies could be (refresh/possible.py), all by the same
knowledge of the rates and by the slots that the host grants:

    possible    what no polite policy could exceed now; `fresh` is never above it, at whatever moment both are asked
    best        the most that can be kept in the long run. Right after a crawl copies may be fresher
    best_next   what no polite policy could exceed on average over the next horizon, from the copies as they are (WP)

What is missing to `best` is told apart page by page (`Excess`): where a copy is less fresh than the best plan would
have it, either its page did not answer lately, or too few visits have told how fast it changes, or the visits came at
other times than that plan's. What the best plan lacks because rates are not known is for learning too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace
from math import sqrt
from typing import NamedTuple

import numpy as np

from teia.crawl.hostplan import SHORTEST_SLOT_S, Columns, fresh_now, one_host
from teia.refresh.history import DAY_S
from teia.refresh.intensities import plan_intensities
from teia.refresh.possible import Copies, possible, possible_within
from teia.refresh.rates import Flags, Floats, Gamma, kept_probability_of

WEEK_S = 7 * DAY_S
UNANSWERED_S = 1.0
"""A page that was asked for so long after it was last seen did not answer."""

ERRORS = 1.96
"""Standard deviations of an interval that holds 95%."""


BOUNDED_FOR_S, ALIKE = 300.0, 0.1
"""For how long bounds are kept, while pages and slots differ by no more than this part from those they are of."""

FEW_VISITS = 5
"""A page that was visited less often is one whose rate is still being learnt."""


@dataclass(frozen=True, slots=True)
class Excess:
    """By how much copies are less fresh than under the best plan, as sums of weights; negative where they are fresher.

    `unknown` is by how much the best plan would be better if rates were known. `uniform` is how fresh copies would be
    if all pages were visited alike. `changes_per_s` are of all pages together,
    `well_known` those with FEW_VISITS or more.
    """

    failing: float = 0.0
    learning: float = 0.0
    unknown: float = 0.0
    schedule: float = 0.0
    uniform: float = 0.0
    changes_per_s: float = 0.0
    well_known: int = 0

    def __add__(self, other: Excess) -> Excess:
        return Excess(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))


class Bounded(NamedTuple):
    """When it was asked how fresh copies could be, and of what."""

    time_s: float
    pages: int
    slot_s: float

    def is_like(self, before: Bounded) -> bool:
        """Whether what was said before still holds."""
        alike = (abs(now - then) <= ALIKE * then for now, then in zip(self[1:], before[1:], strict=True))
        return all(alike) and 0.0 <= self.time_s - before.time_s < BOUNDED_FOR_S


@dataclass(frozen=True, slots=True)
class Standing:
    """One host, or a part of one. `weight` is the sum of its pages' weights, `variance` that of the sum of fresh ones.

    `best_variance` is that of the sum that can be kept fresh, because rates are not known. `best_next` and `excess` are
    None where nobody asked for them. `bounded` is when it was asked how fresh the copies could be.
    """

    pages: int
    weight: float
    fresh: float
    variance: float
    best: float
    slot_s: float
    best_next: float | None = None
    excess: Excess | None = None
    possible: float = 1.0
    best_variance: float = 0.0
    bounded: Bounded | None = None

    @property
    def best_error(self) -> float:
        """The same for `best`."""
        return ERRORS * sqrt(self.best_variance) / self.weight if self.weight > 0 else 0.0

    @property
    def error(self) -> float:
        """Half the width of an interval that holds `fresh` in 95 of 100 cases."""
        return ERRORS * sqrt(self.variance) / self.weight if self.weight > 0 else 0.0

    @property
    def full_pass_s(self) -> float:
        """How long it takes to visit every page once."""
        return self.pages * self.slot_s

    @property
    def late_share(self) -> float:
        """The share of pages that cannot be visited every week, whoever is chosen."""
        return max(0.0, 1.0 - WEEK_S / self.full_pass_s) if self.pages else 0.0

    @property
    def week_slot_s(self) -> float:
        """How far apart requests would have to be to visit every page once a week."""
        return WEEK_S / self.pages if self.pages else 0.0


def standing_of(
    columns: Columns,
    found: Gamma,
    slot_s: float,
    now_s: float,
    horizon_s: float | None = None,
    before: Standing | None = None,
) -> Standing | None:
    """How some pages of a host stand that have its slots to themselves; None if there is nothing left of them.

    How fresh they could be takes longer to say than a plan takes to make, and hardly moves: it is taken over from how
    they stood `before`, while that is recent and much alike (`Bounded`).
    """
    here = ~columns.is_gone & (columns.weight > 0)
    if not here.any():
        return None
    copies = Copies(
        weight=columns.weight[here],
        found=Gamma(found.changes[here], found.time_s[here]),
        age_s=np.maximum(now_s - columns.fresh_s + columns.shift_s, 0.0)[here],
        slot_s=max(slot_s, SHORTEST_SLOT_S),
    )
    total = float(copies.weight.sum())
    fresh = fresh_now(columns, found, now_s)[here]
    share, variance = float(copies.weight @ fresh) / total, float(np.square(copies.weight) @ (fresh * (1.0 - fresh)))
    bounded = Bounded(now_s, len(copies), copies.slot_s)
    if before is not None and before.bounded is not None and horizon_s is None and bounded.is_like(before.bounded):
        of_now = Standing(len(copies), total, share, variance, before.best, copies.slot_s, bounded=before.bounded)
        best_variance = before.best_variance * (total / before.weight) ** 2
        return replace(of_now, possible=max(before.possible, share), best_variance=best_variance)
    world = one_host(copies.weight, copies.found.mean, slot_s, horizon_s or DAY_S)
    plan = plan_intensities(world)
    at_best = possible(copies, plan)
    unknown, is_asked = at_best.long_run - at_best.planned, horizon_s is not None
    return Standing(
        pages=len(copies),
        weight=total,
        fresh=share,
        variance=variance,
        best=at_best.long_run / total,
        slot_s=copies.slot_s,
        best_next=possible_within(copies, horizon_s) / total if horizon_s is not None else None,
        excess=_excess(columns, here, copies, fresh, plan.visits_per_s, unknown) if is_asked else None,
        possible=at_best.moment / total,
        best_variance=at_best.variance,
        bounded=bounded,
    )


def _excess(columns: Columns, here: Flags, copies: Copies, fresh: Floats, plan: Floats, unknown: float) -> Excess:
    """Tell apart what is missing to the best plan; all but `columns` are of the pages that are `here`.

    `plan` is the best for what is known, and `unknown` what could be had beyond it if rates were known.
    """
    weight, visits = copies.weight, columns.histories.visits[here]
    missing = weight * (kept_probability_of(copies.found, plan) - fresh)
    is_failing = columns.asked_s[here] > columns.fresh_s[here] + UNANSWERED_S
    is_few = (visits + 1 < FEW_VISITS) & ~is_failing
    alike = kept_probability_of(copies.found, np.full(len(weight), 1.0 / (copies.slot_s * len(weight))))
    return Excess(
        failing=float(missing[is_failing].sum()),
        learning=float(missing[is_few].sum()),
        unknown=unknown,
        schedule=float(missing[~is_failing & ~is_few].sum()),
        uniform=float(weight @ alike),
        changes_per_s=float(copies.found.mean.sum()),
        well_known=int((visits + 1 >= FEW_VISITS).sum()),
    )


@dataclass(frozen=True, slots=True)
class Lost:
    """Where the freshness went, as shares of 1: `fresh` and these add up to 1."""

    courtesy: float
    learning: float
    schedule: float
    failures: float


def lost_of(whole: Standing) -> Lost:
    """Share out what is not fresh: what nobody could have at these delays, and what is missing to that.

    Right after a crawl copies are fresher than they can be kept; then nothing is missing, and all that is lost is what
    they have aged since.
    """
    missing = max(0.0, whole.best - whole.fresh)
    excess = whole.excess or Excess()
    parts = [max(0.0, excess.learning) + excess.unknown, max(0.0, excess.schedule), max(0.0, excess.failing)]
    scale = missing / sum(parts) if sum(parts) > 0 else 0.0
    learning, schedule, failures = (each * scale for each in parts)
    if not scale:
        schedule = missing
    return Lost(1.0 - max(whole.best, whole.fresh), learning, schedule, failures)


def together(standings: Iterable[Standing]) -> Standing | None:
    """Several hosts, or parts of one that have been given their parts of its slots, as one; None if there are none."""
    each = list(standings)
    weight = sum(one.weight for one in each)
    if not weight > 0:
        return None
    all_next = [one.best_next for one in each]
    visits_per_s = sum(1.0 / one.slot_s for one in each)
    told = [one.excess for one in each if one.excess is not None]
    return Standing(
        pages=sum(one.pages for one in each),
        weight=weight,
        fresh=sum(one.weight * one.fresh for one in each) / weight,
        variance=sum(one.variance for one in each),
        best=sum(one.weight * one.best for one in each) / weight,
        slot_s=1.0 / visits_per_s,
        best_next=None if None in all_next else sum(one.weight * (one.best_next or 0.0) for one in each) / weight,
        excess=sum(told, Excess()) if len(told) == len(each) else None,
        possible=sum(one.weight * one.possible for one in each) / weight,
        best_variance=sum(one.best_variance for one in each),
    )


def feasibility(host: str, standing: Standing, response_s: float) -> str:
    """What a host's delay allows, in a sentence; empty where every page can be visited every week."""
    if standing.late_share <= 0:
        return ""
    wanted_s = standing.week_slot_s - response_s
    remedy = f"{wanted_s:.2g} s would do" if wanted_s > 0 else "no delay would do, it answers too slowly"
    return (
        f"{host}: at this delay a full pass needs {days(standing.full_pass_s)}; {standing.late_share:.0%} of the pages"
        f" cannot be kept within a week; {remedy}"
    )


def days(seconds: float) -> str:
    """`31 days`, `5 hours`, `12 minutes`."""
    for unit_s, name in ((DAY_S, "days"), (3_600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {name}"
    return f"{seconds:.0f} s"
