"""The world of a plan (P1): pages on servers, crawlers, a horizon and a budget.

Everything is a numpy column. Pages are stored server by server, in the order of their ids, so that the pages of server
`s` are `starts[s]` to `starts[s + 1]`. Ties between pages are broken by id everywhere.

Times are seconds, rates are changes per second. Two limits are not errors, but a visit gains nothing there: a page that
never changes (rate 0) is always fresh, and one that always changes (rate infinity) is always stale.

A page takes its server and a crawler for the time of its transfer. So a visit of a large page costs more than one of
the visits that a server allows, and more than one of the visits that the crawlers can make. Plans count visits by these
costs (`server_costs`, `crawler_costs`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from teia.errors import UsageError

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
Rows = NDArray[np.int32] | NDArray[np.int64]
CapRule = Literal["floor", "ceil", "none"]
Device = Literal["cpu", "cuda"]

DAY_S = 86_400.0
OLDEST_S = 1e30
"""Age of a copy that was never fresh; finite, to avoid arithmetic with infinities."""

CLICK_EXPONENT = 9 / 4
"""Clicks of searchers grow with this power of a page's importance (Cho and Roy, 2004).

A page's place in lists of results falls with the power 3/2 of its PageRank, and clicks with the power 3/2 of the place.
"""

ROUNDING = 1e-12
"""Relative tolerance for a whole number of intervals in a horizon, so that 0.3 s holds three intervals of 0.1 s."""


@dataclass(frozen=True, slots=True)
class Crawlers:
    """The crawlers that make the visits: all alike, `pages_per_s` each, or with a speed each (P1)."""

    count: int = 10
    pages_per_s: float = 10.0
    speeds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.count < 1 or not self.pages_per_s > 0 or not all(speed > 0 for speed in self.speeds):
            raise UsageError(f"crawlers: {self.count} at {self.pages_per_s:g} pages/s: both must be > 0")

    @classmethod
    def of_speeds(cls, speeds: Sequence[float]) -> Crawlers:
        """Return one crawler of each speed; `pages_per_s` is their mean."""
        alike = len(set(speeds)) == 1
        return cls(len(speeds), math.fsum(speeds) / max(1, len(speeds)), () if alike else tuple(speeds))

    @property
    def visits_per_s(self) -> float:
        return math.fsum(self.speeds) if self.speeds else self.count * self.pages_per_s

    @property
    def each_pages_per_s(self) -> tuple[float, ...]:
        return self.speeds or (self.pages_per_s,) * self.count


@dataclass(frozen=True, slots=True, eq=False)
class RefreshWorld:
    """Pages in columns, server by server; made and checked by `build`.

    `page` is the id of each page. `weight` sums to 1. `age_s` is the time since the copy was last known to be fresh.
    `changes` counts the visits that found a change, where the caller counts them, and `changed_ago_s` is the time since
    the last of them. `budget` is R: the total number of visits within the horizon; None is no limit. `clicks` are the
    shares of searchers' clicks, where they are known. `now_s` is the time of the plan on the caller's clock. `device`
    computes counts and intensities: the processor, or a GPU (`large`).
    """

    starts: Numbers
    page: Numbers
    weight: Floats
    rate: Floats
    size_bytes: Floats
    age_s: Floats
    changes: Numbers
    politeness_s: Floats
    bytes_per_s: Floats
    crawlers: Crawlers
    horizon_s: float
    budget: int | None
    changed_ago_s: Floats | None = None
    clicks: Floats | None = None
    now_s: float = 0.0
    device: Device = "cpu"

    @classmethod
    def build(
        cls,
        server: ArrayLike,
        rate: ArrayLike,
        *,
        horizon_s: float,
        politeness_s: ArrayLike,
        weight: ArrayLike = 1.0,
        page: ArrayLike | None = None,
        servers: int | None = None,
        size_bytes: ArrayLike = 0.0,
        age_s: ArrayLike = 0.0,
        changes: ArrayLike = 0,
        bytes_per_s: ArrayLike = math.inf,
        crawlers: Crawlers | None = None,
        budget: int | None = None,
        clicks: ArrayLike | None = None,
    ) -> RefreshWorld:
        """Sort pages by server and check all values; a scalar applies to all pages or servers."""
        of_server = np.asarray(server, dtype=np.int64)
        pages = len(of_server)
        if pages == 0:
            raise UsageError("the plan has no pages")
        count = int(of_server.max()) + 1 if servers is None else servers
        if of_server.min() < 0 or of_server.max() >= count:
            raise UsageError(f"a page is on server {of_server.max()}, but servers are numbered 0 to {count - 1}")
        ids = np.arange(pages) if page is None else np.asarray(page, dtype=np.int64)
        # Sorted by server, then by id: the last key of lexsort is the first criterion.
        order = np.lexsort((ids, of_server))
        starts = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(np.bincount(of_server, minlength=count), out=starts[1:])
        columns = {
            "weight": _column("weights", weight, pages)[order],
            "rate": _column("rates", rate, pages, may_be_infinite=True)[order],
            "size_bytes": _column("sizes", size_bytes, pages)[order],
            "age_s": np.minimum(_column("ages", age_s, pages, may_be_infinite=True), OLDEST_S)[order],
            "politeness_s": _column("delays", politeness_s, count),
            "bytes_per_s": _column("server speeds", bytes_per_s, count, may_be_infinite=True),
        }
        columns["weight"] = _as_shares("weights", columns["weight"])
        if not 0 < horizon_s < math.inf:
            raise UsageError(f"the horizon must be > 0, not {horizon_s:g} s")
        if budget is not None and budget < 0:
            raise UsageError(f"the budget must be a number of visits, not {budget}")
        return cls(
            starts=starts,
            page=ids[order],
            changes=np.broadcast_to(np.asarray(changes, dtype=np.int64), pages)[order],
            crawlers=crawlers or Crawlers(),
            horizon_s=float(horizon_s),
            budget=budget,
            clicks=None if clicks is None else _as_shares("clicks", _column("clicks", clicks, pages)[order]),
            **columns,  # type: ignore[arg-type]  # none of these columns is `now_s`
        )

    def __len__(self) -> int:
        return len(self.rate)

    @property
    def servers(self) -> int:
        return len(self.starts) - 1

    @property
    def pages_per_server(self) -> Numbers:
        return np.diff(self.starts)

    @property
    def server(self) -> Numbers:
        """The server of each page."""
        return np.repeat(np.arange(self.servers), self.pages_per_server)

    @property
    def has_ages(self) -> bool:
        return bool(self.age_s.any())

    @property
    def worth_visiting(self) -> NDArray[np.bool_]:
        """False for pages whose freshness no visit changes: weight 0, or the two limits of the rate."""
        return (self.weight > 0) & (self.rate > 0) & np.isfinite(self.rate)

    @property
    def click_shares(self) -> Floats:
        """The share of searchers' clicks that each page gets; from its weight where clicks are not known."""
        return _as_shares("weights", self.weight**CLICK_EXPONENT) if self.clicks is None else self.clicks

    @property
    def transfer_s(self) -> Floats:
        """The time in which each page's server sends it."""
        with np.errstate(invalid="ignore", divide="ignore"):
            seconds = self.size_bytes / np.repeat(self.bytes_per_s, self.pages_per_server)
        return np.where(self.size_bytes > 0, seconds, 0.0)

    @property
    def server_costs(self) -> Floats | None:
        """The cost of a visit of each page in visits that its server allows; None where all are one visit."""
        delay_s = np.repeat(self.politeness_s, self.pages_per_server)
        return _costs(np.divide(self.transfer_s, delay_s, out=np.zeros(len(self)), where=delay_s > 0))

    def crawler_costs(self, visits_per_s: float) -> Floats | None:
        """Return the cost of a visit of each page in visits, where all crawlers together make `visits_per_s`.

        A visit takes one of these visits, or a crawler for the time of the transfer, whichever is the larger part. The
        sum of the larger parts is at least either sum, so a plan within it keeps both limits.
        """
        return _costs(self.transfer_s * visits_per_s / self.crawlers.count)

    def caps(self, rule: CapRule = "floor") -> Numbers:
        """Return the number of visits that politeness allows each server within the horizon.

        `floor` is floor(T/P) as PSP prints it. `ceil` is the true maximum that fits: with T = 10 and P = 3, visits at
        0.5, 3.5, 6.5 and 9.5. `none`, and servers with P = 0, leave the budget as the only limit.
        """
        free = np.iinfo(np.int64).max if self.budget is None else self.budget
        if rule == "none":
            return np.full(self.servers, free, dtype=np.int64)
        # P = 0 becomes a tiny interval instead of a division by zero; `limited` leaves such servers at `free`.
        fit = self.horizon_s / np.maximum(self.politeness_s, self.horizon_s * 1e-300)
        near = np.rint(fit)
        whole = np.abs(fit - near) <= ROUNDING * near
        fit = np.where(whole, near, np.floor(fit) if rule == "floor" else np.ceil(fit))
        caps = np.full(self.servers, free, dtype=np.int64)
        limited = fit < float(free)
        caps[limited] = fit[limited].astype(np.int64)
        return caps

    def with_ages(self, age_s: ArrayLike) -> RefreshWorld:
        """Return the same world with copies of other ages, in the order of the columns."""
        ages = np.minimum(_column("ages", age_s, len(self), may_be_infinite=True), OLDEST_S)
        return replace(self, age_s=ages)


def _costs(visits: Floats) -> Floats | None:
    return np.maximum(visits, 1.0) if (visits > 1.0).any() else None


def _as_shares(name: str, column: Floats) -> Floats:
    total = column.sum()
    if not total > 0:
        raise UsageError(f"the {name} of all pages are 0")
    shares: Floats = column / total
    return shares


def _column(name: str, values: ArrayLike, length: int, *, may_be_infinite: bool = False) -> Floats:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim and len(column) != length:
        raise UsageError(f"{name}: {len(column)} values instead of {length}")
    column = np.broadcast_to(column, length).astype(np.float64)
    wrong = ~(column >= 0)
    if not may_be_infinite:
        wrong |= np.isinf(column)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise UsageError(f"{name}: the value at position {row} is {column[row]:g}; it must be a number >= 0")
    return column
