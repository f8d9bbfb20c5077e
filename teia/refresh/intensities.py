"""Visits per second for a crawl without end, under a politeness limit per server and one limit for all.

`counts` plans a day; this module plans an endless crawl. At the optimum the last visit of every page of a server is
worth the same, `nu`. No server's last visit is worth less than `mu`, the global value of a visit. So a page's intensity
follows from max(mu, nu of its server). Each server is solved for its own limit, then `mu` for all (Kolobov and others,
SIGIR 2019).

Three objectives:

    periodic   pages visited at even intervals: freshness (rho/lam)(1 - e^(-lam/rho)). Our dispatch comes close to it
    poisson    visits at random times: freshness rho/(rho + lam) (Azar and others, 2018)
    harmonic   penalty ln(1 + lam/rho): no page is ever given up (Kolobov and others, NeurIPS 2019)

The first two give up pages that change too fast to be worth a visit. `floor_share` reserves that share of each server's
rate and spreads it evenly, so that every page is eventually revisited.

Visits of large pages cost more than one (`model`); a price is then paid for each of them, and limits are of their sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from teia.errors import UsageError
from teia.refresh.formulas import CURVES, Curve, Objective, blocks
from teia.refresh.large_scale import LargePages, plan_large_rates
from teia.refresh.model import Floats, RefreshWorld, Rows
from teia.refresh.segments import Part, Segments
from teia.refresh.threshold import PRECISION, Flags, is_solved, narrow


@dataclass(frozen=True, slots=True, eq=False)
class Intensities:
    """Visits per second of each page, and the value of the last visit on each server."""

    visits_per_s: Floats
    price: Floats


def plan_intensities(
    world: RefreshWorld,
    *,
    objective: Objective = "periodic",
    floor_share: float = 0.0,
    polite: bool = True,
    visits_per_s: float | None = None,
) -> Intensities:
    """Find the intensities that are best in the long run.

    Their sum is at most `visits_per_s`. The default is the capacity of the crawlers, or the budget over the horizon if
    that is less. `polite=False` leaves out the servers' limits: Cho's optimum.
    """
    if not 0 <= floor_share <= 1:
        raise UsageError(f"the share of the floor must be between 0 and 1, not {floor_share:g}")
    limit = capacity(world) if visits_per_s is None else visits_per_s
    if limit <= 0 or not world.worth_visiting.any():
        return Intensities(np.zeros(len(world)), np.full(world.servers, np.inf))
    segments = Segments(world.starts)
    each = server_limits(world, limit) if polite else np.full(world.servers, limit)
    if world.device != "cpu":
        return _on_device(world, each if polite else None, limit, objective, floor_share)
    of_use = world.worth_visiting
    # 1. Floors. 2. Each server under its own limit. 3. All servers under the common one.
    floor = np.where(of_use, segments.spread(_floors(segments, each, of_use, limit, floor_share)), 0.0)
    pages = _Pages(world, CURVES[objective], floor, of_use)
    if polite:
        pages.cost = world.server_costs
        pages.solve_servers(segments, each)
    pages.cost = world.crawler_costs(limit)
    if pages.total() > limit:
        pages.solve_all(limit)
    return Intensities(pages.intensity, pages.price)


def _on_device(
    world: RefreshWorld, each: Floats | None, limit: float, objective: Objective, floor_share: float
) -> Intensities:
    if floor_share:
        raise UsageError(f"device {world.device}: floors are planned on the processor alone")
    pages = LargePages.from_world(world, limit)
    limits = None if each is None else pages.arrays.array(each)
    found = plan_large_rates(pages, limits, limit, objective)
    rates = pages.arrays.full(len(pages), 0.0, pages.arrays.xp.float64)
    found.write(rates)
    return Intensities(pages.arrays.to_numpy(rates), pages.arrays.to_numpy(found.price))


def intensity_at(objective: Objective, price: ArrayLike, weight: ArrayLike, rate: ArrayLike) -> Floats:
    """Return visits per second of pages where a visit costs `price`; used for a page added after the plan was made."""
    price, weight, rate = (np.atleast_1d(np.asarray(each, dtype=np.float64)) for each in (price, weight, rate))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        of_use = (rate > 0) & np.isfinite(rate) & (weight > 0)
        visits = CURVES[objective](price, np.where(of_use, weight, 1.0), np.where(of_use, rate, 1.0))
    return np.where(of_use, visits, 0.0)


def capacity(world: RefreshWorld) -> float:
    """Return the visits per second that the crawlers can make, or the budget over the horizon if that is less."""
    if world.budget is None:
        return world.crawlers.visits_per_s
    return min(world.crawlers.visits_per_s, world.budget / world.horizon_s)


def server_limits(world: RefreshWorld, limit: float) -> Floats:
    """Return the visits per second that politeness allows each server; `limit` where P is 0."""
    with np.errstate(divide="ignore"):
        return np.minimum(1.0 / world.politeness_s, limit)


def _floors(segments: Segments, each: Floats, of_use: Flags, limit: float, share: float) -> Floats:
    """Return the least intensity of the pages of each server.

    It is `share` of the server's rate, reduced so that all floors together are at most `share` of the limit, divided
    evenly among the server's pages.
    """
    pages = np.maximum(segments.sums(of_use.astype(np.float64)), 1.0)
    wanted = share * each
    total = wanted[segments.lengths > 0].sum()
    scale = min(1.0, share * limit / total) if total > 0 else 0.0
    floors: Floats = wanted * scale / pages
    return floors


@dataclass(slots=True)
class _Pages:
    weight: Floats
    rate: Floats
    curve: Curve
    floor: Floats
    of_use: Flags
    server: Rows
    price: Floats
    intensity: Floats
    cost: Floats | None

    def __init__(self, world: RefreshWorld, curve: Curve, floor: Floats, of_use: Flags) -> None:
        self.curve, self.floor, self.of_use = curve, floor, of_use
        # 1.0 is a placeholder that keeps the curves finite; `_part` sets the result of these pages to 0.
        self.weight, self.rate = np.where(of_use, world.weight, 1.0), np.where(of_use, world.rate, 1.0)
        self.server = np.repeat(np.arange(world.servers, dtype=np.int32), world.pages_per_server)
        self.price, self.cost = np.zeros(world.servers), None
        # No limit yet: `_capped_intensities` takes the minimum of this and the curve.
        self.intensity = np.where(of_use, np.inf, 0.0)

    def total(self) -> float:
        return float(self._costs(slice(None), self.intensity).sum())

    def _costs(self, part: Part, intensity: Floats) -> Floats:
        return intensity if self.cost is None else intensity * self.cost[part]

    def solve_servers(self, segments: Segments, each: Floats) -> None:
        relevant = segments.sums(self.of_use.astype(np.float64)) > 0
        # If the floors alone fill the limit, the price stays infinite and each page keeps its floor.
        relevant &= segments.sums(self.floor) < each * (1 - PRECISION)

        def visits(at: Floats, wanted: Flags) -> Floats:
            price = np.exp(at)
            paid = segments.sums_of(lambda part: self._costs(part, self._part(part, price[self.server[part]])), wanted)
            shares: Floats = paid / each
            return shares

        start = self._guess(segments.sums_of(self._root), each)
        state = narrow(visits, np.ones(len(each)), start, is_solved, relevant)
        low, self.price = (np.where(relevant, np.exp(end), np.inf) for end in state.ends_at(1.0))
        self._settle(low, self.price, state.share_at(1.0))

    def solve_all(self, limit: float) -> None:
        """Reduce the total to the limit: a page gets the lesser intensity of its server's price and of `mu`."""
        own = self.price
        if self.floor.sum() >= limit * (1 - PRECISION):
            self.price, self.intensity = np.full_like(own, np.inf), self.floor
            return

        def visits(at: Floats, wanted: Flags) -> Floats:  # noqa: ARG001  # there is one group
            price = np.full_like(own, np.exp(at[0]))
            paid = sum(
                self._costs(part, self._capped_intensities(part, price)).sum() for part in blocks(len(self.rate))
            )
            return np.array([paid / limit])

        start = self._guess(
            np.array([sum(self._root(part).sum() for part in blocks(len(self.rate)))]), np.array([limit])
        )
        state = narrow(visits, np.ones(1), start, is_solved, np.ones(1, dtype=np.bool_))
        low, high = (np.full_like(own, np.exp(end[0])) for end in state.ends_at(1.0))
        self._settle(low, high, np.full_like(own, state.share_at(1.0)[0]))
        self.price = np.maximum(own, high)

    def _root(self, part: Part) -> Floats:
        return np.sqrt(np.where(self.of_use[part], self.weight[part] * self.rate[part] / 2, 0.0))

    @staticmethod
    def _guess(roots: Floats, limits: Floats) -> Floats:
        """Guess the price: where pages are visited often, a visit is worth w lam / 2 rho^2."""
        return np.where(roots > 0, 2.0 * np.log(np.maximum(roots, 1e-300) / limits), 0.0)

    def _settle(self, low: Floats, high: Floats, share: Floats) -> None:
        """Set intensities `share` of the way from those at the server's high price to those at its low price."""
        for part in blocks(len(self.rate)):
            few = self._capped_intensities(part, high)
            few += share[self.server[part]] * (self._capped_intensities(part, low) - few)
            self.intensity[part] = few

    def _capped_intensities(self, part: Part, price: Floats) -> Floats:
        """Return the intensities at these server prices, capped by the current intensities."""
        return np.minimum(self.intensity[part], self._part(part, price[self.server[part]]))

    def _part(self, part: Part, price: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            curve = self.curve(self._costs(part, price), self.weight[part], self.rate[part])
        return np.where(self.of_use[part], np.maximum(curve, self.floor[part]), 0.0)
