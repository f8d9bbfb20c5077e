"""Upper bounds on the freshness of one server's copies where rates are only known as distributions; shown live.

Freshness is convex in the rate, so uncertain rates must not be replaced by their means. The estimate of the actual
freshness (`fresh_probability_of`) is a mean over the distributions, and would exceed such a "bound". All numbers here
are for a crawler that knows every rate, as any crawler does after enough visits. A crawler that does not know them
cannot be better.

    long_run   the best intensities forever
    window     WP: the mean over the next horizon, from the copies' ages on
    moment     the freshness that can be reached at one moment, by one visit a slot, ignoring later moments

The result of a plan by the mean rates is exact in the first two, as a mean over the distributions. The gain of knowing
the rates is added to it. Where a visit has a price, each page gains by itself: the net value of the visits that are
best for its true rate, less the net value of the plan's visits. All pages together gain no more than that, at any price
(weak duality). The gain is never negative, and as a sum over pages it can be estimated from a sample of them. The price
of the plan's last visit is nearly the best one, and some prices around it are tried.

**A moment.** The k-th last visit was k slots ago, so pages are assigned to ages of 0, 1, 2, … slots, each page to one.
An assignment is bounded by any prices of ages: no page has more than its net value at its best age, and the ages cost
no more than their prices (weak duality). The prices come from a sample of the pages. Some copies are younger than the
slots allow: a shorter delay was in force earlier, or a sitemap confirmed them, which counts as a visit. Those visits
were real, so their ages replace those of the slots. The actual copies are one of the assignments, so `moment` is never
below their freshness, at any time (tests/refresh/test_possible.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from teia.refresh.counts import counts_at, gain, plan_counts
from teia.refresh.formulas import even_staleness, steady_staleness
from teia.refresh.intensities import Intensities, intensity_at
from teia.refresh.model import Floats, Numbers, RefreshWorld
from teia.refresh.rates import Gamma, fresh_probability_of, mean_fresh_probability

SAMPLE = 192
"""Number of pages in a sample, and of the stretches of ages that have one price each."""

DRAWS = 12
"""Number of rates drawn from the distribution of each sampled page: the middles of as many equal shares of it."""

SOFTEST, ITERATIONS, LEAST_MEAN = (0.3, 0.003), 8, 0.001
"""Parameters of the search for prices of ages: softness first relative to the largest page value, last to the mean."""

PRICES = np.array([0.5, 0.75, 1.0, 1.4])
"""Prices of a visit that are tried, relative to the plan's."""

LEAST_PRICE = 1e-18
"""Least value of the last visit, relative to all weight, for plans whose visits gain practically nothing."""

ROWS = 4_096
"""Number of pages whose freshness at all ages is in memory at once."""


