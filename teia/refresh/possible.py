"""How fresh one server's copies could be where rates are only known as distributions: the bounds that are shown live.

Freshness is convex in the rate, so rates that are not known must not be put in as their means: the estimate of what
*is* (`fresh_probability_of`) is a mean over the distributions, and would come out above such a "bound". All numbers
here are for somebody who knows every rate, as whoever visits long enough does; nobody who does not can be better.

    long_run   the best intensities for ever
    window     WP (bound.py): the mean over the next horizon, from the copies' ages on
    moment     what the copies can be at one moment, by one visit a slot, whatever becomes of them later

What a plan by the mean rates gives is exact in the first two, a mean over the distributions. To it comes what is gained
by knowing the rates. Where a visit has a price, each page gains by itself: what it has left more of the visits that
are best for its true rate than of the plan's. All pages together gain no more than that, whatever the price (weak
duality); it is never less than nothing, and as a sum over pages it can be had from a sample of them. The price of the
plan's last visit is nearly the best one, and some around it are tried.

**A moment.** The k-th last visit was k slots ago, so pages are assigned to ages of 0, 1, 2, … slots, each page to one.
An assignment is bounded by prices of ages, whatever they are: no page has more than its best age leaves after its
price, and the ages cost no more than their prices (weak duality). The prices come from a sample of the pages. Copies
that are younger than slots allow were granted more once: by a shorter delay, or by a sitemap, which tells as much as a
visit. Those were real, so their ages take the place of the slots'. The copies as they are are one of the assignments:
`moment` is never below their freshness, at any time (tests/refresh/test_possible.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from teia.refresh.counts import counts_at, gain, plan_counts
from teia.refresh.formulas import even_staleness, steady_staleness
from teia.refresh.intensities import Intensities, intensity_at
from teia.refresh.model import Floats, Numbers, World
from teia.refresh.rates import Gamma, fresh_probability_of, kept_probability_of

SAMPLE = 192
"""Pages of a sample, and stretches of ages that have one price each."""

DRAWS = 12
"""Rates that are drawn from the distribution of each page of a sample: the middles of as many equal shares of it."""

SOFTEST, TURNS, LEAST_MEAN = (0.3, 0.003), 8, 0.001
"""How prices of ages are found: at first in parts of the largest worth of a page, at last of the mean."""

PRICES = np.array([0.5, 0.75, 1.0, 1.4])
"""Prices of a visit that are tried, in parts of the plan's."""

LEAST_PRICE = 1e-18
"""What the last visit is worth, in parts of all weight, where visits gain nothing that can be told from nothing."""

ROWS = 4_096
"""Pages whose freshness at all ages is in memory at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """Pages of one server, which is visited every `slot_s`: weight, what is known of the rate, age of the copy."""

    weight: Floats
    found: Gamma
    age_s: Floats
    slot_s: float

    def __len__(self) -> int:
        return len(self.weight)

    def at(self, rows: Numbers | slice) -> Copies:
        found = Gamma(self.found.changes[rows], self.found.time_s[rows])
        return Copies(self.weight[rows], found, self.age_s[rows], self.slot_s)

    def drawn(self) -> Floats:
        """Rates of each page, one row of DRAWS each."""
        shares = (np.arange(DRAWS) + 0.5) / DRAWS
        return np.stack([self.found.quantile(share) for share in shares], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Some of the pages, where they are among all, and for how many pages each stands."""

    pages: Copies
    rows: Numbers
    count: Floats

    @classmethod
    def of(cls, copies: Copies) -> Sample:
        """Pages from the slowest to the fastest, the likelier the more they weigh; the heaviest are all in it.

        What is asked of pages goes with their weight, so the lighter a page, the more pages it may stand for.
        """
        if len(copies) <= SAMPLE:
            return cls(copies, np.arange(len(copies)), np.ones(len(copies)))
        weight = copies.weight
        heaviest = np.argsort(-weight, kind="stable")[:SAMPLE]
        rest = weight.sum() - np.cumsum(weight[heaviest]) + weight[heaviest]
        heavy = heaviest[: np.argmax(weight[heaviest] * (SAMPLE - np.arange(SAMPLE)) <= rest * (1 + 1e-9))]
        by_rate = np.argsort(copies.found.mean, kind="stable")
        light = by_rate[~np.isin(by_rate, heavy)]
        until = np.cumsum(weight[light])
        step = until[-1] / (SAMPLE - len(heavy))
        light = light[np.searchsorted(until, (np.arange(SAMPLE - len(heavy)) + 0.5) * step)]
        rows = np.append(heavy, light)
        return cls(copies.at(rows), rows, np.append(np.ones(len(heavy)), step / weight[light]))


