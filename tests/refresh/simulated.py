"""Pages that change by Poisson processes and are visited: what the visits see, as histories."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from teia.refresh.history import Histories

Floats = npt.NDArray[np.float64]


def seen_by(rng: np.random.Generator, rate: Floats, intervals: Floats) -> Histories:
    """Histories of pages of such rates after visits at such intervals (a row a page), with true dates of change.

    Nothing fades here. The date of the last change is as far back as the first event of a Poisson process.
    """
    pages, visits = intervals.shape
    age = rng.exponential(1.0, intervals.shape) / rate[:, None]
    changed = age < intervals
    changes = changed.sum(axis=1).astype(np.float64)
    ends = intervals.sum(axis=1)
    return Histories(
        visited_s=ends,
        changed_s=np.zeros(pages),
        visits=np.full(pages, float(visits)),
        changes=changes,
        quiet_s=np.where(changed, 0.0, intervals).sum(axis=1),
        dated=changes.copy(),
        dated_s=np.where(changed, age, 0.0).sum(axis=1),
        starts=np.concatenate(([0], np.cumsum(changed.sum(axis=1)))),
        gap_s=intervals[changed],
        gap_weight=np.ones(int(changed.sum())),
    )
