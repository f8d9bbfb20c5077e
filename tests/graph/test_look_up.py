"""Looking up keys gives their values, whatever the keys are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.graph.rankfile import look_up_all
from teia.lib._sorted import look_up

SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1
NUMBERS = st.one_of(st.integers(SMALLEST, LARGEST), st.integers(-20, 20), st.sampled_from([SMALLEST, LARGEST]))


@given(st.sets(NUMBERS, max_size=300), st.lists(NUMBERS, max_size=20))
def test_any_keys_are_found_and_no_others(members: set[int], others: list[int]) -> None:
    known = np.array(sorted(members), np.int64)
    keys = np.array([*others, *members], np.int64)
    values = dict(zip(known.tolist(), range(1, len(known) + 1), strict=True))
    for kind in (np.float32, np.uint32):
        column = np.arange(1, len(known) + 1, dtype=kind)
        found = look_up_all(known, column, keys)
        assert found.dtype == kind
        assert found.tolist() == [values.get(int(key), 0) for key in keys]


def test_keys_that_are_spread_unevenly_are_found_too() -> None:
    chance = np.random.default_rng(5)
    spread = np.unique((chance.lognormal(0, 8, 20_000) * 1e3).clip(0, 9e18).astype(np.int64))
    column = np.arange(len(spread), dtype=np.uint32)
    assert look_up_all(spread, column, spread).tolist() == column.tolist()
    missing = spread[:-1][np.diff(spread) > 1] + 1
    assert not look_up_all(spread, column + 1, missing).any()


def test_arrays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="one of each"):
        look_up(np.arange(3), np.zeros(2, np.float32), np.arange(1), np.arange(1), np.zeros(1, np.float32))
