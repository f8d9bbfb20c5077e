"""How far what a site says of its own pages is believed, learnt from what visits found.

A sitemap's `lastmod`, a feed's dates, a ping: each says that a page changed. A *voice* is one kind of these of one
host, and every visit of a page that it speaks of is a test of it:

    precision   of visits that it asked for, how many found a change. That alone flatters whoever calls everything new:
                so many of these pages had changed anyway, by their rates. So what counts is its `weight`: of the visits
                that would have found nothing, by the page's own rate, how many found a change after all
    recall      of changes that visits found, how many it told of. A change found before the site could tell is judged
                when it is next listened to

Both are Beta posteriors that begin with Beta(1, 1): one success, one failure, nothing known. Where `weight` is w, a
page that the voice calls changed is stale with the probability 1 - (1 - w) P(fresh by its rate). Where recall is r, a
page that it says nothing of changes unnoticed at the rate (1 - r) times its own. So a liar loses its voice: w and with
it all that follows goes to 0 as fast as its claims are tested. Old tests lose half their weight whenever there are
MOST, so that a host can mend its ways.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from enum import IntEnum
from math import sqrt
from struct import Struct

MOST = 400
"""Tests after which all count half."""

DAY_S = 86_400
CLOCK_ERROR_S = 120.0
"""How far a site's clock may be ahead of ours before a date in the future is not believed."""

CAREFUL = 2.0
"""By so many standard deviations what is thought of a share may be too high."""

TRUSTED = 0.8
"""From which weight on a voice's silence says that a page was as it was."""

HARDLY_HEARD = 0.1
"""Below this weight, nobody asks what a voice says; a part of it is tested still."""

_FORMAT = 1
_RECORD = Struct("<B5f3I")


class Kind(IntEnum):
    """Who says that a page changed. The numbers are kept on disk."""

    SITEMAP = 1
    FEED = 2
    INDEXNOW = 3
    WEBSUB = 4

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Beta:
    """What is known of a share."""

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
    def at_least(self) -> float:
        """What the share is at least, carefully."""
        return max(0.0, self.mean - CAREFUL * self.deviation)


@dataclass(slots=True)
class Voice:
    """One kind of signal of one host: `heeded` visits came because it spoke, `changed` of them found a change.

    `expected` of them would have found none by their pages' rates. `announced` and `missed` are changes that visits
    found. What was not believed at all is counted: `future` dates, `broken` ones, and `foreign` pages, of which another
    site is to speak.
    """

    heeded: float = 0.0
    changed: float = 0.0
    expected: float = 0.0
    announced: float = 0.0
    missed: float = 0.0
    future: int = 0
    broken: int = 0
    foreign: int = 0

    def note_visit(self, *, changed: bool, unchanged_probability: float) -> None:
        """A page that it called changed was visited; by its rate it would have been as it was so probably."""
        if self.heeded >= MOST:
            self.heeded, self.changed, self.expected = self.heeded / 2, self.changed / 2, self.expected / 2
        self.heeded += 1.0
        self.changed += changed
        self.expected += min(max(unchanged_probability, 0.0), 1.0)

    def note_change(self, *, announced: bool) -> None:
        """A page that it speaks of had changed; did it say so?"""
        if self.announced + self.missed >= MOST:
            self.announced, self.missed = self.announced / 2, self.missed / 2
        self.announced += announced
        self.missed += not announced

    @property
    def precision(self) -> Beta:
        return Beta(1.0 + self.changed, 1.0 + self.heeded - self.changed)

    @property
    def recall(self) -> Beta:
        return Beta(1.0 + self.announced, 1.0 + self.missed)

    @property
    def believed(self) -> Beta:
        """Of visits that would have found nothing, how many found a change because it was told of."""
        in_vain = self.heeded - self.changed
        return Beta(1.0 + max(0.0, self.expected - in_vain), 1.0 + in_vain)

    @property
    def weight(self) -> float:
        """How much its word is worth: from 0, nothing, to 1."""
        return self.believed.mean

    @property
    def sure_weight(self) -> float:
        """What its word is worth at least. Nobody is heeded before it is: visits test it all the same."""
        return 0.0 if self.is_hardly_heard else self.believed.at_least

    @property
    def sure_recall(self) -> float:
        """The share of changes that it tells of at least: what it does not tell of nobody looks for."""
        return self.recall.at_least if self.sure_weight > 0 else 0.0

    @property
    def is_trusted(self) -> bool:
        return self.sure_weight >= TRUSTED and self.sure_recall >= TRUSTED

    @property
    def is_hardly_heard(self) -> bool:
        return self.weight < HARDLY_HEARD

    def encode(self) -> bytes:
        return _RECORD.pack(_FORMAT, *astuple(self)[:5], *(min(each, 2**32 - 1) for each in astuple(self)[5:]))

    @classmethod
    def decode(cls, record: bytes) -> Voice:
        """Read what `encode` wrote; nothing is known from an empty record. ValueError for anything else."""
        if not record:
            return cls()
        if len(record) != _RECORD.size or record[0] != _FORMAT:
            raise ValueError("no trust in a signal of a format this teia knows")
        return cls(*_RECORD.unpack(record)[1:])


def is_future(said_s: float, now_s: float) -> bool:
    """Whether a date is not believed because it has not come yet."""
    return said_s > now_s + CLOCK_ERROR_S


def is_news(said_s: float, heard_s: float, visited_s: float) -> bool:
    """Whether a page changed since it was visited, by what is said of it; `heard_s` is what was said at that visit.

    A date without a time of day stands for any moment of its day. Only if it is another one than before it is news, or
    a page would be visited all day long.
    """
    until_s = said_s + DAY_S if said_s % DAY_S == 0 else said_s
    return said_s > heard_s and until_s > visited_s