@dataclass(frozen=True, slots=True)
class Possible:
    """Sums of weights that could be fresh. `planned` is what a plan by the mean rates gives in the long run.

    `variance` is that of `long_run`: by how much it may be wrong because the rates are not known.
    """

    planned: float
    long_run: float
    moment: float
    variance: float


def possible(copies: Copies, plan: Intensities) -> Possible:
    """Say how fresh copies could be; `plan` is the best for the mean rates."""
    total = float(copies.weight.sum())
    sample = Sample.of(copies)
    rates = sample.pages.drawn()
    planned = float(copies.weight @ kept_probability_of(copies.found, plan.visits_per_s))
    gain, variance = _worth_knowing(sample, rates, plan, total)
    long_run = min(planned + gain, total)
    ages = Ages.of(copies)
    price = _prices(sample, ages)
    moment = _bound(copies, ages, price) + _worth_knowing_at(sample, rates, ages, price)
    # Whoever keeps so many fresh in the long run has as many at some moment.
    return Possible(planned, long_run, min(max(moment, long_run), total), variance)


# ---- in the long run ------------------------------------------------------------------------------------------------


def _worth_knowing(sample: Sample, rates: Floats, plan: Intensities, total: float) -> tuple[float, float]:
    """What is gained by knowing the rates, and the variance of what pages then have left after they paid for visits."""
    if not np.isfinite(plan.price[0]):
        return 0.0, 0.0
    weight, planned = sample.pages.weight[:, None], plan.visits_per_s[sample.rows][:, None]
    blind = weight * (1.0 - steady_staleness(rates, planned))
    tried = []
    for price in PRICES * (plan.price[0] * total):
        best = intensity_at("periodic", price, weight, rates)
        left = weight * (1.0 - steady_staleness(rates, best)) - price * best
        gained = float(sample.count @ (left - blind + price * planned).mean(axis=1))
        # A page's part in the optimum moves with its rate as if prices stayed (the envelope theorem).
        tried.append((max(gained, 0.0), float(sample.count @ left.var(axis=1))))
    return min(tried)


# ---- over a window --------------------------------------------------------------------------------------------------


def possible_within(copies: Copies, horizon_s: float) -> float:
    """The sum of weights that could be fresh on average over a horizon, from the ages on, with one visit a slot."""
    total, world = float(copies.weight.sum()), _from_ages(copies, horizon_s)
    counts = plan_counts(world, caps="ceil")
    planned = float(copies.weight @ _fresh_by(copies, counts, horizon_s))
    of_use = np.flatnonzero(world.worth_visiting)
    last = total * float(gain(world, of_use, counts[of_use]).max(initial=LEAST_PRICE))
    unused = float(world.caps("ceil")[0] - counts.sum())
    sample = Sample.of(copies)
    rates = sample.pages.drawn()
    rows = np.repeat(np.arange(len(rates)), DRAWS)
    drawn = replace(sample.pages.at(rows), found=Gamma(rates.ravel(), np.ones(rates.size)))
    weight, count, of_drawn = drawn.weight, sample.count[rows] / DRAWS, _from_ages(drawn, horizon_s)
    planned_counts = counts[sample.rows][rows]
    stale, tried = even_staleness(of_drawn, planned_counts), []
    for price in PRICES * last:
        best = counts_at(of_drawn, price / float(weight.sum()))
        left = weight * (stale - even_staleness(of_drawn, best)) - price * (best - planned_counts)
        tried.append(max(float(count @ left), 0.0) + price * unused)
    return float(min(planned + min(tried), total))


