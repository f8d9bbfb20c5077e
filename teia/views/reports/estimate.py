"""Population size estimated from two incomplete lists: capture and recapture.

The first list marks `first` individuals, the second catches `second`, and `both` are on the two. If being on one says
nothing of being on the other, the share of marked ones in the second list is their share in the whole (Lincoln 1930,
Petersen 1896); Chapman's form (1951) corrects the bias that this has where the overlap is small.

The 95% interval takes the number of those on neither list as log-normal (Chao, 1987), so it never ends below the number
known to exist; its ends are whole numbers, rounded outwards. The variance has two parts: that of the expected number,
and that of the actual number around it. Half of one is added to both number and variance, so that a full overlap has a
width too. Populations that were estimated apart, host by host, add up, and so do their variances.

In simulations with independent lists it holds the truth 92 to 100 times in 100 where the lists have 30% or more of the
population, and less often where both are short: 88 of 100 for 20 members and lists of 20%, 76 for lists of 10%. With
lists that depend on each other it fails altogether: tests/views/reports/test_estimate.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, floor, log1p, sqrt

Z_95 = 1.959964


@dataclass(frozen=True, slots=True)
class CaptureLists:
    """Two lists of one population. `variance` is that of the number on them, where some members are uncertain."""

    first: float
    second: float
    both: float
    variance: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.both <= min(self.first, self.second):
            raise ValueError(f"{self}: the overlap is part of both lists")

    @property
    def seen(self) -> float:
        return self.first + self.second - self.both


@dataclass(frozen=True, slots=True)
class PopulationEstimate:
    """Estimated population size with its 95% confidence interval."""

    number: float
    low: int
    high: int


def estimate(captures: Sequence[CaptureLists]) -> PopulationEstimate | None:
    """Estimate the size of several populations together; None without data.

    A population with an empty list says nothing of its size and must not be among them.
    """
    if not captures or any(not each.first or not each.second for each in captures):
        return None
    seen, number = sum(each.seen for each in captures), sum(map(unseen, captures))
    # Half of one on top: a full overlap has an interval too.
    upwards, variance = number + 0.5, sum(map(variance_of_unseen, captures)) + 0.5
    factor = exp(Z_95 * sqrt(log1p(variance / upwards**2)))
    doubt = Z_95 * sqrt(sum(each.variance for each in captures))
    return PopulationEstimate(
        seen + number, floor(seen + upwards / factor - doubt), ceil(seen + upwards * factor + doubt)
    )


def unseen(captures: CaptureLists) -> float:
    """Estimate the members on neither list: Chapman's (first + 1)(second + 1)/(both + 1) - 1 without those seen."""
    return (captures.first - captures.both) * (captures.second - captures.both) / (captures.both + 1)


def variance_of_unseen(captures: CaptureLists) -> float:
    """Return the variance of the number on neither list: by the delta method over the counts, plus its own scatter."""
    counts = (captures.both, captures.first - captures.both, captures.second - captures.both)
    number = unseen(captures)
    return number**2 * sum(1 / (count + 0.5) for count in counts) + number
