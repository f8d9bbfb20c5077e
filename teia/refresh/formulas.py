"""Freshness of a page that changes as a Poisson process, with rate `lam`, and is visited now and then.

A copy of age `a` is still fresh with probability exp(-lam a). Between two visits a gap `d` apart it is fresh for
(1 - exp(-lam d)) / lam on average, and this is concave in `d`: even gaps are best, and every visit more is worth less
than the one before (Cho and Garcia-Molina, 2003; Wolf and others, 2002). All functions take and return arrays: those of
numpy, or of the library whose module is passed as `xp` (`arrays`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from teia.refresh.model import Floats, Numbers, RefreshWorld

SERIES_BELOW: Final = 0.02
"""Below this, 1 - (1 - e^-u)/u loses digits; five terms of its series are exact to the last digit there."""

TABLE_CELLS: Final = 1 << 14
TABLE_END: Final = 6.1
"""sqrt(-ln(1 - z)) of the largest z below 1 in double precision."""

BLOCK: Final = 1 << 14
"""Number of pages computed at once, so that intermediate columns stay in the processor's cache."""


def blocks(pages: int, wanted: NDArray[np.bool_] | None = None) -> Iterator[slice | Numbers]:
    """Yield slices or index arrays of the wanted pages, block by block; None selects all."""
    if wanted is None:
        yield from (slice(begin, begin + BLOCK) for begin in range(0, pages, BLOCK))
    else:
        rows = np.flatnonzero(wanted)
        yield from (rows[begin : begin + BLOCK] for begin in range(0, len(rows), BLOCK))


