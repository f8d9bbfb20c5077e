"""How fresh one server's copies could be where rates are only known as distributions: the bounds that are shown live.

Freshness is convex in the rate, so rates that are not known must not be put in as their means: the estimate of what
*is* (`fresh_probability_of`) is a mean over the distributions, and would come out above such a "bound". All numbers
here are for somebody who knows every rate, as whoever visits long enough does; nobody who does not can be better.

    long_run   the best intensities for ever
    window     WP (bound.py): the mean over the next horizon, from the copies' ages on
    moment     what the copies can be at one moment, by one visit a slot, whatever becomes of them later

What a plan by the mean rates gives is exact in the first two, a mean over the distributions. To it comes what is gained
by knowing the rates: by how much the best plan for rates that are drawn from the distributions is better than that one,
for the same draws, on a sample of the pages. It is never less than nothing.

**A moment.** The k-th last visit was k slots ago, so pages are assigned to ages of 0, 1, 2, … slots, each page to one.
An assignment is bounded by prices of ages, whatever they are: no page has more than its best age leaves after its
price, and the ages cost no more than their prices (weak duality). The prices come from a sample of the pages. Copies
that are younger than slots allow were granted more once: by a shorter delay, or by a sitemap, which tells as much as a
visit. Those were real, so their ages take the place of the slots'. The copies as they are are one of the assignments:
`moment` is never below their freshness, at any time (tests/refresh/test_possible.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from teia.refresh.counts import plan_counts
from teia.refresh.formulas import even_staleness, steady_staleness
from teia.refresh.intensities import plan_intensities
from teia.refresh.model import Crawlers, Floats, Numbers, World
from teia.refresh.rates import Gamma, fresh_probability_of, kept_probability_of

SAMPLE = 192
"""Pages of a sample, and stretches of ages that have one price each."""

DRAWS = 12
"""Rates that are drawn from the distribution of each page of a sample: the middles of as many equal shares of it."""

SOFTNESS, TURNS = (0.3, 0.1, 0.03, 0.01, 0.003), 8
"""How prices of ages are found, in parts of the largest worth of a page."""

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

    def sample(self) -> Copies:
        """A fair part of the pages, from the slowest to the fastest, with its part of the slots."""
        if len(self) <= SAMPLE:
            return self
        step = len(self) / SAMPLE
        rows = np.argsort(self.found.mean, kind="stable")[((np.arange(SAMPLE) + 0.5) * step).astype(np.int64)]
        found = Gamma(self.found.changes[rows], self.found.time_s[rows])
        return Copies(self.weight[rows] * step, found, self.age_s[rows], self.slot_s * step)

    def drawn(self) -> Floats:
        """Rates of each page, one row of DRAWS each."""
        shares = (np.arange(DRAWS) + 0.5) / DRAWS
        return np.stack([self.found.quantile(share) for share in shares], axis=1)


@dataclass(frozen=True, slots=True)
class Possible:
    """Sums of weights that could be fresh. `planned` is what a plan by the mean rates gives in the long run.

    `variance` is that of `long_run`: by how much it may be wrong because the rates are not known.
    """

    planned: float
    long_run: float
    moment: float
    variance: float


def possible(copies: Copies, visits_per_s: Floats) -> Possible:
    """Say how fresh copies could be; `visits_per_s` are the best intensities for the mean rates."""
    sample = copies.sample()
    rates = sample.drawn()
    planned = float(copies.weight @ kept_probability_of(copies.found, visits_per_s))
    gain, variance = _worth_knowing(sample, rates)
    variance *= len(sample) / len(copies)  # each page of the sample stands for others, which vary by themselves
    long_run = planned + gain
    ages = Ages.of(copies)
    price = _prices(sample, ages)
    least = _bound(copies, ages, price)
    # Whoever keeps so many fresh in the long run has as many at some moment.
    return Possible(planned, long_run, max(least + _worth_knowing_at(sample, rates, ages, price), long_run), variance)


# ---- in the long run ------------------------------------------------------------------------------------------------


def _worth_knowing(sample: Copies, rates: Floats) -> tuple[float, float]:
    """What plans for the drawn rates give more than one for their means, and the variance of what they give.

    The plan for the means may be carried out by whoever knows the rates, so it is never less than nothing.
    """
    weight, drawn = np.repeat(sample.weight / DRAWS, DRAWS), rates.ravel()
    world = _world(weight, drawn, sample.slot_s / DRAWS)
    knowing = plan_intensities(world)
    blind = plan_intensities(_world(sample.weight, sample.found.mean, sample.slot_s)).visits_per_s
    fresh = 1.0 - steady_staleness(drawn, knowing.visits_per_s)
    gain = float(weight @ (fresh - 1.0 + steady_staleness(drawn, np.repeat(blind, DRAWS))))
    # A page's part in the optimum moves with its rate as if prices stayed (the envelope theorem).
    total = float(weight.sum())
    price = float(knowing.price[0]) if np.isfinite(knowing.price[0]) else 0.0
    left = weight * fresh - price * total * knowing.visits_per_s
    spread = left.reshape(rates.shape).var(axis=1) * DRAWS**2
    return max(gain, 0.0), float(spread.sum())


def _world(weight: Floats, rate: Floats, slot_s: float) -> World:
    return World.build(
        np.zeros(len(rate), dtype=np.int64),
        rate,
        horizon_s=1.0,
        politeness_s=slot_s,
        weight=weight,
        crawlers=Crawlers(1, 1.0 / slot_s),
    )


# ---- over a window --------------------------------------------------------------------------------------------------


def possible_within(copies: Copies, horizon_s: float) -> float:
    """The sum of weights that could be fresh on average over a horizon, from the ages on, with one visit a slot."""
    sample = copies.sample()
    rates = sample.drawn()
    counts = plan_counts(_from_ages(copies, horizon_s), caps="ceil")
    planned = float(copies.weight @ _fresh_by(copies, counts, horizon_s))
    blind = plan_counts(_from_ages(sample, horizon_s), caps="ceil")
    drawn = Copies(
        np.repeat(sample.weight / DRAWS, DRAWS),
        Gamma(rates.ravel(), np.ones(rates.size)),
        np.repeat(sample.age_s, DRAWS),
        horizon_s / (DRAWS * float(_from_ages(sample, horizon_s).caps("ceil")[0])),
    )
    world = _from_ages(drawn, horizon_s)
    knowing = even_staleness(world, plan_counts(world, caps="ceil"))
    gain = float(drawn.weight @ (even_staleness(world, np.repeat(blind, DRAWS)) - knowing))
    return planned + max(gain, 0.0)


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


def _prices(sample: Copies, ages: Ages) -> Floats:
    """Prices at which the pages of the sample, and so nearly all pages, spread over the ages as they are there.

    Found as in optimal transport: pages and ages adjust in turns, softly at first (Sinkhorn). Any prices are a bound;
    these leave it within 0.001 of what the exact assignment has.
    """
    worth = (len(sample) / ages.count.sum()) * _worth(sample, ages)
    most = float(worth.max())
    worth = worth / most
    price: Floats = np.zeros(len(ages.least_s))
    for softness in SOFTNESS:
        for _ in range(TURNS):
            left = _softest((worth - price).T, softness)
            price = _softest(worth - left[:, None], softness)
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
        found = Gamma(copies.found.changes[rows], copies.found.time_s[rows])
        worth = _worth(Copies(copies.weight[rows], found, copies.age_s[rows], copies.slot_s), ages)
        left += float(np.maximum((worth - price).max(axis=1), 0.0).sum())
    return left + float(price @ ages.count)


def _worth_knowing_at(sample: Copies, rates: Floats, ages: Ages, price: Floats) -> float:
    """What pages of known rates have more left at their best ages than those whose rates are not known."""
    per_page = price * (ages.count.sum() / len(sample))
    worth = sample.weight[:, None, None] * np.exp(-rates[:, :, None] * ages.least_s) - per_page
    knowing = np.maximum(worth.max(axis=2), 0.0).mean(axis=1)
    blind = np.maximum(worth.mean(axis=1).max(axis=1), 0.0)
    return float((knowing - blind).sum())