@dataclass(frozen=True, slots=True, eq=False)
class ServerCaptures:
    """Pages of one server, which is visited every `slot_s`: weight, rate distribution, age of the copy."""

    weight: Floats
    found: Gamma
    age_s: Floats
    slot_s: float

    def __len__(self) -> int:
        return len(self.weight)

    def at(self, rows: Numbers | slice) -> ServerCaptures:
        found = Gamma(self.found.changes[rows], self.found.time_s[rows])
        return ServerCaptures(self.weight[rows], found, self.age_s[rows], self.slot_s)

    def draw_rates(self) -> Floats:
        """Return rates drawn for each page, one row of DRAWS each."""
        shares = (np.arange(DRAWS) + 0.5) / DRAWS
        return np.stack([self.found.quantile(share) for share in shares], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A sample of the pages, their rows among all pages, and the number of pages that each stands for."""

    pages: ServerCaptures
    rows: Numbers
    count: Floats

    @classmethod
    def from_captures(cls, captures: ServerCaptures) -> Sample:
        """Sample pages from the slowest to the fastest, in proportion to their weight; the heaviest are all included.

        The estimated quantities are proportional to the weight, so a lighter page may stand for more pages.
        """
        if len(captures) <= SAMPLE:
            return cls(captures, np.arange(len(captures)), np.ones(len(captures)))
        # A page heavier than its fair share of the sample is taken for certain; the others are sampled by weight.
        weight = captures.weight
        heaviest = np.argsort(-weight, kind="stable")[:SAMPLE]
        rest = weight.sum() - np.cumsum(weight[heaviest]) + weight[heaviest]
        heavy = heaviest[: np.argmax(weight[heaviest] * (SAMPLE - np.arange(SAMPLE)) <= rest * (1 + 1e-9))]
        by_rate = np.argsort(captures.found.mean, kind="stable")
        light = by_rate[~np.isin(by_rate, heavy)]
        until = np.cumsum(weight[light])
        step = until[-1] / (SAMPLE - len(heavy))
        light = light[np.searchsorted(until, (np.arange(SAMPLE - len(heavy)) + 0.5) * step)]
        rows = np.append(heavy, light)
        return cls(captures.at(rows), rows, np.append(np.ones(len(heavy)), step / weight[light]))


@dataclass(frozen=True, slots=True)
class PossibleFreshness:
    """Sums of weights that could be fresh. `planned` is the long-run result of a plan by the mean rates.

    `variance` is that of `long_run`: its error because the rates are uncertain.
    """

    planned: float
    long_run: float
    moment: float
    variance: float


def possible_freshness(captures: ServerCaptures, plan: Intensities) -> PossibleFreshness:
    """Return the possible freshness of copies; `plan` is the best for the mean rates."""
    total = float(captures.weight.sum())
    sample = Sample.from_captures(captures)
    rates = sample.pages.draw_rates()
    planned = float(captures.weight @ mean_fresh_probability(captures.found, plan.visits_per_s))
    gain, variance = _knowledge_gain(sample, rates, plan, total)
    long_run = min(planned + gain, total)
    ages = Ages.from_captures(captures)
    price = _prices(sample, ages)
    moment = _bound(captures, ages, price) + _knowledge_gain_at(sample, rates, ages, price)
    # A crawler that keeps this many fresh in the long run has at least as many fresh at some moment.
    return PossibleFreshness(planned, long_run, min(max(moment, long_run), total), variance)


# ---- in the long run ------------------------------------------------------------------------------------------------


def _knowledge_gain(sample: Sample, rates: Floats, plan: Intensities, total: float) -> tuple[float, float]:
    """Return the gain of knowing the rates, and the variance of the pages' value net of the price of visits."""
    if not np.isfinite(plan.price[0]):
        return 0.0, 0.0
    weight, planned = sample.pages.weight[:, None], plan.visits_per_s[sample.rows][:, None]
    # `uninformed`: freshness of the plan, which knows only mean rates, at each rate drawn.
    uninformed = weight * (1.0 - steady_staleness(rates, planned))
    tried_gains = []
    for price in PRICES * (plan.price[0] * total):
        best = intensity_at("periodic", price, weight, rates)
        left = weight * (1.0 - steady_staleness(rates, best)) - price * best
        gained = float(sample.count @ (left - uninformed + price * planned).mean(axis=1))
        # A page's part in the optimum moves with its rate as if prices were constant (the envelope theorem).
        tried_gains.append((max(gained, 0.0), float(sample.count @ left.var(axis=1))))
    return min(tried_gains)


# ---- over a window --------------------------------------------------------------------------------------------------


def possible_freshness_within(captures: ServerCaptures, horizon_s: float) -> float:
    """Return the sum of weights that could be fresh on average over a horizon, with one visit a slot."""
    total, world = float(captures.weight.sum()), _from_ages(captures, horizon_s)
    counts = plan_counts(world, caps="ceil")
    planned = float(captures.weight @ _planned_freshness(captures, counts, horizon_s))
    of_use = np.flatnonzero(world.worth_visiting)
    last = total * float(gain(world, of_use, counts[of_use]).max(initial=LEAST_PRICE))
    # The dual also counts the visits that the plan leaves unused, at their price.
    unused = float(world.caps("ceil")[0] - counts.sum())
    sample = Sample.from_captures(captures)
    rates = sample.pages.draw_rates()
    rows = np.repeat(np.arange(len(rates)), DRAWS)
    # Each drawn rate becomes a page of its own: Gamma(rate, 1) has the drawn rate as its mean, all that is used.
    drawn = replace(sample.pages.at(rows), found=Gamma(rates.ravel(), np.ones(rates.size)))
    weight, count, of_drawn = drawn.weight, sample.count[rows] / DRAWS, _from_ages(drawn, horizon_s)
    planned_counts = counts[sample.rows][rows]
    stale, tried_gains = even_staleness(of_drawn, planned_counts), []
    for price in PRICES * last:
        best = counts_at(of_drawn, price / float(weight.sum()))
        left = weight * (stale - even_staleness(of_drawn, best)) - price * (best - planned_counts)
        tried_gains.append(max(float(count @ left), 0.0) + price * unused)
    return float(min(planned + min(tried_gains), total))


def _from_ages(captures: ServerCaptures, horizon_s: float) -> RefreshWorld:
    return RefreshWorld.build(
        np.zeros(len(captures), dtype=np.int64),
        captures.found.mean,
        horizon_s=horizon_s,
        politeness_s=captures.slot_s,
        weight=captures.weight,
        age_s=captures.age_s,
    )


def _planned_freshness(captures: ServerCaptures, counts: Numbers, horizon_s: float) -> Floats:
    """Return the freshness of each page over the horizon with `counts` visits at their best times.

    See `formulas.even_staleness`.
    """
    at_once = counts * captures.age_s > horizon_s
    gaps = np.where(at_once, counts, counts + 1)
    gap_s = np.where(at_once, horizon_s, horizon_s + captures.age_s) / gaps
    started_s = np.where(at_once, 0.0, captures.age_s * mean_fresh_probability(captures.found, _per_s(captures.age_s)))
    return (gaps * gap_s * mean_fresh_probability(captures.found, 1.0 / gap_s) - started_s) / horizon_s


def _per_s(interval_s: Floats) -> Floats:
    return np.divide(1.0, interval_s, out=np.full_like(interval_s, np.inf), where=interval_s > 0)


# ---- at one moment --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Ages:
    """Stretches of the ages that visits leave, youngest first: the least age of each, and its number of ages."""

    least_s: Floats
    count: Floats

    @classmethod
    def from_captures(cls, captures: ServerCaptures) -> Ages:
        pages = len(captures)
        # The k-th youngest copy is k slots old, or younger where a real copy is (see the module's docstring).
        ages = np.minimum(np.arange(pages) * captures.slot_s, np.sort(captures.age_s))
        begins = np.unique(np.linspace(0, pages, min(pages, SAMPLE), endpoint=False).astype(np.int64))
        return cls(ages[begins], np.diff(np.append(begins, pages)).astype(np.float64))


def _prices(sample: Sample, ages: Ages) -> Floats:
    """Return prices at which the sampled pages, and so nearly all pages, spread over the ages as they occur.

    They are found as in optimal transport: pages and ages adjust in turns, softly at first (Sinkhorn), until the
    softness is small beside the mean page. Any prices give a bound; the tests measure the distance to the exact
    assignment.
    """
    worth = _worth(sample.pages, ages)
    most = float(worth.max())
    worth = worth / most
    pages, age_shares = (np.log(each / each.sum())[:, None] for each in (sample.count, ages.count))
    mean = float(sample.count @ worth[:, 0] / sample.count.sum())
    last = SOFTEST[1] * max(mean, LEAST_MEAN)
    price: Floats = np.zeros(len(ages.least_s))
    for softness in np.geomspace(SOFTEST[0], last, 1 + round(2 * np.log10(SOFTEST[0] / last))):
        for _ in range(ITERATIONS):
            left = _softest((worth - price).T + softness * age_shares, softness)
            price = _softest(worth - left[:, None] + softness * pages, softness)
    # Only differences of prices affect the assignment; the bound needs prices >= 0.
    price -= price.min()
    price *= most
    return price


def _softest(values: Floats, softness: float) -> Floats:
    """Return the maximum of each column, slightly more where other values are nearly as large (log-sum-exp)."""
    most = values.max(axis=0)
    softest: Floats = most + softness * np.log(np.exp((values - most) / softness).sum(axis=0))
    return softest


def _worth(captures: ServerCaptures, ages: Ages) -> Floats:
    """Return the value of each page at each age."""
    found = Gamma(captures.found.changes[:, None], captures.found.time_s[:, None])
    return captures.weight[:, None] * fresh_probability_of(found, ages.least_s)


def _bound(captures: ServerCaptures, ages: Ages, price: Floats) -> float:
    """Return the dual: the net value of each page at its best age, plus the prices of all ages.

    It is a bound for any prices >= 0.
    """
    left = 0.0
    for begin in range(0, len(captures), ROWS):
        rows = slice(begin, begin + ROWS)
        worth = _worth(captures.at(rows), ages)
        left += float(np.maximum((worth - price).max(axis=1), 0.0).sum())
    return left + float(price @ ages.count)


def _knowledge_gain_at(sample: Sample, rates: Floats, ages: Ages, price: Floats) -> float:
    """Return the extra net value of pages at their best ages if their rates are known."""
    worth = sample.pages.weight[:, None, None] * np.exp(-rates[:, :, None] * ages.least_s) - price
    knowing = np.maximum(worth.max(axis=2), 0.0).mean(axis=1)
    uninformed = np.maximum(worth.mean(axis=1).max(axis=1), 0.0)
    return float(sample.count @ (knowing - uninformed))
