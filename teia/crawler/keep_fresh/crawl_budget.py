"""One budget for all hosts of a crawl: each host's part follows from one price (P4, P5, P9).

`refresh.budget` limits the requests, or the bytes, of a day over all hosts. Each host's plan leaves a curve: the visits
it would have at each price of a visit (refresh/demand.py). The sum of all curves, with those that other nodes report,
tells the price at which the budget is used up. Each host's requests per second are read from its own curve at that
price, and its requests are so far apart, or farther, as politeness requires. So a new price needs no new plans.

A new URL is a page without a capture, as if that were infinitely old. Its first visit is worth, per request, (share of
first visits that bring a page) x (weight of the host's pages) x (mean of 1/lam over them), which is the limit of
(w/lam) q(lam age). The mean of 1/lam may be several times 1/(mean of lam), because rates differ. At lower prices a host
gives all the requests that politeness allows to its new URLs, beyond those of its known pages; at higher prices none.
So one price divides the budget between hosts and between old and new. With `refresh.discovery = "share"`, new URLs get
a fixed share instead, and what known pages leave of theirs. That is also so for policies without prices. The same value
can divide the requests of each host without a budget (`refresh.discovery = "value"`).

The plan and the spending differ: hosts fail, pages are larger than expected. What was not spent is kept for CREDIT_S,
and is spent by a lower price; what was spent too much is saved by a higher one. Beyond BURST_S nothing is requested
until the time has made up for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

import numpy as np

from teia.config.sections import RefreshSettings
from teia.crawler.keep_fresh.host_plan import SHORTEST_SLOT_S, HostPriors, PageColumns, policy_world
from teia.refresh.demand import POINTS, PRICES, DemandCurve, level_for, level_of, price_at
from teia.refresh.history import DAY_S
from teia.refresh.policies import find_policy
from teia.refresh.priors import LONGEST_S
from teia.refresh.rates import Floats, Gamma, mean_lifetime_s, repeat_prior

CREDIT_S, BURST_S = 7_200.0, 600.0
"""Time for which unspent budget is kept, and the time by which spending may be ahead of the budget."""

SOLVE_S = 60.0
"""Time after which the price is computed anew, for what was spent and for other nodes."""

LEAST_SHARE = 0.05
"""Share of a host's requests that known and new pages have at least, where both wait."""

RECHECK_S, MAX_RECHECK_S, RECHECK_SHARE = 60.0, 3_600.0, 0.1
"""Time, at least and at most, and share of a host's wait, after which its wait is computed anew."""

LATE_S, LATE_SLOTS = 60.0, 2.0
"""Time, or number of requests, that a host which was not requested in time may catch up."""

REPORTED = 32
"""Prices of the grid above the present one, and below, at which a node reports its spending to others."""

PRICED = ("edf", "index", "user-centric", "azar", "lambda-crawl", "cho")
"""Policies whose prices are values of visits, so that the value of a new URL can be compared with them."""

IMPOLITE = ("cho", "m-wolf", "uniform", "proportional", "rate-update")
"""Policies that divide a budget without regard to what hosts allow."""


class Elsewhere(NamedTuple):
    """Reports of other nodes: the spending at each price, and the number of pages, of all of them together.

    Each of the `unknown` nodes, which have reported nothing yet, is taken to be like this one. `new_most` is what
    politeness allows of hosts with new URLs, where these have a fixed share.
    """

    spending: Floats
    pages: float
    unknown: int = 0
    new_most: float = 0.0

    @classmethod
    def sum_up(cls, reports: Iterable[Sequence[float]]) -> Elsewhere:
        """Sum up what `CrawlBudget.report` returned at other nodes."""
        spending, pages, unknown, new_most = np.zeros(POINTS), 0.0, 0, 0.0
        for report in reports:
            if len(report) < 3:
                unknown += 1
                continue
            first, values = int(report[1]), np.array(report[2:])
            pages += report[0]
            # Nodes of earlier versions report nothing of new URLs.
            in_part = min(2 * REPORTED, POINTS - first)
            new_most += float(values[in_part:].sum())
            values = values[:in_part]
            # Outside of the part that is reported the curve is taken as flat.
            spending += np.interp(np.arange(POINTS), first + np.arange(len(values)), values)
        return cls(spending, pages, unknown, new_most)

    def with_unknown(self, like: Elsewhere) -> Elsewhere:
        """Return the reports with those that are missing, each taken to be like one."""
        return Elsewhere(
            spending=self.spending + self.unknown * like.spending,
            pages=self.pages + self.unknown * like.pages,
            new_most=self.new_most + self.unknown * like.new_most,
        )


