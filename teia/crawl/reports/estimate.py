"""How many there are in all, from two incomplete lists: capture and recapture.

The first list marks `first` individuals, the second catches `second`, and `both` are on the two. If being on one says
nothing of being on the other, the share of marked ones in the second list is their share in the whole (Lincoln 1930,
Petersen 1896); Chapman's form (1951) corrects the bias that this has where the overlap is small.

The 95% interval is the transformed logit one (Sadinle, 2009): it keeps its promise for small lists and for no or full
overlap, where the usual normal one ends below what is known to exist, or has no width. Populations that were estimated
apart, host by host, are added up: their unseen parts have a sum, and its relative error follows from theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, sqrt

Z_95 = 1.959964


@dataclass(frozen=True, slots=True)
class Captures:
    """Two lists of one population."""

    first: int
    second: int
    both: int

    def __post_init__(self) -> None:
        if not 0 <= self.both <= min(self.first, self.second):
            raise ValueError(f"{self}: the overlap is part of both lists")

    @property
    def seen(self) -> int:
        return self.first + self.second - self.both


@dataclass(frozen=True, slots=True)
class Estimate:
    """How many there are, and between what numbers that lies with 95% confidence."""

    number: float
    low: float
    high: float


def chapman(captures: Captures) -> float:
    """Chapman's estimate of the size of the population."""
    return (captures.first + 1) * (captures.second + 1) / (captures.both + 1) - 1


def estimate(captures: Sequence[Captures]) -> Estimate | None:
    """Estimate the sum of several populations; None where there is nothing to go by.

    A population with an empty list says nothing of its size and must not be among them.
    """
    if not captures or any(not each.first or not each.second for each in captures):
        return None
    unseen = list(map(_unseen, captures))
    total, error = sum(number for number, _ in unseen), _length(number * log_sd for number, log_sd in unseen)
    seen = sum(each.seen for each in captures)
    base, factor = seen - 0.5 * len(captures), exp(Z_95 * error / total)
    number = sum(map(chapman, captures))
    low = max(float(seen), base + total / factor)
    return Estimate(number, min(low, number), max(number, base + total * factor))


def _unseen(captures: Captures) -> tuple[float, float]:
    """How many are on neither list, with half of one added to every count, and the standard deviation of its log."""
    both, first, second = (
        captures.both + 0.5,
        captures.first - captures.both + 0.5,
        captures.second - captures.both + 0.5,
    )
    number = first * second / both
    return number, sqrt(1 / both + 1 / first + 1 / second + 1 / number)


def _length(values: Iterable[float]) -> float:
    return sqrt(sum(value * value for value in values))
