"""A test of the rates on the collection's own visits: observed changes against predicted ones.

Each visit of the later half is predicted from its page's earlier visits, by the same estimator that plans are made
from. The frequency of visits may depend on earlier results. That makes no difference, since every prediction knows them
too. If pages followed the model, as many visits would find a change as predicted. If fewer did, as where pages change
in bursts that fade, rates are too high for the next visits, by this `factor`.

The factor is uncertain (pages differ, not visits of one page: its error is that of sums over pages), and a first guess
of 1 counts as a measurement with the error `BELIEF`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from teia.frontier.tables.pages import compared_visits
from teia.lab.whatif.past import HostPages, Past
from teia.refresh.history import History, VisitResult, decode_columns
from teia.refresh.rates import Floats, Gamma, estimate
from teia.urls import site_of, slot_of

Numbers = npt.NDArray[np.int64]

MAX_PAGES = 10_000
MAX_VISITS = 200_000
BELIEF = 0.05
"""Prior standard deviation of the logarithm of the factor, around 0."""

WIDEST = 3.0
_ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Backtest:
    """The number of predicted visits, the number that found a change, and the expected number.

    Rates are to be multiplied by `factor`, whose logarithm has the standard deviation `error`.
    """

    visits: int
    changed: int
    expected: float
    factor: float
    error: float


NOTHING = Backtest(0, 0, 0.0, 1.0, BELIEF)


class BacktestVisit(NamedTuple):
    """A visit: the page's history before it, its prior, the time since the last visit, and the result."""

    history: bytes
    prior_changes: float
    prior_time_s: float
    gap_s: float
    changed: bool
    page: int
    time_s: float


def backtest(past: Past) -> Backtest:
    """Test the posteriors of the rates on a sample of pages."""
    share = min(1.0, MAX_PAGES / max(1, sum(map(len, past.parts))))
    trials = [each for part in past.parts for each in _trials(past, part, max(1, round(share * len(part))))]
    if not trials:
        return NOTHING
    middle_s = float(np.median([trial.time_s for trial in trials]))
    histories, *columns = zip(*(trial for trial in trials if trial.time_s >= middle_s), strict=True)
    changes, time_s, gap_s, changed, page = (np.array(column) for column in columns[:5])
    posterior = estimate(decode_columns(histories), Gamma(changes, time_s))
    return _compare(posterior, gap_s, changed.astype(np.float64), page)


def _trials(past: Past, part: HostPages, pages: int) -> Iterator[BacktestVisit]:
    """Yield the visits of a part's first pages that have an earlier visit to compare with."""
    host, keys = past.hosts[part.host], part.columns.key[:pages].tolist()
    index = {key: number for number, key in enumerate(keys)}
    host_key = (slot_of(site_of(host.name)), host.host_id)
    rows = compared_visits(host.cell.frontier, *host_key, keys[0], keys[-1], MAX_VISITS)
    for key, visits in groupby(rows, key=lambda row: row[0]):
        history = History.start(next(visits)[1])
        for _, time_s, saw in visits if key in index else ():
            gap_s = time_s - history.visited_s
            if saw is not None and gap_s > 0:
                prior = float(part.prior.changes[index[key]]), float(part.prior.time_s[index[key]])
                encoded = history.encode()
                yield BacktestVisit(encoded, *prior, gap_s, history.observe(VisitResult(saw), time_s), key, time_s)


def _compare(posterior: Gamma, gap_s: Floats, changed: Floats, page: Numbers) -> Backtest:
    def expected(factor: float) -> Floats:
        # Probability of a change in the gap: Poisson, with the rate integrated over its Gamma posterior.
        return 1.0 - (1.0 + factor * gap_s / posterior.time_s) ** -posterior.changes

    # Bisect, on a logarithmic scale, for the factor at which the expected changes equal the observed ones.
    low, high = 1.0 / WIDEST, WIDEST
    for _ in range(_ROUNDS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if expected(middle).sum() < changed.sum() else (low, middle)
    factor = (low * high) ** 0.5
    slope = float((expected(factor * 1.01) - expected(factor / 1.01)).sum()) / (2 * np.log(1.01))
    # Visits of one page depend on each other, so deviations are summed by page before they are squared.
    of_pages = np.bincount(np.unique(page, return_inverse=True)[1], changed - expected(factor))
    variance = float(np.square(of_pages).sum()) / max(slope, 1e-9) ** 2
    # The prior (0, BELIEF) and the measured logarithm are combined, weighted by their precisions.
    belief = BELIEF**2 / (BELIEF**2 + variance)
    return Backtest(
        len(gap_s),
        int(changed.sum()),
        float(expected(1.0).sum()),
        float(np.exp(belief * np.log(factor))),
        float(np.sqrt(belief * variance)),
    )