def nothing_elsewhere() -> Elsewhere:
    return Elsewhere(np.zeros(POINTS), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class HostDemand:
    """What a host could use: its curve for known pages, and the requests per second that politeness allows (`most`).

    `new_value` is the value of a first visit to one of its new URLs. `cost` is the mean of a request, in the unit of
    the budget.
    """

    known: DemandCurve
    most: float
    pages: int = 0
    new_value: float = 0.0
    cost: float = 1.0


class HostTerms(NamedTuple):
    """What a demand depends on beside the pages: the time between a host's requests, and the part that is planned.

    The columns are one `scale`-th of the host's pages. `cost` is the mean of a request, `page_yield` the share of first
    visits that bring a page.
    """

    polite_s: float
    scale: float = 1.0
    cost: float = 1.0
    page_yield: float = 1.0


def measure_demand(
    columns: PageColumns, rate: Floats, priors: HostPriors, terms: HostTerms, settings: RefreshSettings, now_s: float
) -> HostDemand:
    """Return what a host could use, by the policy of the crawl and the rates of some or all of its pages."""
    weight = np.where(columns.is_gone, 0.0, columns.weight)
    polite_s = max(terms.polite_s, SHORTEST_SLOT_S)
    column = np.zeros(POINTS)
    if weight.any():
        world = policy_world(columns, rate, polite_s * terms.scale, settings, now_s)
        column = find_policy(settings.policy).demand(world, weight / terms.cost)
    return HostDemand(
        known=DemandCurve.of(np.minimum(column, len(weight) / settings.least_s) * terms.scale),
        most=1.0 / polite_s,
        pages=round(len(columns) * terms.scale),
        new_value=terms.page_yield * float(weight.mean()) * value_of_new(repeat_prior(*priors.of_host, 1)),
        cost=terms.cost,
    )


def value_of_new(prior: Gamma) -> float:
    """Return the value of a first capture of a page of weight 1: the time for which it is expected to stay fresh."""
    return float(mean_lifetime_s(prior, LONGEST_S)[0])


def demand_of_new(polite_s: float, value: float, cost: float = 1.0) -> HostDemand:
    """Return the demand of a host of which only new URLs are known, each worth `value`."""
    return HostDemand(DemandCurve.of(np.zeros(POINTS)), 1.0 / max(polite_s, SHORTEST_SLOT_S), 0, value, cost)


@dataclass(frozen=True, slots=True)
class BudgetTerms:
    """What hosts share: the place of the price on the grid, and what each page and new URLs have at any price.

    `level` is None without a budget. `floor` is for each page, in units of the budget per second. `of_new` is the part
    of the requests that politeness allows which go to new URLs where their share is fixed.
    """

    level: float | None
    floor: float
    of_new: float
    share: float
    by_value: bool

    @property
    def depend_on_demand(self) -> bool:
        """True if a host's part depends on what it could use; else it has all that politeness allows."""
        return self.level is not None or self.by_value

    def allot(self, demand: HostDemand, *, has_new: bool) -> HostAllotment:
        """Return a host's requests per second."""
        if self.level is None:
            return self._allot_unlimited(demand, has_new=has_new)
        least = self.floor * demand.pages / demand.cost
        if not has_new:
            wanted = demand.known.at(self.level) + least
            return HostAllotment(min(wanted, demand.most), 1.0, wanted)
        if not self.by_value:
            wanted = demand.known.at(self.level) + least
            known, new = min(wanted, demand.most), demand.most * self.of_new
            total = min(known + new, demand.most)
            return HostAllotment(total, _between(known / (known + new)) if known + new else 0.0, wanted)
        total = min(with_new(demand).at(self.level) + least, demand.most)
        wanted = demand.known.at(max(self.level, level_of(demand.new_value / demand.cost))) + least
        share = _between(min(wanted, total) / total) if total else 0.0
        return HostAllotment(total, share, total * share)

    def _allot_unlimited(self, demand: HostDemand, *, has_new: bool) -> HostAllotment:
        share = self.share if has_new else 1.0
        if has_new and self.by_value:
            share = _between(demand.known.at(level_of(demand.new_value / demand.cost)) / demand.most)
        return HostAllotment(demand.most, share, demand.most * max(share, 0.01))


@dataclass(frozen=True, slots=True, eq=False)
class BudgetOutlook:
    """The budget as one host sees it that is about to be planned: all others, and what they leave."""

    terms: BudgetTerms
    others: Floats
    wanted: float

    def terms_with(self, demand: HostDemand, *, has_new: bool) -> BudgetTerms:
        """Return the terms with the price that the host's new demand leads to."""
        if self.terms.level is None:
            return self.terms
        curve = with_new(demand) if has_new and self.terms.by_value else demand.known
        return replace(self.terms, level=level_for(self.others + demand.cost * curve.column(), self.wanted))


class HostAllotment(NamedTuple):
    """A host's requests per second, the share of them for known pages, and the visits its policy wants for these.

    A policy that ignores politeness may want more visits than the host has requests.
    """

    requests_per_s: float
    share: float
    wanted_per_s: float


def _between(share: float) -> float:
    return min(max(share, LEAST_SHARE), 1.0 - LEAST_SHARE)


def with_new(demand: HostDemand) -> DemandCurve:
    """Return the curve of a host that has new URLs: all its requests are worth the value of one of these."""
    worthwhile = demand.new_value / demand.cost > PRICES
    return DemandCurve.of(np.where(worthwhile, demand.most, demand.known.column()))


@dataclass(slots=True, eq=False)
class PacedHost:
    """A host's part in the budget. `last_s` is the time of its last request, as if all had been made in time.

    `phase` is a number between 0 and 1 that differs from host to host, so that not all of them begin at once. `counted`
    is what its last request was expected to cost.
    """

    phase: float
    demand: HostDemand | None = None
    has_new: bool = False
    curve: DemandCurve | None = None
    last_s: float | None = None
    counted: float = 1.0


@dataclass(slots=True)
class CrawlBudget:
    """The budget of a crawl, and the sum of what its hosts could use; belongs to the commit thread."""

    settings: RefreshSettings
    now_s: float
    elsewhere: Callable[[], Elsewhere] = nothing_elsewhere
    pages: float = 0.0
    spending: Floats = field(default_factory=lambda: np.zeros(POINTS))
    _new_most: float = 0.0
    _credit: float = 0.0
    _solved_s: float = -inf
    _own: float = 1.0
    _spent: float = 0.0
    _others: Floats = field(default_factory=lambda: np.zeros(POINTS))
    _wanted: float = 0.0
    terms: BudgetTerms = field(init=False)

    def __post_init__(self) -> None:
        chosen = self.settings.discovery
        by_value = (chosen == "value" or (chosen == "auto" and self.is_limited)) and self.settings.policy in PRICED
        self.terms = BudgetTerms(0.0 if self.is_limited else None, 0.0, 1.0, self.settings.share, by_value)

    @property
    def is_limited(self) -> bool:
        return self.settings.budget > 0

    @property
    def per_s(self) -> float:
        """The budget of this node per second: what it has of the whole, at the price."""
        return self.settings.budget / DAY_S * self._own

    def renewed(self, settings: RefreshSettings, now_s: float) -> CrawlBudget:
        """Return another budget for the same crawl, without demands; what was spent stays counted."""
        return CrawlBudget(settings, now_s, self.elsewhere, _spent=self._spent)

    def set_demand(self, host: PacedHost, demand: HostDemand | None, *, has_new: bool) -> None:
        """Replace what a host could use in the sums; the next request of any host sees the new price."""
        if host.demand is not None and host.curve is not None:
            self._add(host.demand, host.curve, -1.0, has_new=host.has_new)
        host.demand, host.has_new, host.curve = demand, has_new, None
        if demand is not None and self.is_limited:
            host.curve = with_new(demand) if has_new and self.terms.by_value else demand.known
            self._add(demand, host.curve, 1.0, has_new=has_new)
        self._solved_s = -inf

    def _add(self, demand: HostDemand, curve: DemandCurve, sign: float, *, has_new: bool) -> None:
        self.spending += sign * demand.cost * curve.column()
        self.pages += sign * demand.pages
        self._new_most += sign * demand.cost * demand.most * has_new

    def solve(self, now_s: float) -> None:
        """Compute the price anew, if the sums have changed or time has passed."""
        if not self.is_limited or now_s - self._solved_s < SOLVE_S:
            return
        self._pass_time(now_s)
        self._solved_s = now_s
        own = Elsewhere(self.spending, self.pages, 0, 0.0 if self.terms.by_value else self._new_most)
        others = self.elsewhere().with_unknown(own)
        budget, floor = self.settings.budget / DAY_S, self.settings.floor
        new_most = 0.0 if self.terms.by_value else own.new_most + others.new_most
        share = self.settings.share if new_most > 1e-12 else 1.0
        # What is left of the budget counts for this node alone: others have their own.
        wanted = budget + float(np.clip(self._credit / CREDIT_S, -0.5 * self.per_s, self.per_s))
        self._others, self._wanted = others.spending, (1.0 - floor) * share * wanted
        level = level_for(self.spending + others.spending, self._wanted)
        per_page = floor * share * budget / max(self.pages + others.pages, 1.0)
        here, there = (
            float(np.interp(level, np.arange(POINTS), each.spending)) + per_page * each.pages for each in (own, others)
        )
        # New URLs have what known pages leave, at least their own share; on all nodes the same part of what is polite.
        left = max(wanted - here - there, (1.0 - share) * wanted)
        of_new = min(1.0, left / new_most) if new_most > 1e-12 else 0.0
        here, total = here + of_new * own.new_most, here + there + of_new * new_most
        self._own = here / total if total > 0 else 1.0
        self.terms = replace(self.terms, level=level, floor=per_page, of_new=of_new)

    def outlook(self, host: PacedHost, now_s: float) -> BudgetOutlook:
        """Return the budget without the part of one host."""
        self.solve(now_s)
        others = self.spending + self._others
        if host.demand is not None and host.curve is not None:
            others -= host.demand.cost * host.curve.column()
        return BudgetOutlook(self.terms, others, self._wanted)

    def _pass_time(self, now_s: float) -> None:
        # Visits that a policy wants and politeness refuses are lost: that is what the policy costs.
        most = 0.0 if self.settings.policy in IMPOLITE else self.per_s * CREDIT_S
        self._credit = min(self._credit + self.per_s * max(now_s - self.now_s, 0.0), most)
        self.now_s = now_s

    def allow(self, host: PacedHost, limit: int, now_s: float) -> tuple[int, float | None]:
        """Return the number of requests that a host may have now, and the time of its next one; None is not known."""
        if not self.is_limited:
            return limit, None
        self.solve(now_s)
        overdrawn_s = self.overdrawn_s(host, now_s)
        if overdrawn_s > 0:
            return 0, now_s + overdrawn_s
        # A host with known pages that was not planned yet; soon it is.
        if host.demand is None:
            return 1, now_s
        slot_s = self._slot_s(host)
        if host.last_s is None:
            host.last_s = now_s - min(slot_s, DAY_S) * host.phase
        wait_s = host.last_s + slot_s - now_s
        # A long wait ends sooner if the price falls meanwhile.
        again_s = now_s + min(wait_s, max(RECHECK_S, min(RECHECK_SHARE * wait_s, MAX_RECHECK_S)))
        return (0 if wait_s > 0 else min(limit, int((now_s - host.last_s) / slot_s))), again_s

    def overdrawn_s(self, host: PacedHost, now_s: float) -> float:
        """Return the time until anything may be requested; 0 or less: now."""
        if not self.is_limited:
            return 0.0
        self._pass_time(now_s)
        # One request, whatever it costs, is never too much.
        one = 1.0 if host.demand is None else host.demand.cost
        return (-self._credit - max(self.per_s * BURST_S, one)) / max(self.per_s, 1e-9)

    def take(self, host: PacedHost, requests: int, now_s: float) -> None:
        """Count requests that were handed out."""
        if not self.is_limited or not requests:
            return
        host.counted = 1.0 if host.demand is None else host.demand.cost
        self._spend(requests * host.counted)
        if host.demand is None:
            return
        slot_s = self._slot_s(host)
        earliest_s = now_s - max(LATE_SLOTS * slot_s, LATE_S)
        # A timetable does not wait for its slot, which may be infinite; that delays later requests by a day at most.
        host.last_s = min(max((host.last_s or 0.0) + requests * slot_s, earliest_s), now_s + DAY_S)

    def correct(self, host: PacedHost, received_bytes: int) -> None:
        """Replace the expected cost of a request by the real one."""
        if self.is_limited and self.settings.budget_unit == "bytes":
            self._spend(received_bytes - host.counted)

    def _spend(self, amount: float) -> None:
        self._credit -= amount
        self._spent += amount

    def _slot_s(self, host: PacedHost) -> float:
        assert host.demand is not None
        per_s = self.terms.allot(host.demand, has_new=host.has_new).requests_per_s
        return 1.0 / per_s if per_s > 1e-12 else inf

    def report(self) -> list[float]:
        """Return what other nodes need to know: the number of pages, and the spending at prices near the present one.

        Where new URLs have a fixed share, the last number is what politeness allows of hosts that have some. A node
        that continues without reports of others uses their last ones. Empty without a budget.
        """
        if self.terms.level is None:
            return []
        first = max(0, int(self.terms.level) - REPORTED)
        values = self.spending[first:][: 2 * REPORTED].tolist()
        values += [] if self.terms.by_value else [max(self._new_most, 0.0)]
        return [self.pages, float(first), *(float(f"{each:.6g}") for each in values)]

    def account(self) -> dict[str, float]:
        """Return the budget and its price, as figures for people; empty without a budget."""
        if not self.is_limited or self.terms.level is None:
            return {}
        planned = float(np.interp(self.terms.level, np.arange(POINTS), self.spending)) + self.terms.floor * self.pages
        price_hours = price_at(self.terms.level) / 3_600.0
        figures = {"budget": self.settings.budget, "planned_a_day": planned * DAY_S, "price_hours": price_hours}
        return {name: round(figure, 4) for name, figure in {**figures, "spent": self._spent}.items()}
