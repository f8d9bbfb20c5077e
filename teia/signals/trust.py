"""Trust in a site's claims about its own pages, learnt from the results of visits.

A sitemap's `lastmod`, a feed's dates, a ping: each claims that a page changed. A *signal source*
(`SignalSource`) is one kind of these claims by one host, and every visit of a page with a claim is a test of it:

    precision   the share of visits caused by it that found a change. Alone this flatters a site that calls everything
                new: many of these pages had changed anyway, by their rates. So the figure used is its `weight`: of the
                visits that would have found nothing, by the page's own rate, the share that found a change after all
    recall      the share of changes found by visits that it announced. A change found before the site could announce
                it is judged at the next reading of the source

Both are Beta posteriors that begin with Beta(1, 1): one success, one failure, nothing known. Where `weight` is w, a
page that the source calls changed is stale with the probability 1 - (1 - w) P(fresh by its rate). Where recall is r, a
page that it does not mention changes unnoticed at the rate (1 - r) times its own. So false claims lose their effect: w
goes to 0 as fast as the claims are tested. Old tests lose half their weight whenever there are MAX_TESTS, so
that a host can recover trust.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from enum import IntEnum
from math import sqrt
from struct import Struct

MAX_TESTS = 400
"""Number of tests after which all count half."""

DAY_S = 86_400
CLOCK_ERROR_S = 120.0
"""Seconds that a site's clock may be ahead of ours before a date in the future is rejected."""

BOUND_DEVIATIONS = 2.0
"""Number of standard deviations by which an estimated share is lowered to a careful bound."""

PLAUSIBLE = 0.5
"""Weight from which on a claimed change is dated by its source: nothing is known of a source of this weight."""

MIN_WEIGHT = 0.1
"""Weight below which a source's claims cause no visits; a part of them is still tested."""

_FORMAT = 1
_RECORD = Struct("<B5f3I")


class SignalKind(IntEnum):
    """Source of a claim that a page changed. The numbers are stored on disk."""

    SITEMAP = 1
    FEED = 2
    INDEXNOW = 3
    WEBSUB = 4
    SOURCE = 5

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Beta:
    """Beta posterior of a share."""

    successes: float
    failures: float

    @property
    def mean(self) -> float:
        return self.successes / (self.successes + self.failures)

    @property
    def deviation(self) -> float:
        total = self.successes + self.failures
        return sqrt(self.successes * self.failures / (total * total * (total + 1.0)))

    @property
    def lower_bound(self) -> float:
        """Careful lower bound of the share."""
        return max(0.0, self.mean - BOUND_DEVIATIONS * self.deviation)


@dataclass(slots=True)
class SignalSource:
    """One kind of signal of one host: `tested` visits followed it, `changed` of them found a change.

    `expected` of them would have found none by their pages' rates. `announced` and `missed` are changes that visits
    found. Rejected claims are counted: `future` dates, `broken` ones, and `foreign` pages, which belong to another
    site.
    """

    tested: float = 0.0
    changed: float = 0.0
    expected: float = 0.0
    announced: float = 0.0
    missed: float = 0.0
    future: int = 0
    broken: int = 0
    foreign: int = 0

    def note_visit(self, *, changed: bool, unchanged_probability: float) -> None:
        """Record a visit of a page that it called changed; its rate gives the probability of no change."""
        if self.tested >= MAX_TESTS:
            # Halved together, so that their ratios stay.
            self.tested, self.changed, self.expected = self.tested / 2, self.changed / 2, self.expected / 2
        self.tested += 1.0
        self.changed += changed
        self.expected += min(max(unchanged_probability, 0.0), 1.0)

    def note_change(self, *, announced: bool) -> None:
        """Record a change of a page that it covers, announced or not."""
        if self.announced + self.missed >= MAX_TESTS:
            self.announced, self.missed = self.announced / 2, self.missed / 2
        self.announced += announced
        self.missed += not announced

    @property
    def precision(self) -> Beta:
        return Beta(1.0 + self.changed, 1.0 + self.tested - self.changed)

    @property
    def recall(self) -> Beta:
        return Beta(1.0 + self.announced, 1.0 + self.missed)

    @property
    def credibility(self) -> Beta:
        """Of visits that would have found nothing, the share that found a change because it was announced."""
        # `expected` visits would have found nothing, by their rates, `unconfirmed` did: the signal explains the rest.
        unconfirmed = self.tested - self.changed
        return Beta(1.0 + max(0.0, self.expected - unconfirmed), 1.0 + unconfirmed)

    @property
    def weight(self) -> float:
        """Value of its claims: from 0, nothing, to 1."""
        return self.credibility.mean

    @property
    def sure_weight(self) -> float:
        """Lower bound of the weight. A source has no effect before this is positive; visits test it all the same."""
        return 0.0 if self.is_distrusted else self.credibility.lower_bound

    @property
    def sure_recall(self) -> float:
        """Lower bound of the share of changes that it announces; 0 while it has no sure weight."""
        return self.recall.lower_bound if self.sure_weight > 0 else 0.0

    @property
    def likely_recall(self) -> float:
        """Estimate of the share of changes that it announces; 0 if its claims are more likely false than true."""
        return self.recall.mean if self.is_plausible else 0.0

    @property
    def is_plausible(self) -> bool:
        """True if its claims are more likely true than not, as those of an unknown source are."""
        return self.weight >= PLAUSIBLE

    @property
    def is_distrusted(self) -> bool:
        return self.weight < MIN_WEIGHT

    def encode(self) -> bytes:
        return _RECORD.pack(_FORMAT, *astuple(self)[:5], *(min(each, 2**32 - 1) for each in astuple(self)[5:]))

    @classmethod
    def decode(cls, record: bytes) -> SignalSource:
        """Decode a record of `encode`; an empty one means nothing is known. ValueError for anything else."""
        if not record:
            return cls()
        if len(record) != _RECORD.size or record[0] != _FORMAT:
            raise ValueError("not the trust of a signal in a known format")
        return cls(*_RECORD.unpack(record)[1:])


def is_future(reported_s: float, now_s: float) -> bool:
    """Tell whether a date is rejected because it lies in the future."""
    return reported_s > now_s + CLOCK_ERROR_S


def is_news(reported_s: float, checked_s: float, visited_s: float) -> bool:
    """Tell whether a claim means a change since the last visit; `checked_s` is the claimed date at that visit.

    A date without a time of day stands for any moment of its day. It is news only if it differs from the date before,
    or a page would be visited all day long.
    """
    # Midnight stands for a date without a time of day.
    until_s = reported_s + DAY_S if reported_s % DAY_S == 0 else reported_s
    return reported_s > checked_s and until_s > visited_s
