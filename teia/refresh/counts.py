"""Phase 1 of PSP (P4): how often each page is visited, under a cap for each server and a budget for all.

The literal greedy gives one visit after the other to the page that gains most, as long as its server has room. Gains
of a page fall with every visit, and caps within a budget are a polymatroid, so greedy is exact (Fox; Wolf and others),
and what it ends with can be had without it: each server takes its best visits up to its cap, and of all those taken the
best ones stay, up to the budget. Both are thresholds on the gain. A page has floor(y) or floor(y) + 1 visits worth at
least a threshold, where `y` comes from the inverse of q; so a threshold costs one look at each page, never at a visit.
Equal gains go to the page with the smaller id, as in the literal greedy. Visits that gain nothing are not made.

`tests/refresh/test_counts.py` holds this against the literal greedy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from teia.errors import UsageError
from teia.refresh.formulas import blocks, lost, rough_gap_for
from teia.refresh.model import CapRule, Floats, Numbers, Rows, World
from teia.refresh.segments import Segments
from teia.refresh.threshold import Bracket, Flags, narrow

FEW_CANDIDATES = 4
"""A group whose threshold leaves this many visits open is settled by sorting them."""

EAGER_ROUNDS = 8
"""For so long, large groups are narrowed to a sixteenth of a visit a page; then one a page will do (pages alike)."""


def plan_counts(
    world: World, *, caps: CapRule = "floor", least: ArrayLike = 0, most: ArrayLike | None = None
) -> Numbers:
    """Return the number of visits of each page that makes the store freshest, from its pages' ages on.

    `least` and `most` bound the visits of each page; `least` is a floor under which no page falls, whatever it gains.
    """
    low = np.broadcast_to(np.asarray(least, dtype=np.int64), len(world))
    limit = np.iinfo(np.int64).max if most is None else most
    high = np.maximum(low, np.broadcast_to(np.asarray(limit, dtype=np.int64), len(world)))
    room = world.caps(caps)
    _check_room(world, room, low)
    of_use = np.flatnonzero(world.worth_visiting & (high > low))
    counts = low.copy()
    pages = Pages.of(world, of_use, low, high)
    if caps == "none":
        counts[of_use] = high[of_use]
    else:
        counts[of_use] = pages.capped(room - Segments(world.starts).sums(low.astype(np.float64)))
    if world.budget is not None and counts.sum(dtype=np.float64) > world.budget:
        counts[of_use] = pages.budgeted(counts[of_use], world.budget - int(low.sum()))
    return counts


def gain(world: World, rows: Numbers, counts: ArrayLike) -> Floats:
    """What one visit more than `counts` adds to the freshness of the whole, for pages at these places."""
    pages = Pages.of(world, np.asarray(rows), np.zeros(len(world), np.int64), np.ones(len(world), np.int64))
    return pages.gains(slice(None), np.asarray(counts, dtype=np.float64))


def counts_at(world: World, price: float) -> Floats:
    """Visits of each page that gain at least this much of the freshness of the whole: what it has at such a price."""
    of_use = np.flatnonzero(world.worth_visiting)
    most = np.full(len(world), np.iinfo(np.int64).max)
    pages = Pages.of(world, of_use, np.zeros(len(world), np.int64), most)
    counts = np.zeros(len(world))
    counts[of_use] = pages.counts_at(np.full(world.servers, price), pages.server)
    return counts


def _check_room(world: World, room: Numbers, low: Numbers) -> None:
    if world.budget is None and room.max() == np.iinfo(np.int64).max:
        raise UsageError(
            "a plan that politeness does not limit (P = 0, m-wolf) needs a budget: visits without end gain without end"
        )
    if not low.any():
        return
    wanted = Segments(world.starts).sums(low.astype(np.float64))
    if (wanted > room).any():
        server = int(np.flatnonzero(wanted > room)[0])
        raise UsageError(
            f"server {server} has room for {room[server]} visits, but its pages are to have at least {wanted[server]:g}"
        )
    if world.budget is not None and low.sum() > world.budget:
        raise UsageError(f"a budget of {world.budget} visits is less than the {low.sum()} that pages are to have")


@dataclass(slots=True)
class Pages:
    """Columns of the pages that are worth a visit, in units of their own change: `span` is lam T, `aged` lam age."""

    segments: Segments
    server: Rows
    page: Numbers
    span: Floats
    aged: Floats | None
    worth: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, world: World, rows: Numbers, low: Numbers, high: Numbers) -> Pages:
        every = len(rows) == len(world)
        starts = world.starts if every else np.searchsorted(rows, world.starts).astype(np.int64)
        pick = slice(None) if every else rows
        rate = world.rate[pick]
        span = rate * world.horizon_s
        return cls(
            segments=Segments(starts),
            server=np.repeat(np.arange(world.servers, dtype=np.int32), np.diff(starts)),
            page=world.page[pick],
            span=span,
            aged=rate * world.age_s[pick] if world.has_ages else None,
            worth=world.weight[pick] / span,
            low=low[pick].astype(np.float64),
            high=high[pick].astype(np.float64),
        )

    def capped(self, spare: Floats) -> Numbers:
        """The best visits of each server, `spare` of them beyond the least."""
        low = self.segments.sums(self.low)
        target = spare + low
        binding = (self.segments.lengths > 0) & (spare > 0)
        most = np.minimum(target, self.segments.sums(self.high))
        state = self._narrowed(most, self.segments, self.server, binding)
        return self._close(state, most, self.segments, self.server, binding)

    def budgeted(self, counts: Numbers, budget: int) -> Numbers:
        """The best of these visits, `budget` of them beyond the least."""
        self.high = counts.astype(np.float64)
        if budget == 0:
            return self.low.astype(np.int64)
        whole, group = Segments(np.array([0, len(counts)])), np.zeros(len(counts), dtype=np.int32)
        target, binding = np.array([budget + self.low.sum()]), np.ones(1, dtype=np.bool_)
        state = self._narrowed(target, whole, group, binding)
        return self._close(state, target, whole, group, binding)

    def _narrowed(self, target: Floats, segments: Segments, group: Rows, binding: Flags) -> Bracket:
        def visits(at: Floats, wanted: Flags) -> Floats:
            return segments.sums(self.counts_at(np.exp(at), group, None if wanted.all() else wanted))

        def settled(state: Bracket, round_: int) -> Flags:
            share = 1 / 16 if round_ < EAGER_ROUNDS else 1.0
            enough: Flags = state.many - state.few <= np.maximum(FEW_CANDIDATES, segments.lengths * share)
            return enough

        # Where gaps are short, gains are w lam T / 2 (x + 1)^2; the sum of x then gives the threshold.
        roots = segments.sums(np.sqrt(self.worth * self.span**2 / 2))
        with np.errstate(divide="ignore"):
            guess = np.log(np.square(roots / np.maximum(target + segments.lengths, 1.0)))
        return narrow(visits, target, np.where(roots > 0, guess, 0.0), settled, binding)

    def counts_at(self, threshold: Floats, group: Rows, wanted: Flags | None = None) -> Floats:
        """Visits of each page that gain at least its group's threshold; 0 for groups that are not wanted."""
        counts = np.zeros(len(self.span))
        for part in blocks(len(counts), None if wanted is None else wanted[group]):
            counts[part] = self._counts_in(part, threshold[group[part]])
        return counts

    def _counts_in(self, part: slice | Numbers, threshold: Floats) -> Floats:
        z = threshold / self.worth[part]
        u = rough_gap_for(z)
        y = self.span[part] / u
        if self.aged is None:
            y -= 1.0
        else:
            y -= np.maximum(0.0, 1.0 - self.aged[part] / u)
        k = np.maximum(np.floor(y), 0.0)
        k += (y >= 0) & (self._growth(part, k) >= z)
        return np.clip(k, self.low[part], self.high[part])

    def gains(self, rows: slice | Numbers, k: Floats) -> Floats:
        return self.worth[rows] * self._growth(rows, k)

    def _growth(self, rows: slice | Numbers, k: Floats) -> Floats:
        """By how much visit k + 1 makes a page fresher, in units of 1/lam.

        From an age, the first of even gaps has begun already; where it should be over already (`late`), there is a
        visit at once and one gap less.
        """
        span = self.span[rows]
        if self.aged is None:
            return _more(span, k + 1)
        aged = self.aged[rows]
        late, late_next = k * aged > span, (k + 1) * aged > span
        growth = _more(np.where(late, span, span + np.minimum(aged, span)), np.where(late, k, k + 1))
        turn = late_next & ~late
        if turn.any():
            n, a = k[turn] + 1, aged[turn]
            growth[turn] = -np.expm1(-a) + n * np.exp(-span[turn] / n) * np.expm1(-a / n)
        return growth

    def _close(self, state: Bracket, target: Floats, segments: Segments, group: Rows, binding: Flags) -> Numbers:
        """Give out what lies between the two thresholds, best first; nothing where nothing binds."""
        high = np.where(binding, np.where(np.isfinite(state.high), state.high, state.low), np.inf)
        low = np.where(binding, np.where(np.isfinite(state.low), state.low, state.high), np.inf)
        sure = self.counts_at(np.exp(high), group)
        open_ = self.counts_at(np.exp(low), group) - sure
        left = target - segments.sums(sure)
        candidates = segments.sums(open_)
        alike = (candidates > np.maximum(FEW_CANDIDATES, segments.lengths)) & (candidates > left)
        if alike.any():
            given = self._by_id(np.where(alike[group], open_, 0.0), left, segments, group)
            sure += given
            open_[alike[group]] = 0.0
        return (sure + self._by_gain(sure, open_, left, group)).astype(np.int64)

    def _by_id(self, open_: Floats, left: Floats, segments: Segments, group: Rows) -> Floats:
        """Visits that all gain the same go to pages in the order of their ids."""
        order = np.lexsort((self.page, group))
        before = np.cumsum(open_[order]) - open_[order]
        begins = np.zeros(len(segments))
        filled = segments.lengths > 0
        begins[filled] = before[segments.starts[:-1][filled]]
        given = np.zeros_like(open_)
        given[order] = np.clip(left[group[order]] - (before - begins[group[order]]), 0.0, open_[order])
        return given

    def _by_gain(self, sure: Floats, open_: Floats, left: Floats, group: Rows) -> Floats:
        rows = np.flatnonzero(open_)
        times = open_[rows].astype(np.int64)
        row = np.repeat(rows, times)
        k = sure[row] + _ranks(times)
        order = np.lexsort((self.page[row], -self.gains(row, k), group[row]))
        row = row[order]
        sizes = np.bincount(group[row], minlength=len(left))
        chosen = _ranks(sizes) < left[group[row]]
        return np.bincount(row[chosen], minlength=len(open_)).astype(np.float64)


def _more(span: Floats, n: Floats) -> Floats:
    """What it is worth to have n + 1 even gaps and not n; by what is lost where gaps are short, by what is won else."""
    short, long = span / (n + 1), span / n
    by_loss = n * lost(long) - (n + 1) * lost(short)
    by_win = 1.0 - (n + 1) * np.exp(-short) + n * np.exp(-long)
    result: Floats = np.where(short > 1.0, by_win, by_loss)
    return result


def _ranks(sizes: Numbers) -> Numbers:
    """0, 1, … within each of stretches of these sizes."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
