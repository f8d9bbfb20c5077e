"""Phase 1 of PSP (P4): the number of visits of each page, under a cap per server and a budget for all.

The literal greedy gives one visit after the other to the page that gains most, as long as its server has room. The
gains of a page fall with every visit, and caps within a budget are a polymatroid, so greedy is exact (Fox; Wolf and
others). Its result can be computed directly: each server takes its best visits up to its cap, and of all those taken
the best ones stay, up to the budget. Both steps are thresholds on the gain. A page has floor(y) or floor(y) + 1 visits
worth at least a threshold, where `y` comes from the inverse of q. So evaluating a threshold costs one operation per
page, not one per visit. Equal gains go to the page with the smaller id, as in the literal greedy. Visits that gain
nothing are not made.

Where large pages cost more than one visit (`model`), gains are divided by costs, and the caps are sums of costs. Greedy
is then no longer exact: a page that does not fit into the rest of a cap has no more visits, and the others share the
rest. The two steps have costs of their own, of servers and of crawlers.

`tests/refresh/test_counts.py` compares this with the literal greedy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from teia.errors import UsageError
from teia.refresh.formulas import BLOCK, added_freshness, blocks, rough_gap_for
from teia.refresh.large_scale import LargePages, plan_large_counts
from teia.refresh.model import ROUNDING, CapRule, Floats, Numbers, RefreshWorld, Rows
from teia.refresh.segments import Part, Segments, Whole
from teia.refresh.threshold import Bracket, Flags, narrow

UNLIMITED = np.iinfo(np.int64).max
FEW_CANDIDATES = 4
"""Number of undecided visits at or below which a group is settled by sorting them."""

MOST_REFILLS = 8
"""Rounds in which the rest of a cap is shared by pages that still fit into it."""

EAGER_ROUNDS = 8
"""Rounds in which large groups are narrowed to 1/16 of a visit per page; later, one per page is enough."""

PAGES_AT_ONCE = 1 << 17
"""Number of pages per batch of servers; the columns of one batch stay in the processor's cache from round to round."""


def plan_counts(world: RefreshWorld, *, caps: CapRule = "floor") -> Numbers:
    """Return the number of visits of each page that makes the store freshest, starting from the pages' ages."""
    room = world.caps(caps)
    if world.budget is None and room.max() == UNLIMITED:
        raise UsageError(
            "a plan without delays (P = 0, m-wolf) needs a budget; otherwise the number of visits is unlimited"
        )
    if world.device != "cpu":
        large = LargePages.from_world(world, (world.budget or 0) / world.horizon_s)
        found = plan_large_counts(large, None if caps == "none" else room, world.budget)
        return np.asarray(large.arrays.to_numpy(found), dtype=np.int64)
    # Only pages that a visit can improve take part.
    useful = _rows(world.worth_visiting)
    pages = VisitablePages.select(world, useful)
    # 1. Each server takes its best visits up to its cap.
    free = caps == "none"
    pages.cost = None if free else _some(world.server_costs, useful)
    counts = np.full(len(pages), UNLIMITED) if free else pages.best_per_server(room.astype(np.float64))
    # 2. Where these exceed the budget, the best of all of them stay.
    if world.budget is not None:
        pages.cost = _some(world.crawler_costs(world.budget / world.horizon_s), useful)
        if float(np.multiply(counts, 1.0 if pages.cost is None else pages.cost).sum()) > world.budget:
            counts = pages.best_within_budget(counts, world.budget)
    if isinstance(useful, slice):
        return counts
    of_all = np.zeros(len(world), dtype=np.int64)
    of_all[useful] = counts
    return of_all


def gain(world: RefreshWorld, rows: Numbers, counts: ArrayLike) -> Floats:
    """Return the freshness of the whole store that one visit more than `counts` adds, for the pages at `rows`."""
    return VisitablePages.select(world, np.asarray(rows)).gains(slice(None), np.asarray(counts, dtype=np.float64))


