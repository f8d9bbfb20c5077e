"""The plan for the pages of one host: their change rates, and the best revisit interval of each (P9, A13).

A host is planned by itself: politeness gives each host its own visits, and a common budget couples hosts by one price
only (crawl_budget.py). So a crawl holds in memory one host's columns at a time, and a large host's a part at a time
(keep_fresh.py). A `HostPlan` stays: the priors for pages like those, and the value of a visit to the host. From these
two any page gets its interval after a visit, without a new plan:

  a host without a plan        1 / (rate of the page's prior)
  a page that is gone          GONE_S
  any other                    1 / (its intensity at the host's price, not less than the floor's); sometimes, to
                               explore, the intensity at the plausible rate at which the page is worth most

Times are Unix seconds, rates per second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from math import inf
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from teia.config.sections import RefreshSettings
from teia.frontier.cell.revisits import CapturedPage, DueTimeChange
from teia.frontier.cell.schema import LANE_REFRESH, STATE_FAILED
from teia.refresh.history import DAY_S, Histories, History, decode_columns, is_gone_record
from teia.refresh.intensities import intensity_at, plan_intensities
from teia.refresh.model import Crawlers, RefreshWorld
from teia.refresh.policies import find_policy, has_timetable
from teia.refresh.priors import (
    LONGEST_S,
    ROUNDS,
    Groups,
    learn_host_priors,
    mean_log,
    page_type,
)
from teia.refresh.rates import Flags, Floats, Gamma, estimate, fresh_probability_of

GONE_S = 30 * DAY_S
"""Interval at which a page that is gone is tried again."""

MOVED_BY = 0.1
"""Due times move when a new plan changes them by more than this part of the interval."""

MAX_KINDS = 2_000
MAX_VISITS = 50_000
"""Number of visits that a timetable covers at most, if they end before the horizon."""

GOLDEN = 0.6180339887498949
SHORTEST_SLOT_S = 0.001
CONFIDENCE = 0.8
SOLVED_AGAIN = 4
STRETCHED_ROUNDS = 40
WARM_ROUNDS = 3

Weigh: TypeAlias = Callable[[Sequence[CapturedPage]], Floats]
ChooseSlot: TypeAlias = Callable[["PageColumns", Floats, "HostPriors"], float]
"""Choice of the time between visits, given a host's pages, their rates and their priors."""

Pair = tuple[float, float]
"""Shape and time of one Gamma."""

UNSEEN = History.start(0.0).encode()
"""The record of a page that was not revisited yet."""


# ---- a host's pages in columns --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class PageColumns:
    """Pages in columns. `fresh_s` is the last time when the capture equalled the page, `requested_s` the last try.

    `is_gone`: the page does not exist, or has not answered for long. `shift_s`: the apparent age of a capture minus its
    real age, by the signals on its page (apply_signals.py), and `shift_error` the error of the probability for it.
    `is_source`: a sitemap or feed, which changes with any page it names, so its rate says nothing about those of pages.
    """

    key: npt.NDArray[np.int64]
    lane: npt.NDArray[np.int64]
    rank: npt.NDArray[np.int64]
    kind: list[str]
    weight: Floats
    histories: Histories
    fresh_s: Floats
    requested_s: Floats
    changes: npt.NDArray[np.int64]
    is_gone: Flags
    shift_s: Floats | float = 0.0
    shift_error: Floats | float = 0.0
    is_source: Flags | bool = False

    def __len__(self) -> int:
        return len(self.key)


def to_columns(rows: Sequence[CapturedPage], weigh: Weigh) -> PageColumns:
    """Put pages into columns; ValueError if the stored record of a page's visits is not a history."""
    histories = decode_columns([row.record or UNSEEN for row in rows])
    was_seen = np.array([bool(row.record) for row in rows])
    status, state = (np.array(each) for each in zip(*((row.status, row.state) for row in rows), strict=True))
    return PageColumns(
        key=np.array([row.key for row in rows], dtype=np.int64),
        lane=np.array([row.lane for row in rows], dtype=np.int64),
        rank=np.array([row.rank for row in rows], dtype=np.int64),
        kind=[page_type(row.tail.removeprefix("s"), row.depth, row.media_type) for row in rows],
        weight=weigh(rows),
        histories=histories,
        fresh_s=np.where(was_seen, histories.visited_s, np.array([row.known_s for row in rows])),
        requested_s=np.array([row.last_visit_s for row in rows]),
        changes=np.array([row.changes for row in rows], dtype=np.int64),
        is_gone=(status >= 400) | (state == STATE_FAILED) | np.array([is_gone_record(row.record) for row in rows]),
    )


