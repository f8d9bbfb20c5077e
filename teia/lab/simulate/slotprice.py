"""The slot-price bound: a nearly tight lower bound on the staleness of any polite policy, for small worlds.

WP pretends that every page can be visited at its own best time; where a server has one visit for each page, all of them
want the middle of the day. Here the horizon is cut into slots no longer than P, so that each holds at most one visit of
the server, and every slot has a price. Each page picks its best visits at these prices (dynamic programming). The net
gain of the pages plus all prices is at least the gain of any polite schedule, at any prices (Lagrange). The first
prices are the values of the visits of a good timetable. Then each answer of the pages is a plane below the sum of gains
and prices. The next prices are at the lowest point of the planes so far, within a trust region around the best prices
(cutting planes). The lowest sum found is the bound. The budget is ignored, so the bound holds for any budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from teia.errors import UsageError
from teia.refresh.counts import plan_counts
from teia.refresh.merge import merge
from teia.refresh.model import Floats, Numbers, RefreshWorld

MAX_SLOTS = 2000
"""Largest number of slots of a server; the running time grows with its square."""

KNOTS = 16
"""Number of knots between which prices are linear; closer together at both ends, where prices fall to nothing."""

CHEAP = 0.2
"""Quantile of the values of nearby visits at which prices begin."""

CLOSE = 1e-7
"""Prices are good enough when no other prices could lower the bound on freshness by more than this."""


def slot_price(world: RefreshWorld, *, rounds: int = 40) -> float:
    """Return a lower bound on expected staleness over the horizon, from the ages of copies, for any polite policy."""
    world = replace(world, budget=None)
    if not world.politeness_s.all() or world.caps("ceil").max() > MAX_SLOTS:
        raise UsageError(f"the slot-price bound requires servers with 1 to {MAX_SLOTS} visits in the horizon")
    counts = plan_counts(world, caps="ceil")
    worths = _worths(world, counts)
    fresh = float(world.weight[world.rate == 0].sum())
    for server in range(world.servers):
        rows = np.arange(world.starts[server], world.starts[server + 1])
        moving = rows[world.worth_visiting[rows]]
        if len(moving):
            fresh += _Server.build(world, server, moving, counts, worths[server]).bound(rounds)
    return 1.0 - fresh


def _worths(world: RefreshWorld, counts: Numbers) -> list[tuple[Floats, Floats]]:
    """Return, for each server, the times of its visits in an even timetable and the loss without each visit."""
    table = merge(world, counts, "centred")
    order = np.lexsort((table.due_s, table.page))
    page, at = table.page[order], table.due_s[order]
    same = page[1:] == page[:-1]
    before = at + world.age_s[page]
    before[1:][same] = np.diff(at)[same]
    after = world.horizon_s - at
    after[:-1][same] = np.diff(at)[same]
    rate = world.rate[page]
    # Without a visit its two gaps become one: (1 - e^(-lam before)) (1 - e^(-lam after)) / lam is lost.
    loss = world.weight[page] / (rate * world.horizon_s) * np.expm1(-rate * before) * np.expm1(-rate * after)
    worth = np.empty_like(loss)
    worth[order] = loss
    bounds = [(int(a), int(b)) for a, b in zip(table.starts[:-1], table.starts[1:], strict=True)]
    return [(table.due_s[a:b], worth[a:b]) for a, b in bounds]


@dataclass(slots=True)
class _Server:
    """The pages of one server that want slots.

    A visit may be anywhere in its slot. The value of a gap is concave in its length. So it is at most its value between
    the middles of two slots, plus its slope there times the extra length. Over all gaps of a page, the place of a visit
    in its slot then counts by the difference of the slopes before and after it. Both are compared with one slope, that
    of the page's `usual` gap, so that each gap can be treated separately; the error of this is of second order.
    """

    first: Floats
    between: Floats
    last: Floats
    never: Floats
    lines: Floats
    knots: Floats

    @classmethod
    def build(
        cls, world: RefreshWorld, server: int, rows: Numbers, counts: Numbers, worths: tuple[Floats, Floats]
    ) -> _Server:
        horizon = world.horizon_s
        slots = max(1, math.ceil(horizon / float(world.politeness_s[server])))
        length = horizon / slots
        middle: Floats = (np.arange(slots, dtype=np.float64) + 0.5) * length
        rate, weight, age, x = world.rate[rows], world.weight[rows], world.age_s[rows], counts[rows]
        gap = np.where(x * age > horizon, horizon / np.maximum(x, 1), (horizon + np.minimum(age, horizon)) / (x + 1))
        usual, faded = np.exp(-rate * gap)[:, None], np.exp(-rate * age)[:, None]

        def worth(gaps: Floats, ends: int, survival_at_start: Floats | float = 1.0) -> Floats:
            still = np.exp(-rate[:, None] * gaps) * survival_at_start
            fresh_s = -np.expm1(-rate[:, None] * gaps) / rate[:, None] * survival_at_start
            result: Floats = weight[:, None] / horizon * (fresh_s + ends * length / 2 * np.abs(still - usual))
            return result

        lines = _lines(middle)
        return cls(
            first=worth(middle, 1, faded),
            between=worth(np.arange(slots, dtype=np.float64) * length, 2),
            last=worth(horizon - middle, 1),
            never=worth(np.array([horizon]), 0, faded)[:, 0],
            lines=lines,
            knots=_first_knots(lines, middle, *worths),
        )

    def bound(self, rounds: int) -> float:
        """Return an upper bound on the freshness that the pages of the server add."""
        lowest, best, reach = math.inf, self.knots, 0.3 * float(self.knots.mean())
        knots, planes = self.knots, []
        for _ in range(rounds):
            price = self.lines @ knots
            gained, wanted = self._best_response(price)
            value, slope = gained + float(price.sum()), self.lines.T @ (1.0 - wanted)
            planes.append((slope, value - float(slope @ knots)))
            # The trust region grows after an improvement and shrinks after a failure.
            if value < lowest:
                reach *= 1.3 if math.isfinite(lowest) else 1.0
                lowest, best = value, knots
            else:
                reach *= 0.7
            knots, possible = _lowest(planes, best, reach)
            if lowest - possible < CLOSE:
                break
        return lowest

    def _best_response(self, price: Floats) -> tuple[float, Floats]:
        """Return the total gain if each page picks its best visits at these prices, and the demand for each slot."""
        slots, every = len(price), np.arange(len(self.never))
        # best[p, s]: best net gain of page p whose last visit so far is in slot s; `before` is the visit before it.
        best = self.first - price
        before = np.full(best.shape, -1, dtype=np.int64)
        for slot in range(1, slots):
            longer = best[:, :slot] + self.between[:, slot:0:-1]
            pick = longer.argmax(axis=1)
            found = longer[every, pick] - price[slot]
            better = found > best[:, slot]
            best[better, slot] = found[better]
            before[better, slot] = pick[better]
        ends = best + self.last
        last = ends.argmax(axis=1)
        value = ends[every, last]
        visiting = value > self.never
        wanted = _wanted(np.where(visiting, last, -1), before)
        return float(np.maximum(value, self.never).sum()), wanted


def _lines(middle: Floats) -> Floats:
    """Return the weight of each knot in the price of each slot."""
    knots = min(KNOTS, len(middle))
    if knots == 1:
        return np.ones((len(middle), 1))
    bent = (1.0 - np.cos(np.linspace(0.0, np.pi, knots))) / 2
    at = middle[0] + bent * (middle[-1] - middle[0])
    return np.stack([np.interp(middle, at, each) for each in np.eye(knots)], axis=1)


def _first_knots(lines: Floats, middle: Floats, at: Floats, worth: Floats) -> Floats:
    """Return first prices: a parabola through the values of cheap visits, the shape for slowly changing pages."""
    least = float(worth.max(initial=1e-12)) * 1e-3
    parts = [part for part in np.array_split(np.argsort(at, kind="stable"), KNOTS) if len(part)]
    if len(parts) < 3:
        return np.full(lines.shape[1], max(least, float(worth.min(initial=np.inf)) if len(worth) else least))
    times = [float(at[part].mean()) / middle[-1] for part in parts]
    curve = np.polyfit(times, [float(np.quantile(worth[part], CHEAP)) for part in parts], 2)
    positions = middle[lines.argmax(axis=0)] / middle[-1]
    return np.maximum(np.polyval(curve, positions), least)


def _lowest(planes: list[tuple[Floats, float]], best: Floats, reach: float) -> tuple[Floats, float]:
    """Return the knots, within reach of the best ones, at which the maximum of all planes is lowest, and its value."""
    from scipy.optimize import linprog  # takes half a second; only this function needs it

    # Minimise t with slope @ knots + value <= t for all planes; `unit` scales prices to about 1 for the solver.
    unit = max(float(best.mean()), 1e-300)
    slopes = np.array([slope for slope, _ in planes]) * unit
    found = linprog(
        np.append(np.zeros(len(best)), 1.0),
        A_ub=np.hstack([slopes, -np.ones((len(planes), 1))]),
        b_ub=[-value for _, value in planes],
        bounds=[(max(0.0, each - reach) / unit, (each + reach) / unit) for each in best] + [(None, None)],
    )
    if not found.success:
        return best, math.inf
    return found.x[:-1] * unit, float(found.x[-1])


def _wanted(last: Numbers, before: Numbers) -> Floats:
    """Return the visits in each slot, traced back from each page's last one (-1: none)."""
    wanted = np.zeros(before.shape[1])
    rows = np.flatnonzero(last >= 0)
    at = last[rows]
    while len(rows):
        wanted += np.bincount(at, minlength=len(wanted))
        at = before[rows, at]
        rows, at = rows[at >= 0], at[at >= 0]
    return wanted