def _from_ages(copies: Copies, horizon_s: float) -> World:
    return World.build(
        np.zeros(len(copies), dtype=np.int64),
        copies.found.mean,
        horizon_s=horizon_s,
        politeness_s=copies.slot_s,
        weight=copies.weight,
        age_s=copies.age_s,
    )


def _fresh_by(copies: Copies, counts: Numbers, horizon_s: float) -> Floats:
    """Freshness of each page over the horizon with so many visits at their best times (`formulas.even_staleness`)."""
    at_once = counts * copies.age_s > horizon_s
    gaps = np.where(at_once, counts, counts + 1)
    gap_s = np.where(at_once, horizon_s, horizon_s + copies.age_s) / gaps
    begun = np.where(at_once, 0.0, copies.age_s * kept_probability_of(copies.found, _per_s(copies.age_s)))
    return (gaps * gap_s * kept_probability_of(copies.found, 1.0 / gap_s) - begun) / horizon_s


def _per_s(interval_s: Floats) -> Floats:
    return np.divide(1.0, interval_s, out=np.full_like(interval_s, np.inf), where=interval_s > 0)


# ---- at one moment --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Ages:
    """Stretches of the ages that visits leave, youngest first: the least age of each, and how many there are in it."""

    least_s: Floats
    count: Floats

    @classmethod
    def of(cls, copies: Copies) -> Ages:
        pages = len(copies)
        ages = np.minimum(np.arange(pages) * copies.slot_s, np.sort(copies.age_s))
        begins = np.unique(np.linspace(0, pages, min(pages, SAMPLE), endpoint=False).astype(np.int64))
        return cls(ages[begins], np.diff(np.append(begins, pages)).astype(np.float64))


def _prices(sample: Sample, ages: Ages) -> Floats:
    """Prices at which the pages of the sample, and so nearly all pages, spread over the ages as they are there.

    Found as in optimal transport: pages and ages adjust in turns, softly at first (Sinkhorn), until what is soft is
    little beside the mean page. Any prices are a bound; how near these come to the exact assignment is in the tests.
    """
    worth = _worth(sample.pages, ages)
    most = float(worth.max())
    worth = worth / most
    pages, places = (np.log(each / each.sum())[:, None] for each in (sample.count, ages.count))
    mean = float(sample.count @ worth[:, 0] / sample.count.sum())
    last = SOFTEST[1] * max(mean, LEAST_MEAN)
    price: Floats = np.zeros(len(ages.least_s))
    for softness in np.geomspace(SOFTEST[0], last, 1 + round(2 * np.log10(SOFTEST[0] / last))):
        for _ in range(TURNS):
            left = _softest((worth - price).T + softness * places, softness)
            price = _softest(worth - left[:, None] + softness * pages, softness)
    price -= price.min()
    price *= most
    return price


def _softest(values: Floats, softness: float) -> Floats:
    """The largest of each column, or a little more where others are nearly as large."""
    most = values.max(axis=0)
    softest: Floats = most + softness * np.log(np.exp((values - most) / softness).sum(axis=0))
    return softest


def _worth(copies: Copies, ages: Ages) -> Floats:
    """What each page is worth at each age."""
    found = Gamma(copies.found.changes[:, None], copies.found.time_s[:, None])
    return copies.weight[:, None] * fresh_probability_of(found, ages.least_s)


def _bound(copies: Copies, ages: Ages, price: Floats) -> float:
    """The dual: what is left to each page at its best age, and the prices of all ages. A bound for any prices >= 0."""
    left = 0.0
    for begin in range(0, len(copies), ROWS):
        rows = slice(begin, begin + ROWS)
        worth = _worth(copies.at(rows), ages)
        left += float(np.maximum((worth - price).max(axis=1), 0.0).sum())
    return left + float(price @ ages.count)


def _worth_knowing_at(sample: Sample, rates: Floats, ages: Ages, price: Floats) -> float:
    """What pages of known rates have more left at their best ages than those whose rates are not known."""
    worth = sample.pages.weight[:, None, None] * np.exp(-rates[:, :, None] * ages.least_s) - price
    knowing = np.maximum(worth.max(axis=2), 0.0).mean(axis=1)
    blind = np.maximum(worth.mean(axis=1).max(axis=1), 0.0)
    return float(sample.count @ (knowing - blind))