def equal_weights(pages: Sequence[CapturedPage]) -> Floats:
    return np.ones(len(pages))


# ---- priors ---------------------------------------------------------------------------------------------------------


class PriorSums(NamedTuple):
    """A host's contribution to the prior of all pages: the number observed, and the sums that fit it (priors.py)."""

    pages: float = 0.0
    rates: float = 0.0
    logs: float = 0.0


@dataclass(frozen=True, slots=True)
class HostPriors:
    """Priors of a host's pages that were not revisited yet: by kind, and for any other kind."""

    of_host: Pair
    of_kinds: dict[str, Pair]


def priors_of(priors: Iterable[HostPriors], kinds: Sequence[str]) -> Gamma:
    """Return the prior of each page, by the priors of its host and its kind."""
    pairs = np.array([each.of_kinds.get(kind, each.of_host) for each, kind in zip(priors, kinds, strict=False)])
    pairs = pairs.reshape(-1, 2)  # also where there are none
    return Gamma(pairs[:, 0].copy(), pairs[:, 1].copy())


def learn_priors(
    columns: PageColumns, of_all: Gamma, trusted: Flags, rounds: int = ROUNDS
) -> tuple[HostPriors, Gamma, PriorSums]:
    """Learn a host's priors and its pages' rates, starting from the prior of all pages."""
    numbers: dict[str, int] = {}
    # Kinds beyond MAX_KINDS share the number of the first one.
    kind: Groups = np.array(
        [numbers.setdefault(each, len(numbers)) if len(numbers) < MAX_KINDS else 0 for each in columns.kind],
        dtype=np.int64,
    )
    seen = ((columns.histories.visits > 0) | (columns.histories.quiet_s > 0)) & ~np.asarray(columns.is_source)
    of_kinds, of_host = learn_host_priors(columns.histories, kind, of_all, seen, trusted, rounds)
    found = estimate(columns.histories, Gamma(of_kinds.changes[kind], of_kinds.time_s[kind]), trusted)
    pairs = zip(of_kinds.changes.tolist(), of_kinds.time_s.tolist(), strict=True)
    priors = HostPriors((float(of_host.changes[0]), float(of_host.time_s[0])), dict(zip(numbers, pairs, strict=False)))
    sums = PriorSums(float(seen.sum()), float(found.mean[seen].sum()), float(mean_log(found)[seen].sum()))
    return priors, found, sums


# ---- price of a visit -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VisitPrice:
    """Value of the last visit of a host: with `weight`, the sum of its pages' weights, intensities follow.

    `floor` is the least intensity of every page, `most` the greatest; both in visits per second. `stretch` is the
    factor by which all intervals are longer, so that together they fill the host's slots, no more and no less. (The
    page that is due first is visited next, early or late. If all were early, only those with short intervals would ever
    be visited.)
    """

    price: float
    weight: float
    floor: float
    most: float
    stretch: float = 1.0


def solve_price(weight: Floats, rate: Floats, slot_s: float, settings: RefreshSettings) -> VisitPrice:
    """Find the price at which a host's pages fill its slots, none being visited more often than `least_s`."""
    most, capacity = 1.0 / settings.least_s, 1.0 / max(slot_s, SHORTEST_SLOT_S)
    floor = min(most, settings.floor * capacity / max(1, len(weight)))
    free = weight > 0
    left = capacity
    # Pages that would exceed the shortest interval are fixed at it; the rest of the slots is shared out again.
    for _ in range(SOLVED_AGAIN):
        if not free.any() or left <= capacity * 1e-6:
            break
        world = host_world(weight[free], rate[free], 1.0 / left, settings.horizon_s)
        best = plan_intensities(world, floor_share=settings.floor)
        over = best.visits_per_s > most * (1 + 1e-6)
        if not over.any():
            return VisitPrice(float(best.price[0]), float(weight[free].sum()), floor, most)
        free[np.flatnonzero(free)[over]] = False
        left = capacity - most * float((weight > 0).sum() - free.sum())
    return VisitPrice(1e-300, max(float(weight.sum()), 1e-300), floor, most)  # all pages fit at the shortest interval


