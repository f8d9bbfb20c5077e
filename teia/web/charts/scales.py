"""Scales of chart axes: positions of values, and round numbers for ticks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Literal

from teia.web.language.numbers import DAY, HOUR, MINUTE

Point = tuple[float, float | None]
Kind = Literal["linear", "log", "time"]
TIME_STEPS_S = tuple(
    [5.0, 10.0, 15.0, 30.0]
    + [MINUTE * n for n in (1, 2, 5, 10, 15, 30)]
    + [HOUR * n for n in (1, 2, 3, 6, 12)]
    + [DAY * n for n in (1, 2, 5, 10)]
)


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a chart; `is_whole`: its ticks are whole numbers, as for counts."""

    low: float
    high: float
    label: str = ""
    kind: Kind = "linear"
    is_whole: bool = False

    def position(self, value: float, begin: float, end: float) -> float:
        """Return the coordinate of a value between `begin` and `end`."""
        # A logarithmic axis has no 0: smaller values are placed at its beginning.
        low, high, value = (
            log10(max(each, 1e-12)) if self.kind == "log" else each for each in (self.low, self.high, value)
        )
        share = (value - low) / (high - low) if high > low else 0.0
        return round(begin + min(max(share, 0.0), 1.0) * (end - begin), 1)

    def ticks(self, count: int) -> list[float]:
        if self.kind == "linear":
            return linear_ticks(self.low, self.high, count, 1.0 if self.is_whole else 0.0)
        return {"log": log_ticks, "time": time_ticks}[self.kind](self.low, self.high, count)


def linear_ticks(low: float, high: float, count: int, least: float = 0.0) -> list[float]:
    """Return about `count` round numbers in a range, 1, 2 or 5 times a power of ten apart, and `least` at least."""
    if not high > low:
        return [low]
    rough = (high - low) / max(1, count)
    power = 10.0 ** floor(log10(rough))
    # The margins absorb rounding: 0.3 / 0.1 is 2.9999999999999996.
    step = max(least, next(power * each for each in (1, 2, 5, 10) if power * each >= rough * 0.999))
    first = ceil(low / step - 1e-9)
    return [round(number * step, 10) for number in range(first, floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, count: int) -> list[float]:
    """Return powers of ten in a range, some left out where there are too many."""
    first, last = floor(log10(max(low, 1e-12))), ceil(log10(max(high, 1e-12)))
    step = max(1, ceil((last - first) / max(1, count)))
    return [each for power in range(first, last + 1, step) if low * 0.999 <= (each := 10.0**power) <= high * 1.001]


def time_ticks(low: float, high: float, count: int) -> list[float]:
    """Return whole seconds, minutes, hours or days in UTC."""
    step = next((each for each in TIME_STEPS_S if (high - low) / each <= count), 30 * DAY)
    return [number * step for number in range(ceil(low / step), floor(high / step) + 1)]


def pieces(points: Iterable[Point]) -> list[list[tuple[float, float]]]:
    """Split a line at its gaps."""
    found: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if y is not None:
            found[-1].append((x, y))
        elif found[-1]:
            found.append([])
    return [piece for piece in found if piece]


def round_up(values: Iterable[float | None]) -> float:
    """Return a round number not below any value, for an axis from 0."""
    most = max((value for value in values if value is not None), default=0.0)
    if most <= 0:
        return 1.0
    power = 10.0 ** floor(log10(most))
    return next(power * each for each in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if power * each >= most * 0.9999)


def axis_limits(values: Iterable[float | None], least: float, most: float = 1.0) -> tuple[float, float]:
    """Return the limits of an axis that need not begin at 0: they include all values and are `least` apart."""
    found = [value for value in values if value is not None] or [most]
    low, high = min(found), max(found)
    missing = max(0.0, least - (high - low))
    high = min(most, high + missing / 4)
    # Rounded down to a multiple of 0.02.
    return max(0.0, floor(min(low, high - least) * 50) / 50), high