def staleness(u: ArrayLike) -> Floats:
    """Return S(u) = 1 - (1 - e^-u)/u: the share of a gap in which the copy is stale.

    u = lam * gap. S is 0 at 0 and 1 at infinity.
    """
    u = np.asarray(u, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        plain = 1.0 + np.expm1(-u) / u
    v = np.minimum(u, SERIES_BELOW)
    series = v * (1 / 2 - v * (1 / 6 - v * (1 / 24 - v * (1 / 120 - v * (1 / 720 - v / 5040)))))
    result: Floats = np.where(u < SERIES_BELOW, series, plain)
    return result


def _at_most(values: Any, limit: float, xp: Any) -> Any:
    """Return the lesser of each value and the limit; `np.clip` takes several times as long for a few pages."""
    return np.minimum(values, limit) if xp is np else xp.clip(values, max=limit)


def stale_time(u: Any, xp: Any = np) -> Floats:
    """Return the stale time within a gap, in units of 1/lam: u S(u) = u - 1 + e^-u."""
    if xp is np:
        u = np.asarray(u, dtype=np.float64)
    v = _at_most(u, SERIES_BELOW, xp)
    series = v * v * (1 / 2 - v * (1 / 6 - v * (1 / 24 - v * (1 / 120 - v * (1 / 720 - v / 5040)))))
    result: Floats = xp.where(u < SERIES_BELOW, series, u + xp.expm1(-u))
    return result


def added_freshness(span: Any, n: Any, xp: Any = np) -> Floats:
    """Return the gain of n + 1 even gaps over n, in units of 1/lam; all gaps together are `span` of these units.

    For numerical precision it is computed from the losses where gaps are short, and from the gains elsewhere.
    """
    short, long = span / (n + 1), span / n
    by_loss = n * stale_time(long, xp) - (n + 1) * stale_time(short, xp)
    by_win = 1.0 - (n + 1) * xp.exp(-short) + n * xp.exp(-long)
    result: Floats = xp.where(short > 1.0, by_win, by_loss)
    return result


def marginal(u: ArrayLike) -> Floats:
    """Return q(u) = 1 - (1 + u) e^-u: the value of more visits at even gaps, from 0 (very fresh) to 1 (hopeless)."""
    u = np.asarray(u, dtype=np.float64)
    v = np.minimum(u, SERIES_BELOW)
    series = v * v * (1 / 2 - v * (1 / 3 - v * (1 / 8 - v * (1 / 30 - v * (1 / 144 - v / 840)))))
    with np.errstate(invalid="ignore"):
        plain = -np.expm1(-u) - u * np.exp(-u)
    return np.where(u < SERIES_BELOW, series, np.where(np.isinf(u), 1.0, plain))


def rough_gap_for(z: Floats) -> Floats:
    """Return q^-1(z) to seven digits or more; infinity from 1 on."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return gap_from_table(z, gap_table())


def gap_from_table(z: Any, table: tuple[Any, Any], xp: Any = np) -> Floats:
    """Return q^-1(z) by linear interpolation in `gap_table`.

    The table holds u/v over v = sqrt(-ln(1 - z)). That function is smooth everywhere: sqrt(2) at 0 and about v at the
    end.
    """
    values, slopes = table
    v = xp.sqrt(-xp.log1p(-_at_most(z, 1.0, xp)))
    position = _at_most(v, TABLE_END, xp) * (TABLE_CELLS / TABLE_END)
    whole = position.astype(np.int32) if xp is np else position.int()
    cell = _at_most(whole, TABLE_CELLS - 1, xp)
    result: Floats = v * (values[cell] + (position - cell) * slopes[cell])
    return result


@cache
def gap_table() -> tuple[Floats, Floats]:
    """Return the values of the table of q^-1, and the step from each to the next."""
    v = np.linspace(0.0, TABLE_END, TABLE_CELLS + 1)[1:]
    tail = v * v  # -ln(1 - z), which is u - ln(1 + u)
    # Newton's method on u - ln(1 + u) = tail. The table is made once, so the steps are not counted.
    u = tail + np.sqrt(2 * tail)
    for _ in range(30):
        u -= (u - np.log1p(u) - tail) * (1 + u) / u
    values = np.concatenate([[np.sqrt(2.0)], u / v])
    return values, np.append(np.diff(values), 0.0)


Objective = Literal["periodic", "poisson", "harmonic"]


def periodic_visits(price: Any, weight: Any, rate: Any, xp: Any = np, table: Any = None) -> Floats:
    """Return visits per second at even intervals, where one more is worth `price` (objectives: `intensities`)."""
    visits: Floats = rate / gap_from_table(price * rate / weight, table or gap_table(), xp)
    return visits


def poisson_visits(price: Any, weight: Any, rate: Any, xp: Any = np, table: Any = None) -> Floats:  # noqa: ARG001
    """Return the same for visits at random times."""
    visits: Floats = xp.clip(xp.sqrt(weight * rate / price) - rate, min=0.0)
    return visits


def harmonic_visits(price: Any, weight: Any, rate: Any, xp: Any = np, table: Any = None) -> Floats:  # noqa: ARG001
    """Return (-lam + sqrt(lam^2 + 4 w lam/mu))/2, in a form that loses no digits where lam is large."""
    other = 4.0 * weight * rate / price
    visits: Floats = other / (2.0 * (rate + xp.sqrt(rate * rate + other)))
    return visits


Curve = Callable[..., Floats]
CURVES: Final[dict[Objective, Curve]] = {
    "periodic": periodic_visits,
    "poisson": poisson_visits,
    "harmonic": harmonic_visits,
}
"""Visits per second by objective: functions of price, weight, rate, library and table of q^-1."""


def even_staleness(world: RefreshWorld, counts: ArrayLike) -> Floats:
    """Return the staleness of each page over the horizon, with `counts` visits at their best times given its age.

    From age `a` the best gaps are all (T + a)/(x + 1), and the first of them has already begun. Where that would put
    the first visit before now, it is made now and the gaps are T/x.
    """
    x = np.asarray(counts, dtype=np.float64)
    lam, horizon, age = world.rate, world.horizon_s, world.age_s
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        at_once = x * age > horizon
        gaps = np.where(at_once, x, x + 1)
        gap = np.where(at_once, horizon, horizon + age) / gaps
        # The first gap began before now; its part before now is subtracted.
        stale = gaps * stale_time(lam * gap) - np.where(at_once, 0.0, stale_time(lam * age))
        result = stale / (lam * horizon)
        never = -np.expm1(-lam * age) + np.exp(-lam * age) * staleness(lam * horizon)
    result = np.where(x == 0, never, result)
    return np.where(lam == 0, 0.0, np.where(np.isinf(lam), 1.0, result))


def steady_staleness(lam: ArrayLike, rho: ArrayLike) -> Floats:
    """Return the staleness of pages visited every 1/rho forever; 1 for pages that change and are never visited."""
    lam = np.asarray(lam, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(lam == 0, 0.0, staleness(lam / np.asarray(rho, dtype=np.float64)))