def host_world(
    weight: Floats,
    rate: Floats,
    slot_s: float,
    horizon_s: float,
    age_s: Floats | float = 0.0,
    changes: object = 0,
    visits_per_s: float | None = None,
) -> RefreshWorld:
    """Return the world of one host, which has all the visits that its slots allow, or `visits_per_s`."""
    slot_s = max(slot_s, SHORTEST_SLOT_S)
    return RefreshWorld.build(
        np.zeros(len(rate), dtype=np.int64),
        rate,
        horizon_s=horizon_s,
        politeness_s=slot_s,
        weight=weight,
        age_s=age_s,
        changes=changes,  # type: ignore[arg-type]  # an array, or one number for all
        crawlers=Crawlers(1, 1.0 / slot_s if visits_per_s is None else max(visits_per_s, 1e-12)),
    )


def policy_world(
    columns: PageColumns,
    rate: Floats,
    slot_s: float,
    settings: RefreshSettings,
    now_s: float,
    visits_per_s: float | None = None,
) -> RefreshWorld:
    """Return the world of one host as a policy plans it, from the present ages; with a part of a budget, or alone."""
    slot_s = max(slot_s, SHORTEST_SLOT_S)
    per_s = 1.0 / slot_s if visits_per_s is None else visits_per_s
    horizon_s = min(settings.horizon_s, MAX_VISITS / max(per_s, 1e-9))
    weight = np.where(columns.is_gone, 0.0, columns.weight)
    ages_s = np.maximum(now_s - columns.fresh_s, 0.0)
    world = host_world(weight, rate, slot_s, horizon_s, ages_s, columns.changes, visits_per_s)
    changed_ago_s = np.where(columns.histories.changes > 0, now_s - columns.histories.changed_s, inf)
    # Of a budget, a part of a visit is one visit now and then: in some horizons a timetable has one more. Plans
    # without a timetable have the same limit, as visits per second.
    more = 0.0
    if visits_per_s is not None:
        more = now_s / horizon_s * GOLDEN % 1.0 if has_timetable(find_policy(settings.policy)) else 1.0
    world = replace(world, budget=int(horizon_s * per_s + more), changed_ago_s=changed_ago_s, now_s=now_s)
    # Hits are clicks; other weights are an importance, from which the world guesses clicks.
    return replace(world, clicks=world.weight) if settings.weights == "hits" else world


# ---- due times ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HostPlan:
    """The stored part of a plan; see the module docstring. `price` is None as long as there is nothing to plan.

    `changes_per_s` is of all pages that are worth a visit once they changed, by their share of the weight.
    """

    made_s: float
    pages: int
    slot_s: float
    trusted: bool
    priors: HostPriors
    price: VisitPrice | None
    sums: PriorSums
    changes_per_s: float = 0.0


def intervals(
    columns: PageColumns, found: Gamma, prior: Gamma, prices: Sequence[VisitPrice | None], settings: RefreshSettings
) -> Floats:
    """Return each page's time from its last visit to its next; `prices` are those of the pages' hosts."""
    planned = np.array([price is not None for price in prices])
    interval = 1.0 / prior.mean
    if planned.any():
        table = np.array([astuple(price) for price in prices if price is not None])
        interval[planned] = table[:, 4] * _unstretched(columns, found, table, planned, settings)
    interval = np.where(columns.is_gone, np.maximum(GONE_S, settings.least_s), interval)
    return np.clip(interval, settings.least_s, max(LONGEST_S, settings.least_s))


def _unstretched(columns: PageColumns, found: Gamma, table: Floats, rows: Flags, settings: RefreshSettings) -> Floats:
    """Return the intervals of some pages before they are stretched; `table` has their hosts' prices."""
    weight = columns.weight[rows]
    visits = _intensity(table, weight, found.mean[rows])
    tried = choose_explored(columns, settings.explore)[rows]
    if tried.any():
        for rate in found.interval(CONFIDENCE):
            visits[tried] = np.maximum(visits[tried], _intensity(table[tried], weight[tried], rate[rows][tried]))
    return 1.0 / visits


