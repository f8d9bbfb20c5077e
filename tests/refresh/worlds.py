"""Small worlds for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from teia.refresh.model import Floats, RefreshWorld

RATES = st.one_of(st.sampled_from([0.0, 0.1, 0.5, 1.0, 30.0, float("inf")]), st.floats(1e-4, 50.0))
WEIGHTS = st.one_of(st.sampled_from([0.0, 1.0, 1.0, 2.0]), st.floats(1e-3, 10.0))
AGES = st.one_of(st.sampled_from([0.0, 1.0, 10.0, 100.0, float("inf")]), st.floats(0.0, 60.0))


@st.composite
def small_worlds(draw: st.DrawFn, *, ages: bool = True, budget: bool = True, most_pages: int = 12) -> RefreshWorld:
    """A few pages on up to three servers, one of which may be without pages; horizon about ten seconds."""
    servers = draw(st.integers(1, 3))
    pages = draw(st.integers(1, most_pages))
    each = {"min_size": pages, "max_size": pages}
    weight = draw(st.lists(WEIGHTS, **each))
    if not any(weight):
        weight[0] = 1.0
    return RefreshWorld.build(
        draw(st.lists(st.integers(0, servers - 1), **each)),
        np.array(draw(st.lists(RATES, **each))) / 10.0,
        servers=servers,
        weight=weight,
        page=draw(st.permutations(range(pages))),
        age_s=draw(st.lists(AGES, **each)) if ages and draw(st.booleans()) else 0.0,
        horizon_s=10.0,
        politeness_s=draw(
            st.lists(st.sampled_from([0.25, 0.5, 1.0, 3.0, 4.0, 20.0]), min_size=servers, max_size=servers)
        ),
        budget=draw(st.one_of(st.none(), st.integers(0, 60))) if budget else None,
    )


def ideal_times(horizon_s: float, age_s: float, count: int) -> Floats:
    """Return the best times for a page's visits.

    They are computed as (j T)/(x + 1), so that equal times of different pages are equal numbers.
    """
    j = np.arange(1, count + 1, dtype=np.float64)
    if count * age_s > horizon_s:
        return (j - 1) * horizon_s / count
    return j * (horizon_s + age_s) / (count + 1) - age_s