def counts_at(world: RefreshWorld, price: float) -> Floats:
    """Return the number of visits of each page that gain at least `price` of the store's freshness."""
    useful = _rows(world.worth_visiting)
    pages = VisitablePages.select(world, useful)
    counts, found = np.zeros(len(world)), np.empty(len(pages))
    for part in blocks(len(pages)):
        found[part] = pages.counts_at(part, np.full_like(found[part], price))
    counts[useful] = found
    return counts


@dataclass(slots=True)
class VisitablePages:
    """Columns of the pages that are worth a visit, in units of their own change: `span` is lam T, `aged` lam age.

    `most` is the greatest number of visits of each page, where there is one. `cost` is that of a visit of each page,
    where it is not one for all.
    """

    servers: Segments
    page: Numbers
    span: Floats
    aged: Floats | None
    worth: Floats
    most: Numbers | None = None
    cost: Floats | None = None

    @classmethod
    def select(cls, world: RefreshWorld, rows: Part) -> VisitablePages:
        """Select the pages at `rows`; slice(None) selects all pages as views, without copying."""
        starts = world.starts if isinstance(rows, slice) else np.searchsorted(rows, world.starts).astype(np.int64)
        rate = world.rate[rows]
        span = rate * world.horizon_s
        return cls(
            servers=Segments(starts),
            page=world.page[rows],
            span=span,
            aged=rate * world.age_s[rows] if world.has_ages else None,
            worth=world.weight[rows] / span,
        )

    def __len__(self) -> int:
        return len(self.span)

    def best_per_server(self, spare: Floats) -> Numbers:
        """Return the best visits of each server: `spare` of them."""
        counts = np.empty(len(self), dtype=np.int64)
        for first, last in self.servers.runs(PAGES_AT_ONCE):
            begin, end = self.servers.starts[[first, last]]
            some, room = self._of_servers(first, last), spare[first:last]
            some._best(room, some.servers, (some.servers.lengths > 0) & (room > 0), counts[begin:end])
        return counts

    def _of_servers(self, first: int, last: int) -> VisitablePages:
        starts = self.servers.starts[first : last + 1]
        part = slice(starts[0], starts[-1])
        return VisitablePages(
            servers=Segments(starts - starts[0]),
            page=self.page[part],
            span=self.span[part],
            aged=None if self.aged is None else self.aged[part],
            worth=self.worth[part],
            cost=None if self.cost is None else self.cost[part],
        )

    def best_within_budget(self, counts: Numbers, budget: int) -> Numbers:
        """Keep the best `budget` visits; `counts` is overwritten with the result."""
        if budget == 0:
            return np.zeros_like(counts)
        self.most = counts
        target = np.array([float(budget)])
        self._best(target, Whole(len(self)), np.ones(1, dtype=np.bool_), counts)
        return counts

    def _best(self, target: Floats, groups: Segments, binding: Flags, counts: Numbers) -> None:
        """Put the best visits of each group, as many as its target, into `counts`; none where nothing binds."""
        if self.cost is None:
            self._choose(target, groups, binding, counts)
            return
        most = np.full(len(self), UNLIMITED) if self.most is None else self.most.copy()
        for _ in range(MOST_REFILLS):
            self._choose(target, groups, binding, counts)
            # Pages that do not fit into what is left keep their visits, and the others share it.
            left = target - groups.sums(counts * self.cost)
            full = (self.cost > left[groups.number] * (1 + ROUNDING)) | (counts >= most)
            if (full | ~binding[groups.number]).all():
                break
            self.most = most = np.where(full, counts, most)

    def _choose(self, target: Floats, groups: Segments, binding: Flags, counts: Numbers) -> None:
        """Put the visits above the threshold of each group into `counts`, and the best of those at it."""
        state = self._find_thresholds(target, groups, binding)
        # An infinite threshold leaves the pages of a group that does not bind without visits.
        high = np.where(binding, np.where(np.isfinite(state.high), state.high, state.low), np.inf)
        low = np.where(binding, np.where(np.isfinite(state.low), state.low, state.high), np.inf)
        row, open_ = self._between(np.exp(high), np.exp(low), groups, counts)
        self._distribute_rest(counts, row, open_, target, groups)

    def _find_thresholds(self, target: Floats, groups: Segments, binding: Flags) -> Bracket:
        sizes = self._sizes(groups)

        def visits(at: Floats, wanted: Flags) -> Floats:
            threshold = np.exp(at)
            return groups.sums_of(
                lambda part: self._costs(part, self.counts_at(part, threshold[groups.number[part]])), wanted
            )

        def settled(state: Bracket, round_: int) -> Flags:
            share = 1 / 16 if round_ < EAGER_ROUNDS else 1.0
            enough: Flags = state.many - state.few <= np.maximum(FEW_CANDIDATES, sizes * share)
            return enough

        # For short gaps, gains are w lam T / 2 (x + 1)^2, so the sum of x determines the threshold.
        roots = groups.sums_of(lambda part: np.sqrt(self.worth[part] * self.span[part] ** 2 / 2))
        with np.errstate(divide="ignore"):
            guess = np.log(np.square(roots / np.maximum(target + groups.lengths, 1.0)))
        return narrow(visits, target, np.where(roots > 0, guess, 0.0), settled, binding)

    def _costs(self, part: Part, counts: Floats) -> Floats:
        """Return the costs of so many visits of these pages."""
        return counts if self.cost is None else counts * self.cost[part]

    def _sizes(self, groups: Segments) -> Floats | Numbers:
        """Return the cost of one visit of every page of each group."""
        return groups.lengths if self.cost is None else groups.sums(self.cost)

    def counts_at(self, part: Part, threshold: Floats) -> Floats:
        """Return the number of visits of these pages that gain at least the threshold for their cost."""
        z = self._costs(part, threshold) / self.worth[part]
        u = rough_gap_for(z)
        y = self.span[part] / u
        if self.aged is None:
            y -= 1.0
        else:
            y -= np.maximum(0.0, 1.0 - self.aged[part] / u)
        k = np.maximum(np.floor(y), 0.0)
        # `y` has seven digits only, so the exact gain decides about the visit at the threshold.
        k += (y >= 0) & (self._growth(part, k) >= z)
        return np.minimum(k, UNLIMITED if self.most is None else self.most[part])

    def gains(self, part: Part, k: Floats) -> Floats:
        gains: Floats = self.worth[part] * self._growth(part, k)
        return gains if self.cost is None else gains / self.cost[part]

    def _growth(self, part: Part, k: Floats) -> Floats:
        """Return the freshness that visit k + 1 adds to a page, in units of 1/lam.

        With an age, the first of the even gaps has already begun. Where that gap should already be over (`late`), the
        first visit is made at once and there is one gap less.
        """
        span = self.span[part]
        if self.aged is None:
            return added_freshness(span, k + 1)
        aged = self.aged[part]
        late, late_next = k * aged > span, (k + 1) * aged > span
        growth = added_freshness(np.where(late, span, span + np.minimum(aged, span)), np.where(late, k, k + 1))
        # At `becomes_late`, visit k + 1 is the first with which the schedule is late: both forms of the sum meet here.
        becomes_late = late_next & ~late
        if becomes_late.any():
            n, a = k[becomes_late] + 1, aged[becomes_late]
            growth[becomes_late] = -np.expm1(-a) + n * np.exp(-span[becomes_late] / n) * np.expm1(-a / n)
        return growth

    def _between(self, high: Floats, low: Floats, groups: Segments, counts: Numbers) -> tuple[Numbers, Floats]:
        """Put the visits at the high thresholds into `counts`, which may be the same array as `self.most`.

        Returns the places of the pages that have more visits at the low thresholds, and the number of extra visits of
        each.
        """
        rows, open_ = [np.empty(0, dtype=np.int64)], [np.empty(0)]
        for begin in range(0, len(self), BLOCK):
            part = slice(begin, begin + BLOCK)
            group = groups.number[part]
            sure = self.counts_at(part, high[group])
            more = self.counts_at(part, low[group]) - sure
            counts[part] = sure
            some = np.flatnonzero(more)
            rows.append(some + begin)
            open_.append(more[some])
        return np.concatenate(rows), np.concatenate(open_)

    def _distribute_rest(self, counts: Numbers, row: Numbers, open_: Floats, target: Floats, groups: Segments) -> None:
        """Distribute the visits between the two thresholds, best first."""
        left = target - groups.sums(counts if self.cost is None else counts * self.cost)
        group = groups.number[row]
        candidates = np.bincount(group, self._costs(row, open_), minlength=len(groups))
        # Many visits between two thresholds that cannot be narrowed further have equal gains: ids decide.
        has_equal_gains = (candidates > np.maximum(FEW_CANDIDATES, self._sizes(groups))) & (candidates > left)
        for distribute, chosen in (
            (self._distribute_by_id, has_equal_gains[group]),
            (self._distribute_by_gain, ~has_equal_gains[group]),
        ):
            some = row[chosen]
            counts[some] += distribute(some, counts[some], open_[chosen], group[chosen], left)

    def _distribute_by_id(self, row: Numbers, sure: Numbers, open_: Floats, group: Rows, left: Floats) -> Numbers:  # noqa: ARG002
        """Distribute visits of equal gain to pages in the order of their ids."""
        order = np.lexsort((self.page[row], group))
        costs, of_order = self._costs(row, open_)[order], group[order]
        before = np.cumsum(costs) - costs
        # Running sums of all groups, less the sum at the beginning of each group.
        within = before - before[np.searchsorted(of_order, of_order)]
        assigned = np.zeros(len(row), dtype=np.int64)
        affordable = left[of_order] - within
        if self.cost is not None:
            affordable /= self.cost[row[order]]
        assigned[order] = np.clip(affordable, 0.0, open_[order])
        return assigned

    def _distribute_by_gain(self, row: Numbers, sure: Numbers, open_: Floats, group: Rows, left: Floats) -> Numbers:
        times = open_.astype(np.int64)
        row_index, k = np.repeat(np.arange(len(row)), times), _ranks(times).astype(np.float64)
        gains = np.empty(len(row_index))
        for part in blocks(len(row_index)):
            gains[part] = self.gains(row[row_index[part]], sure[row_index[part]] + k[part])
        row_index = row_index[np.lexsort((self.page[row[row_index]], -gains, group[row_index]))]
        group_of_row = group[row_index]
        if self.cost is None:
            chosen = _ranks(np.bincount(group_of_row, minlength=len(left))) < left[group_of_row]
        else:
            chosen = _fitting(self.cost[row[row_index]], group_of_row, left)
        return np.bincount(row_index[chosen], minlength=len(row))


def _fitting(costs: Floats, group: Rows, left: Floats) -> Flags:
    """Choose from the first on; what does not fit into the rest of its group is passed over."""
    rest = left.tolist()
    chosen = np.zeros(len(costs), dtype=np.bool_)
    for number, (cost, of) in enumerate(zip(costs.tolist(), group.tolist(), strict=True)):
        if cost <= rest[of] * (1 + ROUNDING):
            rest[of] -= cost
            chosen[number] = True
    return chosen


def _some(column: Floats | None, rows: Part) -> Floats | None:
    return None if column is None else column[rows]


def _rows(chosen: Flags) -> Part:
    """Return the indexes of the chosen rows; slice(None) if all are chosen, which avoids a copy."""
    return slice(None) if chosen.all() else np.flatnonzero(chosen)


def _ranks(sizes: Numbers) -> Numbers:
    """Return 0, 1, … within each of consecutive stretches of these sizes."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