def _stretch(interval_s: Floats, slot_s: float, least_s: float) -> float:
    """Return the factor by which intervals grow to match the number of slots; by bisection."""
    visits_per_s = 1.0 / max(slot_s, SHORTEST_SLOT_S)
    low, high = 0.0, visits_per_s**-1 * float(np.sum(1.0 / interval_s)) + 1e-9
    if len(interval_s) / least_s <= visits_per_s:
        return 1e-9  # all pages fit at the shortest interval
    for _ in range(STRETCHED_ROUNDS):
        middle = (low + high) / 2
        fits = float(np.sum(1.0 / np.maximum(middle * interval_s, least_s))) <= visits_per_s
        low, high = (low, middle) if fits else (middle, high)
    return high


def _intensity(table: Floats, weight: Floats, rate: Floats) -> Floats:
    price, total, floor, most = table.T[:4]
    found = intensity_at("periodic", price, weight / total, rate)
    return np.maximum(np.clip(found, floor, most), 1.0 / LONGEST_S)


def choose_explored(columns: PageColumns, share: float) -> Flags:
    """Choose the pages visited as if their rate were the best plausible one; the choice changes after each visit."""
    # A hash of the page and its last visit: nothing is stored, and each visit draws anew.
    mixed = columns.key.view(np.uint64) ^ np.rint(columns.requested_s * 1000.0).astype(np.uint64)
    with np.errstate(over="ignore"):
        mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    # A float holds the 53 high bits exactly.
    chosen: Flags = (mixed >> np.uint64(11)).astype(np.float64) < share * 2.0**53
    return chosen


def plan_host(
    columns: PageColumns,
    of_all: Gamma,
    trusted: bool,
    slot_s: float | ChooseSlot,
    settings: RefreshSettings,
    now_s: float,
    warm: bool,
    recall: Floats | float = 0.0,
) -> tuple[HostPlan, Gamma]:
    """Plan a host, or a part of one with its part of the slots; signals report the share `recall` of its changes."""
    priors, found, sums = learn_priors(columns, of_all, np.full(len(columns), trusted), WARM_ROUNDS if warm else ROUNDS)
    unreported = Gamma(found.changes, found.time_s / (1.0 - recall))
    if callable(slot_s):
        slot_s = slot_s(columns, unreported.mean, priors)
    price = visit_price(columns, unreported, slot_s, settings)
    changes_per_s = 0.0 if price is None else _changes_per_s(columns, found.mean, price)
    return HostPlan(now_s, len(columns), slot_s, trusted, priors, price, sums, changes_per_s), found


def _changes_per_s(columns: PageColumns, rate: Floats, price: VisitPrice) -> float:
    """Return the rate of changes of pages that are worth a visit then: a stale page has lost weight / rate."""
    share = np.where(columns.is_gone, 0.0, columns.weight) / price.weight
    return float(np.sum((share * rate)[share > price.price * rate]))


def visit_price(columns: PageColumns, found: Gamma, slot_s: float, settings: RefreshSettings) -> VisitPrice | None:
    """Return the price of a visit where a host grants one every `slot_s`; None if all its pages are gone."""
    weight = np.where(columns.is_gone, 0.0, columns.weight)
    if not weight.any():
        return None
    price = solve_price(weight, found.mean, slot_s, settings)
    table = np.tile(np.array(astuple(price)), (len(columns), 1))
    wanted = _unstretched(columns, found, table, weight >= 0, settings)
    return replace(price, stretch=_stretch(wanted[weight > 0], slot_s, settings.least_s))


def due_time_changes(columns: PageColumns, interval_s: Floats) -> list[DueTimeChange]:
    """Return the pages whose due time must move: it differs by much, or they are not in the lane yet."""
    due_s = np.maximum(columns.requested_s, columns.fresh_s) + interval_s
    is_there = columns.lane == LANE_REFRESH
    moves = ~is_there | (np.abs(columns.rank / 1000.0 - due_s) > MOVED_BY * np.abs(interval_s))
    rows = np.flatnonzero(moves)
    values = (columns.key[rows], columns.lane[rows], columns.rank[rows], due_s[rows])
    return [DueTimeChange(*each) for each in zip(*(value.tolist() for value in values), strict=True)]


def fresh_probabilities(columns: PageColumns, found: Gamma, now_s: float) -> Floats:
    """Return the probability that each capture equals its page."""
    return fresh_probability_of(found, now_s - columns.fresh_s + columns.shift_s)
